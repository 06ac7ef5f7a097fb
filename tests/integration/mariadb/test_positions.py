"""Reading a MariaDB begins and resumes by GTIDs, at a position in a file, and after each transaction."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from connectors.errors import AqueductError, PositionGone, PositionWithin, SourceDiverged
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    Earliest,
    Latest,
    first_offset,
    in_current_terms,
)
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server import preflight
from connectors.mysql.server.facts import read_facts
from connectors.mysql.stream.replica import BinlogStream
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.sql import connected, run
from tests.harness.wait import until
from tests.integration.mariadb.conftest import started
from tests.integration.mariadb.source import end_of, past, steps_from, without_gtids
from tests.integration.worker.source import address_of, decoded, facts_of, now
from tests.steps import End, Step

pytestmark = pytest.mark.stack

DATABASE = "positions"


@pytest.fixture(scope="module")
def domains(mariadb: Mysql) -> tuple[SourceOffset, list[tuple[str | None, int]]]:
    """A position followed by ten transactions of three domains, with rows 1 to 10, in two files."""
    run(mariadb, f"CREATE DATABASE {DATABASE}", f"CREATE TABLE {DATABASE}.t (id int primary key)")
    begin = now(mariadb)
    for n in range(1, 11):
        # The third domain begins late, as that of a server that joins would.
        domain = n % 2 if n < 6 else n % 3
        run(mariadb, f"SET gtid_domain_id = {domain}", f"INSERT INTO {DATABASE}.t VALUES ({n})")
        if n == 4:
            run(mariadb, "FLUSH BINARY LOGS")
    return begin, rows_in(mariadb, steps_from(mariadb, begin))


def rows_in(mariadb: Mysql, steps: list[Step]) -> list[tuple[str | None, int]]:
    """The GTID of each transaction and the id of its row."""
    gtids = [step.transaction.gtid for step in steps if isinstance(step, End)]
    ids = [row.after()["id"] for row in decoded(mariadb, steps)]
    return list(zip(gtids, ids, strict=True))


def test_numbers_of_another_server_may_be_lower_and_come_later(mariadb: Mysql) -> None:
    run(mariadb, "CREATE DATABASE late", "CREATE TABLE late.t (id int primary key)")
    begin = now(mariadb)
    run(
        mariadb,
        "INSERT INTO late.t VALUES (1)",
        "SET SESSION server_id = 77",
        "SET SESSION gtid_seq_no = 3",
        "INSERT INTO late.t VALUES (2)",
        "SET SESSION server_id = 1",
        "INSERT INTO late.t VALUES (3)",
    )
    for left in ([1, 2, 3], [2, 3], [3]):
        check(begin, facts_of(mariadb), address_of(mariadb))
        steps = steps_from(mariadb, begin)
        assert [n for _, n in rows_in(mariadb, steps)] == left
        first = next(step for step in steps if isinstance(step, End))
        assert (first.transaction.gtid == "0-77-3") is (left == [2, 3])
        begin = past(begin, first)
    assert begin.gtid_set == facts_of(mariadb).gtids_at_end


@pytest.fixture
def lonely(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mysql]:
    """A server of a test's own, as its binlog is purged or forgotten."""
    server = started("10.11", children, tmp_path_factory, **getattr(request, "param", {}))
    yield server
    server.stop()


def test_all_domains_are_read_in_the_order_of_the_binlog(
    domains: tuple[SourceOffset, list[tuple[str | None, int]]],
) -> None:
    _, rows = domains
    assert [n for _, n in rows] == list(range(1, 11))
    assert {str(gtid).partition("-")[0] for gtid, _ in rows} == {"0", "1", "2"}


@pytest.mark.parametrize("by", ["gtids", "coordinates"])
def test_reading_resumes_after_each_transaction(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]], by: str
) -> None:
    begin, rows = domains
    if by == "coordinates":
        begin = without_gtids(begin)
    found: list[tuple[str | None, int]] = []
    for _ in rows:
        steps = steps_from(mariadb, begin, at_most=1)
        found += rows_in(mariadb, steps)
        assert isinstance(steps[-1], End)
        begin = past(begin, steps[-1])
    assert found == rows


