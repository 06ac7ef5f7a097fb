"""Master and standby with GTIDs: the set decides where to go on, and who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.integration.failover.servers import (
    Pair,
    Writer,
    ask,
    changed,
    insert,
    notes,
    pair,
    promote,
)
from tests.integration.process.worker import Worker, running, settings


@pytest.fixture
def both(stack: Stack, tmp_path: Path) -> Iterator[Pair]:
    with pair(stack, tmp_path.name) as servers:
        yield servers


def wanted(stack: Stack, both: Pair, folder: Path, **failover: Any) -> dict[str, Any]:
    """Settings with both servers, and a heartbeat that is quick to give up."""
    found = settings(stack, both.master, folder, heartbeat_seconds=1, decoders=1)
    shop = found["destinations"]["shop"]
    first = shop.pop("source")
    shop["sources"] = [first, {**first, "port": both.standby.port}]
    beat = {"interval_seconds": 0.2, "retries": 3}
    shop["failover"] = {"heartbeat": beat, **failover}
    return found


def reads(worker: Worker, server: Mysql) -> None:
    worker.wait(
        lambda status: (
            status["state"] == "RUNNING"
            and any(
                one["is_read"] and one["address"].endswith(f":{server.port}")
                for one in status["sources"]
            )
        )
    )


def has_rows(worker: Worker, count: int) -> None:
    worker.wait(lambda status: status["rows"] >= count)


def test_a_master_that_dies_is_left_for_its_standby_and_nothing_is_lost_or_repeated(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    given = wanted(stack, both, tmp_path)
    servers = {ask(one, "SELECT @@server_uuid")[0][0] for one in (both.master, both.standby)}
    with running(given, tmp_path) as worker:
        with Writer(both.master, "m") as writer:
            writer.until(100)
        both.caught_up()
        has_rows(worker, len(writer.confirmed))
        ask(both.master, "ALTER TABLE shop.t ADD more int")
        insert(both.master, "altered")
        both.caught_up()
        both.master.kill()
        promote(both.standby)
        insert(both.standby, "after", "after 2")
        ask(both.standby, "ALTER TABLE shop.t DROP more")
        insert(both.standby, "dropped")
        reads(worker, both.standby)
        has_rows(worker, len(writer.confirmed) + 4)
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    expected = [*writer.confirmed, "altered", "after", "after 2", "dropped"]
    assert notes(stack, given["prefix"]) == expected
    origins = {change.change_id.partition(":")[0] for change in changed(stack, given["prefix"])}
    assert origins == servers
    # A restart stays with the standby, and finds its history at its place.
    insert(both.standby, "restarted")
    with running(given, tmp_path) as worker:
        reads(worker, both.standby)
        has_rows(worker, 1)
    assert notes(stack, given["prefix"]) == [*expected, "restarted"]
