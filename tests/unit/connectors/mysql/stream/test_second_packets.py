"""If mysql-replication fails at a table, its rows are reported; any other failure ends the reading."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pymysqlreplication.event import RotateEvent

from connectors.mysql.stream.second_packets import PacketTap, foreign
from connectors.mysql.stream.second_reader import QueryRead, Read, Unread, Unreadable, _Reading
from tests.unit.connectors.mysql.stream.test_second_reader import made, query

INT, VECTOR = 3, 242
WRITE_ROWS = 30


def event(code: int, body: bytes, *, begin: int) -> bytes:
    """A packet, with the byte before the event."""
    size = 19 + len(body) + 4
    raw = struct.pack("<IBIIIH", 7, code, 1, size, begin + size, 0) + body
    return b"\0" + raw + struct.pack("<I", zlib.crc32(raw))


def table_map(*codes: int, begin: int, table_id: int = 9) -> bytes:
    head = table_id.to_bytes(6, "little") + b"\1\0"
    return event(19, head + b"\4shop\0\1v\0" + bytes([len(codes), *codes]) + b"\0", begin=begin)


def rows(*, begin: int, table_id: int = 9) -> bytes:
    return event(WRITE_ROWS, table_id.to_bytes(6, "little") + b"\0" * 9, begin=begin)


class Package:
    """A connection, and what the package makes of what it reads: an event, an error, or nothing."""

    def __init__(self, *steps: tuple[list[bytes], Callable[[], Any]]) -> None:
        self._steps = list(steps)
        self._packets: list[bytes] = []
        self.heard = PacketTap()
        self.heard.listen(self)

    def _read_packet(self) -> Any:
        data = self._packets.pop(0)
        return SimpleNamespace(get_all_data=lambda: data)

    def fetch(self) -> Any:
        if not self._steps:
            return None
        self._packets, answer = self._steps.pop(0)
        while self._packets:
            self._read_packet()
        return answer()


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def read(*steps: tuple[list[bytes], Callable[[], Any]]) -> list[Read]:
    package = Package(*steps)
    reading = _Reading(lambda _: "utf8mb4", package.heard)
    return list(reading.all(package.fetch))


def wrong() -> Callable[[], Any]:
    return failing(IndexError("index out of range"))


def after(*packets: bytes) -> int:
    """The position after a number of packets from the beginning of a file."""
    return 4 + sum(len(packet) - 1 for packet in packets)


def test_rows_of_a_table_that_the_package_cannot_describe_are_named_and_the_rest_is_read() -> None:
    described = table_map(INT, VECTOR, begin=4)
    first = rows(begin=after(described))
    second = rows(begin=after(described, first))
    end = after(described, first, second)
    said = event(2, b"", begin=end)
    last = query(end + len(said) - 1, len(said) - 1, "COMMIT")
    found = read(
        ([described], wrong()),
        ([first], failing(KeyError(9))),
        # The other rows it silently omits, on its way to the next event.
        ([second, said], lambda: last),
    )
    unread = Unread("shop", "v", "a column of type VECTOR")
    assert [one.what for one in found] == [unread, unread, QueryRead("COMMIT", "shop")]
    assert [one.pos for one in found] == [after(described), after(described, first), end]


def test_a_description_that_it_cannot_read_for_another_reason_says_why() -> None:
    described = table_map(INT, begin=4)
    found = read(([described], wrong()), ([rows(begin=after(described))], wrong()))
    assert [one.what for one in found] == [Unread("shop", "v", "IndexError: index out of range")]


def test_a_table_of_that_number_in_the_next_file_is_another() -> None:
    described = table_map(VECTOR, begin=4)
    opened = made(RotateEvent, 0, 40, next_binlog="b.2")
    with pytest.raises(Unreadable, match=r"it fails at b\.2:4: IndexError"):
        read(
            ([described], wrong()),
            ([event(4, b"", begin=0)], lambda: opened),
            ([rows(begin=4)], wrong()),
        )


def damaged(packet: bytes) -> bytes:
    return packet[:-1] + bytes([packet[-1] ^ 1])


@pytest.mark.parametrize(
    "packet",
    [damaged(table_map(VECTOR, begin=4)), table_map(VECTOR, begin=50), event(2, b"abc", begin=4),
     rows(begin=4)],
    ids=["wrong checksum", "after a gap", "no table", "rows that nothing describes"],
)  # fmt: skip
def test_all_else_that_it_fails_at_ends_the_reading(packet: bytes) -> None:
    with pytest.raises(Unreadable, match="it fails at :4: IndexError: index out of range"):
        read(([packet], wrong()))


def test_a_failure_without_a_packet_is_no_tables() -> None:
    described = table_map(VECTOR, begin=4)
    with pytest.raises(Unreadable, match=r"it fails at .*OSError"):
        read(([described], wrong()), ([], failing(OSError("gone"))))


def test_types_that_the_package_does_not_read_are_named() -> None:
    assert foreign(bytes([INT, VECTOR, 15, 20])) == "a column of type number 20, VECTOR"
    assert foreign(bytes([INT, 15, 252, 245, 255])) == ""


def test_a_table_of_many_columns_is_read_to_its_last() -> None:
    codes = [INT] * 299 + [VECTOR]
    head = (9).to_bytes(6, "little") + b"\1\0" + b"\4shop\0\1v\0"
    body = head + b"\xfc" + (300).to_bytes(2, "little") + bytes(codes) + b"\0"
    packet = event(19, body, begin=4)
    found = read(([packet], wrong()), ([rows(begin=after(packet))], wrong()))
    assert [one.what for one in found] == [Unread("shop", "v", "a column of type VECTOR")]