def test_reading_by_gtids_does_not_need_the_coordinates(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]]
) -> None:
    begin, rows = domains
    elsewhere = replace(begin, coordinates=Coordinates("of-another-server.000099", 4))
    assert rows_in(mariadb, steps_from(mariadb, elsewhere)) == rows


def test_a_new_destination_begins_where_its_settings_say(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]]
) -> None:
    begin, rows = domains
    address, facts = address_of(mariadb), facts_of(mariadb)
    preflight.check(facts, address)
    at = first_offset(AtCoordinates(begin.coordinates), facts, address)
    assert at.gtid_set == begin.gtid_set
    assert begin.gtid_set is not None
    after = first_offset(AfterGtids(begin.gtid_set), facts, address)
    assert rows_in(mariadb, steps_from(mariadb, after)) == rows
    earliest = first_offset(Earliest(), facts, address)
    assert earliest.gtid_set == MariadbGtidList()
    every = [step for step in steps_from(mariadb, earliest) if isinstance(step, End)]
    assert [end.transaction.gtid for end in every][-10:] == [gtid for gtid, _ in rows]
    latest = first_offset(Latest(), facts, address)
    assert latest.gtid_set == facts.gtids_at_end
    assert latest.coordinates == end_of(mariadb)
    assert steps_from(mariadb, latest) == []


def test_a_cursor_without_gtids_is_put_into_them(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]]
) -> None:
    begin, _ = domains
    assert in_current_terms(without_gtids(begin), facts_of(mariadb), address_of(mariadb)) == begin


def test_a_place_within_an_event_is_refused(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]]
) -> None:
    begin, _ = domains
    position = Coordinates(begin.coordinates.file, begin.coordinates.pos + 1)
    with pytest.raises(PositionWithin, match=f"from {begin.coordinates} to "):
        first_offset(AtCoordinates(position), facts_of(mariadb), address_of(mariadb))


def test_a_transaction_the_server_never_wrote_is_refused_before_and_by_the_server(
    mariadb: Mysql, domains: tuple[SourceOffset, list[tuple[str | None, int]]]
) -> None:
    begin, _ = domains
    future = replace(begin, gtid_set=MariadbGtidList.parse("0-1-99999999,1-1-1,2-1-1"))
    with pytest.raises(SourceDiverged, match="never wrote"):
        check(future, facts_of(mariadb), address_of(mariadb))
    with pytest.raises(SourceDiverged, match="0-1-99999999"):
        first_of(BinlogStream(address_of(mariadb), future))


def first_of(stream: BinlogStream) -> None:
    """Read until something of substance or an error comes."""
    stream.open()
    try:
        for placed in stream.events():
            if placed.event.type == 162:
                return
    finally:
        stream.close()


def purge(mariadb: Mysql, to: str) -> None:
    """Remove the files before one; the server does it only once its engines have no need of them."""
    with connected(mariadb) as cursor:

        def purged() -> bool:
            cursor.execute(f"PURGE BINARY LOGS TO '{to}'")
            cursor.execute("SHOW BINARY LOGS")
            return bool(cursor.fetchone()[0] == to)

        until(purged, late=lambda: f"the files before {to} are still there")


def test_what_was_purged_is_refused_before_and_by_the_server(lonely: Mysql) -> None:
    run(lonely, "CREATE DATABASE d", "CREATE TABLE d.t (id int primary key)")
    begin = now(lonely)
    run(lonely, "INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (2)")
    held = now(lonely)
    run(lonely, "INSERT INTO d.t VALUES (3)", "FLUSH BINARY LOGS")
    purge(lonely, held.coordinates.file)
    facts, address = facts_of(lonely), address_of(lonely)
    assert str(facts.gtids_at_head) == "0-1-3"
    with pytest.raises(PositionGone, match="begin after 0-1-3"):
        check(begin, facts, address)
    with pytest.raises(PositionGone):
        first_of(BinlogStream(address, begin))
    check(held, facts, address)
    assert [n for _, n in rows_in(lonely, steps_from(lonely, held))] == [3]
    earliest = first_offset(Earliest(), facts, address)
    assert [n for _, n in rows_in(lonely, steps_from(lonely, earliest))] == [2, 3]


