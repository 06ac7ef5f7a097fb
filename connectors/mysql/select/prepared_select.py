"""A SELECT by a prepared statement, whose rows are returned as the packets that the server sends.

The binary protocol spares the server a third of its work for a row: it need not format numbers and times as
text. Other processes decode the rows, so only their boundaries are determined here.

Invariant: whole rows are returned, in the server's order and without a gap, and no part of the result remains
on the connection.
Source: MySQL's manual of the protocol, COM_STMT_PREPARE and COM_STMT_EXECUTE, and sql/protocol_classic.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pymysql import MySQLError, OperationalError
from pymysql.constants import COMMAND, CR
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from connectors.mysql.select.packets import ROW

_AT_ONCE = 1 << 18
"""Size of a block of packets, and of a read from the connection, in bytes."""
_HEAD = 4
"""Three bytes of a packet's length, and its number."""
_LONGEST = 0xFF_FFFF
"""The next packet continues a packet of this length."""
_END, _LONGEST_END, _ERROR = 0xFE, 9, 0xFF
_PREPARED = struct.Struct("<IHH")
"""After the first byte: the statement's number, its number of columns, its number of parameters."""
_EXECUTE = struct.Struct("<IBI")
"""The statement's number, no cursor, one execution."""
Check = Callable[[list[int]], None]
"""Receives the types of a result's columns, and raises if they are not as expected."""


class Block(NamedTuple):
    """Packets of whole rows."""

    packets: bytes
    rows: int
    last_at: int
    """The offset of the last row."""


@dataclass(frozen=True, slots=True)
class SelectedPackets:
    """The rows of a SELECT."""

    blocks: tuple[bytes, ...]
    """Blocks of whole rows, in order. A row of several packets is a separate block, with a single head."""
    rows: int
    last: bytes
    """The packet of the last row; empty without rows."""
    is_cut: bool = False
    """Whether the result had more rows, which were read but not kept."""


class PreparedSelect:
    """Executes SELECTs on a connection of PyMySQL."""

    def __init__(self, connection: Any, prove: Callable[[bytes], None] | None = None) -> None:
        """``prove``: receives the packets of each block, and raises if a row must not be used."""
        self._connection, self._prove = connection, prove

    def packets(
        self, query: str, check: Check, *, most_bytes: int | None = None
    ) -> SelectedPackets:
        """Execute a SELECT and return its rows, as ``blocks`` yields them.

        ``most_bytes``: the size after which further blocks are not kept.
        """
        found, rows, size, last, is_cut = list[bytes](), 0, 0, b"", False
        for block in self.blocks(query, check):
            if most_bytes is not None and size >= most_bytes:
                is_cut = True
                continue
            found.append(block.packets)
            rows += block.rows
            size += len(block.packets)
            last = block.packets[block.last_at :]
        return SelectedPackets(tuple(found), rows, last, is_cut)

    def blocks(self, query: str, check: Check) -> Iterator[Block]:
        """Execute a SELECT and yield its rows while the server sends them.

        ``check`` receives the types of the columns before a row is yielded. Raise PyMySQL's errors, OSError,
        ValueError, and the errors of ``check`` and ``prove``. After an error other than PyMySQL's, or if the
        caller does not take all rows, the connection cannot be used again.
        """
        connection = self._connection
        connection._execute_command(COMMAND.COM_STMT_PREPARE, query)
        number, columns, _ = _PREPARED.unpack_from(self._packet().get_all_data(), 1)
        self._types(columns)
        try:
            connection._execute_command(COMMAND.COM_STMT_EXECUTE, _EXECUTE.pack(number, 0, 1))
            check(self._types(self._packet().read_length_encoded_integer()))
            for block in _Rows(connection._rfile).blocks():
                if self._prove is not None:
                    self._prove(block.packets)
                yield block
        except MySQLError:
            with suppress(MySQLError, OSError):
                self._close(number)
            raise
        self._close(number)

    def _close(self, number: int) -> None:
        self._connection._execute_command(COMMAND.COM_STMT_CLOSE, number.to_bytes(4, "little"))

    def _packet(self) -> Any:
        return self._connection._read_packet()

    def _types(self, count: int) -> list[int]:
        """Read the types of columns; a separate packet ends the columns' descriptions."""
        found = [self._connection._read_packet(FieldDescriptorPacket) for _ in range(count)]
        if count:
            self._packet()
        return [one.type_code for one in found]


class _Rows:
    """Divides the bytes from the connection into blocks of whole rows."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._data = bytearray()
        self._at = self._count = self._last_at = 0
        """The end of the whole rows found in ``_data``, their number, and the start of the last of them."""

    def blocks(self) -> Iterator[Block]:
        """Read up to the end of the result, and yield blocks as they arrive."""
        while True:
            self._pass_rows()
            is_at_end, is_at_long = self._is_at_end(), self._is_at_long_row()
            if self._at and (is_at_end or is_at_long or self._at >= _AT_ONCE):
                yield self._passed()
            if is_at_end:
                return
            if is_at_long:
                yield self._long_row()
            else:
                self._more()

    def _pass_rows(self) -> None:
        """Move past the whole rows that consist of one packet each."""
        data, at, count, last = self._data, self._at, self._count, self._last_at
        end = len(data)
        while at + _HEAD < end:
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            after = at + _HEAD + size
            if after > end or data[at + _HEAD] != ROW or size == _LONGEST:
                break
            last, at = at, after
            count += 1
        self._at, self._count, self._last_at = at, count, last

    def _passed(self) -> Block:
        """Remove and return the whole rows found so far."""
        with memoryview(self._data) as data:
            block = Block(bytes(data[: self._at]), self._count, self._last_at)
        self._forget()
        return block

    def _forget(self) -> None:
        del self._data[: self._at]
        self._at = self._count = self._last_at = 0

    def _is_at_end(self) -> bool:
        """Whether the next packet ends the rows; raise the error that the packet may contain."""
        data, begin = self._data, self._at + _HEAD
        if len(data) <= begin or data[begin] == ROW or len(data) < begin + self._next_size():
            return False
        body = bytes(data[begin : begin + self._next_size()])
        if body[0] == _END and len(body) < _LONGEST_END:
            if len(data) > begin + len(body):
                raise ValueError("bytes follow the end of the rows")
            return True
        if body[0] == _ERROR:
            MysqlPacket(body, "utf8").raise_for_error()
        raise ValueError(f"a packet of rows begins with {body[0]:#x}")

    def _is_at_long_row(self) -> bool:
        return len(self._data) > self._at + _HEAD and self._next_size() == _LONGEST

    def _next_size(self) -> int:
        return int.from_bytes(self._data[self._at : self._at + 3], "little")

    def _long_row(self) -> Block:
        """Read and return a row that consists of several packets."""
        parts = [bytes(self._data[:_HEAD])]
        size = _LONGEST
        while size == _LONGEST:
            while len(self._data) < (begin := self._at + _HEAD) or (
                len(self._data) < begin + self._next_size()
            ):
                self._more()
            size = self._next_size()
            parts.append(bytes(self._data[begin : begin + size]))
            self._at = begin + size
        self._forget()
        return Block(b"".join(parts), 1, 0)

    def _more(self) -> None:
        """Read more bytes from the connection."""
        found = self._file.read1(_AT_ONCE)
        if not found:
            raise OperationalError(
                CR.CR_SERVER_LOST, "Lost connection to MySQL server during query"
            )
        self._data += found
