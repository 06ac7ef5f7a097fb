"""The supervisor of a led destination: its runs end on a request, also on a second one meanwhile."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app import metrics
from app.worker.coordination.zookeeper_lease import PermanentLease
from app.worker.destination.destination import Destination, LagWatch, PendingEnds
from app.worker.destination.plan import Failover, Plan, Source
from app.worker.destination.purge_watch import Observation, until_purged
from app.worker.status import DestinationStatus, Purge, State
from app.worker.unit.retry_policy import Decision
from connectors.errors import LeadershipLost, SourceLost, TransactionOpen
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.binlog_end import BinlogEnd
from connectors.mysql.lookup.binlog_retention import Retention, age_limit, space_limit
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from tables.state.cursor import Claimed, Cursor, cursor_key
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.operator_requests import Control, Current, DesiredState, source_note


@dataclass(slots=True)
class Lost(PermanentLease):
    """A lease that can be lost."""

    find_lost_at: float = float("inf")

    def check(self) -> None:
        if self.ended.is_set() or asyncio.get_running_loop().time() > self.find_lost_at:
            raise LeadershipLost("the session is over")


class Scene:
    """A destination whose run is within a transaction, and the outcome of that."""

    def __init__(self) -> None:
        plan = SimpleNamespace(
            name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
        )
        self.destination = Destination(cast(Plan, plan), MemoryCheckpoint())
        self.lease = Lost()
        self.described: list[str] = []
        self.writes = asyncio.Event()
        self.unretrieved: list[dict[str, Any]] = []
        self.destination._run = cast(
            Any, SimpleNamespace(run=self._run, address=None, forget_dead_letters=int)
        )
        self.lead = asyncio.create_task(self.destination.lead(self.lease))

    async def _run(self) -> None:
        permit = self.destination._signals.permit
        try:
            async with permit.writing():
                self.writes.set()
                await asyncio.sleep(0.1)
                permit.lease.check()
                self.described.append("committed")
            permit.check()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.02)
            self.described.append("torn down")

    async def ended(self) -> None:
        """Until it leads no more."""
        await asyncio.wait([self.lead])
        self.described.append("led no more")


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    gc.freeze()  # so that a look for garbage is short
    made = Scene()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: made.unretrieved.append(context)
    )
    await made.writes.wait()
    yield made
    # What it ended with holds the run.
    del made.lead
    gc.collect()
    gc.unfreeze()
    assert made.unretrieved == []


def said(desired: DesiredState, offset: int = 1) -> Control:
    """An operator's request."""
    return Control(
        destination="shop", desired=desired, restart=f"r{offset}", by="me", ts_ms=1, offset=offset
    )


async def test_one_that_is_to_end_while_its_run_ends_finishes_the_transaction_and_the_run(
    scene: Scene,
) -> None:
    assert scene.destination.obey(said(DesiredState.STOP))
    await asyncio.sleep(0.02)
    # What leadership does, as nobody is to lead it any more.
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]


async def test_one_that_is_to_end_while_it_restarts_finishes_them_too(scene: Scene) -> None:
    assert scene.destination.obey(said(DesiredState.RUN))
    await asyncio.sleep(0.02)
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]
    assert scene.lead.cancelled()


async def test_one_that_is_cancelled_leaves_no_error_that_is_never_retrieved(scene: Scene) -> None:
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]


async def test_one_that_has_lost_the_lead_waits_for_its_run_though_it_is_cancelled(
    scene: Scene,
) -> None:
    scene.lease.ended.set()
    await asyncio.sleep(0.01)
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["torn down", "led no more"]


async def test_the_error_of_a_run_that_has_lost_the_lead_is_no_surprise(scene: Scene) -> None:
    scene.lease.ended.set()
    await scene.ended()
    assert isinstance(scene.lead.exception(), LeadershipLost)
    assert scene.described == ["torn down", "led no more"]


async def test_a_run_that_finds_out_itself_that_the_lead_is_lost_tears_down_undisturbed(
    scene: Scene,
) -> None:
    # Between what it asks before its commit and the end of its tearing down.
    asyncio.get_running_loop().call_later(0.11, scene.lease.ended.set)
    scene.lease.find_lost_at = asyncio.get_running_loop().time() + 0.05
    await scene.ended()
    assert isinstance(scene.lead.exception(), LeadershipLost)
    assert scene.described == ["torn down", "led no more"]


