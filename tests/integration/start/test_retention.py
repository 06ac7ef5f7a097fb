"""The remaining retention of unread binlog files on a real server: it falls until they are purged."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
import yaml

from app.metrics import REGISTRY
from app.worker.destination.purge_watch import PurgeWatch
from app.worker.status import DestinationStatus, State
from connectors.mysql.position import SourceOffset
from devstack import mysql_software
from devstack.mysql import Mysql
from devstack.paths import PROJECT
from devstack.processes import Children
from tables.state.cursor import Cursor
from tests.harness.sql import connected, run
from tests.harness.wait import until
from tests.integration.worker.source import address_of, end_of, facts_of

_METRIC = "aqueduct_source_seconds_until_purged"
_KEPT = 3600


def until_purged(*, if_stopped: bool = False) -> float:
    name = _METRIC + ("_if_stopped" if if_stopped else "")
    found = REGISTRY.get_sample_value(name, {"destination": "kept"})
    assert found is not None
    return found


def looked(status: DestinationStatus, server: Mysql, seconds: float) -> None:
    """Watch for that long, at looks that come one after the other."""
    watch = PurgeWatch(status, lambda: address_of(server), seconds=0.1)

    async def watched() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await watch.run()

    asyncio.run(watched())


@pytest.mark.stack
def test_the_time_left_falls_as_files_expire_and_the_alarm_looks_at_it(
    children: Children, tmp_path: Path
) -> None:
    options = {"binlog_expire_logs_seconds": _KEPT}
    server = Mysql(
        tmp_path, mysql_software.find_or_fetch(children), owner=children, options=options
    )
    server.start()
    begin = end_of(server)
    run(server, "CREATE DATABASE d", "FLUSH BINARY LOGS", "CREATE TABLE d.t (id int)")
    ended = time.time()
    status = DestinationStatus("kept")
    status.show(State.RUNNING, None)
    status.cursor = Cursor(
        destination="kept",
        installation="i",
        epoch=1,
        seq=0,
        versions=0,
        offset=SourceOffset(server_uuid=facts_of(server).server_uuid, coordinates=begin),
    )
    looked(status, server, 0.8)
    left, at = until_purged(if_stopped=True), time.time()
    # The start of a file is known in seconds.
    assert left == pytest.approx(_KEPT - (at - ended), abs=1.5)
    # Nothing is read, so it does not change.
    assert until_purged() == pytest.approx(left, abs=5)
    time.sleep(1.5)
    looked(status, server, 0.8)
    assert left - until_purged(if_stopped=True) == pytest.approx(time.time() - at, abs=0.5)
    with connected(server) as cursor:
        cursor.execute("SET GLOBAL binlog_expire_logs_seconds = 1")

        def purged() -> bool:
            cursor.execute("FLUSH BINARY LOGS")
            return begin.file not in dict(facts_of(server).binlogs)

        until(purged)
    looked(status, server, 0.5)
    assert (until_purged(), until_purged(if_stopped=True)) == (0, 0)


def test_alarms_are_of_what_is_measured() -> None:
    alerts = yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    expressions = [rule["expr"] for rule in rules if _METRIC in str(rule.get("expr"))]
    assert [one.split()[0] for one in expressions] == [_METRIC, f"{_METRIC}_if_stopped"]
