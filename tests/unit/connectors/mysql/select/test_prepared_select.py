"""Packets of rows are cut into blocks of whole rows, however they arrive."""

from __future__ import annotations

import io
import random
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql import OperationalError, ProgrammingError
from pymysql.connections import Connection
from pymysql.constants import COMMAND

from connectors.mysql.select.packets import PacketValues
from connectors.mysql.select.prepared_select import PreparedSelect, SelectedPackets
from connectors.mysql.types.registry import FieldType, MappedColumn
from tests.unit.connectors.mysql.select.packets import body_of

END = b"\xfe\0\0\2\0"
ERROR = b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist"
PREPARED = b"\0\7\0\0\0\2\0\0\0\0\0\0"
"""The answer to PREPARE: statement 7, two columns, no parameters."""
DESCRIBED = [
    b"\3def\0\0\0" + bytes([1]) + name + b"\0\x0c\x3f\0\x14\0\0\0" + bytes([kind]) + b"\0\0\0\0\0"
    for name, kind in ((b"a", 3), (b"b", 253))
]
COLUMNS = [
    MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name="a", unsigned=False),
    MappedColumn(type=FieldType.VARCHAR, metadata=300, nullable=True, name="b"),
]
LONGEST = 0xFF_FFFF
Row = tuple[bytes | None, ...]


class Pieces(io.RawIOBase):
    """A connection that gives so many bytes at a time."""

    def __init__(self, data: bytes, sizes: random.Random) -> None:
        self._data, self._at, self._sizes = data, 0, sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self._sizes.choice((1, 3, 100, 8192, 400_000)), len(buffer))
        found = self._data[self._at : self._at + size]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def packets(*bodies: bytes, number: int = 1) -> bytes:
    """The bodies as the server sends them, those of 16 MiB and more in several packets."""
    found = []
    for body in bodies:
        for at in range(0, len(body) + 1, LONGEST):
            part = body[at : at + LONGEST]
            found.append(len(part).to_bytes(3, "little") + bytes([number % 256]) + part)
            number += 1
    return b"".join(found)


def server(*bodies: bytes, seed: int | None = None) -> tuple[Any, list[Any]]:
    """A connection to a server that answers with these packets of rows, and the commands that it gets."""
    described = packets(*DESCRIBED, END, number=2)
    rows = packets(b"\2", *DESCRIBED, END, *bodies)
    data = packets(PREPARED) + described + rows
    connection = Connection(defer_connect=True, use_unicode=False)
    raw = io.BytesIO(data) if seed is None else Pieces(data, random.Random(seed))
    connection._rfile = io.BufferedReader(raw)
    connection._sock = SimpleNamespace(settimeout=lambda _: None, close=lambda: None)
    connection._current_timeout = connection._read_timeout = None
    commands: list[Any] = []

    def execute(command: int, argument: Any) -> None:
        commands.append((command, argument))
        connection._next_seq_id = 1

    connection._execute_command = execute
    return connection, commands


def read(*bodies: bytes, seed: int | None = None, most: int | None = None) -> SelectedPackets:
    connection, commands = server(*bodies, seed=seed)
    types: list[int] = []
    found = PreparedSelect(connection).packets("SELECT a, b", types.extend, most_bytes=most)
    assert types == [3, 253]
    assert connection._rfile.read() == b"", "nothing is left for the next statement"
    assert commands == [
        (COMMAND.COM_STMT_PREPARE, "SELECT a, b"),
        (COMMAND.COM_STMT_EXECUTE, b"\7\0\0\0\0\1\0\0\0"),
        (COMMAND.COM_STMT_CLOSE, b"\7\0\0\0"),
    ]
    return found


def texts(*blocks: bytes) -> list[Row]:
    rows = (row for block in blocks for row in PacketValues(COLUMNS).rows(block))
    return [(b"%d" % int.from_bytes(number or b"", "little"), text) for number, text in rows]


def body(row: Row) -> bytes:
    return body_of(COLUMNS, row)


