"""A MySQL server's binlog as read by mysql-replication: an independent reader for the audit.

Invariant: values are the package's, not Aqueduct's. Anything that the package would silently skip ends
the reading with Unreadable: an unknown event, a gap between two events, a wrong checksum, a lost
connection, a table whose columns the binlog does not name. A value that the package cannot return as
the server has it is UNKNOWN_VALUE. Rows that the package cannot read are Unread; Aqueduct's reader can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication import event as package
from pymysqlreplication import row_event as package_rows
from pymysqlreplication.constants import FIELD_TYPE, NONE_SOURCE
from pymysqlreplication.json_binary import JsonDiff

from connectors.mysql.position import FIRST_EVENT
from connectors.mysql.server.connection import SourceAddress, connection_to
from connectors.mysql.stream.dump_command import UNREGISTERED_ID
from connectors.mysql.stream.second_packets import (
    EVENTS,
    ROWS,
    TABLE_MAP,
    Packet,
    PacketTap,
    foreign,
    labels_of,
    read_long_names,
    size_of,
    without_spare_bits,
)

_CRC32 = 1
_ANONYMOUS, _COMPRESSED, _INCIDENT, _TAGGED = 34, 40, 26, 42
_HARMLESS = frozenset({28, 36, 37, 41})
"""An ignorable event, two events of group replication, a heartbeat: they change no row."""
_KNOWN = {
    _COMPRESSED: "a compressed transaction (binlog_transaction_compression)",
    _INCIDENT: "an incident: the server reports that its binlog lacks changes",
    _TAGGED: "a transaction with a tagged GTID",
}
_CONNECTIONS = 2
"""The stream's connection, and a connection with which the package queries settings."""
_RAW = "iso8859-1"
"""Each byte is one character, so that no text is lost before its character set is known."""
_NUMBERS = range(1 << 16)
_BITS = range(64)
_INTERVALS = re.compile(r"([0-9a-f-]{36})-:\[([^]]*)\]")
_ESCAPED = re.compile(r"\\x[89a-f][0-9a-f]")


class Unreadable(Exception):
    """The package is unreliable, or cannot continue, from here."""


class UnknownValue(Enum):
    """A value that the package does not return exactly."""

    UNKNOWN_VALUE = "untold"
    PARTIAL = "partial"
    """A difference from the previous document."""


UNKNOWN_VALUE, PARTIAL = UnknownValue.UNKNOWN_VALUE, UnknownValue.PARTIAL


class Document(NamedTuple):
    """JSON; texts and names are bytes; values without a JSON type (a date, a decimal) have another type."""

    value: object


class Bits(NamedTuple):
    """The numbers of the bits that are set."""

    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of a table map."""

    name: str
    code: int
    """MySQL's number of the type."""
    size: int
    """Bytes, bits or digits of the fraction; for TEXT and BLOB the bytes of the length."""
    unsigned: bool
    charset: str | None
    labels: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table map."""

    database: str
    table: str
    columns: tuple[ReadColumn, ...]
    primary_key: tuple[str, ...] | None


class FileBegins(NamedTuple):
    """The start of a file."""

    file: str


class Previous(NamedTuple):
    """The GTIDs of all earlier files."""

    gtids: str


class Started(NamedTuple):
    """The start of a transaction; ``gtid`` is None if it has none."""

    gtid: str | None


class QueryRead(NamedTuple):
    """A QUERY event."""

    sql: str
    database: str


class Committed(NamedTuple):
    """An XID event."""


class Prepared(NamedTuple):
    """An XA PREPARE event, or with ``one_phase``, an XA COMMIT; ``xid`` has the form of XA statements."""

    xid: str
    one_phase: bool


Image = dict[int, object]
"""Values by column number, from 1; NULL is None, and columns missing from the image have no key."""


class Changed(NamedTuple):
    """A rows event: ``c``, ``u`` or ``d``."""

    kind: str
    table: ReadTable
    rows: Iterator[tuple[Image, Image]]


class Unread(NamedTuple):
    """A rows event that the package cannot read; its number of rows is unknown."""

    database: str
    table: str
    why: str


What = FileBegins | Previous | Started | QueryRead | Committed | Prepared | Changed | Unread


class Read(NamedTuple):
    """One event and its position."""

    pos: int
    end: int
    seconds: int
    """Time in the event's header."""
    what: What


CharsetOf = Callable[[int], str | None]
"""A collation's character set, by its number."""


def read(address: SourceAddress, file: str, charset_of: CharsetOf) -> Generator[Read]:
    """Yield all events from a file's start to the binlog's end; closing the generator ends the connections."""
    read_long_names()
    stream = BinLogStreamReader(
        connection_settings={"charset": "utf8mb4"},
        server_id=UNREGISTERED_ID,
        blocking=False,
        resume_stream=True,
        log_file=file,
        log_pos=FIRST_EVENT,
        only_events=EVENTS,
        filter_non_implemented_events=False,
        verify_checksum=True,
        enable_logging=False,
        pymysql_wrapper=_Connections(address, packets := PacketTap()).connect,
    )
    try:
        yield from _Reading(charset_of, packets).all(stream.fetchone)
    finally:
        with suppress(pymysql.MySQLError, OSError):
            stream.close()


