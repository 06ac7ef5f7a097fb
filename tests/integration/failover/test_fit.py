"""A standby proves that it has what was published, and that nothing keeps rows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.errors import (
    PositionPurged,
    SourceDiverged,
    SourceLost,
    SourceUnproven,
    StandbyFiltered,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.server.connection import connection_to
from connectors.mysql.server.facts import read_facts
from connectors.mysql.stream.replica import BinlogStream
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.cursor import Cursor, CursorProof
from tests.crash.links import proxy
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.failover.prove import at_home, moved, published, refused
from tests.integration.failover.servers import Pair, insert, pair, promote
from tests.integration.worker.source import address_of, end_of, facts_of


@pytest.fixture(scope="module")
def both(stack: Stack) -> Iterator[Pair]:
    with pair(stack, "fit", performance_schema="ON") as servers:
        yield servers


def test_a_standby_with_all_of_it_is_fit(both: Pair) -> None:
    insert(both.master, "one", "two")
    both.caught_up()
    cursor = published(both.master)
    assert cursor.proof.landmark is not None
    assert len(cursor.proof.recent) > 2
    assert moved(cursor, both.standby).offset.coordinates == end_of(both.standby)
    # Where the standby answers at the address of the master, its binlog is not asked for as if it were that.
    bound = replace(address_of(both.standby), server=cursor.offset.server_uuid)
    with pytest.raises(SourceLost, match="answers there now"):
        BinlogStream(bound, cursor.offset).open()
    # At home nothing is changed, and it is read by file and offset.
    assert at_home(cursor, both.master) == cursor.proof


def test_an_address_that_leads_to_another_server_in_mid_check_proves_nothing(
    both: Pair, tmp_path: Path
) -> None:
    insert(both.master, "three")
    both.caught_up()
    cursor = published(both.master)
    ask(both.standby, "STOP REPLICA SQL_THREAD")
    try:
        insert(both.master, "four")
        with proxy(tmp_path) as ways:
            way = ways.link("source", "127.0.0.1", both.master.port)
            address = replace(address_of(both.master), port=way.port)
            facts = read_facts(address)
            bound = replace(address, server=facts.server_uuid)
            connection_to(bound).close()
            # As chunks of existing rows are read.
            connection_to(bound, use_unicode=False, conv={}).close()
            # As a virtual address does at a failover.
            way.backend("127.0.0.1", both.standby.port)
            for one, error in ((address, SourceDiverged), (bound, SourceLost)):
                verification = CursorVerification(destination="shop", facts=facts, address=one)
                with pytest.raises(error) as fault:
                    verification.at_home(cursor.offset, cursor.proof)
            assert f"answers there now, and {facts.server_uuid} did before" in fault.value.detail
    finally:
        ask(both.standby, "START REPLICA SQL_THREAD")


@pytest.mark.remedy("StandbyFiltered")
def test_filters_are_asked_wherever_a_server_keeps_them(both: Pair) -> None:
    cursor = published(both.master)
    until(lambda: _fits(cursor, both.standby))

    def filtered(rule: str) -> None:
        ask(both.standby, "STOP REPLICA SQL_THREAD", f"CHANGE REPLICATION FILTER {rule}")
        ask(both.standby, "START REPLICA SQL_THREAD")

    for rule in (
        "REPLICATE_IGNORE_DB = (shop)",
        "REPLICATE_DO_DB = (other)",
        "REPLICATE_IGNORE_TABLE = (shop.t)",
        "REPLICATE_WILD_IGNORE_TABLE = ('sh%.%')",
        "REPLICATE_DO_TABLE = (shop.t)",
        "REPLICATE_REWRITE_DB = ((shop, other))",
    ):
        filtered(rule)
        refused(cursor, both.standby, StandbyFiltered, "REPLICATE_")
        assert moved(cursor, both.standby, accept_filters=True)
        filtered(f"{rule.partition(' ')[0]} = ()")
    filtered("REPLICATE_IGNORE_DB = (other), REPLICATE_WILD_DO_TABLE = ('shop.%')")
    assert moved(cursor, both.standby)
    filtered("REPLICATE_IGNORE_DB = (), REPLICATE_WILD_DO_TABLE = ()")


def _fits(cursor: Cursor, server: Mysql) -> bool:
    try:
        moved(cursor, server)
    except SourceDiverged:
        return False
    return True


def test_rows_that_a_filter_left_out_show_once_it_is_gone(both: Pair) -> None:
    ask(both.standby, "STOP REPLICA SQL_THREAD")
    ask(both.standby, "CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (shop)")
    ask(both.standby, "START REPLICA SQL_THREAD")
    insert(both.master, "left out")
    cursor = published(both.master)
    until(lambda: facts_of(both.standby).gtid_executed == facts_of(both.master).gtid_executed)
    ask(both.standby, "STOP REPLICA SQL_THREAD")
    ask(both.standby, "CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = ()")
    ask(both.standby, "START REPLICA SQL_THREAD")
    refused(cursor, both.standby, SourceDiverged, "no rows of captured tables")
    assert moved(cursor, both.standby, accept_unproven=True)


def test_what_a_server_gives_the_same_gtids_to_is_refused_and_what_it_purged_is_not_proven(
    both: Pair,
) -> None:
    cursor = published(both.master)
    promote(both.standby)
    ask(both.standby, "FLUSH BINARY LOGS")
    last = ask(both.standby, "SHOW BINARY LOGS")[-1][0]
    ask(both.standby, f"PURGE BINARY LOGS TO '{last}'")
    refused(cursor, both.standby, SourceUnproven, "none of the last published")
    assert moved(cursor, both.standby, accept_unproven=True)
    # The same at home, whose file is gone.
    ask(both.master, "FLUSH BINARY LOGS")
    last = ask(both.master, "SHOW BINARY LOGS")[-1][0]
    ask(both.master, f"PURGE BINARY LOGS TO '{last}'")
    facts = facts_of(both.master)
    # It has been up since, and nothing unread was purged.
    assert at_home(cursor, both.master).by_gtids_to == end_of(both.master)
    ask(both.master, "FLUSH STATUS")
    assert at_home(cursor, both.master).landmark == cursor.proof.landmark
    # A reset of which there is no trace.
    ask(both.master, "RESET REPLICA")
    with pytest.raises(SourceUnproven, match="purged"):
        at_home(cursor, both.master)
    # Another history under the same GTIDs.
    executed = str(facts.gtid_executed)
    ask(both.standby, "RESET BINARY LOGS AND GTIDS")
    uuid, _, numbers = executed.partition(":")
    for number in range(1, int(numbers.rpartition("-")[2]) + 1):
        _as(both.standby, f"{uuid}:{number}")
    refused(cursor, both.standby, SourceDiverged, "another transaction")


def _as(server: Mysql, gtid: str) -> None:
    """A row of its own under another one's GTID."""
    ask(
        server,
        f"SET GTID_NEXT = '{gtid}'",
        "INSERT INTO shop.t (x, note) VALUES (7, 'own')",
        "SET GTID_NEXT = 'AUTOMATIC'",
    )


