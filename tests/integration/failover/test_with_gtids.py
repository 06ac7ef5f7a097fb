"""Master and standby with GTIDs: the set decides the position to resume from, and which server is refused."""

from __future__ import annotations

import contextlib
import io
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import ask
from tests.harness.worker import running
from tests.integration.failover.servers import Pair, Writer, changed, insert, notes, pair, promote
from tests.integration.failover.setting import has_rows, reads, shows, two_sources


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


@pytest.mark.remedy("StandbyLags", "SourceSilent")
def test_an_operator_switches_and_is_shown_why_a_standby_is_not_fit(
    stack: Stack, both: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = two_sources(stack, both, tmp_path)
    # So long that the stream's own silence does not come before the heartbeat.
    given["destinations"]["shop"]["heartbeat_seconds"] = 10
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))

    def switch(server: Mysql) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as result:
            code = main(["source", "switch", "shop", f"{server.host}:{server.port}"])
        return code, result.getvalue()

    with running(given, tmp_path) as worker:
        insert(both.master, "one")
        both.caught_up()
        ask(both.standby, "STOP REPLICA SQL_THREAD")
        insert(both.master, "two")
        has_rows(worker, 2)
        asked = ThreadPoolExecutor(1).submit(switch, both.standby)
        shows(worker, "RETRYING", "StandbyLags", "it lacks", "applies nothing")
        assert notes(stack, given["prefix"]) == ["one", "two"]
        ask(both.standby, "START REPLICA SQL_THREAD")
        code, result = asked.result()
        assert code == 0
        assert "is read now" in result
        reads(worker, both.standby)
        insert(both.master, "three")
        has_rows(worker, 3)
        # Its own row is nobody else's, so nobody may be led to it.
        assert switch(both.master)[0] == 0
        insert(both.standby, "errant")
        code, result = switch(both.standby)
        assert code == 1
        assert "SourceDiverged: it has transactions of its own" in result
        reads(worker, both.master)
        # The master hangs: it takes connections, and answers none.
        assert both.master.child is not None
        both.master.child.identity.signal(signal.SIGSTOP)
        reads(worker, both.standby)
        assert "SourceSilent" in worker.log
        assert "heartbeat 3 of 3" in worker.log
        both.master.child.identity.signal(signal.SIGCONT)
        has_rows(worker, 4)
        code, result = switch(both.master)
        assert code == 1
        assert "SourceDiverged: it lacks" in result
        reads(worker, both.standby)
    assert notes(stack, given["prefix"]) == ["one", "two", "three", "errant"]