class _Connections:
    """Makes the connections of one reading; refuses more, with which the package would silently restart."""

    def __init__(self, address: SourceAddress, packets: PacketTap) -> None:
        self._address = address
        self._packets = packets
        self._made = 0

    def connect(self, **settings: Any) -> Any:
        self._made += 1
        if self._made > _CONNECTIONS:
            raise Unreadable("the connection was lost")
        connection = connection_to(self._address)
        if "cursorclass" in settings:
            connection.cursorclass = settings["cursorclass"]
        else:
            self._packets.listen(connection)
        return connection


class _Reading:
    def __init__(self, charset_of: CharsetOf, packets: PacketTap) -> None:
        self._charset_of = charset_of
        self._packets = packets
        self._file = ""
        self._end = FIRST_EVENT
        self._tables: dict[int, ReadTable] = {}
        self._unread: dict[int, Unread] = {}
        """Tables that the package cannot read."""

    def position(self) -> str:
        return f"{self._file}:{self._end}"

    def all(self, fetch: Callable[[], Any]) -> Iterator[Read]:
        """Yield all events; any exception of the package becomes Unreadable, except at rows and tables."""
        while True:
            self._packets.taken()
            try:
                event = fetch()
            except Unreadable as error:
                raise Unreadable(f"{error} at {self.position()}") from error
            except Exception as error:
                yield from self._failed(error, self._packets.taken())
                continue
            if event is None:
                return
            for packet in self._packets.taken()[:-1]:  # rows of tables the package did not read
                yield from self._rows_unread(packet)
            yield from self.take(event)

    def _failed(self, error: Exception, packets: list[Packet]) -> Iterator[Read]:
        """Handle an exception of the package at the last of these packets."""
        for packet in packets[:-1]:
            yield from self._rows_unread(packet)
        last = packets[-1] if packets else None
        why = f"{type(error).__name__}: {error}"
        if last is not None and last.pos == self._end and last.is_whole:
            if last.code == TABLE_MAP:
                types = last.foreign_types()
                self._unread[last.table_id] = Unread(*last.table(), types or why)
                self._end = last.end
                return
            if last.code in ROWS and (unread := self._unread_by(last.table_id, why)):
                self._end = last.end
                yield Read(last.pos, last.end, last.seconds, unread)
                return
        raise Unreadable(f"it fails at {self.position()}: {why}") from error

    def _unread_by(self, table_id: int, why: str) -> Unread | None:
        table = self._tables.get(table_id)
        own = None if table is None else Unread(table.database, table.table, why)
        return self._unread.get(table_id, own)

    def _rows_unread(self, packet: Packet) -> Iterator[Read]:
        unread = self._unread.get(packet.table_id) if packet.code in ROWS else None
        if unread is not None and packet.pos == self._end and packet.is_whole:
            self._end = packet.end
            yield Read(packet.pos, packet.end, packet.seconds, unread)

    def take(self, event: Any) -> Iterator[Read]:
        packet = event.packet
        if event._is_event_valid is False:
            raise Unreadable(f"the event at {self.position()} has a wrong checksum")
        if isinstance(event, package.RotateEvent) and packet.log_pos == 0:
            self._file, self._end = event.next_binlog, FIRST_EVENT
            self._tables, self._unread = {}, {}
            yield Read(0, FIRST_EVENT, 0, FileBegins(self._file))
            return
        if packet.log_pos == 0 or isinstance(event, package.HeartbeatLogEvent):
            return
        pos = packet.log_pos - packet.event_size
        if pos != self._end:
            raise Unreadable(f"it skips what is between {self.position()} and {pos}")
        what = self._what(event)
        if what is not None:
            yield Read(pos, packet.log_pos, packet.timestamp, what)
        self._end = packet.log_pos

    def _what(self, event: Any) -> What | None:
        match event:
            case package_rows.TableMapEvent():
                self._describe(event)
            case package_rows.RowsEvent():
                return self._changed(event)
            case package.GtidEvent():
                return Started(event.gtid)
            case package.QueryEvent():
                # Bytes that are not UTF-8 come escaped, like text that looks escaped.
                sql = _ESCAPED.sub("\ufffd", event.query)
                return QueryRead(sql, event.schema.decode("utf-8", "replace"))
            case package.XidEvent():
                return Committed()
            case package.XAPrepareEvent():
                xid = f"X'{event.xid_gtrid.hex()}',X'{event.xid_bqual.hex()}',{event.xid_format_id}"
                return Prepared(xid, event.one_phase)
            case package.PreviousGtidsEvent():
                return Previous(_gtids(event._gtids))
            case package.FormatDescriptionEvent():
                if event.checksum_algorithm != _CRC32:
                    raise Unreadable(f"{self._file} has no checksums (binlog_checksum)")
            case package.NotImplementedEvent():
                return self._unknown(event.packet.event_type)
        return None

    def _unknown(self, code: int) -> Started | None:
        if code == _ANONYMOUS:
            return Started(None)
        if code not in _HARMLESS:
            what = _KNOWN.get(code, f"an event of type {code}")
            raise Unreadable(f"it does not read the event at {self.position()}: {what}")
        return None

    def _describe(self, event: Any) -> None:
        types = foreign(bytes(column.type for column in event.columns))
        if types:
            # Fields after such a column in the description are read from a wrong offset.
            self._unread[event.table_id] = Unread(event.schema, event.table, types)
        else:
            self._unread.pop(event.table_id, None)
            self._tables[event.table_id] = self._table(event)

    def _table(self, event: Any) -> ReadTable:
        reported = event.optional_metadata
        charsets = iter(reported.charset_collation_list or ())
        label_charsets = iter(reported.enum_and_set_collation_list or ())
        labels = {
            FIELD_TYPE.ENUM: iter(reported.set_enum_str_value_list or ()),
            FIELD_TYPE.SET: iter(reported.set_str_value_list or ()),
        }
        columns = []
        for column in event.columns:
            charset, own = None, None
            if column.type in labels:
                charset = self._charset(next(label_charsets, None))
                own = labels_of(next(labels[column.type], None), charset)
                # With these in place of labels, the package returns the stored numbers.
                column.enum_values, column.set_values = _NUMBERS, _BITS
            elif event._is_character_column(column.type):
                charset = self._charset(next(charsets, None))
                column.character_set_name = _RAW
            name = column.name or ""
            columns.append(
                ReadColumn(name, column.type, size_of(column), column.unsigned, charset, own)
            )
        indexes = reported.simple_primary_key_list or list(reported.primary_keys_with_prefix)
        key = tuple(columns[position].name for position in indexes) or None
        return ReadTable(event.schema, event.table, tuple(columns), key)

    def _charset(self, collation: int | None) -> str | None:
        return None if collation is None else self._charset_of(collation)

    def _changed(self, event: Any) -> Changed | Unread:
        if event.table_id in self._unread:
            return self._unread[event.table_id]
        table = self._tables[event.table_id]
        if not all(column.name for column in table.columns):
            raise Unreadable(
                f"the binlog at {self.position()} does not name the columns of {table.database}.{table.table}"
                " (binlog_row_metadata)"
            )
        event.packet.read_binary_json = partial(_document, event.packet.read_binary_json)
        kind = (
            "c"
            if isinstance(event, package_rows.WriteRowsEvent)
            else "d"
            if isinstance(event, package_rows.DeleteRowsEvent)
            else "u"
        )
        without_spare_bits(event, len(table.columns))
        try:
            rows = event.rows
        except Exception as error:
            return Unread(table.database, table.table, f"{type(error).__name__}: {error}")
        return Changed(kind, table, (_images(kind, table, row) for row in rows))


