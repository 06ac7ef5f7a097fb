"""Each kind of start position, on servers that report positions differently, and each reason to refuse one."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from connectors.errors import (
    BinlogFileMissing,
    PositionGone,
    PositionPastEnd,
    PositionPurged,
    PositionWithin,
    SourceDiverged,
    TimeInFuture,
)
from connectors.mysql.lookup import position_by_time
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.lookup.position_within import Within, published_part, published_through
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Earliest, first_offset
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from devstack.mysql import Mysql
from tests.harness.sql import ask, connected, run
from tests.harness.wait import until
from tests.integration.worker.source import address_of, end_of, facts_of


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, and where the server's end was then."""

    ts_ms: int
    position: Coordinates
    gtids: Gtids | None


@pytest.fixture(scope="module")
def marks(server: Mysql) -> list[Mark]:
    """Positions each followed by a transaction of several rows, in four files; the last but one has none."""
    run(server, "CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY, v varchar(100))")
    tells_commits = "9.7" in facts_of(server).variables["version"]
    found = []
    with connected(server) as cursor:
        for n in range(6):
            # A time in seconds cannot distinguish two positions within one.
            time.sleep(0.05 if tells_commits else 1.05 - time.time() % 1)
            found.append(
                Mark(int(time.time() * 1000), end_of(server), facts_of(server).gtids_at_end)
            )
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO d.t VALUES ({10 * n}, REPEAT('x', 50))")
            cursor.execute(f"INSERT INTO d.t VALUES ({10 * n + 1}, REPEAT('y', 50))")
            cursor.execute("COMMIT")
            for _ in range((0, 1, 0, 2, 0, 0)[n]):
                cursor.execute("FLUSH BINARY LOGS")
            _rest(server)
    return found


def _rest(server: Mysql) -> None:
    """Wait until a MariaDB has noted in a new file that it needs no older one, which takes it a while."""
    facts = facts_of(server)
    file = facts.binlogs[-1][0]
    if facts.is_mariadb:
        noted = ("Binlog_checkpoint", file)
        events = f"SHOW BINLOG EVENTS IN '{file}'"
        until(
            lambda: noted in [(row[2], row[5]) for row in ask(server, events)],
            glance=0.02,
        )


def test_a_time_is_the_position_of_the_first_transaction_committed_then_or_later(
    server: Mysql, marks: list[Mark]
) -> None:
    facts, address = facts_of(server), address_of(server)
    for mark in marks:
        found = first_offset(AtTime(mark.ts_ms), facts, address)
        assert (found.coordinates, found.gtid_set) == (mark.position, mark.gtids)
    time.sleep(1.05 - time.time() % 1)
    behind_all = offset_at_time(int(time.time() * 1000), facts, address)
    assert (behind_all.coordinates, behind_all.gtid_set) == (end_of(server), facts.gtids_at_end)


def test_a_time_within_a_file_is_searched_only_there(server: Mysql, marks: list[Mark]) -> None:
    facts, address = facts_of(server), address_of(server)
    first, second = facts.binlogs[0][0], facts.binlogs[1][0]
    found = offset_at_time(marks[3].ts_ms, facts, address, file=second)
    assert (found.coordinates, found.gtid_set) == (marks[3].position, marks[3].gtids)
    head = offset_at_time(marks[3].ts_ms, facts, address, file=first)
    assert head.coordinates == Coordinates(first, 4)
    assert not head.gtid_set
    # A file of which all is after the moment begins with its first transaction.
    early = offset_at_time(marks[0].ts_ms, facts, address, file=second)
    assert (early.coordinates, early.gtid_set) == (marks[2].position, marks[2].gtids)
    with pytest.raises(BinlogFileMissing, match=r"other\.000001"):
        offset_at_time(marks[0].ts_ms, facts, address, file="other.000001")


def test_a_time_before_all_is_the_beginning_if_nothing_was_purged(
    server: Mysql, marks: list[Mark]
) -> None:
    facts, address = facts_of(server), address_of(server)
    found = offset_at_time(marks[0].ts_ms - 86_400_000, facts, address)
    assert found.coordinates.file == facts.binlogs[0][0]
    assert not found.gtid_set
    with pytest.raises(TimeInFuture):
        offset_at_time(int(time.time() * 1000) + 3_600_000, facts, address)


