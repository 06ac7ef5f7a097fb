"""mysql-replication as a witness: for hosts without MySQL's own programs.

Invariant: what the package would silently skip raises TruthUnreadable; rows that it cannot read, and values
that it decodes differently from MySQL, are counted as not judged. It reads servers, not files.
"""

from __future__ import annotations

import json
from calendar import timegm
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from app.audit.errors import TruthUnreadable, remedy_of
from app.audit.table_shape import BinlogColumn, Shape
from app.audit.truth.printed_events import (
    Before,
    Event,
    FileBegins,
    Row,
    Transactions,
    UnreadableRows,
)
from app.audit.truth.witness import WitnessName
from app.audit.value_comparison import UNTOLD
from connectors.mysql.charsets import Charsets
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import read_facts
from connectors.mysql.stream import second_reader
from connectors.mysql.stream import second_reader as read

_REMEDY = "Audit with --witness mysqlbinlog, or begin in a later binlog file with --from."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationBinlog:
    """The binlog as a running server sends it to mysql-replication."""

    address: SourceAddress
    server_uuid: str
    names: tuple[str, ...]
    charsets: Charsets

    @property
    def name(self) -> WitnessName:
        return WitnessName.MYSQL_REPLICATION

    @classmethod
    def of(cls, address: SourceAddress) -> ReplicationBinlog:
        """Read the server's list of files; raise TruthUnreadable if the package cannot read its binlog."""
        facts = read_facts(address)
        if facts.is_mariadb:
            raise TruthUnreadable(
                "the source is a MariaDB, whose binlog the audit does not read", source=address
            )
        for variable, wanted in (("binlog_row_metadata", "FULL"), ("binlog_checksum", "CRC32")):
            found = facts.variables.get(variable, "not set").upper()
            if found != wanted:
                raise TruthUnreadable(
                    f"mysql-replication needs {variable} = {wanted}, the server's is {found}",
                    source=address,
                    remedy="Set it, or audit with --witness mysqlbinlog.",
                )
        names = tuple(name for name, _ in facts.binlogs)
        if not names:
            raise TruthUnreadable("the server lists no binlog files", source=address)
        return cls(
            address=address, server_uuid=facts.server_uuid, names=names, charsets=facts.charsets
        )

    def files(self) -> Sequence[str]:
        return self.names

    def events(self, first: str) -> Generator[Event]:
        reading, events = second_reader.read(self.address, first, self._charset), _AuditEvents()
        try:
            for each in reading:
                yield from events.take(each)
        except second_reader.Unreadable as error:
            raise TruthUnreadable(
                f"mysql-replication stops: {error}",
                source=self.address,
                remedy=remedy_of(str(error), _REMEDY),
            ) from error
        finally:
            reading.close()

    def _charset(self, collation: int) -> str | None:
        try:
            return self.charsets.name(collation)
        except KeyError:
            return None


class _AuditEvents(Transactions):
    """Converts the package's events to the audit's."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[second_reader.ReadTable, Shape] = {}

    def take(self, each: second_reader.Read) -> Iterator[Event]:
        self._pos, self._end = each.pos, each.end
        if not self._is_open:
            self._ts_ms = each.seconds * 1000
        match each.what:
            case second_reader.Changed():
                return self._rows(each.what)
            case second_reader.Unread(database, table, why):
                shape = Shape(database, table, (), None)
                return iter((UnreadableRows(shape, self._pos, why),))
            case second_reader.QueryRead(sql, database):
                self._database = database or self._database
                return self._statement(sql.rstrip("\n"))
            case second_reader.Prepared(xid, one_phase):
                return self._xa(f"XA COMMIT {xid} ONE PHASE" if one_phase else f"XA PREPARE {xid}")
            case second_reader.Started(gtid):
                return iter((self._transaction(None if gtid is None else gtid.encode()),))
            case second_reader.Committed():
                return iter((self._ended(),))
            case second_reader.FileBegins(file):
                return iter((FileBegins(file),))
            case second_reader.Previous(gtids):
                return iter((Before(gtids),))

    def _rows(self, changed: second_reader.Changed) -> Iterator[Event]:
        table = changed.table
        shape = self._shapes.get(table)
        if shape is None:
            shape = self._shapes[table] = shape_of(table)
        for before, after in changed.rows:
            images = image_of(before, table.columns), image_of(after, table.columns)
            yield Row(changed.kind, shape, self._pos, *images)


# Tables and values of mysql-replication, in the form in which mysqlbinlog prints them.
#
# Invariant: one form for both witnesses, so that both use one comparison. Values that the package
# decodes differently from MySQL are UNTOLD, which is counted as not judged.


_PARTIAL = b"JSON_DIFF"
_BLOBS = {1: "TINY", 2: "", 3: "MEDIUM", 4: "LONG"}
_TYPES = {
    1: "TINYINT", 2: "SMALLINT", 3: "INT", 4: "FLOAT", 5: "DOUBLE", 8: "BIGINT", 9: "MEDIUMINT", 10: "DATE",
    13: "YEAR", 16: "BIT", 17: "TIMESTAMP", 18: "DATETIME", 19: "TIME", 245: "JSON", 246: "DECIMAL",
    247: "ENUM", 248: "SET", 255: "GEOMETRY",
}  # fmt: skip
"""MySQL's type numbers; types of servers before 5.6 are not included, and so are not judged."""