def _images(kind: str, table: ReadTable, row: dict[str, Any]) -> tuple[Image, Image]:
    if kind == "u":
        return (
            _image(table, row["before_values"], row["before_none_sources"]),
            _image(table, row["after_values"], row["after_none_sources"]),
        )
    image = _image(table, row["values"], row["none_sources"])
    return ({}, image) if kind == "c" else (image, {})


def _image(table: ReadTable, values: dict[str, Any], why: dict[str, str]) -> Image:
    found: Image = {}
    for number, column in enumerate(table.columns, 1):
        value, reason = values[column.name], why.get(column.name)
        if value is None and reason == NONE_SOURCE.COLS_BITMAP:
            continue
        if column.code == FIELD_TYPE.SET and (value is not None or reason == NONE_SOURCE.EMPTY_SET):
            value = Bits(frozenset(value or ()))
        elif value is None and reason != NONE_SOURCE.NULL:
            value = UNKNOWN_VALUE
        elif isinstance(value, str) and column.code != FIELD_TYPE.BIT:
            value = value.encode(_RAW)
        found[number] = value
    return found


def _document(call: Callable[[int, bool], Any], size: int, is_partial: bool) -> object:
    """Distinguish JSON's null from the table's NULL, which the package returns alike."""
    try:
        value = call(size, is_partial)
    except Exception:
        # The bytes are read by then; the value has a date or time that Python cannot represent.
        value = UNKNOWN_VALUE
    if value is UNKNOWN_VALUE and not is_partial:
        return UNKNOWN_VALUE
    return PARTIAL if is_partial or isinstance(value, JsonDiff) else Document(value)


def _gtids(reported: list[str]) -> str:
    """Return GTIDs as text; the package prints each server's intervals as read, with ends one too high."""
    found = []
    for each in reported:
        parts = _INTERVALS.fullmatch(each)
        if parts is None:
            raise Unreadable(f"it does not read the GTIDs before a file: {each}")
        pairs = [pair.strip(" '").split("-") for pair in parts[2].split(",")]
        found.append(":".join([parts[1], *(f"{one}-{int(end) - 1}" for one, end in pairs)]))
    return ",".join(found)