async def test_why_the_last_run_ended_is_shown_until_the_next_has_got_further() -> None:
    plan = SimpleNamespace(
        name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
    )
    destination = Destination(cast(Plan, plan), MemoryCheckpoint())
    shown: list[tuple[str, str | None]] = []

    async def run() -> None:
        shown.append((destination.status.state.value, destination.status.error))
        if len(shown) > 1:
            destination.obey(said(DesiredState.STOP))
        raise TransactionOpen("somebody's")

    policy = SimpleNamespace(decide=lambda _: Decision(State.RETRYING, 0.0))
    destination._run = cast(
        Any, SimpleNamespace(run=run, address=None, policy=policy, forget_dead_letters=int)
    )
    await destination.lead(PermanentLease())
    assert shown[0] == ("STARTING", None)
    state, error = shown[1]
    assert (state, str(error).startswith("TransactionOpen: ")) == ("STARTING", True)


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

    monkeypatch.setattr("app.worker.destination.destination.asyncio.sleep", looked)
    monkeypatch.setattr("app.worker.destination.destination.read_end", lambda _: end(160))
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

    monkeypatch.setattr("app.worker.destination.destination.asyncio.sleep", looked)
    monkeypatch.setattr("app.worker.destination.destination.read_end", lambda _: end(500))
    monkeypatch.setattr("app.worker.destination.destination.seconds_unread", lambda *_: 7.0)
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


class KeptJournal:
    """The journal's partition with one destination's records."""

    def __init__(self, *records: tuple[bytes, bytes | None]) -> None:
        self.records = [
            StoredRecord(key, value or b"", n) for n, (key, value) in enumerate(records)
        ]

    async def read(self, take: Callable[[StoredRecord], object], *, start: int = 0) -> int:
        for record in self.records[start:]:
            take(record)
        return len(self.records[start:])


def cursor_at(pos: int, *, epoch: int = 1, by: str | None = None) -> Cursor:
    return Cursor(
        destination="lags",
        installation="i",
        epoch=epoch,
        seq=1,
        versions=0,
        offset=offset(pos),
        by=by,
    )


def stored(cursor: Cursor) -> tuple[bytes, bytes]:
    return cursor_key("lags"), orjson.dumps({"format": 1, **cursor.to_json()})


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Destination:
    """A destination that was paused before this worker started, whose source has a second address."""
    second = replace(ADDRESS, host="c")
    read = Current(destination="lags", address="c:1", server_uuid=UUID, why="x", ts_ms=1)
    journal = KeptJournal(stored(cursor_at(50)), source_note(read), stored(cursor_at(100)))
    plan = SimpleNamespace(
        name="lags",
        sources=tuple(Source(address=one, start=cast(Any, None)) for one in (ADDRESS, second)),
        failover=Failover(),
        rules=None,
        journal=journal,
    )
    checkpoint = MemoryCheckpoint()
    checkpoint.fold(journal.records[0])
    destination = Destination(cast(Plan, plan), checkpoint)
    destination.learn(replace(said(DesiredState.PAUSE), destination="lags"))
    module = "app.worker.destination.destination"
    monkeypatch.setattr(f"{module}._GLANCE_SECONDS", 0.001)
    monkeypatch.setattr(f"{module}._MEASURE_SECONDS", 0.001)

    def asked(address: SourceAddress) -> BinlogEnd:
        assert (address.host, address.server) == ("c", UUID)
        return end(500)

    retention = Retention(binlogs=end(500).binlogs, seconds=3600.0, space=None)
    monkeypatch.setattr(f"{module}.read_end", asked)
    monkeypatch.setattr("app.worker.destination.purge_watch.read_retention", lambda _: retention)
    monkeypatch.setattr(f"{module}.seconds_unread", lambda *_: 700.0)
    return destination


async def test_a_pause_from_before_this_worker_started_shows_what_waits(
    paused: Destination,
) -> None:
    status = paused.status
    leading = asyncio.create_task(paused.lead(PermanentLease()))
    async with asyncio.timeout(20):
        while status.unread_seconds is None or status.purge is None:  # noqa: ASYNC110 - the status announces nothing
            await asyncio.sleep(0.005)
    assert status.state is State.PAUSED
    assert status.cursor == cursor_at(100)
    assert status.unread_seconds == pytest.approx(700, abs=30)
    assert (value("aqueduct_source_unread_seconds") or 0) >= 700
    assert (value("aqueduct_source_lag_seconds") or 0) >= 700
    assert value("aqueduct_source_seconds_until_purged_if_stopped") == 3600
    # A command moves the cursor meanwhile.
    moved = cursor_at(500, epoch=2, by="me")
    journal = cast(KeptJournal, paused.plan.journal)
    journal.records.append(StoredRecord(*stored(moved), offset=3))
    paused.observe(Claimed(destination="lags", epoch=2, by="me"))
    async with asyncio.timeout(20):
        while status.cursor != moved or status.unread_seconds:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
    assert value("aqueduct_source_unread_seconds") == 0
    leading.cancel()
    await asyncio.wait([leading])


