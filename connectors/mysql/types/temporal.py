"""Dates and times, in the current format and in the format of tables created before MySQL 5.6.4.

Invariant: the text has exactly the column's digits of fraction, and an invalid date (zero, partial,
impossible) is kept as MySQL writes it.

Generated code assembles a text from cached parts. Successive rows fall into few different seconds, so a
second's text is made once, from the text of its hour; fractions come from tables. The caches are bounded, and
shared by all tables, because a time's text does not depend on the column.
Source: MySQL's mysys/my_time.cc, my_time_packed_from_binary and related functions; for packets, MySQL's
protocol manual, "Binary Protocol Resultset Row".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charsets import Charsets, exact
from connectors.mysql.server_version import Server, since
from connectors.mysql.types.registry import (
    BinlogType,
    Comparable,
    Convert,
    Field,
    FieldType,
    Form,
    Kind,
    Make,
    MappedColumn,
    Modes,
    Reader,
    Remembered,
    Schema,
    SqlType,
    ValueOf,
    fixed,
    plain,
    printed_as,
    register,
    time_literal,
    within,
)
from connectors.mysql.types.type_spec import Refused, TypeSpec

_T = FieldType
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_TIMESTAMP = "0000-00-00 00:00:00"
_DATETIME_BIAS = 0x80_0000_0000


# --- texts ------------------------------------------------------------------------------------------


def datetime_text(ymd: tuple[int, int, int], hms: tuple[int, int, int], fraction: str) -> str:
    """ISO text, or MySQL's own text for an invalid date: month or day 0, or a day past the month's end."""
    year, month, day = ymd
    hour, minute, second = hms
    joint = "T" if _is_date(year, month, day) else " "
    return f"{year:04d}-{month:02d}-{day:02d}{joint}{hour:02d}:{minute:02d}:{second:02d}{fraction}"


def _is_date(year: int, month: int, day: int) -> bool:
    if month != _FEBRUARY:
        return 0 < day <= _DAYS[month] if 0 < month < len(_DAYS) else False
    # In MySQL the year 0 is not a leap year.
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) and year > 0
    return 0 < day <= _DAYS[month] + is_leap


_FEBRUARY = 2
_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def fraction_text(microseconds: int, digits: int) -> str:
    """Return ``.123`` for 123000 microseconds and 3 digits; an empty text for 0 digits."""
    if microseconds >= _SECOND:
        raise ValueError(f"{microseconds} microseconds are no fraction of a second")
    return f".{microseconds:06d}"[: digits + 1] if digits else ""


_SECOND = 1_000_000


def timestamp_text(seconds: int, fraction: str) -> str:
    """ISO text in UTC; MySQL's own text for its zero timestamp."""
    if not seconds:
        return ZERO_TIMESTAMP + fraction
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _clock_text(clock: int, fraction: str) -> str:
    return f"{(clock >> 12) & 1023:02d}:{(clock >> 6) & 63:02d}:{clock & 63:02d}{fraction}"


# --- rows -------------------------------------------------------------------------------------------


