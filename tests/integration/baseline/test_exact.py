"""A baseline read while tables change equals the result of the statements before its position."""

from __future__ import annotations

import threading

import pytest

from connectors.mysql.ddl.definition import Table
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.baseline import Baseline, read_baseline
from devstack.mysql import Mysql
from tests.harness.servers import WITHOUT_GTIDS, Servers
from tests.harness.sql import run
from tests.integration.baseline.busy import DATABASE, Busy, Replay, logged, wait_until_done
from tests.integration.baseline.conftest import SERIES
from tests.integration.worker.source import address_of, end_of, facts_of

ATOMIC = ["9.7", "8.0", f"9.7{WITHOUT_GTIDS}", f"8.0{WITHOUT_GTIDS}"]
READ = 4
REPLAYED = "replayed"


def emptied(mysql: Mysql) -> Coordinates:
    """The position at which the binlog of empty databases begins."""
    for name in (DATABASE, REPLAYED):
        run(mysql, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} CHARACTER SET utf8")
    run(mysql, "FLUSH LOGS")
    return end_of(mysql)


def described_of(baseline: Baseline) -> dict[str, Table]:
    tables = baseline.tables.items()
    return {table: one for (database, table), one in tables if database == DATABASE}


def assert_as_replayed(mysql: Mysql, begin: Coordinates, baselines: list[Baseline]) -> None:
    written = logged(mysql, begin)
    replay = Replay(mysql, baselines[0].server, REPLAYED)
    for baseline in baselines:
        wanted = replay.tables_at(baseline.at, written)
        restless = {table for database, table in baseline.unseen if database == DATABASE}
        assert described_of(baseline) == {
            name: table for name, table in wanted.items() if name not in restless
        }


@pytest.mark.parametrize("series", [*SERIES, *ATOMIC[2:]])
def test_a_baseline_read_amid_changes_is_what_the_binlog_says_at_its_place(
    servers: Servers, series: str
) -> None:
    mysql = servers(series)
    begin, facts, address = emptied(mysql), facts_of(mysql), address_of(mysql)
    with Busy(mysql, seed=1) as one, Busy(mysql, seed=2) as other:
        found = []
        for count in range(2 if WITHOUT_GTIDS in series else READ):
            # Reading may be done before the first statement is.
            wait_until_done(count + 1, one, other)
            found.append(read_baseline(address, facts))
    assert_as_replayed(mysql, begin, found)


@pytest.mark.parametrize("series", ATOMIC)
def test_a_statement_that_is_in_the_binlog_and_has_no_effect_yet_is_not_missed(
    servers: Servers, series: str
) -> None:
    mysql = servers(series)
    first, facts, address = emptied(mysql), facts_of(mysql), address_of(mysql)
    run(mysql, "CREATE TABLE t1 (a int)", database=DATABASE)
    begin = end_of(mysql)
    # It is written, waits for others to be synced with it, and only then takes effect.
    run(mysql, "SET GLOBAL sync_binlog = 1, binlog_group_commit_sync_delay = 300000")
    try:
        statement = "ALTER TABLE t1 ADD COLUMN b int"
        altering = threading.Thread(
            target=run, args=(mysql, statement), kwargs={"database": DATABASE}
        )
        altering.start()
        while end_of(mysql) == begin:
            pass
        found = read_baseline(address, facts)
        altering.join()
    finally:
        run(mysql, "SET GLOBAL sync_binlog = 0, binlog_group_commit_sync_delay = 0")
    assert found.at.coordinates.order > begin.order
    assert_as_replayed(mysql, first, [found])
