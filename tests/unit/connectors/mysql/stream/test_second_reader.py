"""Events that mysql-replication silently ignores end the second reading with an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pymysqlreplication import event as package
from pymysqlreplication.row_event import UpdateRowsEvent

from connectors.mysql.stream import second_packets, second_reader
from connectors.mysql.stream.second_packets import PacketTap
from connectors.mysql.stream.second_reader import (
    FileBegins,
    QueryRead,
    Read,
    Started,
    Unreadable,
)


def made(kind: Any, end: int, size: int, *, code: int = 2, **more: Any) -> Any:
    """An event of the package's, without its parsing."""
    event = kind.__new__(kind)
    packet = SimpleNamespace(log_pos=end, event_size=size, timestamp=7, event_type=code)
    for name, value in {"packet": packet, "_is_event_valid": True, **more}.items():
        setattr(event, name, value)
    return event


def query(end: int, size: int, sql: str = "BEGIN", **more: Any) -> Any:
    return made(package.QueryEvent, end, size, query=sql, schema=b"shop", **more)


def taken(*events: Any) -> list[Read]:
    opened = made(package.RotateEvent, 0, 40, next_binlog="binlog.000007")
    reading = second_reader._Reading(lambda _: "utf8mb4", PacketTap())
    return [read for event in (opened, *events) for read in reading.take(event)]


def test_events_that_follow_one_another_come_with_their_positions() -> None:
    anonymous = made(package.NotImplementedEvent, 104, 100, code=34)
    heartbeat = made(package.HeartbeatLogEvent, 104, 40, code=27)
    assert taken(anonymous, heartbeat, query(150, 46))[1:] == [
        Read(4, 104, 7, Started(None)),
        Read(104, 150, 7, QueryRead("BEGIN", "shop")),
    ]


def test_a_new_file_begins_at_its_beginning() -> None:
    again = made(package.RotateEvent, 0, 40, next_binlog="binlog.000008")
    found = taken(query(50, 46), again, query(44, 40))
    assert [read.what for read in found if isinstance(read.what, FileBegins)] == [
        FileBegins("binlog.000007"),
        FileBegins("binlog.000008"),
    ]


def test_an_event_that_was_omitted_is_missed() -> None:
    with pytest.raises(Unreadable, match=r"skips what is between binlog\.000007:50 and 90$"):
        taken(query(50, 46), query(150, 60))


def test_a_wrong_checksum_ends_it() -> None:
    with pytest.raises(Unreadable, match=r"binlog\.000007:4 has a wrong checksum"):
        taken(query(50, 46, _is_event_valid=False))


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (40, "a compressed transaction"),
        (42, "a transaction with a tagged GTID"),
        (26, "an incident"),
        (165, "an event of type 165"),
    ],
)
def test_an_event_that_the_package_does_not_know_ends_it(code: int, what: str) -> None:
    with pytest.raises(Unreadable, match=rf"binlog\.000007:4: {what}"):
        taken(made(package.NotImplementedEvent, 104, 100, code=code))


def test_a_file_without_checksums_ends_it() -> None:
    with pytest.raises(Unreadable, match="has no checksums"):
        taken(made(package.FormatDescriptionEvent, 104, 100, checksum_algorithm=0))


def test_text_that_is_no_utf_8_cannot_be_distinguished_from_its_escapes() -> None:
    (_, said) = taken(query(50, 46, sql="CREATE TABLE `\\xe9` (a int)"))
    assert said.what == QueryRead("CREATE TABLE `\ufffd` (a int)", "shop")


def test_the_gtids_before_a_file_are_read_and_what_is_none_is_refused() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert second_reader._gtids([f"{uuid}-:['1-5', '7-8']"]) == f"{uuid}:1-4:7-7"
    assert second_reader._gtids([]) == ""
    with pytest.raises(Unreadable):
        second_reader._gtids(["another form"])


def test_a_lost_connection_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(_read_packet=None)
    monkeypatch.setattr(second_reader, "connection_to", lambda _: silent)
    connections = second_reader._Connections(None, PacketTap())  # type: ignore[arg-type]
    for _ in range(2):
        connections.connect(charset="utf8mb4")
    with pytest.raises(Unreadable, match="the connection was lost"):
        connections.connect(charset="utf8mb4")


def test_labels_that_the_package_reads_wrong_are_not_believed() -> None:
    assert second_packets.labels_of(["é", ""], "utf8mb4") == ("é", "")
    assert second_packets.labels_of(["a", "b"], "latin1") == ("a", "b")
    for result, charset in ((["a", ""], "latin1"), (["a"], "ucs2"), (["é"], "gbk"), (["a"], None)):
        assert second_packets.labels_of(result, charset) is None


def test_bits_that_are_no_columns_are_not_counted() -> None:
    event = made(UpdateRowsEvent, 100, 50, columns_present_bitmap=b"\xff\xff")
    event.columns_present_bitmap2 = b"\x01\xfe"
    second_packets.without_spare_bits(event, 9)
    assert (event.columns_present_bitmap, event.columns_present_bitmap2) == (b"\xff\1", b"\1\0")
