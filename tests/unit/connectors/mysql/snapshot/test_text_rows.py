"""Rows of the text protocol, split as PyMySQL's cursor splits them, however the packets arrive."""

from __future__ import annotations

import io
import random
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql import OperationalError, ProgrammingError

from connectors.mysql.snapshot.text_rows import selected_rows

END = b"\xfe\0\0\2\0"
ERROR = b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist"
Row = tuple[bytes | None, ...]


class Pieces(io.RawIOBase):
    """A connection that gives so many bytes at a time."""

    def __init__(self, data: bytes, sizes: random.Random) -> None:
        self._data, self._at, self._sizes = data, 0, sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self._sizes.choice((1, 3, 100, 8192)), len(buffer))
        found = self._data[self._at : self._at + size]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def length(size: int) -> bytes:
    if size < 251:
        return bytes([size])
    for first, count in ((0xFC, 2), (0xFD, 3)):
        if size < 1 << 8 * count:
            return bytes([first]) + size.to_bytes(count, "little")
    return b"\xfe" + size.to_bytes(8, "little")


def packets(*bodies: bytes) -> bytes:
    """The bodies as the server sends them, those of 16 MiB and more in several packets."""
    found, number = [], 0
    for body in bodies:
        for at in range(0, len(body) + 1, 0xFF_FFFF):
            part = body[at : at + 0xFF_FFFF]
            found.append(len(part).to_bytes(3, "little") + bytes([number % 256]) + part)
            number += 1
    return b"".join(found)


def body_of(row: Row) -> bytes:
    return b"".join(b"\xfb" if one is None else length(len(one)) + one for one in row)


def read(columns: int, data: bytes, *, seed: int = 1) -> tuple[list[Any], Any]:
    result = SimpleNamespace(field_count=columns, unbuffered_active=True, connection=1)
    file = io.BufferedReader(Pieces(data, random.Random(seed)))
    queries: list[tuple[str, bool]] = []
    connection = SimpleNamespace(
        query=lambda text, unbuffered: queries.append((text, unbuffered)),
        _result=result,
        _rfile=file,
    )
    rows = selected_rows(connection, "SELECT")
    assert queries == [("SELECT", True)]
    assert file.read() == b"", "nothing is left for the next statement"
    return rows, result


def rows_at_random(rng: random.Random, columns: int) -> list[Row]:
    sizes = (0, 1, 4, 9, 250, 251, 252, 255, 256, 65_535, 65_536, 70_000)
    few = (0, 1, 4, 9, 30)

    def value() -> bytes | None:
        if rng.random() < 0.2:
            return None
        return rng.randbytes(rng.choice(sizes if rng.random() < 0.05 else few))

    return [tuple(value() for _ in range(columns)) for _ in range(60)]


@pytest.mark.parametrize("columns", [1, 2, 3, 12, 300])
def test_rows_are_the_same_however_they_arrive(columns: int) -> None:
    rng = random.Random(columns)
    for seed in range(3):
        rows = rows_at_random(rng, columns)
        found, result = read(columns, packets(*map(body_of, rows), END), seed=seed)
        assert found == rows
        assert (result.unbuffered_active, result.connection) == (False, None)


def test_without_rows_there_is_only_the_end() -> None:
    assert read(3, packets(END))[0] == []


@pytest.mark.parametrize("size", [0xFF_FFFF - 4, 0xFF_FFFF - 5, 0xFF_FFFF - 3, 1 << 24, 3 << 24])
def test_a_value_of_many_megabytes_comes_in_several_packets(size: int) -> None:
    rows: list[Row] = [(b"x" * size, b"1"), (None, b"2")]
    data = packets(*map(body_of, rows), END)
    result = SimpleNamespace(field_count=2, unbuffered_active=True, connection=1)
    connection = SimpleNamespace(
        query=lambda *_, **__: None, _result=result, _rfile=io.BufferedReader(io.BytesIO(data))
    )
    assert selected_rows(connection, "SELECT") == rows


def test_a_row_that_fills_its_packet_is_followed_by_an_empty_one() -> None:
    values = [b"z" * 55_921] * 299
    rows: list[Row] = [(*values, b"z" * 55_936), (*values, None)]
    data = packets(*map(body_of, rows), END)
    assert len(body_of(rows[0])) == 0xFF_FFFF
    result = SimpleNamespace(field_count=300, unbuffered_active=True, connection=1)
    connection = SimpleNamespace(
        query=lambda *_, **__: None, _result=result, _rfile=io.BufferedReader(io.BytesIO(data))
    )
    assert selected_rows(connection, "SELECT") == rows


def test_an_error_among_the_rows_is_that_of_the_server() -> None:
    result = SimpleNamespace(field_count=1, unbuffered_active=True, connection=1)
    file = io.BufferedReader(io.BytesIO(packets(b"\x011", ERROR)))
    connection = SimpleNamespace(query=lambda *_, **__: None, _result=result, _rfile=file)
    with pytest.raises(ProgrammingError, match="1146"):
        selected_rows(connection, "SELECT")
    assert not result.unbuffered_active, "there is nothing left to read"


@pytest.mark.parametrize("left", [0, 3, 4, 5, 100, 400_000])
def test_a_connection_that_ends_among_the_rows_is_lost(left: int) -> None:
    data = packets(b"\x011", body_of((b"y" * 500_000,)), END)[: 6 + left]
    file = io.BufferedReader(io.BytesIO(data))
    result = SimpleNamespace(field_count=1, unbuffered_active=True, connection=1)
    connection = SimpleNamespace(query=lambda *_, **__: None, _result=result, _rfile=file)
    with pytest.raises(OperationalError, match="Lost connection"):
        selected_rows(connection, "SELECT")


def test_a_packet_that_is_no_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="a row has 3 bytes, of which 2 are"):
        read(1, packets(b"\x011\x01", END))