def test_a_server_that_forgot_its_binlog_is_distinguished_from_one_that_has_it(
    lonely: Mysql,
) -> None:
    run(lonely, "CREATE DATABASE d", "CREATE TABLE d.t (id int primary key)")
    begin = now(lonely)
    run(lonely, "RESET MASTER")
    with pytest.raises(SourceDiverged):
        check(begin, facts_of(lonely), address_of(lonely))


def test_reading_continues_after_the_server_was_killed_and_started(lonely: Mysql) -> None:
    run(lonely, "CREATE DATABASE d", "CREATE TABLE d.t (id int primary key)")
    run(lonely, "INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS")
    begin = now(lonely)
    run(lonely, "INSERT INTO d.t VALUES (2)")
    lonely.kill()
    lonely.start()
    run(lonely, "INSERT INTO d.t VALUES (3)")
    check(begin, facts_of(lonely), address_of(lonely))
    assert [n for _, n in rows_in(lonely, steps_from(lonely, begin))] == [2, 3]


def test_reading_continues_at_a_replica_that_takes_over(
    children: Children, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = started("10.11", children, tmp_path_factory)
    second = started("11.8", children, tmp_path_factory, server_id=2, log_slave_updates="ON")
    try:
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (id int primary key)")
        run(
            second,
            f"CHANGE MASTER TO master_host = '{first.host}', master_port = {first.port}, "
            "master_user = 'aqueduct', master_password = 'aqueduct', master_use_gtid = slave_pos, "
            "master_ssl_verify_server_cert = 0",
            "START SLAVE",
        )
        run(first, "INSERT INTO d.t VALUES (1)")
        begin = now(first)
        run(first, "INSERT INTO d.t VALUES (2)")
        with connected(first) as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            (end,) = cursor.fetchone()
        with connected(second) as cursor:
            cursor.execute(f"SELECT MASTER_GTID_WAIT('{end}', 60)")
            assert cursor.fetchone() == (0,)
        first.kill()
        run(second, "STOP SLAVE", "INSERT INTO d.t VALUES (3)")
        facts, address = facts_of(second), address_of(second)
        preflight.check(facts, address)
        check(in_current_terms(begin, facts, address), facts, address)
        found = rows_in(second, steps_from(second, begin))
        assert [n for _, n in found] == [2, 3]
        assert [str(gtid).split("-")[:2] for gtid, _ in found] == [["0", "1"], ["0", "2"]]
    finally:
        first.stop()
        second.stop()


@pytest.mark.parametrize(
    "lonely", [{"log_slave_updates": "OFF", "binlog_row_metadata": "NO_LOG"}], indirect=True
)
def test_a_server_as_it_comes_is_refused_for_its_metadata(lonely: Mysql) -> None:
    with pytest.raises(AqueductError, match="SET GLOBAL binlog_row_metadata = 'FULL'"):
        preflight.check(facts_of(lonely), address_of(lonely))
    run(lonely, "SET GLOBAL binlog_row_metadata = 'FULL'")
    preflight.check(facts_of(lonely), address_of(lonely))


def test_an_account_without_privileges_is_shown_which(mariadb: Mysql) -> None:
    run(mariadb, "SET sql_log_bin = 0", "CREATE OR REPLACE USER poor@'%' IDENTIFIED BY 'poor'")
    run(mariadb, "SET sql_log_bin = 0", "GRANT BINLOG MONITOR ON *.* TO poor@'%'")
    address = address_of(mariadb, user="poor", password="poor")
    with pytest.raises(AqueductError, match=r"GRANT REPLICATION SLAVE ON \*\.\* TO 'poor'"):
        preflight.check(read_facts(address), address)
