"""The lag: the time since the source passed the worker's position, during a stall and when idle."""

from __future__ import annotations

import asyncio

import pytest

from app import metrics
from app.worker.destination.lag_watch import LagWatch, PendingEnds
from app.worker.status import DestinationStatus, State
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.binlog_end import BinlogEnd
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.facts import SourceAddress
from tables.state.cursor import Cursor

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ADDRESS = SourceAddress(host="b", port=1, user="u", password="", server_id=5, replica_uuid="")
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def end(pos: int, gtids: Gtids | None = None, *more: int) -> BinlogEnd:
    files = [("b.000001", pos), *((f"b.{n:06}", size) for n, size in enumerate(more, 2))]
    return BinlogEnd(server_uuid=UUID, binlogs=tuple(files), gtids=gtids)


def offset(pos: int, gtids: Gtids | None = None, server: str = UUID) -> SourceOffset:
    position = Coordinates("b.000001", pos)
    return SourceOffset(server_uuid=server, coordinates=position, gtid_set=gtids)


def to(number: int) -> GtidSet:
    return GtidSet.parse(f"{UUID}:1-{number}")


@pytest.mark.parametrize(
    ("ours", "theirs", "is_past"),
    [
        (offset(500), end(500), False),
        (offset(400), end(500), True),
        (offset(450), end(500, None, 160), False),
        (offset(500), end(500, None, 160, 900), True),
        (offset(400, to(7)), end(500, to(8)), True),
        (offset(400, to(8)), end(500, to(8)), False),
        (offset(500, to(7)), end(500, to(8)), False),
        (offset(400, MariadbGtidList.parse("0-1-7")), end(500, MariadbGtidList.parse("0-1-8")), True),
        (offset(400, MariadbGtidList.parse("0-1-8")), end(500, MariadbGtidList.parse("0-1-8")), False),
        (offset(400, to(7)), BinlogEnd(server_uuid=UUID, binlogs=(), gtids=to(8)), False),
    ],
)  # fmt: skip
def test_a_source_is_past_a_position_only_by_a_transaction(
    ours: SourceOffset, theirs: BinlogEnd, is_past: bool
) -> None:
    assert theirs.is_past(ours) is is_past


@pytest.mark.parametrize(
    ("ours", "theirs", "may_be_past"),
    [
        (offset(500, to(8)), end(500, to(8)), False),
        # Written, and not among the executed ones yet.
        (offset(400, to(8)), end(500, to(8)), True),
        (offset(400), end(500), True),
        (offset(500, to(8)), end(500, to(8), 160), False),
        (offset(500, to(8)), end(500, to(8), 900), False),
        (offset(500, to(7)), end(500, to(8), 900), True),
        # Another server's files may have the same names.
        (offset(900, to(7), OTHER), end(500, to(8)), True),
        (offset(100, to(8), OTHER), end(500, to(8)), False),
        (offset(900, None, OTHER), end(500), True),
        # MariaDB appends events that belong to no transaction.
        (offset(400, MariadbGtidList.parse("0-1-8")), end(500, MariadbGtidList.parse("0-1-8")), False),
    ],
)  # fmt: skip
def test_a_source_may_be_past_a_position_by_bytes_whose_gtid_is_not_executed_yet(
    ours: SourceOffset, theirs: BinlogEnd, may_be_past: bool
) -> None:
    assert theirs.may_be_past(ours) is may_be_past


def at(file: str, pos: int, server: str = UUID) -> SourceOffset:
    return SourceOffset(server_uuid=server, coordinates=Coordinates(file, pos), gtid_set=to(7))


@pytest.mark.parametrize(
    ("ours", "theirs", "is_before"),
    [
        (at("b.000001", 500), end(500), False),
        (at("b.000001", 500), end(499), True),
        # A GTID is among the executed ones only after its transaction was sent.
        (at("b.000001", 500), end(500, to(6)), False),
        (at("b.000002", 200), end(900, to(9)), True),
        (at("b.000001", 500), end(160, to(9), 158), False),
        (at("b.000001", 500, OTHER), end(160), False),
        (at("renamed.000007", 500), end(160), False),
        (at("b.000001", 500), BinlogEnd(server_uuid=UUID, binlogs=(), gtids=None), False),
    ],
)  # fmt: skip
def test_a_binlog_is_before_what_was_read_from_it_once_it_was_reset(
    ours: SourceOffset, theirs: BinlogEnd, is_before: bool
) -> None:
    assert theirs.is_before(ours) is is_before