def shape_of(table: read.ReadTable) -> Shape:
    """The table's shape for the audit."""
    return Shape(table.database, table.table, tuple(map(_column, table.columns)), table.primary_key)


def _column(column: read.ReadColumn) -> BinlogColumn:
    is_sized = column.code in (16, 254)
    return BinlogColumn(
        column.name,
        _type(column),
        str(column.size) if is_sized else None,
        column.unsigned,
        column.charset,
        column.labels,
    )


def _type(column: read.ReadColumn) -> str:
    is_binary = column.charset == "binary"
    if column.code == 252:
        return _BLOBS.get(column.size, "") + ("BLOB" if is_binary else "TEXT")
    if column.code in (15, 253):
        return "VARBINARY" if is_binary else "VARCHAR"
    if column.code == 254:
        return "BINARY" if is_binary else "CHAR"
    return _TYPES.get(column.code, f"type {column.code}")


def image_of(image: read.Image, columns: tuple[read.ReadColumn, ...]) -> bytes:
    """Lines ``n=value``, as mysqlbinlog prints them."""
    return b"\n".join(
        b"%d=%s" % (number, printed(value, columns[number - 1])) for number, value in image.items()
    )


def printed(value: object, column: read.ReadColumn) -> bytes:
    """Return a value as mysqlbinlog prints it."""
    if value is None:
        return b"NULL"
    if value is read.PARTIAL:
        return _PARTIAL
    if value is read.UNKNOWN_VALUE:
        return UNTOLD
    found = _PRINTED.get(column.code, _plain)(value, column)
    return UNTOLD if found is None else found


def _plain(value: Any, _: read.ReadColumn) -> bytes | None:
    return str(value).encode()


def _float(value: Any, _: read.ReadColumn) -> bytes | None:
    return f"{value:g}".encode()


def _double(value: Any, _: read.ReadColumn) -> bytes | None:
    return repr(value).encode()


def _text(value: Any, _: read.ReadColumn) -> bytes | None:
    return _quoted(value)


def _bits(value: Any, _: read.ReadColumn) -> bytes | None:
    return b"b'%s'" % value.encode()


def _set(value: Any, _: read.ReadColumn) -> bytes | None:
    number = sum(1 << bit for bit in value.numbers)
    # As mysqlbinlog prints it: the bytes as they are stored, the least significant byte first.
    return b"b'%s'" % "".join(f"{byte:08b}" for byte in number.to_bytes(8, "little")).encode()


def _date(value: date, _: read.ReadColumn) -> bytes | None:
    return f"'{value.isoformat()}'".encode()


def _datetime(value: datetime, column: read.ReadColumn) -> bytes | None:
    text = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
    return f"'{text}{_fraction(value.microsecond, column.size)}'".encode()


def _timestamp(value: datetime, column: read.ReadColumn) -> bytes | None:
    return f"{timegm(value.timetuple())}{_fraction(value.microsecond, column.size)}".encode()


def _time(value: timedelta, column: read.ReadColumn) -> bytes | None:
    sign = "-" if value < timedelta() else ""
    if sign and value.microseconds:
        return None  # the package reads the fraction of a negative time as that of a positive time
    seconds = abs(value) // timedelta(seconds=1)
    clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"'{clock}{_fraction(value.microseconds, column.size)}'".encode()


def _fraction(microseconds: int, digits: int) -> str:
    return f".{microseconds:06}"[: digits + 1] if digits else ""


def _document(value: read.Document, _: read.ReadColumn) -> bytes | None:
    try:
        document = _json_value(value.value)
    except (UnicodeDecodeError, TypeError):
        return None
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return _quoted(text.encode())


def _json_value(value: object) -> Any:
    """Plain JSON; raise TypeError for an opaque value, whose form in the package is not MySQL's text."""
    match value:
        case bytes():
            return value.decode()
        case dict():
            return {key.decode(): _json_value(each) for key, each in value.items()}
        case list():
            return [_json_value(each) for each in value]
        case None | bool() | int() | float():
            return value
    raise TypeError(type(value).__name__)


def _quoted(content: bytes) -> bytes:
    # Line ends separate the values of an image, and quotation marks end a text.
    return b"'%s'" % content.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"'", b"\\'")


_PRINTED: dict[int, Callable[[Any, read.ReadColumn], bytes | None]] = {
    4: _float, 5: _double, 10: _date, 15: _text, 16: _bits, 17: _timestamp, 18: _datetime, 19: _time,
    245: _document, 248: _set, 252: _text, 253: _text, 254: _text,
}  # fmt: skip