def rows_at_random(rng: random.Random) -> list[Row]:
    sizes = (0, 1, 250, 251, 252, 255, 256, 65_535, 65_536, 70_000, 300_000)

    def value(number: int) -> Row:
        size = rng.choice(sizes) if rng.random() < 0.1 else rng.randrange(30)
        return b"%d" % number, None if rng.random() < 0.2 else rng.randbytes(size)

    return [value(number) for number in range(300)]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_same_however_they_arrive(seed: int) -> None:
    rows = rows_at_random(random.Random(seed))
    found = read(*map(body, rows), END, seed=seed)
    assert (found.rows, found.is_cut) == (len(rows), False)
    assert texts(*found.blocks) == rows
    assert texts(found.last) == rows[-1:]


def test_without_rows_there_is_only_the_end() -> None:
    assert read(END) == SelectedPackets(blocks=(), rows=0, last=b"")


@pytest.mark.parametrize("size", [LONGEST - 12, LONGEST - 11, LONGEST - 10, 1 << 24, 3 << 24])
def test_a_row_of_many_megabytes_comes_in_several_packets(size: int) -> None:
    rows: list[Row] = [(b"1", b"a"), (b"2", b"x" * size), (b"3", None)]
    found = read(*map(body, rows), END)
    assert found.rows == 3
    assert texts(*found.blocks) == rows
    assert texts(found.last) == rows[-1:]
    whole = read(body(rows[1]), END)
    assert texts(whole.last) == rows[1:2]


@pytest.mark.parametrize("most", [1, 400_000, 900_000])
def test_what_is_past_the_most_bytes_is_not_kept(most: int) -> None:
    rows: list[Row] = [(b"%d" % number, b"v" * 1000) for number in range(2_000)]
    found = read(*map(body, rows), END, most=most)
    kept = sum(map(len, found.blocks))
    assert most <= kept < most + 2 * (1 << 18)
    assert (found.is_cut, found.rows) == (True, kept // len(packets(body(rows[5]))))
    assert texts(*found.blocks) == rows[: found.rows]
    assert texts(found.last) == rows[found.rows - 1 : found.rows]


def test_all_of_a_small_result_is_kept() -> None:
    found = read(body((b"1", b"x")), END, most=1)
    assert (found.rows, found.is_cut) == (1, False)


@pytest.mark.parametrize("bodies", [(ERROR,), (body((b"1", b"x")), ERROR)])
def test_an_error_among_the_rows_is_that_of_the_server(bodies: tuple[bytes, ...]) -> None:
    connection, commands = server(*bodies)
    with pytest.raises(ProgrammingError, match="1146"):
        PreparedSelect(connection).packets("SELECT a, b", lambda _: None)
    assert connection._rfile.read() == b""
    assert commands[-1] == (COMMAND.COM_STMT_CLOSE, b"\7\0\0\0"), "the statement is not left open"


@pytest.mark.parametrize("left", [1, 3, 4, 5, 100, 400_000])
def test_a_connection_that_ends_among_the_rows_is_lost(left: int) -> None:
    connection, _ = server(body((b"1", b"x")), body((b"2", b"y" * 500_000)), END)
    data = connection._rfile.read()
    end = len(data) - len(packets(body((b"2", b"y" * 500_000)), END))
    connection._rfile = io.BufferedReader(io.BytesIO(data[: end + left]))
    with pytest.raises(OperationalError, match="Lost connection"):
        PreparedSelect(connection).packets("SELECT a, b", lambda _: None)


def test_a_packet_that_is_no_row_is_an_error() -> None:
    connection, _ = server(b"\1\0\0", END)
    with pytest.raises(ValueError, match="a packet of rows begins with 0x1"):
        PreparedSelect(connection).packets("SELECT a, b", lambda _: None)


def test_a_row_with_other_bytes_than_its_columns_have_is_an_error() -> None:
    whole = packets(body((b"1", b"abc")) + b"z")
    with pytest.raises(ValueError, match="a row has 11 bytes, of which 10 are its values"):
        texts(whole)