def _date(_column: MappedColumn, _charsets: Charsets) -> Reader:
    """DATE: three bytes; 5 bits of day, 4 of month, 15 of year."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = uint(data, at, 3)
        return f"{value >> 9:04d}-{(value >> 5) & 15:02d}-{value & 31:02d}", at + 3

    return read


def fraction_size(digits: int) -> int:
    """Return the size in bytes of a fraction with this number of digits."""
    return (digits + 1) // 2


def _microseconds(raw: bytes) -> int:
    return int.from_bytes(raw, "big") * (1, 10_000, 100, 1)[len(raw)]


def _datetime2(column: MappedColumn, _charsets: Charsets) -> Reader:
    """DATETIME(n): 40 bits (years and months as one number, day, hour, minute, second), then the fraction."""
    digits = column.metadata
    size = 5 + fraction_size(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        packed = int.from_bytes(raw[:5], "big") - _DATETIME_BIAS
        days, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(days >> 5, 13)
        hms = (clock >> 12, (clock >> 6) & 63, clock & 63)
        fraction = fraction_text(_microseconds(raw[5:]), digits)
        return datetime_text((year, month, days & 31), hms, fraction), end

    return read


def _timestamp2(column: MappedColumn, _charsets: Charsets) -> Reader:
    """TIMESTAMP(n): big-endian seconds since 1970 in UTC, then the fraction; 0 is the zero timestamp."""
    digits = column.metadata
    size = 4 + fraction_size(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        seconds, micros = int.from_bytes(raw[:4], "big"), _microseconds(raw[4:])
        return timestamp_text(seconds, fraction_text(micros, digits)), end

    return read


def _time2(column: MappedColumn, _charsets: Charsets) -> Reader:
    """TIME(n): 24 bits biased by half their range, then the fraction, from which a negative time borrows."""
    digits = column.metadata
    part_size = fraction_size(digits)
    size, bias = 3 + part_size, 0x80_0000 << (8 * part_size)
    to_microseconds = (1, 10_000, 100, 1)[part_size]

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        # Whole part and fraction form one signed number; its magnitude has both without the borrowing.
        value = int.from_bytes(raw, "big") - bias
        clock, part = divmod(abs(value), 1 << (8 * part_size))
        sign = "-" if value < 0 else ""
        return sign + _clock_text(clock, fraction_text(part * to_microseconds, digits)), end

    return read


def _old_datetime(_column: MappedColumn, _charsets: Charsets) -> Reader:
    """DATETIME before 5.6.4: eight bytes, the decimal number YYYYMMDDhhmmss."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        days, clock = divmod(uint(data, at, 8), 1_000_000)
        ymd = (days // 10_000, days // 100 % 100, days % 100)
        return datetime_text(ymd, (clock // 10_000, clock // 100 % 100, clock % 100), ""), at + 8

    return read


def _old_timestamp(_column: MappedColumn, _charsets: Charsets) -> Reader:
    """TIMESTAMP before 5.6.4: seconds since 1970, little-endian."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        return timestamp_text(uint(data, at, 4), ""), at + 4

    return read


def _old_time(_column: MappedColumn, _charsets: Charsets) -> Reader:
    """TIME before 5.6.4: three bytes, the signed decimal number hhmmss."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, 3)
        value = int.from_bytes(raw, "little", signed=True)
        sign, value = ("-" if value < 0 else ""), abs(value)
        return f"{sign}{value // 10_000:02d}:{value // 100 % 100:02d}:{value % 100:02d}", end

    return read


def _without_digits(name: str) -> Callable[[MappedColumn, Charsets], Any]:
    def refuse(column: MappedColumn, _charsets: Charsets) -> Any:
        raise UnsupportedEvent(
            f"column {column.name!r} is a {name} in the format of MariaDB 5.3, and the "
            "binlog does not state how many digits of fraction it has",
            remedy="Run ALTER TABLE … FORCE with mysql56_temporal_format = ON, or leave the table out "
            "with a filter.",
        )

    return refuse


# --- generated code ---------------------------------------------------------------------------------

_MOST = 10_000
_MINUTES_AND_SECONDS = [f"{n >> 6:02d}:{n & 63:02d}" for n in range(4096)]
"""Text by the 12 bits in which DATETIME packs minutes and seconds."""
_OF_AN_HOUR = [f"{n // 60:02d}:{n % 60:02d}" for n in range(3600)]


class _Dates(dict[bytes, str]):
    """Text by the three bytes of a DATE."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) > _MOST:
            self.clear()
        value = int.from_bytes(raw, "little")
        text = self[raw] = f"{value >> 9:04d}-{(value >> 5) & 15:02d}-{value & 31:02d}"
        return text


class _DatetimeHours(dict[int, str]):
    """``2026-11-21T10:`` by the bits of DATETIME before the minutes."""

    def __missing__(self, packed: int) -> str:
        if len(self) > _MOST:
            self.clear()
        days, hour = divmod(packed - (_DATETIME_BIAS >> 12), 32)
        year, month = divmod(days >> 5, 13)
        text = self[packed] = datetime_text((year, month, days & 31), (hour, 0, 0), "")[:-5]
        return text


class _Datetimes(dict[bytes, str]):
    """Whole seconds by the first five bytes of a DATETIME."""

    def __init__(self) -> None:
        super().__init__()
        self._hours = _DatetimeHours()

    def __missing__(self, raw: bytes) -> str:
        if len(self) > _MOST:
            self.clear()
        clock = int.from_bytes(raw, "big")
        text = self[raw] = self._hours[clock >> 12] + _MINUTES_AND_SECONDS[clock & 4095]
        return text


class _TimestampHours(dict[int, str]):
    """``2026-11-21T10:`` by hours since 1970."""

    def __missing__(self, hours: int) -> str:
        if len(self) > _MOST:
            self.clear()
        # Second 0 of 1970 has the zero timestamp's text, so the text of second 1 of the hour is used.
        text = self[hours] = timestamp_text(hours * 3600 + 1, "")[:-6]
        return text


class _Timestamps(dict[int, str]):
    """Whole seconds, without their Z, by the first four bytes of a TIMESTAMP read in reverse byte order."""

    def __init__(self) -> None:
        super().__init__()
        self._hours = _TimestampHours()

    def __missing__(self, swapped: int) -> str:
        if len(self) > _MOST:
            self.clear()
        hour, second = divmod(int.from_bytes(swapped.to_bytes(4, "little"), "big"), 3600)
        text = self[swapped] = self._hours[hour] + _OF_AN_HOUR[second]
        return text


class _Fractions(dict[int, str]):
    """``.123`` by the two bytes of a fraction of 3 or 4 digits read in reverse byte order."""

    def __init__(self, digits: int) -> None:
        super().__init__()
        self._digits = digits

    def __missing__(self, swapped: int) -> str:
        number = (swapped & 0xFF) << 8 | swapped >> 8
        if number > _MOST_OF_FOUR:
            raise IndexError(f"{number} is no fraction of four digits")
        text = self[swapped] = f".{number:04d}"[: self._digits + 1]
        return text


_MOST_OF_FOUR = 9999

DATES = _Dates()
DATETIMES = _Datetimes()
TIMESTAMPS = _Timestamps()
TENTHS = [f".{n:02d}"[:2] for n in range(100)]
HUNDREDTHS = [f".{n:02d}" for n in range(100)]
THOUSANDTHS = _Fractions(3)
TEN_THOUSANDTHS = _Fractions(4)

_SMALL = {1: "tenths", 2: "hundredths", 3: "thousandths", 4: "ten_thousandths"}
_CACHES = {
    "dates": DATES,
    "datetimes": DATETIMES,
    "timestamps": TIMESTAMPS,
    "tenths": TENTHS,
    "hundredths": HUNDREDTHS,
    "thousandths": THOUSANDTHS,
    "ten_thousandths": TEN_THOUSANDTHS,
    "zero_timestamp": ZERO_TIMESTAMP,
}


def _fraction(digits: int) -> tuple[str, str]:
    """A fraction's struct format (little-endian), and the part of an f-string that formats it from ``$b``."""
    if not digits:
        return "", ""
    if digits in _SMALL:
        return "B" if digits < 3 else "H", f"{{{_SMALL[digits]}[$b]}}"
    rest = "{three[f % 1000]}" if digits == 6 else "{two[f % 1000 // 10]}"
    return "3s", f'.{{three[(f := from_bytes($b, "big")) // 1000]}}{rest}'


def _date_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="dates[$a]", little=("3s",))


def _datetime_field(column: MappedColumn, _charsets: Charsets) -> Field:
    if not column.metadata:
        return Field(value="datetimes[$a]", little=("5s",))
    format_, fraction = _fraction(column.metadata)
    return Field(value=f"f'{{datetimes[$a]}}{fraction}'", little=("5s", format_))


def _timestamp_field(column: MappedColumn, _charsets: Charsets) -> Field:
    format_, fraction = _fraction(column.metadata)
    text = f"f'{{timestamps[$a]}}{fraction}Z' if $a else f'{{zero_timestamp}}{fraction}'"
    return Field(value=text, little=("I", format_) if format_ else ("I",))


# --- packets ----------------------------------------------------------------------------------------

_Three = tuple[int, int, int]
_WITH_FRACTION = 11
"""Bytes of a date and time with a fraction, which has 4 of them; a value without a fraction is shorter."""
_FEW_DIGITS = 3
"""Fractions with more digits seldom recur."""


def _moment_of(raw: bytes) -> tuple[_Three, _Three, int]:
    """Date, time of day and microseconds of a value of 0, 4, 7 or 11 bytes, which omits zeros at its end."""
    if len(raw) not in (0, 4, 7, 11):
        raise ValueError(f"{len(raw)} bytes are no date and time")
    year, month, day, hour, minute, second, micros = struct.unpack("<H5BI", raw.ljust(11, b"\0"))
    if year > _LAST_YEAR or month > _LAST_MONTH or day > _LAST_DAY or hour > _LAST_HOUR:
        raise ValueError("no date and time")
    if minute > _LAST_MINUTE or second > _LAST_MINUTE or micros >= _SECOND:
        raise ValueError("no time of day")
    return (year, month, day), (hour, minute, second), micros


_LAST_YEAR, _LAST_MONTH, _LAST_DAY, _LAST_HOUR, _LAST_MINUTE = 9999, 12, 31, 23, 59


def _day_of(raw: bytes) -> _Three:
    ymd, hms, micros = _moment_of(raw)
    if any(hms) or micros:
        raise ValueError("a date has a time of day")
    return ymd


def _clock_of(raw: bytes) -> tuple[bool, _Three, int]:
    """The sign, hours, minutes and seconds, and microseconds of a TIME of 0, 8 or 12 bytes."""
    if len(raw) not in (0, 8, 12):
        raise ValueError(f"{len(raw)} bytes are no time")
    negative, days, hour, minute, second, micros = struct.unpack("<BI3BI", raw.ljust(12, b"\0"))
    hours = 24 * days + hour
    if hours > _MOST_HOURS or minute > _LAST_MINUTE or second > _LAST_MINUTE or micros >= _SECOND:
        raise ValueError("no time")
    return bool(negative), (hours, minute, second), micros


_MOST_HOURS = 838


def _date_text(_column: MappedColumn) -> Convert:
    return lambda raw: b"%04d-%02d-%02d" % _day_of(raw)


def _moment_text(column: MappedColumn) -> Convert:
    digits = column.metadata

    def text(raw: bytes) -> bytes:
        ymd, hms, micros = _moment_of(raw)
        part = fraction_text(micros, digits).encode()
        return b"%04d-%02d-%02d %02d:%02d:%02d%s" % (*ymd, *hms, part)

    return text


def _time_text(column: MappedColumn) -> Convert:
    digits = column.metadata

    def text(raw: bytes) -> bytes:
        negative, hms, micros = _clock_of(raw)
        part = fraction_text(micros, digits).encode()
        return b"%s%02d:%02d:%02d%s" % (b"-" if negative else b"", *hms, part)

    return text


def _date_image(_column: MappedColumn) -> Convert:
    def image(raw: bytes) -> bytes:
        year, month, day = _day_of(raw)
        return (year << 9 | month << 5 | day).to_bytes(3, "little")

    return image


def _part(micros: int, digits: int) -> int:
    """A fraction as the number that a row image has in ``fraction_size(digits)`` big-endian bytes."""
    if micros % 10 ** (6 - digits):
        raise ValueError(f"{micros} microseconds have more than {digits} digits")
    return micros // _UNITS[fraction_size(digits)]


_UNITS = (1_000_000, 10_000, 100, 1)
"""The microseconds of a fraction's unit, by the fraction's size in bytes."""


def _datetime_image(column: MappedColumn) -> Convert:
    digits = column.metadata
    part_size = fraction_size(digits)

    def image(raw: bytes) -> bytes:
        (year, month, day), (hour, minute, second), micros = _moment_of(raw)
        days = (year * 13 + month) << 5 | day
        whole = _DATETIME_BIAS + (days << 17 | hour << 12 | minute << 6 | second)
        return (whole << 8 * part_size | _part(micros, digits)).to_bytes(5 + part_size, "big")

    return image


def _timestamp_image(column: MappedColumn) -> Convert:
    digits = column.metadata
    part_size = fraction_size(digits)

    def image(raw: bytes) -> bytes:
        ymd, hms, micros = _moment_of(raw)
        # The zero timestamp is not a date.
        seconds = (
            (datetime(*ymd, *hms, tzinfo=UTC) - _EPOCH) // _ONE_SECOND
            if any(ymd) or any(hms)
            else 0
        )
        return (seconds << 8 * part_size | _part(micros, digits)).to_bytes(4 + part_size, "big")

    return image


_ONE_SECOND = timedelta(seconds=1)


def _time_image(column: MappedColumn) -> Convert:
    digits = column.metadata
    part_size = fraction_size(digits)
    bias = 0x80_0000 << 8 * part_size

    def image(raw: bytes) -> bytes:
        negative, (hour, minute, second), micros = _clock_of(raw)
        magnitude = (hour << 12 | minute << 6 | second) << 8 * part_size | _part(micros, digits)
        return (bias - magnitude if negative else bias + magnitude).to_bytes(3 + part_size, "big")

    return image


def _date_packet(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", bound=_DAYS_IN_PACKETS)


def _time_packet(column: MappedColumn, charsets: Charsets) -> Field:
    read, image = _time2(column, charsets), _time_image(column)

    def text(raw: bytes) -> Any:
        return exact(read(image(raw), 0)[0])

    few = column.metadata <= _FEW_DIGITS
    return Field(value="$n[$a]" if few else "$n($a)", bound=Remembered(text) if few else text)


def _datetime_packet(column: MappedColumn, _charsets: Charsets) -> Field:
    return _moment(column, _Moments(column.metadata, zone=""))


def _timestamp_packet(column: MappedColumn, _charsets: Charsets) -> Field:
    return _moment(column, _Moments(column.metadata, zone="Z"))


class _Moments:
    """Texts of the values of a DATETIME(n) or TIMESTAMP(n) in packets."""

    def __init__(self, digits: int, *, zone: str) -> None:
        self.digits, self.zone = digits, zone
        self.whole = Remembered(self.text)
        """Whole texts by the bytes of a value."""
        self.seconds = _SECONDS
        """Texts without a fraction, by the bytes before the fraction."""
        self.fractions = Remembered(
            lambda raw: fraction_text(int.from_bytes(raw, "little"), digits)
        )
        """Texts of fractions, by the bytes of a fraction."""

    def text(self, raw: bytes) -> str:
        """The text of a value of any size."""
        ymd, hms, micros = _moment_of(raw)
        fraction = fraction_text(micros, self.digits)
        if self.zone and not raw:
            return ZERO_TIMESTAMP + fraction
        return datetime_text(ymd, hms, fraction) + self.zone


def _moment(column: MappedColumn, moments: _Moments) -> Field:
    digits = column.metadata
    if not digits:
        return Field(value="$n[$a]", bound=moments.whole)
    if digits <= _FEW_DIGITS:
        fraction = "{$n[1][d[s + 7:p]]}"
    else:
        rest = {4: "{f % 1000 // 100}", 5: "{two[f % 1000 // 10]}", 6: "{three[f % 1000]}"}[digits]
        fraction = f'.{{three[(f := from_bytes(d[s + 7:p], "little")) // 1000]}}{rest}'
    text = f"f'{{$n[0][d[s:s + 7]]}}{fraction}{moments.zone}'"
    bound = moments.seconds, moments.fractions, moments.whole
    return Field(value=f"{text} if $size == {_WITH_FRACTION} else $n[2][$a]", bound=bound)


def _second_of(raw: bytes) -> str:
    ymd, hms, _ = _moment_of(raw)
    return datetime_text(ymd, hms, "")


_DAYS_IN_PACKETS = Remembered(lambda raw: "{:04d}-{:02d}-{:02d}".format(*_day_of(raw)))
_SECONDS = Remembered(_second_of)


# --- statements ---------------------------------------------------------------------------------------------

_MOST_FRACTION = 6


def _printed(kind: str, spec: TypeSpec, server: Server) -> str:
    digits = spec.arguments[0] if spec.arguments else 0
    if spec.arguments and not since(server, mysql=(5, 6, 4), mariadb=(5, 3, 0)):
        raise Refused(f"{kind} has no fractions of a second")
    if digits > _MOST_FRACTION:
        raise Refused(f"{kind}({digits}) is finer than {_MOST_FRACTION} digits")
    return f"{kind}({digits})" if digits else kind


# --- records in other formats -----------------------------------------------------------------------------

_MOMENT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?)?")
_OF_DAY = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY = 86_400 * _SECOND
_MILLIS = 3
"""The maximum number of fraction digits that Debezium writes in milliseconds."""


def _named_schema(kind: str, name: str) -> Schema:
    return {"type": kind, "name": name, "version": 1}


def _connect(kind: Kind, nullable: bool, modes: Modes) -> Form:
    base, mode = kind.base, modes.time
    if base == "timestamp":
        zero = None if nullable else "1970-01-01T00:00:00Z"
        return Form(
            _named_schema("string", "io.debezium.time.ZonedTimestamp"),
            lambda value: zero if _micros(value, modes) is None else value,
        )
    if base == "time":
        return _TIMES_OF_DAY[mode]
    name, unit = _MOMENTS[base](mode, kind.size)
    if mode == "isostring":
        first = "1970-01-01Z" if base == "date" else "1970-01-01T00:00:00Z"
        missing = None if nullable else first
        return Form(
            _named_schema("string", name),
            lambda value: missing if (at := _micros(value, modes)) is None else _iso(at, base),
        )
    absent = None if nullable else 0
    size = "int32" if base == "date" else "int64"

    def written(value: str) -> int | None:
        at = _micros(value, modes)
        if at is None:
            return absent
        if unit:
            return at // unit
        nanoseconds = at * 1000
        return nanoseconds if -(2**63) <= nanoseconds < 2**63 else absent

    return Form(_named_schema(size, name), written)


def _connect_modes(kind: Kind, _modes: Modes) -> tuple[str, ...]:
    if kind.base == "timestamp":  # it has no year below 1970
        return ()
    return ("time",) if kind.base == "time" else ("time", "adjust_years")


def _date_form(mode: str, _digits: int) -> tuple[str, int]:
    if mode == "connect":
        return "org.apache.kafka.connect.data.Date", _DAY
    return f"io.debezium.time.{'IsoDate' if mode == 'isostring' else 'Date'}", _DAY


def _datetime_form(mode: str, digits: int) -> tuple[str, int]:
    """The schema's name, and its unit in microseconds; 0 for nanoseconds."""
    if mode == "connect":
        return "org.apache.kafka.connect.data.Timestamp", 1000
    if mode == "isostring":
        return "io.debezium.time.IsoTimestamp", 1
    if mode == "nanoseconds":
        return "io.debezium.time.NanoTimestamp", 0
    if mode == "microseconds" or digits > _MILLIS:
        return "io.debezium.time.MicroTimestamp", 1
    return "io.debezium.time.Timestamp", 1000


_MOMENTS: dict[str, Callable[[str, int], tuple[str, int]]] = {
    "date": _date_form,
    "datetime": _datetime_form,
}


def _micros(value: str, modes: Modes) -> int | None:
    """Microseconds from 1970 to a date with or without a time of day; None if there is no such day."""
    found = _MOMENT.fullmatch(value)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[at] or 0) for at in range(1, 7))
    if modes.adjust_years and year < 100:
        year += 2000 if year < 70 else 1900
        if not (month and day):
            return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    seconds = (hour * 60 + minute) * 60 + second
    return days * _DAY + seconds * _SECOND + _micros_of(found[7])


