"""Our decoder and mysql-replication's on the same rows: every difference is known and has a reason.

Where they differ, ours is what SELECT says, as ``test_values_oracle`` holds; the reason is what theirs does.
"""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from connectors.mysql.position import Coordinates
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import run
from tests.integration.old_mysql.families import known
from tests.integration.old_mysql.source import rows, written
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.source import address_of, end_of

DATABASE = "compared"
Columns = list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value or column that the two decode differently."""

    kind: str
    ours: Any
    theirs: Any
    """Theirs in our form; the exception where they gave none."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for the difference."""

    text: str
    kinds: str
    """The types concerned, as a regular expression."""
    holds: Callable[[Difference], bool]


def raised(name: str) -> Callable[[Difference], bool]:
    return lambda one: type(one.theirs).__name__ == name


def none_for(ours: str) -> Callable[[Difference], bool]:
    return lambda one: one.theirs is None and re.fullmatch(ours, str(one.ours)) is not None


def _is_zero_year(one: Difference) -> bool:
    return bool((one.ours, one.theirs) == (0, 1900))


def _lacks_its_end(one: Difference) -> bool:
    return base64.b64decode(one.ours).rstrip(b"\0") == base64.b64decode(one.theirs)


def _is_signed(one: Difference) -> bool:
    return one.ours - one.theirs in (1 << 8, 1 << 16, 1 << 24, 1 << 32, 1 << 64)


def _is_1970(one: Difference) -> bool:
    return bool(one.ours.startswith("0000-00-00") and one.theirs.startswith("1970-01-01T00:00:00"))


def _is_no_day(one: Difference) -> bool:
    is_refused = one.theirs is None or isinstance(one.theirs, ValueError)
    return is_refused and one.ours.partition(" ")[0] == "2023-02-31"


def _lost_a_label(one: Difference) -> bool:
    return one.theirs == "" or "" in one.theirs


_WIDE = r"varchar\(80\) character set (utf16|utf16le|utf32|ucs2)"
_TEXT_OR_BYTES = "varchar|tinytext|binary|varbinary|.*blob"
_NO_DATE = none_for(r"....-(00-..|..-00).*|0000-.*")
EVERYWHERE = (
    Reason("YEAR 0 is 1900 to it: it adds 1900 to the byte 0 too", "year", _is_zero_year),
    Reason("a zero or partial date is None to it, as NULL is", "date|datetime|timestamp", _NO_DATE),
    Reason("a day that its month lacks is None to it, or stops it", "date|datetime", _is_no_day),
    Reason("the zero TIMESTAMP is 1970 to it", "timestamp", _is_1970),
    Reason("FLOAT has a double's digits", "float", lambda one: isinstance(one.theirs, float)),
    Reason("an empty SET is None to it, as NULL is", "set", none_for("")),
    Reason("BINARY(n) lacks the zero bytes at its end", "binary", _lacks_its_end),
    Reason("a negative TIME's fraction is wrong", "time", lambda one: one.ours.startswith("-")),
)
ON_9_7 = (
    *EVERYWHERE,
    Reason("latin1 is cp1252 to it, without five bytes", "varchar", raised("UnicodeDecodeError")),
    Reason("wide characters are bytes or swapped", _WIDE, lambda one: one.theirs != one.ours),
    Reason("labels beyond ASCII are empty to it", "enum|set", _lost_a_label),
    Reason("VECTOR's dimensions stop it", "vector", raised("ValueError")),
)
ON_5_6 = (
    *EVERYWHERE,
    Reason("without metadata all is UTF-8", _TEXT_OR_BYTES, raised("UnicodeDecodeError")),
    Reason("without metadata every number is signed", ".*int unsigned", _is_signed),
    Reason("without metadata ENUM has no labels", "enum", none_for(".*")),
    Reason("without metadata SET has no labels", "set", none_for(".*")),
)


@pytest.mark.long("test_values_oracle holds ours against SELECT")
def test_on_a_server_with_metadata(stack: Stack) -> None:
    assert_explained(stack.mysql, [list(FAMILIES[family]()) for family in FAMILIES], ON_9_7)


@pytest.mark.long("test_values_oracle holds ours against SELECT")
def test_on_a_server_without_metadata(servers: Servers) -> None:
    assert_explained(servers("5.6"), [known("5.6", family) for family in FAMILIES], ON_5_6)


