"""The packets passed to mysql-replication, to identify the table at which the package fails.

Invariant: only a table map and the table's rows are skipped, by name and counted, and only if their
checksum is right. Anything else that the package cannot read ends the reading.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from pymysqlreplication import event as package
from pymysqlreplication import row_event as package_rows
from pymysqlreplication.constants import FIELD_TYPE as _TYPE
from pymysqlreplication.packet import BinLogPacketWrapper

TABLE_MAP = 19
ROWS = frozenset({23, 24, 25, 30, 31, 32, 39})
_HEADER = struct.Struct("<cIBIIIH")
_CHECKSUM = 4
_LONG = 252
"""From this value on, a number's first byte states how many bytes follow."""
_READ = frozenset(
    {
        _TYPE.TINY, _TYPE.SHORT, _TYPE.LONG, _TYPE.FLOAT, _TYPE.DOUBLE, _TYPE.TIMESTAMP, _TYPE.LONGLONG,
        _TYPE.INT24, _TYPE.DATE, _TYPE.TIME, _TYPE.DATETIME, _TYPE.YEAR, _TYPE.VARCHAR, _TYPE.BIT,
        _TYPE.TIMESTAMP2, _TYPE.DATETIME2, _TYPE.TIME2, _TYPE.JSON, _TYPE.NEWDECIMAL, _TYPE.ENUM, _TYPE.SET,
        _TYPE.BLOB, _TYPE.STRING, _TYPE.GEOMETRY,
    }
)  # fmt: skip
"""Types whose values the package reads."""
_NAMES = {242: "VECTOR"}


def read_long_names() -> None:
    """Patch how the package reads names of columns and labels of 128 bytes and more.

    The package reads 7 bits of each byte of the length; MySQL writes this length like all other lengths.
    """
    BinLogPacketWrapper.read_variable_length_string = _name_of


def _name_of(packet: Any) -> Any:
    return packet.read(packet.read_length_coded_binary())


@dataclass(frozen=True, slots=True)
class Packet:
    """An event as received, with its header and checksum."""

    code: int
    end: int
    seconds: int
    raw: bytes
    """The event without the packet's first byte."""

    @property
    def pos(self) -> int:
        """The offset at which the event begins."""
        return self.end - len(self.raw)

    @property
    def is_whole(self) -> bool:
        """Whether its checksum is right."""
        (found,) = struct.unpack("<I", self.raw[-_CHECKSUM:])
        return bool(zlib.crc32(self.raw[:-_CHECKSUM]) == found)

    @property
    def table_id(self) -> int:
        """The table id of a table map or a rows event."""
        return int.from_bytes(self.raw[19:25], "little")

    def table(self) -> tuple[str, str]:
        """Return the database and table of a table map."""
        database, at = self._name(27)
        table, _ = self._name(at)
        return database, table

    def foreign_types(self) -> str:
        """Return the result of ``foreign`` for the columns of a table map."""
        at = self._name(self._name(27)[1])[1]
        size = self.raw[at]
        more = {_LONG: 2, _LONG + 1: 3}.get(size, 0)
        count = int.from_bytes(self.raw[at + 1 : at + 1 + more], "little") if more else size
        codes = self.raw[at + 1 + more : at + 1 + more + count]
        return foreign(codes)

    def _name(self, at: int) -> tuple[str, int]:
        end = at + 1 + self.raw[at]
        return self.raw[at + 1 : end].decode("utf-8", "replace"), end + 1


def foreign(codes: bytes) -> str:
    """Return which column types the package cannot read; empty if it can read all."""
    found = sorted({code for code in codes if code not in _READ})
    names = ", ".join(_NAMES.get(code, f"number {code}") for code in found)
    return names and f"a column of type {names}"


class PacketTap:
    """Keeps the packets of a connection until they are taken."""

    def __init__(self) -> None:
        self._packets: list[Packet] = []

    def listen(self, connection: Any) -> None:
        """Keep the packets of this connection from now on."""
        read = connection._read_packet

        def kept(*words: Any, **named: Any) -> Any:
            packet = read(*words, **named)
            self._keep(packet.get_all_data())
            return packet

        connection._read_packet = kept

    def taken(self) -> list[Packet]:
        """Return the packets of events that were received since the last call."""
        found, self._packets = self._packets, []
        return found

    def _keep(self, data: bytes) -> None:
        if len(data) < _HEADER.size + _CHECKSUM or data[0] != 0:
            return
        _, seconds, code, _, _, end, _ = _HEADER.unpack_from(data)
        self._packets.append(Packet(code, end, seconds, data[1:]))


def without_spare_bits(event: Any, columns: int) -> None:
    """Clear unused bits, which MySQL may set: the package counts all bits that are set in its bitmaps."""
    for name in ("columns_present_bitmap", "columns_present_bitmap2"):
        bits = getattr(event, name, None)
        if bits is not None:
            number = int.from_bytes(bits, "little") & ((1 << columns) - 1)
            setattr(event, name, number.to_bytes(len(bits), "little"))


def labels_of(labels: list[str] | None, charset: str | None) -> tuple[str, ...] | None:
    """Return the labels that the package has read; None if they may be wrong.

    The package reads labels as UTF-8 in every character set, and as empty if they are invalid.
    """
    if labels is None or charset is None:
        return None
    if charset in ("utf8mb4", "utf8mb3", "utf8"):
        return tuple(labels)
    plain = charset not in ("ucs2", "utf16", "utf16le", "utf32", "swe7")
    return tuple(labels) if plain and all(each and each.isascii() for each in labels) else None


def size_of(column: Any) -> int:
    """Return the size of a column of the package: in bytes, bits or digits, depending on its type."""
    for name in ("max_length", "bits", "fsp", "length_size"):
        if hasattr(column, name):
            return int(getattr(column, name))
    return 0


EVENTS = (
    package.QueryEvent,
    package.RotateEvent,
    package.StopEvent,
    package.FormatDescriptionEvent,
    package.XAPrepareEvent,
    package.XidEvent,
    package.GtidEvent,
    package.PreviousGtidsEvent,
    package.BeginLoadQueryEvent,
    package.ExecuteLoadQueryEvent,
    package.HeartbeatLogEvent,
    package.NotImplementedEvent,
    package.RowsQueryLogEvent,
    package.IntvarEvent,
    package.RandEvent,
    package.UserVarEvent,
    package_rows.TableMapEvent,
    package_rows.WriteRowsEvent,
    package_rows.UpdateRowsEvent,
    package_rows.DeleteRowsEvent,
    package_rows.PartialUpdateRowsEvent,
)
"""The events requested from the package: all that it knows."""