def _micros_of(digits: str | None) -> int:
    return int((digits or "").ljust(6, "0"))


def _iso(micros: int, base: str) -> str:
    """A moment as ISO 8601 in UTC; a fraction has no zeros at its end."""
    days, rest = divmod(micros, _DAY)
    day = date.fromordinal(days + _EPOCH_DAY).isoformat()
    return f"{day}Z" if base == "date" else f"{day}T{_clock(rest)}Z"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{hour:02}:{minute:02}:{second:02}{shown}"


def _time_of_day(value: str) -> int:
    """A TIME in microseconds; it may be negative, and longer than a day."""
    found = _OF_DAY.fullmatch(value)
    assert found is not None, "MySQL writes no other"
    hours, minutes, seconds = (int(found[at]) for at in range(2, 5))
    micros = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + _micros_of(found[5])
    return -micros if found[1] else micros


def _within_a_day(written: Callable[[int], Any]) -> ValueOf:
    """The function for a TIME that is a time of day; any other TIME becomes null, as in Debezium."""

    def value(text: str) -> Any:
        micros = _time_of_day(text)
        return written(micros) if 0 <= micros < _DAY else None

    return value


_MICRO_TIME = Form(_named_schema("int64", "io.debezium.time.MicroTime"), _time_of_day)
_TIMES_OF_DAY = {
    "adaptive_time_microseconds": _MICRO_TIME,
    "microseconds": _MICRO_TIME,
    "nanoseconds": Form(
        _named_schema("int64", "io.debezium.time.NanoTime"),
        lambda value: _time_of_day(value) * 1000,
    ),
    "connect": Form(
        _named_schema("int32", "org.apache.kafka.connect.data.Time"),
        _within_a_day(lambda micros: micros // 1000),
    ),
    "isostring": Form(
        _named_schema("string", "io.debezium.time.IsoTime"),
        _within_a_day(lambda micros: f"{_clock(micros)}Z"),
    ),
}


def _of_canal(value: Any) -> str:
    """``2026-11-21T10:15:00Z`` with a space and without ``Z``, as Canal and Maxwell write it.

    A zero date already has the space.
    """
    return str(value).replace("T", " ").removesuffix("Z")


# --- types ------------------------------------------------------------------------------------------


def _published_literal(_column: MappedColumn, value: Any) -> str:
    return time_literal(value.replace("T", " ").removesuffix("Z").encode())


def _with_digits(name: str) -> Callable[[MappedColumn, Charsets], str]:
    def text(column: MappedColumn, _charsets: Charsets) -> str:
        return name + (f"({column.metadata})" if column.metadata else "")

    return text


def _current(
    code: FieldType,
    name: str,
    size: int,
    reader: Callable[[MappedColumn, Charsets], Reader],
    *,
    field: Make | None,
    packet_type: FieldType,
    packet_field: Make,
    packet_text: Callable[[MappedColumn], Convert],
    packet_image: Callable[[MappedColumn], Convert],
) -> BinlogType:
    """TIME(n), DATETIME(n) or TIMESTAMP(n), whose metadata is n."""
    return BinlogType(
        code=code,
        reader=reader,
        field=field,
        extent=lambda digits: (size + fraction_size(digits), 0),
        metadata_size=1,
        is_possible=within(0, 6),
        text=_with_digits(name),
        packet_types=frozenset({packet_type}),
        packet_field=packet_field,
        packet_text=packet_text,
        packet_image=packet_image,
        literal=time_literal,
        published_literal=_published_literal,
    )


def _old(
    code: FieldType, name: str, size: int, reader: Callable[[MappedColumn, Charsets], Reader]
) -> BinlogType:
    """A type of a table created before MySQL 5.6.4; a SELECT returns its values in the current type."""
    return BinlogType(
        code=code,
        reader=reader,
        extent=fixed(size),
        text=plain(name),
        literal=time_literal,
        published_literal=_published_literal,
    )


def _unknown_extent(_metadata: int) -> tuple[int, int]:
    raise ValueError("a column has a fraction of unknown digits")


def _of_mariadb(code: FieldType, name: str) -> BinlogType:
    """A type in the format of MariaDB 5.3; tables with such columns cannot be read."""
    refuse = _without_digits(name)
    return BinlogType(code=code, reader=refuse, extent=_unknown_extent, text=refuse)


def _named(name: str, code: FieldType, jdbc: int) -> SqlType:
    has_day = name in ("datetime", "timestamp")
    return SqlType(
        name=name,
        printed=printed_as(name)
        if name == "date"
        else lambda spec, server: _printed(name, spec, server),
        layout=lambda kind, _mariadb: (code, kind.size),
        comparable=Comparable.NOT if name == "time" else Comparable.TIME,
        connect=_connect,
        connect_modes=_connect_modes,
        jdbc=jdbc,
        canal_text=lambda _: _of_canal if has_day else None,
        maxwell=lambda _: _of_canal if has_day else None,
    )


register(
    BinlogType(
        code=_T.DATE,
        reader=_date,
        field=_date_field,
        extent=fixed(3),
        text=plain("date"),
        packet_field=_date_packet,
        packet_text=_date_text,
        packet_image=_date_image,
        literal=time_literal,
        published_literal=_published_literal,
    ),
    _current(
        _T.DATETIME2,
        "datetime",
        5,
        _datetime2,
        field=_datetime_field,
        packet_type=_T.DATETIME,
        packet_field=_datetime_packet,
        packet_text=_moment_text,
        packet_image=_datetime_image,
    ),
    _current(
        _T.TIMESTAMP2,
        "timestamp",
        4,
        _timestamp2,
        field=_timestamp_field,
        packet_type=_T.TIMESTAMP,
        packet_field=_timestamp_packet,
        packet_text=_moment_text,
        packet_image=_timestamp_image,
    ),
    _current(
        _T.TIME2,
        "time",
        3,
        _time2,
        field=None,
        packet_type=_T.TIME,
        packet_field=_time_packet,
        packet_text=_time_text,
        packet_image=_time_image,
    ),
    _old(_T.DATETIME, "datetime", 8, _old_datetime),
    _old(_T.TIMESTAMP, "timestamp", 4, _old_timestamp),
    _old(_T.TIME, "time", 3, _old_time),
    _of_mariadb(_T.MARIADB_DATETIME, "DATETIME"),
    _of_mariadb(_T.MARIADB_TIMESTAMP, "TIMESTAMP"),
    _of_mariadb(_T.MARIADB_TIME, "TIME"),
    named=(
        _named("date", _T.DATE, 91),
        _named("time", _T.TIME2, 92),
        _named("datetime", _T.DATETIME2, 93),
        _named("timestamp", _T.TIMESTAMP2, 93),
    ),
    names=_CACHES,
)
