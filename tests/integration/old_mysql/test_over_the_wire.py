"""The streams of old servers equal their binlog files, from any position."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.errors import PreflightError, ServerIdConflict
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    Earliest,
    Latest,
    Start,
    first_offset,
    in_current_terms,
)
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server import preflight
from connectors.mysql.server.facts import read_facts
from connectors.mysql.stream.replica import BinlogStream
from connectors.mysql.transaction_reader import TransactionReader
from devstack.mysql import Mysql
from tests.golden.load import steps_of as steps_of_file
from tests.harness.servers import Servers
from tests.harness.sql import run
from tests.integration.remedies import repaired
from tests.integration.worker.source import address_of, end_of
from tests.integration.worker.streams import Reading, at, opened
from tests.steps import End, Rows, Statement, Step, steps_of

SERIES = ["5.5", "5.6", "5.7", "8.0"]
WITH_GTIDS = SERIES[1:]
OTHER = "bbbbbbbb-0000-4000-8000-000000007101"


@pytest.fixture(params=SERIES)
def mysql(request: pytest.FixtureRequest, servers: Servers) -> Mysql:
    """A server of each series with a table that is empty."""
    return prepared(servers(request.param))


@pytest.fixture(params=WITH_GTIDS)
def with_gtids(request: pytest.FixtureRequest, servers: Servers) -> Mysql:
    """The same of those that know GTIDs."""
    return prepared(servers(request.param))


def prepared(mysql: Mysql) -> Mysql:
    # Before 5.5.25 it lists its binlog files to no other; what it does without is a test of its own.
    run(mysql, "GRANT SUPER ON *.* TO 'aqueduct'@'%'", "CREATE DATABASE IF NOT EXISTS wire")
    run(mysql, "DROP TABLE IF EXISTS wire.t, wire.m")
    run(mysql, "CREATE TABLE wire.t (id int PRIMARY KEY, v text) ENGINE=InnoDB")
    run(mysql, "CREATE TABLE wire.m (id int PRIMARY KEY) ENGINE=MyISAM")
    return mysql


def insert(*ids: int) -> str:
    return f"INSERT INTO wire.t VALUES {', '.join(f'({n}, REPEAT({n}, {n}))' for n in ids)}"


def read(mysql: Mysql, begin: SourceOffset, end: Coordinates) -> list[Step]:
    """All steps from an offset up to a position."""
    facts = read_facts(address_of(mysql))
    stream = opened(address_of(mysql), begin)
    reader, found = TransactionReader(facts.server_uuid, facts.charsets), list[Step]()
    try:
        for step in steps_of(stream.chunks(lambda: True), reader):
            found.append(step)
            if isinstance(step, End) and step.end.order >= end.order:
                return found
    finally:
        stream.close()
    raise AssertionError


def bodies(steps: list[Step]) -> list[tuple[Coordinates, bytes | str]]:
    return [
        (step.start, step.body if isinstance(step, Rows) else step.query.sql)
        for step in steps
        if isinstance(step, Rows | Statement)
    ]


def start_of(mysql: Mysql, start: Start) -> SourceOffset:
    address = address_of(mysql)
    return first_offset(start, read_facts(address), address)


@pytest.mark.parametrize("series", ["5.5", "5.7 without GTIDs"])
def test_rows_that_were_undone_are_reported_of_no_transaction_however_large(
    servers: Servers, series: str
) -> None:
    mysql = prepared(servers(series))
    begin = end_of(mysql)
    # With what cannot be undone, these servers write the rows that were.
    forced = "DROP TEMPORARY TABLE IF EXISTS wire.nothing"
    run(
        mysql,
        *("BEGIN", insert(1), forced, "ROLLBACK"),
        *(
            "BEGIN",
            insert(2),
            "SAVEPOINT a",
            insert(3),
            forced,
            "ROLLBACK TO a",
            insert(4),
            "COMMIT",
        ),
        *("BEGIN", insert(*range(1000, 1600)), forced, "ROLLBACK"),
        *("BEGIN", insert(*range(2000, 2600)), "SAVEPOINT a", insert(*range(1000, 1600)), forced),
        *("ROLLBACK TO a", insert(5), "COMMIT"),
    )
    steps = read(mysql, SourceOffset(server_uuid="", coordinates=begin), end_of(mysql))
    found = b"".join(step.body for step in steps if isinstance(step, Rows))
    for number in (2, 4, 5, *range(2000, 2600)):
        assert str(number).encode() * number in found, number
    for number in (1, 3, *range(1000, 1600)):
        row = number.to_bytes(4, "little") + (number * len(str(number))).to_bytes(2, "little")
        assert row not in found, number
    assert len([step for step in steps if isinstance(step, End)]) == 4


def test_what_is_sent_is_what_the_files_hold(mysql: Mysql) -> None:
    begin = end_of(mysql)
    run(
        mysql,
        insert(1, 2),
        "INSERT INTO wire.m VALUES (1), (2)",
        "BEGIN",
        insert(3),
        "SAVEPOINT s",
        insert(4),
        "ROLLBACK TO s",
        insert(5000),
        "COMMIT",
        "FLUSH LOGS",
        "ALTER TABLE wire.t ADD COLUMN w int",
        "UPDATE wire.t SET w = id",
        "TRUNCATE wire.m",
        "DELETE FROM wire.t",
    )
    end = end_of(mysql)
    charsets = read_facts(address_of(mysql)).charsets
    held = [
        *steps_of_file(mysql.data / begin.file, charsets, begin=begin.pos),
        *steps_of_file(mysql.data / end.file, charsets, end=end.pos),
    ]
    sent = read(mysql, at(begin), end)
    assert bodies(sent) == bodies(held)
    assert sum(isinstance(step, Statement) for step in sent) == 2
    assert sum(isinstance(step, Rows) for step in sent) >= 6


def test_reading_begins_at_the_first_change_or_at_the_end(mysql: Mysql) -> None:
    end = end_of(mysql)
    assert start_of(mysql, Latest()).coordinates == end
    earliest = start_of(mysql, Earliest())
    assert earliest.coordinates.order < end.order
    run(mysql, insert(1))
    rows, _ = read(mysql, start_of(mysql, AtCoordinates(end)), end_of(mysql))
    assert isinstance(rows, Rows)
    assert rows.start.order > end.order
    first = read(mysql, earliest, end)[0].transaction
    assert (first.file, first.pos) <= (end.file, end.pos)


def test_each_transaction_without_a_gtid_is_named_by_its_server_and_place(servers: Servers) -> None:
    mysql = prepared(servers("5.5"))
    facts = read_facts(address_of(mysql))
    assert facts.server_uuid == "server-1"
    assert not facts.has_gtids
    begin = end_of(mysql)
    run(mysql, insert(1))
    (rows, _) = read(mysql, at(begin), end_of(mysql))
    assert rows.transaction.id == f"server-1:{begin}"


def test_reading_resumes_after_a_gtid_set(with_gtids: Mysql) -> None:
    before = start_of(with_gtids, Latest())
    run(with_gtids, insert(1), "FLUSH LOGS", insert(2))
    middle = start_of(with_gtids, Latest())
    run(with_gtids, insert(3), "FLUSH LOGS", insert(4))
    end = end_of(with_gtids)
    assert isinstance(before.gtid_set, GtidSet)
    assert isinstance(middle.gtid_set, GtidSet)
    for known, count in ((before.gtid_set, 4), (middle.gtid_set, 2)):
        found = read(with_gtids, start_of(with_gtids, AfterGtids(known)), end)
        assert sum(isinstance(step, Rows) for step in found) == count
    # A cursor from before the server had GTIDs finds them out.
    facts, address = read_facts(address_of(with_gtids)), address_of(with_gtids)
    assert in_current_terms(replace(middle, gtid_set=None), facts, address) == middle


def test_a_quiet_server_is_alive_and_its_events_arrive_again(mysql: Mysql) -> None:
    address = address_of(mysql, heartbeat=0.5)
    stream = BinlogStream(address, at(end_of(mysql)))
    stream.open()
    reading = Reading(stream)
    # Far longer than the three heartbeats after which silence is a loss.
    assert not reading.came.wait(4)
    assert reading.error is None
    run(mysql, insert(1))
    assert reading.came.wait(30)
    stream.close()
    reading.ended()


def test_checksums_come_and_go_between_files(with_gtids: Mysql) -> None:
    begin = end_of(with_gtids)
    try:
        run(with_gtids, insert(1), "SET GLOBAL binlog_checksum = NONE", insert(2))
        plain = end_of(with_gtids)
        run(with_gtids, "SET GLOBAL binlog_checksum = CRC32", insert(3))
        end = end_of(with_gtids)
    finally:
        run(with_gtids, "SET GLOBAL binlog_checksum = CRC32")
    assert begin.file != plain.file != end.file
    assert sum(isinstance(step, Rows) for step in read(with_gtids, at(begin), end)) == 3


@pytest.mark.parametrize("ends", ["XA COMMIT 'a'", "XA COMMIT 'a' ONE PHASE"])
@pytest.mark.parametrize("series", ["5.5", "5.6"])
def test_before_5_7_an_xa_transaction_is_one_like_others(
    servers: Servers, series: str, ends: str
) -> None:
    mysql = prepared(servers(series))
    begin = end_of(mysql)
    prepare = [] if "ONE" in ends else ["XA PREPARE 'a'"]
    run(mysql, "XA START 'a'", insert(1), "XA END 'a'", *prepare, ends, insert(2))
    run(mysql, "XA START 'b'", insert(3), "XA END 'b'", "XA PREPARE 'b'", "XA ROLLBACK 'b'")
    run(mysql, insert(4))
    found = read(mysql, at(begin), end_of(mysql))
    assert [type(step) for step in found] == [Rows, End] * 3


def test_the_preflight_takes_them_with_a_history_and_says_so_without(with_gtids: Mysql) -> None:
    facts, address = read_facts(address_of(with_gtids)), address_of(with_gtids)
    preflight.check(facts, address, history=True)
    if "binlog_row_metadata" not in facts.variables:
        with pytest.raises(PreflightError, match=r"schema_history\.store"):
            preflight.check(facts, address)


def test_one_that_was_never_tried_as_a_whole_is_refused_by_name(servers: Servers) -> None:
    mysql = prepared(servers("5.5"))
    with pytest.raises(PreflightError, match=r"version 5\.5.*; MySQL 5\.6 or newer is needed"):
        preflight.check(read_facts(address_of(mysql)), address_of(mysql), history=True)


def test_our_own_registration_is_known_again(with_gtids: Mysql) -> None:
    ours = address_of(with_gtids, report_host="ours")
    stream = opened(ours, at(end_of(with_gtids)))
    try:
        preflight.check(read_facts(ours), ours, history=True)
        other = replace(ours, report_host="others", replica_uuid=OTHER)
        with pytest.raises(ServerIdConflict, match="has another replica with it, at ours"):
            preflight.check(read_facts(other), other, history=True)
    finally:
        stream.close()


def test_each_remedy_of_the_preflight_repairs_the_server_as_it_is_printed(
    with_gtids: Mysql,
) -> None:
    spoiled = {"binlog_format": "MIXED", "binlog_row_image": "MINIMAL"}
    first, then = repaired(with_gtids, spoiled, host="127.0.0.1")
    # Where the binlog names the columns, the account need not read tables.
    names_columns = "binlog_row_metadata" in read_facts(address_of(with_gtids)).variables
    assert f"{3 if names_columns else 4} problem(s)" in first
    assert ("GRANT SELECT ON" in first) is not names_columns
    assert then == ""