def test_errant_transactions_are_reported_until_they_are_purged_and_the_last_one_is_compared_always(
    stack: Stack,
) -> None:
    with pair(stack, "errant", read_only="ON") as both:
        ask(both.master, "CREATE DATABASE other", "CREATE TABLE other.t (id int PRIMARY KEY)")
        insert(both.master, "published")
        ask(both.master, "INSERT INTO other.t VALUES (1)")
        cursor = published(both.master)
        until(lambda: _fits(cursor, both.standby))
        # Of captured rows it says nothing; the standby gives its GTID to some that nobody would ever read.
        ask(both.standby, "STOP REPLICA")
        ask(both.master, "INSERT INTO other.t VALUES (2)")
        last = published(both.master)
        landmark = last.proof.landmark
        assert landmark is not None
        assert landmark.gtid not in {one.gtid for one in last.proof.recent}
        _as(both.standby, str(landmark.gtid))
        refused(last, both.standby, SourceDiverged, "another transaction")
        insert(both.standby, "errant")
        refused(last, both.standby, SourceDiverged, "of its own")
        ask(both.standby, "FLUSH BINARY LOGS")
        file = ask(both.standby, "SHOW BINARY LOGS")[-1][0]
        ask(both.standby, f"PURGE BINARY LOGS TO '{file}'")
        refused(last, both.standby, PositionPurged, "it has purged .* which the cursor lacks")


def test_the_files_of_a_server_under_another_uuid_are_the_same_binlog(both: Pair) -> None:
    insert(both.master, "before")
    cursor = published(both.master)
    elsewhere = replace(
        cursor, offset=replace(cursor.offset, server_uuid="0" * 8 + "-0000-0000-0000-" + "0" * 12)
    )
    insert(both.master, "after")
    found = moved(elsewhere, both.master)
    assert found.is_same_binlog
    assert found.offset.coordinates == cursor.offset.coordinates


def test_a_cursor_without_proof_gets_one_where_its_place_and_its_gtids_agree(both: Pair) -> None:
    insert(both.master, "one more")
    cursor = published(both.master)
    facts = facts_of(both.master)
    old = replace(cursor, proof=CursorProof())
    found = at_home(old, both.master)
    assert found.landmark is not None
    assert cursor.proof.landmark is not None
    assert (found.landmark.gtid, found.landmark.first) == (
        cursor.proof.landmark.gtid,
        cursor.proof.landmark.first,
    )
    assert found.by_gtids_to is None
    head = Coordinates(facts.binlogs[-1][0], 4)
    ahead = replace(old, offset=replace(old.offset, coordinates=head))
    assert at_home(ahead, both.master).by_gtids_to == end_of(both.master)
    lacking = replace(old, offset=replace(old.offset, gtid_set=facts.gtid_purged))
    with pytest.raises(SourceDiverged, match="do not agree"):
        at_home(lacking, both.master)


def test_what_a_standby_has_executed_and_not_logged_is_refused(stack: Stack) -> None:
    # It is nobody's replica any more; what it applied counts as purged, since no file has it.
    with pair(stack, "unlogged", log_replica_updates="OFF") as both:
        insert(both.master, "published")
        cursor = published(both.master)
        insert(both.master, "not yet")
        both.caught_up()
        promote(both.standby)
        insert(both.standby, "its own")
        refused(cursor, both.standby, PositionPurged, "it has purged")


def test_the_end_of_a_binlog_that_a_crash_took_is_missed_once_its_gtids_are_given_again(
    both: Pair,
) -> None:
    insert(both.master, "kept", "not synced")
    cursor = published(both.master)
    assert cursor.proof.landmark is not None
    both.master.kill()
    with (both.master.data / cursor.proof.landmark.start.file).open("r+b") as file:
        file.truncate(cursor.proof.landmark.start.pos)
    both.master.start()
    insert(both.master, "another", "and another")
    gtids = cursor.offset.gtid_set
    assert isinstance(gtids, GtidSet)
    assert gtids.issubset(facts_of(both.master).gtid_executed)
    with pytest.raises(SourceDiverged, match="no longer there"):
        at_home(cursor, both.master)
