"""Another server without GTIDs at the same address, and the last transactions' positions on it, if any."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.worker.destination.failover.cursor_translation import CursorTranslation, TranslatedCursor
from app.worker.destination.plan import Failover
from connectors.errors import LostInReplication, NoAlignment, PositionPurged, StandbyLags
from connectors.mysql.lookup.fingerprint import Fingerprint, scan
from connectors.mysql.position import Coordinates, SourceOffset
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints
from tests.crash.links import proxy
from tests.harness.forked import run_command
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.harness.worker import running, settings
from tests.integration.failover.servers import Pair, changed, follow, insert, notes, pair, promote
from tests.integration.failover.setting import has_rows, shows
from tests.integration.worker.source import address_of, end_of, facts_of
from tests.unit.app.worker.pipeline.runs import RULES


@pytest.fixture(scope="module")
def both(stack: Stack) -> Iterator[Pair]:
    # Binlogs know no zones, so neither do we.
    with pair(stack, "another", gtids=False, default_time_zone="+09:00") as servers:
        yield servers


@pytest.mark.remedy("NoAlignment")
@pytest.mark.long("test_without_gtids.py resumes at a standby")
def test_it_is_resumed_after_the_published_changes_and_missing_ones_stop_the_destination(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    failover = {"fingerprints": "on"}
    given = settings(
        stack, both.master, tmp_path, heartbeat_seconds=1, decoders=0, failover=failover
    )
    with proxy(tmp_path) as links:
        wire = links.link("mysql", both.master.host, both.master.port)
        given["destinations"]["shop"]["source"]["port"] = wire.port
        with running(given, tmp_path) as worker:
            insert(both.master, "one", "two", "two")
            has_rows(worker, 3)
            both.caught_up()
            promote(both.standby)
            insert(both.standby, "three")
            wire.backend(both.standby.host, both.standby.port)
            wire.reset()
            has_rows(worker, 4)
            assert "another server answers at its address" in worker.log
            wire.backend(both.master.host, both.master.port)
            wire.reset()
            shows(worker, "FAILED", "LostInReplication", "1 transaction(s)")
        # Where nothing shows the position, an operator gives it.
        other = {**given, "prefix": f"{given['prefix']}-2"}
        other["destinations"]["shop"] |= {"start": "latest", "failover": {"fingerprints": "off"}}
        with running(other, tmp_path) as worker:
            shows(worker, "RUNNING")
            insert(both.master, "four")
            has_rows(worker, 1)
            wire.backend(both.standby.host, both.standby.port)
            wire.reset()
            error = shows(worker, "FAILED", "NoAlignment", "no fingerprints")
            (words,) = re.findall(r"python -m app (cursor set shop --latest --why) REASON", error)
            done = run_command(
                tmp_path / "aqueduct.yaml", *words.split(), "moved", "--yes-lose-changes"
            )
            assert done.returncode == 0, done.stderr
            insert(both.standby, "five")
            has_rows(worker, 2)
    assert notes(stack, other["prefix"]) == ["four", "five"]
    assert notes(stack, given["prefix"]) == ["one", "two", "two", "three"]
    servers = [change.change_id.partition(":")[0] for change in changed(stack, given["prefix"])]
    assert servers == [_uuid(both.master)] * 3 + [_uuid(both.standby)]


def test_what_a_standby_has_purged_is_not_lost_and_one_that_lags_past_the_window_lacks_it(
    both: Pair,
) -> None:
    _alike(both)
    begin = end_of(both.master)
    insert(both.master, *["purged"] * 3)
    both.caught_up()
    ask(both.standby, "FLUSH BINARY LOGS")
    insert(both.master, *["kept"] * 3)
    both.caught_up()
    _purge(both.standby)
    kept = _prints(both.master, begin)
    assert len(kept) == 6
    assert _moved(both, kept).offset.coordinates == end_of(both.standby)
    ask(both.standby, "FLUSH BINARY LOGS")
    _purge(both.standby)
    # It may report a lag of a second for a moment, and missing transactions could still arrive.
    assert "its oldest binlog file" in until(lambda: _purged(both, kept))

    begin = end_of(both.master)
    insert(both.master, *["before"] * 20)
    both.caught_up()
    position = end_of(both.standby)
    had = _prints(both.master, begin)
    ask(both.standby, "STOP REPLICA")
    # The clock of the one that was read is ahead; with that known the search begins early enough.
    late = [replace(one, ts_ms=one.ts_ms + 30_000) for one in had]
    assert _moved(both, late, ahead=30_000).offset.coordinates == position
    with pytest.raises(StandbyLags, match="lacks the last 20"):
        _moved(both, late)
    time.sleep(2.5)
    insert(both.master, *["lost"] * 20)
    kept = _prints(both.master, begin)
    with pytest.raises(StandbyLags):
        _moved(both, kept)
    promote(both.standby)
    with pytest.raises(LostInReplication, match="20 transaction"):
        _moved(both, kept)
    moved = _moved(both, kept, report_lost=True)
    assert (moved.offset.coordinates, list(moved.lost)) == (position, kept[20:])
    with pytest.raises(NoAlignment):
        _moved(both, kept[20:])


def _alike(both: Pair) -> None:
    """The standby follows again, from what the master has now."""
    promote(both.standby)
    ask(both.master, "DELETE FROM shop.t")
    ask(both.standby, "DELETE FROM shop.t")
    follow(both.standby, both.master, gtids=False, since=end_of(both.master))


def _purge(server: Mysql) -> None:
    last = ask(server, "SHOW BINARY LOGS")[-1][0]
    ask(server, f"PURGE BINARY LOGS TO '{last}'")


def _purged(both: Pair, kept: list[Fingerprint]) -> str | None:
    """The message of PositionPurged; None while the standby lags."""
    try:
        _moved(both, kept)
    except StandbyLags:
        return None
    except PositionPurged as error:
        return str(error)
    raise AssertionError("the standby can be resumed from")


def _prints(server: Mysql, begin: Coordinates) -> list[Fingerprint]:
    """The fingerprints that a worker keeps of the transactions published since then."""
    offset = SourceOffset(server_uuid=_uuid(server), coordinates=begin)
    return scan(
        offset, facts_of(server), address_of(server), lambda database, _: database == "shop"
    ).found


def _moved(
    both: Pair, kept: list[Fingerprint], *, ahead: int = 0, report_lost: bool = False
) -> TranslatedCursor:
    """The position from which the standby is resumed."""
    uuid = _uuid(both.master)
    ring = Fingerprints("shop")
    ring.add(kept, uuid)
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=len(kept),
        versions=0,
        offset=SourceOffset(server_uuid=uuid, coordinates=kept[-1].end),
    )
    switch = CursorTranslation(
        cursor=cursor,
        facts=facts_of(both.standby),
        address=address_of(both.standby),
        failover=Failover(fingerprints=True, fallback_ms=1000, report_lost=report_lost),
        rules=RULES,
        other=None,
        clocks={uuid: ahead},
    )
    return switch.moved(ring)


def _uuid(server: Mysql) -> str:
    return str(ask(server, "SELECT @@server_uuid")[0][0])
