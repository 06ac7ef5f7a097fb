"""MariaDB's own events, by hand-made bytes; tests/integration/mariadb compares them with servers."""

import struct
import zlib

import pytest

from connectors.errors import CorruptEvent, UnsupportedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.mariadb_events import (
    PLAIN_ROWS,
    Alter,
    GtidFlag,
    MariadbEventType,
    parse_gtid,
    plain_rows,
    uncompressed_query,
    uncompressed_rows,
)
from connectors.mysql.buffer import inflated


def gtid(sequence: int, domain: int, flags: int, more: bytes = b"") -> bytes:
    return struct.pack("<QIB", sequence, domain, flags).ljust(13, b"\0") + more


def squeezed(data: bytes, *, announced: int | None = None, head: int = 0x84) -> bytes:
    size = len(data) if announced is None else announced
    return bytes([head]) + size.to_bytes(head & 7, "big") + zlib.compress(data)


def test_a_gtid_is_domain_server_and_sequence() -> None:
    found = parse_gtid(gtid(7, 3, GtidFlag.STANDALONE | GtidFlag.DDL, bytes(6)), server_id=12)
    assert found.gtid == "3-12-7"
    assert found.standalone
    assert (found.commit_id, found.xid, found.alter, found.alter_start) == (None, None, None, None)


def test_a_gtid_may_name_the_commit_it_was_grouped_in() -> None:
    found = parse_gtid(gtid(7, 0, GtidFlag.GROUP_COMMIT, struct.pack("<Q", 99)), server_id=1)
    assert found.commit_id == 99
    assert not found.standalone


def test_a_gtid_names_its_xa_transaction() -> None:
    more = struct.pack("<IBB", 1, 2, 1) + b"ab" + b"c"
    found = parse_gtid(gtid(7, 0, GtidFlag.PREPARED_XA, more), server_id=1)
    assert found.xid == "X'6162',X'63',1"


@pytest.mark.parametrize(
    ("more", "alter", "start"),
    [
        (b"\x02", Alter.START, None),
        (b"\x04" + struct.pack("<Q", 5), Alter.COMMIT, 5),
        (b"\x09\x01" + struct.pack("<Q", 6), Alter.ROLLBACK, 6),
        (b"\x01\x01", None, None),
        (b"\x10\x01\x00\x00\x00", None, None),
    ],
)
def test_an_alter_in_two_phases_says_which_one_it_is(
    more: bytes, alter: Alter | None, start: int | None
) -> None:
    found = parse_gtid(gtid(7, 0, GtidFlag.STANDALONE, more), server_id=1)
    assert (found.alter, found.alter_start) == (alter, start)


@pytest.mark.parametrize("flags", [GtidFlag.GROUP_COMMIT, GtidFlag.PREPARED_XA])
def test_a_gtid_event_that_was_cut_is_an_error(flags: int) -> None:
    with pytest.raises(IndexError):
        parse_gtid(gtid(7, 0, flags, b"\x01\x00"), server_id=1)


def test_a_compressed_statement_is_unpacked_after_its_head() -> None:
    head = struct.pack("<IIBHH", 4, 0, 2, 0, 3) + b"\x01\x02\x03" + b"db\0"
    assert uncompressed_query(head + squeezed(b"DROP TABLE t")) == head + b"DROP TABLE t"


@pytest.mark.parametrize(
    ("kind", "bitmaps"),
    [(kind, 2 if "UPDATE" in kind.name else 1) for kind in PLAIN_ROWS],
)
def test_compressed_rows_are_unpacked_after_their_bitmaps(
    kind: MariadbEventType, bitmaps: int
) -> None:
    head = bytes(8) + (b"" if kind.name.endswith("_V1") else b"\x02\x00") + b"\x09"
    head += b"\xff\x01" * bitmaps
    assert uncompressed_rows(kind, head + squeezed(b"rows" * 99)) == head + b"rows" * 99
    assert EventType[kind.name.replace("_COMPRESSED", "")] == PLAIN_ROWS[kind]


def test_rows_that_are_not_compressed_stay_as_they_are() -> None:
    head = bytes(8) + b"\x01\xff"
    packed = head + squeezed(b"rows")
    assert plain_rows(166, packed) == (EventType.WRITE_ROWS_V1, head + b"rows")
    assert plain_rows(EventType.WRITE_ROWS_V1, packed) == (EventType.WRITE_ROWS_V1, packed)


@pytest.mark.parametrize("announced", [0, 3, 5, 1 << 31])
def test_more_or_less_than_was_announced_is_corrupt(announced: int) -> None:
    with pytest.raises(CorruptEvent, match=f"the {announced} that"):
        uncompressed_rows(166, bytes(8) + b"\x01\xff" + squeezed(b"rows", announced=announced))


def test_bytes_after_the_compressed_ones_are_corrupt() -> None:
    with pytest.raises(CorruptEvent):
        uncompressed_rows(166, bytes(8) + b"\x01\xff" + squeezed(b"rows") + b"x")


def test_a_bomb_is_not_unpacked_beyond_what_it_announces() -> None:
    with pytest.raises(CorruptEvent):
        inflated(zlib.compress(bytes(50_000_000)), 10)


def test_damaged_and_unknown_compression_is_named() -> None:
    with pytest.raises(CorruptEvent, match="cannot be read"):
        inflated(b"not zlib", 5)
    with pytest.raises(UnsupportedEvent, match="0x14"):
        uncompressed_rows(166, bytes(8) + b"\x01\xff" + squeezed(b"rows", head=0x14))
