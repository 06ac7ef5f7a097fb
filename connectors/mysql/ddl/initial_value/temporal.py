"""Dates and times as defaults, and the statement's own time.

Invariant: only texts in MySQL's standard form are read; a value that depends on a time zone whose offset is not
known raises NotConstant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from zoneinfo import ZoneInfo

from connectors.mysql.ddl.definition import Execution, Server
from connectors.mysql.ddl.initial_value.literal import Literal, NotConstant, Now, Text
from connectors.mysql.types.temporal import datetime_text, fraction_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATETIME = re.compile(
    r"\s*(\d{4})[-/.:](\d{1,2})[-/.:](\d{1,2})(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?)?\s*"
)
_COMPACT = re.compile(r"\s*(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(\.\d*)?)?\s*")
_TIME = re.compile(r"\s*(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?\s*")
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)")
_UTC_NAMES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})
_ZERO = "0000-00-00 00:00:00"

Parts = tuple[tuple[int, int, int], tuple[int, int, int], int]
"""Year, month and day; hour, minute and second; microseconds."""


def zone_of(execution: Execution, server: Server) -> tzinfo:
    """The session's time zone; raise NotConstant if its offset is not known."""
    name = execution.time_zone or ""
    if name.upper() == "SYSTEM":
        name = server.system_time_zone
        # A name that the system gives, such as CST, can mean several zones.
        if name not in _UTC_NAMES:
            raise NotConstant(f"time zone SYSTEM, which is {name or 'not known'}")
    if name in _UTC_NAMES:
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as fault:
        raise NotConstant(f"time zone {name or 'not known'}") from fault


def date_value(literal: Literal, execution: Execution, server: Server) -> str:
    """Return the value of a DATE; raise NotConstant."""
    (year, month, day), _, _ = _parts(literal, execution, server, 0)
    return f"{year:04d}-{month:02d}-{day:02d}"


def datetime_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a DATETIME with this number of fraction digits; raise NotConstant."""
    ymd, hms, micros = _parts(literal, execution, server, digits)
    return datetime_text(ymd, hms, fraction_text(micros, digits))


def timestamp_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a TIMESTAMP, in UTC; raise NotConstant."""
    if isinstance(literal, Now) and literal.kind == "moment" and not literal.is_utc:
        moment = _started(literal, execution, server, digits)
    else:
        ymd, hms, micros = _parts(literal, execution, server, digits)
        if (*ymd, *hms, micros) == (0,) * 7:
            return f"{_ZERO}{fraction_text(0, digits)}"
        local = datetime(*ymd, *hms, micros, tzinfo=zone_of(execution, server))
        if not 0 < (local - _EPOCH).total_seconds() < 2**31:
            raise NotConstant("a time out of range")
        moment = local.astimezone(UTC)
        if moment.astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None):
            raise NotConstant("a time that the time zone skips")
    day = (moment.year, moment.month, moment.day)
    fraction = fraction_text(moment.microsecond, digits)
    return datetime_text(day, (moment.hour, moment.minute, moment.second), fraction) + "Z"


def time_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a TIME; raise NotConstant."""
    if isinstance(literal, Now):
        at = _local(literal, execution, server, digits)
        return f"{at:%H:%M:%S}{fraction_text(at.microsecond, digits)}"
    found = _TIME.fullmatch(literal.value) if isinstance(literal, Text) else None
    if found is None:
        raise NotConstant("a time in another form")
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
    micros = _micros(found[5], digits, server)
    seconds, micros = seconds + micros // 1_000_000, micros % 1_000_000
    hour, rest = divmod(seconds, 3600)
    if hour > 838 or int(found[3]) > 59 or int(found[4] or 0) > 59:
        raise NotConstant("a time out of range")
    sign = found[1] if seconds or micros else ""
    return f"{sign}{hour:02d}:{rest // 60:02d}:{rest % 60:02d}{fraction_text(micros, digits)}"


def _started(now: Now, execution: Execution, server: Server, digits: int) -> datetime:
    """The statement's time, cut to the digits of the function as MySQL does."""
    if execution.started_us is None:
        raise NotConstant("the statement's time is not known")
    if now.kind != "date" and (now.digits > digits or (server.mariadb and now.digits < digits)):
        raise NotConstant("a fraction that depends on the server's version and the session's mode")
    unit = 10 ** (6 - now.digits)
    return _EPOCH + timedelta(microseconds=execution.started_us // unit * unit)


def _local(now: Now, execution: Execution, server: Server, digits: int) -> datetime:
    """The statement's time in the session's time zone or in UTC; midnight if it is only a date."""
    zone = UTC if now.is_utc else zone_of(execution, server)
    at = _started(now, execution, server, digits).astimezone(zone)
    return at.replace(hour=0, minute=0, second=0, microsecond=0) if now.kind == "date" else at


def _parts(literal: Literal, execution: Execution, server: Server, digits: int) -> Parts:
    if isinstance(literal, Now):
        if literal.kind == "time":
            raise NotConstant("a time of day whose date is the session's")
        return _split(_local(literal, execution, server, digits))
    text = literal.value if isinstance(literal, Text) else getattr(literal, "text", "")
    found = _DATETIME.fullmatch(text) or _COMPACT.fullmatch(text)
    if found is None:
        raise NotConstant("a date in another form")
    year, month, day, hour, minute, second = (int(one or 0) for one in found.groups()[:6])
    micros = _micros(found[7], digits, server)
    if not any((year, month, day, hour, minute, second, micros)):
        return (0, 0, 0), (0, 0, 0), 0
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        return _split(at + timedelta(microseconds=micros))
    except (ValueError, OverflowError) as fault:
        # The session's mode decides between this date, zero and an error.
        raise NotConstant(str(fault)) from fault


def _split(at: datetime) -> Parts:
    return (at.year, at.month, at.day), (at.hour, at.minute, at.second), at.microsecond


def _micros(fraction: str | None, digits: int, server: Server) -> int:
    """Microseconds, rounded to the digits; a million if that is a whole second."""
    if not fraction or fraction == ".":
        return 0
    if server.mariadb and fraction[digits + 1 :].strip("0"):
        raise NotConstant("a fraction that the session's mode rounds or cuts")
    unit = Decimal(1).scaleb(-digits)
    return int(Decimal("0" + fraction).quantize(unit, ROUND_HALF_UP) * 1_000_000)
