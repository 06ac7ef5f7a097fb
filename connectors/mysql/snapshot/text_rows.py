"""Rows of a SELECT in the text protocol, split by a function generated for the number of columns.

PyMySQL's cursor makes an object of each packet and calls a method for each value, which takes longer than all
else that is done to a row here.

Invariant: the rows are those that a cursor returns with ``use_unicode=False`` and ``conv={}``, and nothing of
the result is left on the connection.
Source: MySQL's sql/protocol_classic.cc, Protocol_text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pymysql import OperationalError
from pymysql.constants import CR
from pymysql.protocol import MysqlPacket

from connectors.mysql.rows.compiled.compile import function_of
from connectors.mysql.snapshot.encoders.generate import Row

_AT_ONCE = 1 << 18
"""Bytes to ask the connection for."""
_HEAD = 4
"""Three bytes of a packet's length, and its number."""
_LONGEST = 0xFF_FFFF
"""A packet of this length is continued in the next one."""
_NULL, _LONGEST_END, _END, _ERROR = 0xFB, 9, 0xFE, 0xFF
_SIZES = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""Bytes of a length by its first byte, from 251 bytes on."""

Splitter = Callable[[bytes, int, list[Row]], int]
"""Adds the rows of the packets from an offset on; returns that of the first packet which it does not know."""


def selected_rows(connection: Any, query: str) -> list[Row]:
    """Execute a SELECT and return its rows; the connection is PyMySQL's.

    Raises PyMySQL's errors, OSError, and ValueError; after the last two it cannot be used again.
    """
    connection.query(query, unbuffered=True)
    result = connection._result
    try:
        return _rows(_Packets(connection._rfile), result.field_count)
    finally:
        # PyMySQL would otherwise read on to the end.
        result.unbuffered_active, result.connection = False, None


def _rows(packets: _Packets, columns: int) -> list[Row]:
    rows: list[Row] = []
    split = _splitter(columns)
    while True:
        packets.at = split(packets.data, packets.at, rows)
        if not packets.has_whole():
            packets.more()
            continue
        body = packets.body()
        if body[0] == _END and len(body) < _LONGEST_END:
            return rows
        if body[0] == _ERROR:
            MysqlPacket(body, "utf8").raise_for_error()
        rows.append(_row(body, columns))


class _Packets:
    """The bytes of packets, as the connection sends them."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.data, self.at = b"", 0

    def has_whole(self) -> bool:
        """Whether all of the next packet is there."""
        return len(self.data) - self.at >= _HEAD and self.at + _HEAD + self._size() <= len(
            self.data
        )

    def more(self) -> None:
        """Read what the connection has, or all of the next packet if that is larger."""
        rest = self.data[self.at :]
        self.data, self.at = rest, 0
        if len(rest) >= _HEAD and (missing := _HEAD + self._size() - len(rest)) > _AT_ONCE:
            found = self._file.read(missing)
            if len(found) < missing:
                found = b""
        else:
            found = self._file.read1(_AT_ONCE)
        if not found:
            raise OperationalError(
                CR.CR_SERVER_LOST, "Lost connection to MySQL server during query"
            )
        self.data = rest + found

    def body(self) -> bytes:
        """Take the next packet, with those that continue it."""
        parts = []
        while True:
            while not self.has_whole():
                self.more()
            size, begin = self._size(), self.at + _HEAD
            parts.append(self.data[begin : begin + size])
            self.at = begin + size
            if size < _LONGEST:
                return b"".join(parts)

    def _size(self) -> int:
        return int.from_bytes(self.data[self.at : self.at + 3], "little")


def _row(body: bytes, columns: int) -> Row:
    """The row of a packet, whatever the lengths of its values."""
    values: list[bytes | None] = []
    at = 0
    for _ in range(columns):
        first = body[at]
        at += 1
        if first == _NULL:
            values.append(None)
            continue
        size = first
        if first in _SIZES:
            size = int.from_bytes(body[at : at + _SIZES[first]], "little")
            at += _SIZES[first]
        values.append(body[at : at + size])
        at += size
    if at != len(body):
        raise ValueError(f"a row has {len(body)} bytes, of which {at} are of its {columns} values")
    return tuple(values)


@lru_cache(maxsize=256)
def _splitter(columns: int) -> Splitter:
    """The function for rows of whole packets with values below 64 KiB; it stops at any other packet.

    The packets of an error and of the end begin with a byte that is no length of such a value.
    """
    value = (
        "        n = data[i]",
        "        if n < 251:",
        "            i += 1",
        "            v{0} = data[i : (i := i + n)]",
        "        elif n == 251:",
        "            v{0} = None",
        "            i += 1",
        "        elif n == 252:",
        "            i += 3",
        "            v{0} = data[i : (i := i + (data[i - 2] | data[i - 1] << 8))]",
        "        else:",
        "            return at",
    )
    lines = [
        "def made(data, at, rows):",
        "    add, end = rows.append, len(data) - 4",
        "    while at <= end:",
        "        i = at + 4",
        "        stop = i + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)",
        "        if stop > end + 4 or stop - i == 16777215:",
        "            return at",
        *(line.format(number) for number in range(columns) for line in value),
        "        if i != stop:",
        "            return at",
        f"        add(({''.join(f'v{number}, ' for number in range(columns))}))",
        "        at = stop",
        "    return at",
    ]
    made: Splitter = function_of("\n".join(lines), {})
    return made
