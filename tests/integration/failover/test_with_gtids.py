"""Master and standby with GTIDs: the set decides where to go on, and who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack
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
from tests.integration.failover.setting import has_rows, reads, two_sources
from tests.integration.process.worker import running


@pytest.fixture
def both(stack: Stack, tmp_path: Path) -> Iterator[Pair]:
    with pair(stack, tmp_path.name) as servers:
        yield servers


def test_a_master_that_dies_is_left_for_its_standby_and_nothing_is_lost_or_repeated(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    given = two_sources(stack, both, tmp_path)
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
