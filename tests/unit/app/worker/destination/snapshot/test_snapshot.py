"""The tables of a snapshot: how many are read at once, and what requests make of them meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app.worker.destination.commit.participants import Commits
from app.worker.destination.snapshot import snapshot as module
from app.worker.destination.snapshot.snapshot import Snapshot
from app.worker.pipeline.piece import Entered
from app.worker.pipeline.portions import KeyWatch
from app.worker.status import DestinationStatus
from connectors.errors import SnapshotUnsupported
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.position import Coordinates
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest, request_in
from tables.state.snapshots.snapshot_progress import Name, SnapshotState, TableSnapshot, gone
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.app.worker.destination.snapshot.test_table_reading import gtids
from tests.unit.tables.made import applied, begun


class FakeReading:
    """The reading of a table, which ends when the test says so."""

    made: dict[str, FakeReading] = {}  # noqa: RUF012 - emptied for each test

    def __init__(self, one: TableSnapshot, reader: Any, *_: Any, show: Any, **__: Any) -> None:
        self.snapshot, self.reader, self._show = one, reader, show
        self.ended = asyncio.Event()
        self.is_stopped = False
        self.error: Exception | None = None
        FakeReading.made[one.table] = self

    async def run(self) -> None:
        await self.ended.wait()
        if self.is_stopped and self.snapshot.rows:
            # A chunk was under way.
            await asyncio.sleep(0)
            self.advance(self.snapshot.rows + 5)
        if self.error is not None:
            raise self.error

    def advance(self, rows: int) -> None:
        self.snapshot = replace(
            self.snapshot, state=SnapshotState.READING, rows=rows, chunks=1, after=(str(rows),)
        )
        self._show(self.snapshot)

    def finish(self) -> None:
        self._show(replace(self.snapshot, state=SnapshotState.DONE))
        self.ended.set()

    def stop(self) -> None:
        self.is_stopped = True
        self.ended.set()


@dataclass
class Scene:
    """A snapshot that runs, and what it handed in."""

    snapshot: Snapshot
    requests: dict[Name, SnapshotRequest]
    watches: list[KeyWatch] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None
    """What happens once something was handed in, and before it is committed."""

    def ask(self, table: str, action: SnapshotAction, name: str, **more: Any) -> None:
        self.requests["shop", table] = SnapshotRequest(
            destination="shop", database="shop", table=table, id=name, action=action, by="anna",
            ts_ms=1, **more,
        )  # fmt: skip

    def state(self, table: str) -> SnapshotState:
        return self.snapshot.all["shop", table].state

    async def until(self, reached: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not reached():  # noqa: ASYNC110 - there is no event of it
                await asyncio.sleep(0.001)


def waiting(*tables: str) -> dict[Name, TableSnapshot]:
    return {
        ("shop", one): TableSnapshot(destination="shop", database="shop", table=one, id="first")
        for one in tables
    }


@contextlib.asynccontextmanager
async def run(
    monkeypatch: pytest.MonkeyPatch, *tables: str, error: type[Exception] | None = None, **more: Any
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(module, "TableReading", FakeReading)
    monkeypatch.setattr(module, "_GLANCE_SECONDS", 0.002)
    monkeypatch.setattr(module, "LANES", 2)
    FakeReading.made = {}
    requests: dict[Name, SnapshotRequest] = {}
    snapshot = Snapshot(
        destination="shop",
        address=cast(Any, SimpleNamespace(host="db", port=1)),
        charsets=cast(Any, None),
        server=cast(Any, None),
        server_id=1,
        status=DestinationStatus("shop"),
        shadows=ShadowRules(),
        definition=lambda _: None,
        is_masked=lambda _: False,
        requests=lambda: requests.values(),
        gate=LoadGate(LoadLimits(), lambda _: None),
        **{
            "captured": lambda _: (),
            "captures": lambda _: True,
            "is_mapped": lambda _: False,
            "reads_entered": False,
            "can_replace": lambda _: True,
            "can_remove": lambda _: True,
            "all": waiting(*tables),
            **more,
        },
    )
    scene = Scene(snapshot, requests)

    def hand_in(entering: Any, *, not_before: Coordinates | None = None) -> None:
        assert not_before is None
        (portion,) = entering(Coordinates("b.000001", 4))
        scene.watches.append(portion)
        scene.meanwhile()
        piece = SimpleNamespace(entered=[Entered(portion.id)])
        cursor = SimpleNamespace(offset=SimpleNamespace(gtid_set=gtids(9)))
        asyncio.get_running_loop().call_soon(
            lambda: snapshot.entries.committed(cast(Any, piece), cast(Any, cursor))
        )

    snapshot.entries.open(cast(Any, SimpleNamespace(hand_in=hand_in)))
    running = asyncio.create_task(snapshot.run())
    try:
        yield scene
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, *([error] if error else [])):
            await running


def tables_of(watch: KeyWatch) -> set[str]:
    return {table for _, table in watch.tables}


async def test_tables_are_read_in_lanes_and_watched_while_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch, "a", "b", "c") as scene:
        await scene.until(lambda: len(FakeReading.made) == 2)
        assert set(FakeReading.made) == {"a", "b"}
        FakeReading.made["a"].finish()
        await scene.until(lambda: "c" in FakeReading.made)
        FakeReading.made["b"].finish()
        FakeReading.made["c"].finish()
        await scene.until(lambda: len(scene.watches) >= 3 and not scene.watches[-1].tables)
        assert [tables_of(one) for one in scene.watches][:2] == [{"a", "b"}, {"b", "c"}]
        assert {scene.state(one) for one in "abc"} == {SnapshotState.DONE}


async def test_tables_that_cannot_be_read_now_take_no_place_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unseen: Any = SimpleNamespace(
        why=lambda name: "GRANT it" if name[1] == "a" else None,
        look=_nothing,
        scopes=1,
        warnings=[],
    )
    async with run(monkeypatch, "a", "b", "c", "d", "e", unseen=unseen) as scene:
        await scene.until(lambda: len(FakeReading.made) == 2)
        assert set(FakeReading.made) == {"b", "c"}
        error = scene.snapshot.all["shop", "a"].error
        assert error is not None
        assert "GRANT it" in error
        for name in "bc":
            reading = FakeReading.made[name]
            reading._show(replace(reading.snapshot, error="denied"))
        await scene.until(lambda: set(FakeReading.made) == {*"bcde"})
        for name in "bcde":
            FakeReading.made[name].finish()
        await scene.until(lambda: scene.state("e") is SnapshotState.DONE)
        assert scene.state("a") is SnapshotState.WAITING


async def _nothing(_known: object) -> list[TableSnapshot]:
    return []


async def test_a_requested_table_is_read_and_its_state_is_in_the_journal_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch) as scene:
        scene.ask("x", SnapshotAction.START, "new", where="id > 3")
        await scene.until(lambda: "x" in FakeReading.made)
        (watch,) = scene.watches
        assert [key for key, _ in watch.notes] == [b"snapshot/shop/shop/x"]
        found = FakeReading.made["x"].snapshot
        assert (found.id, found.request, found.where) == ("new", "new", "id > 3")
        await asyncio.sleep(0.05)
        assert len(scene.watches) == 1, "a request is applied once"


async def test_pause_and_resume_keep_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch, "a", "b", "c") as scene:
        await scene.until(lambda: len(FakeReading.made) == 2)
        first = FakeReading.made["a"]
        first.advance(40)
        scene.ask("a", SnapshotAction.PAUSE, "p")
        await scene.until(lambda: "c" in FakeReading.made)
        assert first.is_stopped
        assert scene.state("a") is SnapshotState.PAUSED
        assert scene.snapshot.all["shop", "a"].after == ("45",), "with the chunk under way"
        FakeReading.made["b"].finish()
        scene.ask("a", SnapshotAction.RESUME, "r")
        await scene.until(lambda: FakeReading.made["a"] is not first)
        assert FakeReading.made["a"].snapshot.after == ("45",)


async def test_all_tables_that_requests_concern_are_stopped_before_one_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch, "a", "b") as scene:
        await scene.until(lambda: len(FakeReading.made) == 2)
        first, second = FakeReading.made["a"], FakeReading.made["b"]

        def stop() -> None:
            first.is_stopped = True

        monkeypatch.setattr(first, "stop", stop)
        scene.ask("a", SnapshotAction.PAUSE, "r1")
        scene.ask("b", SnapshotAction.PAUSE, "r2")
        await scene.until(lambda: first.is_stopped)
        await scene.until(lambda: second.is_stopped)
        first.ended.set()
        await scene.until(lambda: scene.state("b") is SnapshotState.PAUSED)
        assert scene.state("a") is SnapshotState.PAUSED


async def test_a_stopped_table_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch, "a") as scene:
        await scene.until(lambda: "a" in FakeReading.made)
        scene.ask("a", SnapshotAction.STOP, "s")
        await scene.until(lambda: scene.state("a") is SnapshotState.STOPPED)
        await scene.until(lambda: not scene.watches[-1].tables)
        assert FakeReading.made["a"].is_stopped


async def test_a_stop_in_place_of_a_start_that_was_not_applied_is_answered_in_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch) as scene:
        scene.ask("x", SnapshotAction.STOP, "s")
        await scene.until(lambda: scene.watches)
        ((key, value),) = scene.watches[0].notes
        assert key == b"snapshot/shop/shop/x"
        written = orjson.loads(value)
        assert (written["state"], written["request"]) == ("stopped", "s")
        await asyncio.sleep(0.05)
        assert len(scene.watches) == 1, "a request is applied once"
        assert FakeReading.made == {}


async def test_at_a_server_where_it_cannot_be_exact_requests_fail_and_the_run_goes_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = SnapshotUnsupported("the server has no GTIDs")
    async with run(monkeypatch, unsupported=refusal) as scene:
        scene.ask("x", SnapshotAction.START, "new")
        await scene.until(lambda: ("shop", "x") in scene.snapshot.all)
        one = scene.snapshot.all["shop", "x"]
        assert one.state is SnapshotState.FAILED
        assert one.error is not None
        assert "the server has no GTIDs" in one.error
        assert FakeReading.made == {}


async def test_rows_that_cannot_be_replaced_fail_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch, can_replace=lambda _: False) as scene:
        scene.ask("x", SnapshotAction.START, "new", replaces=True)
        scene.ask("y", SnapshotAction.START, "new")
        await scene.until(lambda: "y" in FakeReading.made)
        assert scene.state("x") is SnapshotState.FAILED
        assert "nothing is published that removes all of them" in (
            scene.snapshot.all["shop", "x"].error or ""
        )


async def test_rows_to_be_looked_for_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch) as scene:
        scene.ask("x", SnapshotAction.START, "new", removes=('{"id":1}',))
        scene.ask("y", SnapshotAction.START, "new")
        await scene.until(lambda: {"x", "y"} <= FakeReading.made.keys())
        made = FakeReading.made
        assert [made[one].reader._is_whole for one in ("x", "y")] == [True, False]


async def test_rows_after_the_last_one_are_left_to_the_stream_where_it_has_all_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch, can_remove=lambda name: name != ("shop", "x")) as scene:
        scene.ask("x", SnapshotAction.START, "new")
        scene.ask("y", SnapshotAction.START, "new")
        await scene.until(lambda: {"x", "y"} <= FakeReading.made.keys())
        made = FakeReading.made
        assert [made[one].reader._is_bounded for one in ("x", "y")] == [False, True]


async def test_rows_that_cannot_be_removed_fail_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch, can_remove=lambda _: False) as scene:
        scene.ask("x", SnapshotAction.START, "new", removes=('{"id":1}',))
        scene.ask("y", SnapshotAction.START, "new")
        await scene.until(lambda: "y" in FakeReading.made)
        assert scene.state("x") is SnapshotState.FAILED
        error = scene.snapshot.all["shop", "x"].error or ""
        assert "its mapping does not publish all changes" in error


async def test_it_ends_with_a_record_once_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = (b"control/shop/wish", b"{}")
    async with run(monkeypatch, "a", ends_with=stop) as scene:
        await scene.until(lambda: "a" in FakeReading.made)
        assert all(stop not in one.notes for one in scene.watches)
        FakeReading.made["a"].finish()
        await scene.until(lambda: any(stop in one.notes for one in scene.watches))
        await asyncio.sleep(0.05)
        assert sum(stop in one.notes for one in scene.watches) == 1


async def test_it_does_not_end_while_a_table_is_paused_or_has_failed_and_says_which(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = (b"control/shop/wish", b"{}")
    caplog.set_level("WARNING")
    async with run(monkeypatch, "a", "b", "c", ends_with=stop) as scene:
        status = scene.snapshot.status
        await scene.until(lambda: {"a", "b"} <= FakeReading.made.keys())
        scene.ask("a", SnapshotAction.PAUSE, "p")
        await scene.until(lambda: scene.state("a") is SnapshotState.PAUSED)
        assert status.to_json()["snapshot_waits"] == [], "some are being read"
        FakeReading.made["b"].finish()
        await scene.until(lambda: "c" in FakeReading.made)
        failed = FakeReading.made["c"]
        failed._show(replace(failed.snapshot, state=SnapshotState.FAILED, error="it has no key"))
        failed.ended.set()
        await scene.until(lambda: status.to_json()["snapshot_waits"])
        (waits,) = status.to_json()["snapshot_waits"]
        assert waits in status.to_json()["warnings"]
        assert waits == (
            "snapshot.mode initial_only does not end the destination yet, as existing rows are not published: "
            "shop.a is paused, shop.c has failed. For what is paused run: python -m app snapshot resume shop; "
            "or, without the other rows: python -m app snapshot stop shop. For what has failed remove the "
            "cause, which its error has, and run: python -m app snapshot start shop TABLE. To end without "
            "these rows run: python -m app destination stop shop"
        )
        await asyncio.sleep(0.05)
        assert sum(waits in one.getMessage() for one in caplog.records) == 1, "it is said once"
        assert all(stop not in one.notes for one in scene.watches)
        scene.ask("a", SnapshotAction.STOP, "s")
        await scene.until(lambda: "shop.a" not in str(status.warnings))
        assert "is paused" not in str(status.warnings)
        assert all(stop not in one.notes for one in scene.watches)
        scene.ask("c", SnapshotAction.START, "again")
        await scene.until(lambda: FakeReading.made["c"] is not failed)
        assert status.to_json()["snapshot_waits"] == []
        FakeReading.made["c"].finish()
        await scene.until(lambda: any(stop in one.notes for one in scene.watches))


async def test_it_does_not_end_before_a_request_of_a_statement_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = (b"control/shop/wish", b"{}")
    done = {name: replace(one, state=SnapshotState.DONE) for name, one in waiting("a").items()}
    history = begun("a", "x_load")
    record = applied(history, 200, "RENAME TABLE x_load TO x")
    async with run(
        monkeypatch,
        all=done,
        ends_with=stop,
        captured=lambda number: history.after(number or 0).tables(),
        captures=lambda name: name[1] != "x_load",
        reads_entered=True,
    ) as scene:
        # The run has not followed the journal up to the request yet.
        given = piece()
        given.tables.history.append(record)
        Commits(scene.snapshot.participants()[:-1]).before(given, BEFORE)
        assert [key for key, _ in given.notes] == [b"snapshot-request/shop/shop/x"]
        await asyncio.sleep(0.05)
        assert scene.watches == []
        (made,) = (request_in(StoredRecord(key, value, 5)) for key, value in given.notes if value)
        scene.requests[made.name] = made
        await scene.until(lambda: "x" in FakeReading.made)
        FakeReading.made["x"].finish()
        await scene.until(lambda: any(stop in one.notes for one in scene.watches))


async def test_a_state_that_a_statement_has_ended_meanwhile_is_written_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = {name: replace(one, state=SnapshotState.DONE) for name, one in waiting("a").items()}
    async with run(monkeypatch, all=done) as scene:
        snapshot = scene.snapshot

        def drop() -> None:
            if scene.state("a") is SnapshotState.FAILED:
                snapshot._show(gone(snapshot.all["shop", "a"]))

        # A DROP is committed before the record of the mark that it follows.
        scene.meanwhile = drop
        scene.ask("a", SnapshotAction.MARK, "m", why="EXCHANGE PARTITION")
        await scene.until(lambda: len(scene.watches) == 2)
        await asyncio.sleep(0.05)
        states = [orjson.loads(value)["state"] for one in scene.watches for _, value in one.notes]
        assert states == ["failed", "gone"]
        assert scene.state("a") is SnapshotState.GONE


async def test_a_table_that_is_read_again_meanwhile_has_no_earlier_state_written_after_its_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = {name: replace(one, state=SnapshotState.DONE) for name, one in waiting("a").items()}
    async with run(monkeypatch, all=done) as scene:

        def renamed() -> None:
            if scene.state("a") is SnapshotState.FAILED:
                scene.snapshot._show(gone(scene.snapshot.all["shop", "a"]))
                scene.ask("a", SnapshotAction.START, "again")

        scene.meanwhile = renamed
        scene.ask("a", SnapshotAction.MARK, "m", why="EXCHANGE PARTITION")
        await scene.until(lambda: "a" in FakeReading.made)
        FakeReading.made["a"].advance(3)
        await asyncio.sleep(0.05)
        states = [orjson.loads(value)["state"] for one in scene.watches for _, value in one.notes]
        assert states.count("waiting") == 1, states
        assert scene.snapshot.all["shop", "a"].rows == 3


async def test_a_table_whose_rows_were_to_be_replaced_and_that_left_the_mapping_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with run(monkeypatch, captures=lambda _: False, can_replace=lambda _: False) as scene:
        scene.ask("x", SnapshotAction.START, "new", replaces=True)
        # It is read, and is found to be gone.
        await scene.until(lambda: "x" in FakeReading.made)
        assert scene.state("x") is SnapshotState.WAITING


async def test_the_error_of_a_reading_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(monkeypatch, "a", error=ValueError) as scene:
        await scene.until(lambda: "a" in FakeReading.made)
        FakeReading.made["a"].error = ValueError("a defect")
        FakeReading.made["a"].ended.set()
        running = next(one for one in asyncio.all_tasks() if "Snapshot.run" in repr(one.get_coro()))
        with pytest.raises(ValueError, match="a defect"):
            await running