def assert_explained(mysql: Mysql, families: list[Columns], reasons: tuple[Reason, ...]) -> None:
    found = [one for columns in families for one in differences(mysql, columns)]
    open_ = [one for one in found if not any(explains(reason, one) for reason in reasons)]
    assert [(one.kind[:40], str(one.ours)[:60], repr(one.theirs)[:90]) for one in open_] == []
    idle = [reason.text for reason in reasons if not any(explains(reason, one) for one in found)]
    assert idle == [], "it was repaired, or is not tested any more"


def explains(reason: Reason, one: Difference) -> bool:
    if not re.match(rf"({reason.kinds})(\W|$)", one.kind):
        return False
    try:
        return reason.holds(one)
    except (TypeError, AttributeError, ValueError):
        # It asks about another kind of value.
        return False


def differences(mysql: Mysql, columns: Columns) -> Iterator[Difference]:
    """What differs in a table of these columns; where theirs fails, in one for each column.

    A value that Python lacks stops theirs, not what is around it: there, each value has a table.
    """
    run(mysql, f"CREATE DATABASE IF NOT EXISTS {DATABASE}", f"DROP TABLE IF EXISTS {DATABASE}.t")
    begin = end_of(mysql)
    first, create, *inserts = statements_for(f"{DATABASE}.t", columns)
    steps = written(mysql, first, f"{create} ROW_FORMAT=DYNAMIC", *inserts)
    ours = [list(row.after.values())[1:] for row in rows(mysql, steps) if row.after]
    try:
        theirs = values_of(mysql, begin)
    except Exception as error:
        parts = columns
        if len(columns) == 1 and type(error) is ValueError:
            ((kind, values),) = columns
            parts = [(kind, [value]) for value in values]
        if len(parts) == 1:
            is_one = len(ours) == 1
            yield Difference(parts[0][0], ours[0][0] if is_one else ours, error)
        else:
            for part in parts:
                yield from differences(mysql, [part])
        return
    kinds = [kind for kind, _ in columns]
    for image, other in zip(ours, theirs, strict=True):
        for kind, mine, value in zip(kinds, image, other, strict=True):
            if comparable(mine, kind) != (result := in_our_form(value, kind)):
                yield Difference(kind, mine, result)


def values_of(mysql: Mysql, begin: Coordinates) -> list[list[Any]]:
    """The rows without their first column, by their decoder."""
    stream = BinLogStreamReader(
        connection_settings=address_of(mysql).connection_settings(),
        server_id=7103,
        log_file=begin.file,
        log_pos=begin.pos,
        resume_stream=True,
        only_events=[WriteRowsEvent],
        use_column_name_cache=True,
    )
    try:
        return [list(row["values"].values())[1:] for event in stream for row in event.rows]
    finally:
        stream.close()


def comparable(ours: Any, kind: str) -> Any:
    return set(ours.split(",")) if kind.startswith("set") and ours else ours


def in_our_form(theirs: Any, kind: str) -> Any:
    """The same value in the wire's form; nothing is repaired."""
    digits = (
        int(match[1]) if (match := re.match(r"(?:time|datetime|timestamp)\((\d)\)", kind)) else 0
    )
    if isinstance(theirs, Decimal):
        return f"{theirs:f}"
    if isinstance(theirs, datetime):
        fraction = f".{theirs.microsecond:06d}"[: digits + 1] if digits else ""
        return (
            f"{theirs:%Y-%m-%dT%H:%M:%S}".zfill(19)
            + fraction
            + ("Z" if "timestamp" in kind else "")
        )
    if isinstance(theirs, date):
        return theirs.isoformat()
    if isinstance(theirs, timedelta):
        return clock(theirs, digits)
    if kind.startswith("bit") and theirs is not None:
        return base64.b64encode(int(theirs, 2).to_bytes((len(theirs) + 7) // 8, "big")).decode()
    if kind.startswith(_BINARY) and theirs is not None:
        raw = theirs.encode() if isinstance(theirs, str) else theirs
        return base64.b64encode(raw).decode()
    if isinstance(theirs, bytes):
        return {
            "srid": int.from_bytes(theirs[:4], "little"),
            "wkb": base64.b64encode(theirs[4:]).decode(),
        }
    return theirs


_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def clock(value: timedelta, digits: int) -> str:
    micros = value // timedelta(microseconds=1)
    seconds, part = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    fraction = f".{part:06d}"[: digits + 1] if digits else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