async def test_a_run_that_reads_on_after_a_reset_is_ended_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, calls = DestinationStatus("reset"), asyncio.Queue[str]()
    watch = LagWatch(status, lambda: ADDRESS, lambda: calls.put_nowait("ended"))
    seen = asyncio.Event()

    async def looked(_: float) -> None:
        seen.set()
        await asyncio.Event().wait()

    async def look() -> None:
        seen.clear()
        running = asyncio.create_task(watch.run())
        await seen.wait()
        running.cancel()

    monkeypatch.setattr("app.worker.destination.lag_watch.asyncio.sleep", looked)
    monkeypatch.setattr("app.worker.destination.lag_watch.read_end", lambda _: end(160))
    status.cursor = Cursor(
        destination="reset", installation="i", epoch=1, seq=0, versions=0, offset=offset(500)
    )
    status.show(State.RETRYING, "SourceLost: x")
    await look()
    assert calls.empty()
    status.show(State.RUNNING, None)
    await look()
    assert calls.get_nowait() == "ended"
    # The next run has proven it, as after a server's files were removed on purpose.
    await look()
    assert calls.empty()


def test_what_is_not_reached_grows_old_and_what_is_reached_does_not() -> None:
    unread = PendingEnds()
    assert unread.seconds(0, offset(100), end(100)) == 0
    assert unread.seconds(10, offset(100), end(200)) == 0
    assert unread.seconds(20, offset(100), end(300)) == 10
    assert unread.seconds(90, offset(100), None) == 80
    assert unread.seconds(100, offset(200), end(300)) == 80
    assert unread.seconds(110, offset(300), end(300)) == 0
    assert unread.seconds(900, offset(300), None) == 0


def test_a_stall_of_hours_is_counted_from_its_beginning() -> None:
    unread = PendingEnds()
    for n in range(5000):
        unread.seconds(n * 10.0, offset(100), end(200 + n))
    assert unread.seconds(50_000, offset(100), None) == 50_000


def test_another_source_starts_over() -> None:
    unread = PendingEnds()
    unread.seconds(0, offset(100), end(300))
    assert unread.seconds(500, offset(100, server=OTHER), end(300)) == 0


def value(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, {"destination": "lags", **labels})


async def test_what_a_pause_leaves_unread_is_its_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    status, seen = DestinationStatus("lags"), asyncio.Event()
    status.cursor = Cursor(
        destination="lags", installation="i", epoch=1, seq=1, versions=0, offset=offset(100)
    )
    status.lag_seconds = 0.1
    status.show(State.PAUSED, "paused by x")
    watch = LagWatch(status, lambda: ADDRESS, lambda: None)

    async def looked(_: float) -> None:
        seen.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("app.worker.destination.lag_watch.asyncio.sleep", looked)
    monkeypatch.setattr("app.worker.destination.lag_watch.read_end", lambda _: end(500))
    monkeypatch.setattr(PendingEnds, "seconds", lambda *_: 700.0)
    running = asyncio.create_task(watch.run())
    await seen.wait()
    running.cancel()
    assert (status.unread_seconds, status.lag_seconds) == (700, 700)
    assert value("aqueduct_source_unread_seconds") == value("aqueduct_source_lag_seconds") == 700
    # A lag that is greater, by the time of the last commit, stays.
    status.lag_seconds = 9000.0
    watch._show(end(500))
    assert status.lag_seconds == 9000


def test_a_destination_that_is_led_no_more_exports_its_state_alone() -> None:
    status = DestinationStatus("lags")
    status.show(State.RUNNING, None)
    position = offset(100)
    status.cursor = Cursor(
        destination="lags", installation="i", epoch=1, seq=0, versions=0, offset=position
    )
    watch = LagWatch(status, lambda: None, lambda: None)
    watch._show(end(300))
    assert (value("aqueduct_destination_up"), value("aqueduct_source_unread_seconds")) == (1, 0)
    status.show(State.FAILED, "X: y")
    assert value("aqueduct_destination_up") == 0
    assert value("aqueduct_destination_state", state="FAILED") == 1
    assert value("aqueduct_destination_state", state="RUNNING") is None
    status.show(State.STANDBY, None)
    watch._show(end(300))
    assert value("aqueduct_source_unread_seconds") is None
    assert status.unread_seconds is None
    assert value("aqueduct_destination_state", state="STANDBY") == 1


def test_each_that_could_be_led_says_whether_it_is_and_others_say_nothing() -> None:
    metrics.show_candidates(["lags", "x"], {"lags": 1})
    assert value("aqueduct_leader") == 1
    metrics.show_candidates(["lags"], {})
    assert value("aqueduct_leader") == 0
    metrics.show_candidates([], {})
    assert value("aqueduct_leader") is None