def test_a_position_within_a_transaction_is_refused_with_both_its_ends(
    server: Mysql, marks: list[Mark]
) -> None:
    facts, address = facts_of(server), address_of(server)
    span = next(iter(Spans(address, facts.binlogs[1][0])))
    assert span.start == marks[2].position
    found = first_offset(AtCoordinates(span.start), facts, address)
    assert found.gtid_set == marks[2].gtids
    with connected(server) as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{span.start.file}'")
        within = [row[1] for row in cursor.fetchall() if span.start.pos < row[1] < span.end.pos]
    assert len(within) >= 3
    for pos in within:
        with pytest.raises(PositionWithin, match=f"{span.start} to {span.end}"):
            first_offset(AtCoordinates(Coordinates(span.start.file, pos)), facts, address)


def test_the_files_are_bisected_and_not_all_read(
    server: Mysql, marks: list[Mark], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(address: object, file: str) -> Spans:
        asked.append(file)
        return Spans(address, file)  # type: ignore[arg-type]  # as it is called there

    with connected(server) as cursor:
        for n in range(40):
            cursor.execute(f"INSERT INTO d.t VALUES ({1000 + n}, '')")
            cursor.execute("FLUSH BINARY LOGS")
    monkeypatch.setattr(position_by_time, "Spans", noted)
    facts = facts_of(server)
    assert len(facts.binlogs) > 40
    found = offset_at_time(marks[4].ts_ms, facts, address_of(server))
    assert (found.coordinates, found.gtid_set) == (marks[4].position, marks[4].gtids)
    assert len(asked) <= 8


def test_what_another_program_published_of_a_transaction_is_counted_in_rows(
    server: Mysql, marks: list[Mark]
) -> None:
    mark, facts, address = marks[1], facts_of(server), address_of(server)
    if mark.gtids is None or facts.is_mariadb:
        pytest.skip("Debezium's offset has MySQL's GTIDs here")
    offset = first_offset(AfterGtids(mark.gtids), facts, address)

    def rows(events: int, rows: int) -> int:
        part = published_part(offset, Within(events, rows), address)
        assert part is not None
        assert part.transaction_id.endswith(":4")
        return part.rows

    # BEGIN, then a table map and a row event for each of two statements.
    assert [rows(1, 0), rows(2, 0), rows(2, 1), rows(3, 0), rows(4, 1), rows(5, 0)] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    for events, more in ((1, 1), (2, 2), (3, 1), (5, 1), (9, 0)):
        with pytest.raises(PositionWithin, match="remove `within`"):
            rows(events, more)
    assert facts.gtids_at_end is not None
    end = first_offset(AfterGtids(facts.gtids_at_end), facts, address)
    assert published_part(end, Within(2, 1), address) is None


def test_an_update_of_a_key_is_published_once_a_later_row_is(server: Mysql) -> None:
    # Debezium stores the same offset with the delete of the old key and the create of the new one.
    facts, address = facts_of(server), address_of(server)
    if facts.gtids_at_end is None or facts.is_mariadb:
        pytest.skip("Debezium's offset has MySQL's GTIDs here")
    with connected(server) as cursor:
        cursor.execute("CREATE TABLE d.k (a int, b varchar(9), v int, PRIMARY KEY (a, b))")
        cursor.execute("INSERT INTO d.k VALUES (1, 'x', 1), (2, 'x', 2), (3, 'x', 3)")
        before = facts_of(server).gtids_at_end
        assert before is not None
        cursor.execute("BEGIN")
        cursor.execute("UPDATE d.k SET b = IF(a = 2, 'y', b), v = v + 10 ORDER BY a")
        cursor.execute("DELETE FROM d.k WHERE a = 1")
        cursor.execute("COMMIT")
    offset = first_offset(AfterGtids(before), facts_of(server), address)

    def rows(events: int, rows: int) -> int:
        part = published_part(offset, Within(events, rows), address)
        assert part is not None
        return part.rows

    # BEGIN, a table map, the rows of the UPDATE; a table map, the row of the DELETE.
    assert [rows(2, number) for number in range(4)] == [0, 1, 1, 3]
    assert [rows(3, 0), rows(4, 0), rows(4, 1)] == [3, 3, 4]


def test_a_start_after_an_event_is_within_its_transaction_or_after_it(
    server: Mysql, marks: list[Mark]
) -> None:
    facts, address = facts_of(server), address_of(server)
    begin = marks[0].position
    span = next(one for one in Spans(address, begin.file) if one.start.order >= begin.order)
    rows = ask(server, f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {span.start.pos}")
    events = [row for row in rows if row[1] < span.end.pos]
    found = {
        row[1]: published_through(Coordinates(begin.file, row[1]), facts, address) for row in events
    }
    parts = [one.part.rows if one.part else None for one in found.values()]
    ends = [one.coordinates for one in found.values()]
    written = [number for number, row in enumerate(events) if "Write_rows" in row[2]]
    first, second = written
    assert parts == [0] * first + [1] * (second - first) + [2] * (len(events) - 1 - second) + [None]
    assert ends == [span.start] * (len(events) - 1) + [span.end]
    if facts.is_mariadb:
        return
    with pytest.raises(PositionWithin, match="no event begins"):
        published_through(Coordinates(begin.file, events[1][1] + 1), facts, address)
    last = end_of(server)
    assert published_through(last, facts, address).coordinates == last


def test_a_purged_position_is_refused_with_its_error(server: Mysql, marks: list[Mark]) -> None:
    """The last test of the file: the binlog is purged and reset."""
    facts, address = facts_of(server), address_of(server)
    cursor_at = SourceOffset(
        server_uuid=facts.server_uuid, coordinates=marks[1].position, gtid_set=marks[1].gtids
    )
    check(cursor_at, facts, address)
    kept = facts.binlogs[20][0]
    with connected(server) as cursor:

        def is_purged() -> bool:
            cursor.execute(f"PURGE BINARY LOGS TO '{kept}'")
            return facts_of(server).binlogs[0][0] == kept

        until(is_purged)
    facts = facts_of(server)
    with pytest.raises(PositionGone) as purged:
        check(cursor_at, facts, address)
    assert facts.is_mariadb or purged.type is PositionPurged
    with pytest.raises(PositionPurged, match="its oldest binlog file"):
        offset_at_time(marks[1].ts_ms, facts, address)
    with pytest.raises(PositionPurged):
        first_offset(AtCoordinates(marks[1].position), facts, address)
    assert first_offset(Earliest(), facts, address).coordinates == Coordinates(kept, 4)
    ahead = Coordinates(facts.binlogs[-1][0], facts.binlogs[-1][1] + 1)
    with pytest.raises(PositionPastEnd):
        first_offset(AtCoordinates(ahead), facts, address)
    last = facts.gtids_at_end
    assert last is not None or not facts.has_gtids
    newest = SourceOffset(
        server_uuid=facts.server_uuid,
        coordinates=Coordinates(*facts.binlogs[-1]),
        gtid_set=last,
    )

    _unlist(server, facts.binlogs[5][0])
    facts = facts_of(server)
    check(newest, facts, address)
    with pytest.raises(BinlogFileMissing, match="none is between"):
        first_offset(Earliest(), facts, address)

    run(server, "RESET BINARY LOGS AND GTIDS" if _is_new(server) else "RESET MASTER")
    with pytest.raises(SourceDiverged):
        check(newest, facts_of(server), address)
    if last is not None:
        with pytest.raises(SourceDiverged):
            first_offset(AfterGtids(last), facts_of(server), address)


def _is_new(server: Mysql) -> bool:
    return "9.7" in facts_of(server).variables["version"]


def _unlist(server: Mysql, file: str) -> None:
    """Remove a file from the index, as with an editor."""
    server.stop()
    index = server.data / "binlog.index"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(line for line in lines if not line.strip().endswith(file)))
    server.start()
    assert file not in dict(facts_of(server).binlogs)