async def test_a_source_that_never_answered_a_fresh_worker_has_no_lag_of_zero(
    paused: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def lost(_: SourceAddress) -> BinlogEnd:
        nonlocal looks
        looks += 1
        raise SourceLost("it is down")

    monkeypatch.setattr("app.worker.destination.destination.read_end", lost)
    monkeypatch.setattr("app.worker.destination.purge_watch.read_retention", lost)
    leading = asyncio.create_task(paused.lead(PermanentLease()))
    async with asyncio.timeout(20):
        while looks < 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
    assert (paused.status.unread_seconds, value("aqueduct_source_unread_seconds")) == (None, None)
    leading.cancel()
    await asyncio.wait([leading])


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


DAY = 86400.0
HOUR = 3600.0
FILES = (("b.000004", 100), ("b.000005", 200), ("b.000006", 50))


def look(
    at: float, *, behind: float = 0.0, left: float = math.inf, written: int = 0
) -> Observation:
    return Observation(at, behind, left, written)


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, 30 * DAY),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "3"}, 3 * DAY),
        ({"expire_logs_days": "0.500000"}, DAY / 2),
        ({"binlog_expire_logs_seconds": "0"}, None),
        ({"expire_logs_days": "0"}, None),
        ({"binlog_expire_logs_seconds": "9", "binlog_expire_logs_auto_purge": "OFF"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_age_is_what_the_server_goes_by(
    variables: dict[str, str], seconds: float | None
) -> None:
    assert age_limit(variables) == seconds


def test_the_limit_of_space_is_the_smaller_one_that_is_set() -> None:
    assert space_limit({"max_binlog_total_size": "0"}) is None
    assert space_limit({"max_binlog_total_size": "500", "binlog_space_limit": "400"}) == 400


def test_a_file_lasts_from_its_end_on_and_the_last_one_from_now_on() -> None:
    kept = Retention(binlogs=FILES, seconds=DAY, space=1000)
    begun = {"b.000005": 1_000_000.0, "b.000006": 1_040_000.0}.__getitem__
    now = 1_050_000.0
    assert kept.seconds_left(Coordinates("b.000004", 9), now, begun) == DAY - 50_000
    assert kept.seconds_left(Coordinates("b.000005", 9), now, begun) == DAY - 10_000
    assert kept.seconds_left(Coordinates("b.000006", 9), now, begun) == DAY
    assert kept.space_left(Coordinates("b.000005", 9)) == 1000 - 250
    assert kept.is_end(Coordinates("b.000006", 50))
    assert not kept.is_end(Coordinates("b.000005", 200))


def test_who_keeps_up_is_never_purged_but_would_be_if_it_stopped() -> None:
    assert until_purged(DAY, [look(0), look(60)]) == Purge(DAY, math.inf)
    assert until_purged(DAY, [look(0, behind=500), look(60, behind=480)]) == Purge(DAY, math.inf)


def test_without_progress_the_whole_lag_remains() -> None:
    assert until_purged(DAY, [look(0, behind=0), look(60, behind=60)]) == Purge(DAY, DAY)


def test_a_worker_that_lags_by_half_has_twice_as_long() -> None:
    assert until_purged(DAY, [look(0, behind=10), look(60, behind=40)]) == Purge(DAY, 2 * DAY)


def test_space_is_filled_by_what_is_written_and_freed_by_what_is_read() -> None:
    # 10 bytes a second are written; of them 4 are read.
    looks = [look(0, left=36_600), look(100, left=36_000, written=1000)]
    assert until_purged(math.inf, looks) == Purge(HOUR, 36_000 / 6)
    kept_up = [look(0, left=36_000), look(100, left=36_000, written=1000)]
    assert until_purged(math.inf, kept_up) == Purge(HOUR, math.inf)


def test_one_look_gives_no_speed() -> None:
    assert until_purged(HOUR, [look(0, behind=99)]) == Purge(HOUR, math.inf)
    assert until_purged(0.0, [look(0)]) == Purge(0.0, 0.0)


def test_the_status_page_has_hours_and_null_for_no_limit() -> None:
    assert Purge(HOUR, math.inf).to_json() == {"hours": None, "hours_if_stopped": 1.0}
