"""Master and standby without GTIDs: fingerprints find the position to resume from, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.harness.worker import running
from tests.integration.failover.servers import Pair, Writer, changed, insert, notes, pair, promote
from tests.integration.failover.setting import has_rows, reads, shows, two_sources


@pytest.fixture
def both(stack: Stack, tmp_path: Path) -> Iterator[Pair]:
    with pair(stack, tmp_path.name, gtids=False) as servers:
        yield servers


def test_the_standby_is_read_on_right_after_the_published_changes(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    given = two_sources(stack, both, tmp_path)
    servers = [ask(one, "SELECT @@server_uuid")[0][0] for one in (both.master, both.standby)]
    # Many rows in one transaction are cut into events and chunks, not alike on both.
    ask(both.master, "INSERT INTO shop.t (x, note) VALUES (0, REPEAT('a', 40))")
    with running(given, tmp_path) as worker:
        with Writer(both.master, "m") as writer:
            writer.until(100)
            ask(both.master, *["INSERT INTO shop.t (x, note) SELECT x, 'many' FROM shop.t"] * 2)
            writer.until(len(writer.confirmed) + 50)
        # The same again and again: only their order and times distinguish them.
        ask(both.master, *["UPDATE shop.t SET x = 1 - x WHERE id = 1"] * 40)
        ask(both.master, "ALTER TABLE shop.t ADD more int", "CREATE TABLE shop.u (id int)")
        insert(both.master, "altered")
        both.caught_up()
        (total,) = ask(both.master, "SELECT COUNT(*) + 40 FROM shop.t")[0]
        has_rows(worker, total)
        both.master.kill()
        insert(both.standby, "after", "after 2")
        ask(both.standby, "ALTER TABLE shop.t DROP more")
        insert(both.standby, "dropped")
        reads(worker, both.standby)
        has_rows(worker, total + 3)
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    found = notes(stack, given["prefix"])
    assert [note for note in found if note.startswith("m") and note != "many"] == writer.confirmed
    assert found[-4:] == ["altered", "after", "after 2", "dropped"]
    assert len(found) == total + 3
    names = [change.change_id.partition(":")[0] for change in changed(stack, given["prefix"])]
    assert names == [servers[0]] * total + [servers[1]] * 3
    insert(both.standby, "restarted")
    with running(given, tmp_path) as worker:
        reads(worker, both.standby)
        has_rows(worker, 1)
    assert notes(stack, given["prefix"])[-2:] == ["dropped", "restarted"]


@pytest.mark.remedy("LostInReplication")
@pytest.mark.long("test_with_gtids has the same by GTIDs")
def test_a_standby_that_lags_is_waited_for_and_what_it_lost_stops_the_destination(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    given = two_sources(stack, both, tmp_path)
    with running(given, tmp_path) as worker:
        insert(both.master, "one", "two")
        both.caught_up()
        ask(both.standby, "STOP REPLICA SQL_THREAD")
        insert(both.master, "lost", "three", "four")
        has_rows(worker, 5)
        position = "Read_Source_Log_Pos"
        until(
            lambda: _described(both, position) == ask(both.master, "SHOW BINARY LOG STATUS")[0][1]
        )
        both.master.kill()
        shows(worker, "RETRYING", "StandbyLags", "it lacks the last 3", "applies nothing")
        # The classic way to lose a transaction.
        ask(both.standby, "SET GLOBAL sql_replica_skip_counter = 1", "START REPLICA SQL_THREAD")
        until(lambda: ask(both.standby, "SELECT COUNT(*) FROM shop.t") == ((4,),))
        why = shows(worker, "FAILED", "LostInReplication", "1 transaction(s)")
        assert "binlog.0000" in why
    assert notes(stack, given["prefix"]) == ["one", "two", "lost", "three", "four"]
    promote(both.standby)
    insert(both.standby, "five")
    with running(given, tmp_path) as worker:
        shows(worker, "FAILED", "LostInReplication")
    given["destinations"]["shop"]["failover"]["lost_in_replication"] = "report"
    with running(given, tmp_path) as worker:
        reads(worker, both.standby)
        has_rows(worker, 1)
        assert "LostInReplication" not in worker.log or why.partition(": ")[0] in worker.log
        assert "lacks transactions that were published" in worker.log
    assert notes(stack, given["prefix"]) == ["one", "two", "lost", "three", "four", "five"]


def _described(both: Pair, name: str) -> object:
    import pymysql

    standby = both.standby
    connection = pymysql.connect(
        host=standby.host,
        port=standby.port,
        user="root",
        cursorclass=pymysql.cursors.DictCursor,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        (row,) = cursor.fetchall()
        return row[name]
