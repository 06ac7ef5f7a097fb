"""The reading of a table: chunks in the order of their keys, and all again from the first refused one on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app.worker.destination.snapshot import table_reading as module
from app.worker.destination.snapshot.entries import Entries
from app.worker.destination.snapshot.read_times import LaneTimes, ReadTimes
from app.worker.destination.snapshot.table_reading import DEPTH, TableReading
from app.worker.pipeline.changed_keys import NOT_PUBLISHED, QUARANTINED
from app.worker.pipeline.piece import Entered
from app.worker.pipeline.portions import SelectedRows
from connectors.errors import SnapshotUnsupported, SourceLost, SourceRefused, SpoolFull
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import DefinitionChanged, ReadChunk
from connectors.mysql.select.spool import Spool, Spools
from tables.rules.masking import NO_KEYS, MaskingKeys
from tables.state.snapshots.resume_key import ResumeKeys
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot

START = TableSnapshot(destination="shop", database="shop", table="t", id="one")
HIGH = Coordinates("b.000001", 500)
FIRST = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")


def gtids(end: int) -> GtidSet:
    return GtidSet.parse(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{end}")


@dataclass
class Table:
    """A table of rows 1 to ``rows``, read in chunks of two."""

    rows: int
    errors: dict[int, list[Exception]] = field(default_factory=dict)
    """Errors by the key after which is read, each raised once."""
    exists: bool = True
    is_closed: bool = False
    rested_after: list[int] = field(default_factory=list)
    spools: list[Spool] = field(default_factory=list)
    portions: int = 0
    """Of a table without a key, those of all its rows."""
    reads: list[tuple[int, str]] = field(default_factory=list)
    """The key after which was read, and the transactions that the SELECT was to see."""

    def rest(self) -> None:
        """Note after how many reads."""
        self.rested_after.append(len(self.reads))

    def close(self) -> None:
        """Note it."""
        self.is_closed = True

    def read(self, after: Sequence[str] | None, sees: GtidSet) -> ReadChunk | None:
        first = int(after[0]) if after else 0
        self.reads.append((first, str(sees)))
        if self.errors.get(first):
            raise self.errors[first].pop(0)
        if not self.exists:
            return None
        if self.portions:
            return self._spooled()
        last = min(first + 2, self.rows)
        return ReadChunk(
            table_map=b"map",
            blocks=(b"rows",) if last > first else (),
            rows=last - first,
            last=(str(last),) if last > first else None,
            is_last=last - first < 2,
            high=HIGH,
            began_ms=1,
        )

    def _spooled(self) -> ReadChunk:
        spool = Spool(Spools(), ("shop", "t"))
        for number in range(self.portions):
            spool.add((b"rows %d" % number,), 2)
        self.spools.append(spool)
        return ReadChunk(
            table_map=b"map", blocks=(), rows=spool.rows, last=None, is_last=True, high=HIGH, began_ms=1,
            spool=spool, estimate=9,
        )  # fmt: skip


UNREADABLE = "SnapshotUnsupported: a value"


class Stream:
    """The inlet, and the commits that follow."""

    def __init__(self, refuses: Callable[[SelectedRows], str | None] = lambda _: None) -> None:
        self.entered: list[SelectedRows] = []
        self.least: list[Coordinates | None] = []
        self._refuses = refuses
        self._refused = -1
        self.entries = Entries()
        self.entries.open(cast(Any, self))
        self._waiting: list[SelectedRows] = []
        self.some = asyncio.Event()
        """Set once more than DEPTH have entered."""

    def hand_in(self, entering: Any, *, not_before: Coordinates | None = None) -> None:
        self.least.append(not_before)
        for portion in entering(Coordinates("b.000001", 700)):
            assert isinstance(portion, SelectedRows)
            self.entered.append(portion)
            self._waiting.append(portion)
        if len(self.entered) > DEPTH:
            self.some.set()

    async def commit(self) -> None:
        """Commit what was handed in, one after the other, until cancelled."""
        while True:
            await asyncio.sleep(0.001)
            if not self._waiting:
                continue
            portion = self._waiting.pop(0)
            refused = self._refuses(portion)
            if refused:
                self._refused = portion.attempt
            elif portion.attempt <= self._refused:
                refused = "an earlier read of it was refused"
            unreadable = refused if refused == UNREADABLE else None
            entered = Entered(
                portion.id,
                rows=2,
                refused=refused,
                unreadable=unreadable,
                is_last=portion.is_last,
            )
            piece = SimpleNamespace(entered=[entered])
            offset = SimpleNamespace(gtid_set=gtids(100 + portion.id))
            self.entries.committed(cast(Any, piece), cast(Any, SimpleNamespace(offset=offset)))


def reading_of(
    table: Table,
    stream: Stream,
    start: TableSnapshot = START,
    *,
    turns: asyncio.Semaphore | None = None,
    times: ReadTimes | None = None,
    keys: MaskingKeys = NO_KEYS,
    is_masked: bool = False,
) -> tuple[TableReading, list[TableSnapshot]]:
    shown: list[TableSnapshot] = []
    reading = TableReading(
        start,
        cast(Any, table),
        stream.entries,
        server_id=9,
        sees=FIRST,
        show=shown.append,
        turns=turns or asyncio.Semaphore(1),
        times=LaneTimes(ReadTimes() if times is None else times),
        resume_keys=ResumeKeys.of(start, keys, is_masked=is_masked),
    )
    return reading, shown


async def read(table: Table, stream: Stream, start: TableSnapshot = START) -> list[TableSnapshot]:
    reading, shown = reading_of(table, stream, start)
    committing = asyncio.create_task(stream.commit())
    try:
        async with asyncio.timeout(20):
            await reading.run()
    finally:
        committing.cancel()
    return shown


def number_of(portion: SelectedRows) -> int:
    return int(portion.read.rpartition(":")[2])


def notes(stream: Stream) -> list[Any]:
    return [orjson.loads(one.note[1])["after"] for one in stream.entered]


async def test_chunks_follow_one_another_to_the_end_of_the_table() -> None:
    table, stream = Table(5), Stream()
    shown = await read(table, stream)
    assert notes(stream) == [["2"], ["4"], ["5"]]
    assert [one.read for one in stream.entered] == [f"snapshot:one:shop.t:{n}" for n in (1, 2, 3)]
    assert stream.least == [HIGH] * 3
    assert table.rested_after == [3], "nothing is read after the last chunk"
    assert [(one.state, one.rows) for one in shown] == [
        (SnapshotState.READING, 2), (SnapshotState.READING, 4), (SnapshotState.DONE, 5),
    ]  # fmt: skip


async def test_the_last_of_the_rows_that_replace_others_is_marked_also_after_another_start() -> (
    None
):
    stream = Stream()
    shown = await read(Table(3), stream, replace(START, replaces=True))
    assert [(one.empties, one.replaced) for one in stream.entered] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    journal = [orjson.loads(one.note[1]) for one in stream.entered]
    assert [(one["replaces"], one.get("replacing")) for one in journal] == [
        (False, True), (False, True), (False, None),
    ]  # fmt: skip
    for left in shown[:2]:
        stream = Stream()
        await read(Table(3), stream, left)
        assert [one.empties for one in stream.entered] == [False] * len(stream.entered)
        assert [one.replaced for one in stream.entered][-1]
    gone = Stream()
    await read(Table(3, exists=False), gone, shown[0])
    assert [one.replaced for one in gone.entered] == [False]
    added = Stream()
    await read(Table(3), added)
    assert not any(one.replaced for one in added.entered)


async def test_keys_are_removed_with_the_last_chunk_and_kept_in_the_journal_until_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    keys, stream = ('{"id":8}', '{"id":9}'), Stream()
    shown = await read(Table(3), stream, replace(START, removes=keys))
    assert [one.removes for one in stream.entered] == [(), keys]
    assert [one.removes for one in shown] == [keys, ()]
    kept = [orjson.loads(one.note[1]).get("removes") for one in stream.entered]
    assert kept == [[*keys], None]
    assert "shop.t: 0 of 2 row(s) that only subscribers had are deleted" in caplog.text


async def test_keys_of_a_refused_chunk_are_removed_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    keys, times = ('{"id":8}',), iter(["it changed"])
    stream = Stream(lambda _: next(times, None))
    shown = await read(Table(1), stream, replace(START, removes=keys))
    assert [one.removes for one in stream.entered] == [keys] * 2
    assert (shown[-1].state, shown[-1].removes) == (SnapshotState.DONE, ())


async def test_an_empty_table_and_a_table_that_ends_with_a_chunk() -> None:
    for rows, counts in ((0, [0]), (4, [2, 4, 4])):
        stream = Stream()
        shown = await read(Table(rows), stream)
        assert [one.rows for one in shown] == counts
        assert shown[-1].state is SnapshotState.DONE


async def test_a_marked_table_is_read_to_its_end_and_fails_then() -> None:
    shown = await read(Table(5), Stream(), replace(START, unlogged="DROP PARTITION"))
    assert [(one.state, one.rows, one.error) for one in shown] == [
        (SnapshotState.READING, 2, None),
        (SnapshotState.READING, 4, None),
        (SnapshotState.FAILED, 5, "DROP PARTITION"),
    ]


async def test_it_resumes_after_the_last_row_in_the_journal() -> None:
    table, stream = Table(5), Stream()
    start = replace(START, state=SnapshotState.READING, after=("2",), chunks=1, rows=2)
    shown = await read(table, stream, start)
    assert [first for first, _ in table.reads] == [2, 4]
    assert (shown[-1].rows, shown[-1].chunks) == (5, 3)


async def test_the_last_key_of_a_masked_table_is_stored_sealed_and_read_after() -> None:
    keys, table, stream = MaskingKeys((("k", bytes(32)),)), Table(5), Stream()
    reading, shown = reading_of(table, stream, keys=keys, is_masked=True)
    committing = asyncio.create_task(stream.commit())
    async with asyncio.timeout(20):
        await reading.run()
    committing.cancel()
    assert [first for first, _ in table.reads] == [0, 2, 4]
    resume_keys = ResumeKeys.of(START, keys, is_masked=True)
    assert [resume_keys.read(tuple(one)) for one in notes(stream)] == [("2",), ("4",), ("5",)]
    assert {one.after[0] for one in shown if one.after is not None} == {"sealed"}


async def test_a_missing_key_is_shown_and_nothing_is_read_until_the_reading_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOST_SECONDS", 0.01)
    other = ResumeKeys.of(START, MaskingKeys((("old", bytes(32)),)), is_masked=True)
    start = replace(START, state=SnapshotState.READING, after=other.stored(("2",)), chunks=1)
    table, stream = Table(5), Stream()
    keys = MaskingKeys((("new", bytes(32)),))
    reading, shown = reading_of(table, stream, start, keys=keys, is_masked=True)
    running = asyncio.create_task(reading.run())
    async with asyncio.timeout(20):
        while not shown:  # noqa: ASYNC110 - there is no event of it
            await asyncio.sleep(0.001)
        reading.stop()
        await running
    (one,) = shown
    assert one.error is not None
    assert "'old', which mapping.key_file lacks" in one.error
    assert (one.after, table.reads, stream.entered) == (start.after, [], [])


async def test_each_read_sees_what_was_committed_when_its_generation_began() -> None:
    table, stream = Table(20), Stream()
    await read(table, stream)
    seen = {0: str(FIRST), **{one.begins: str(gtids(100 + one.id)) for one in stream.entered}}
    assert [sees for _, sees in table.reads] == [seen[one.since] for one in stream.entered]
    for number, one in enumerate(stream.entered):
        under_way = stream.entered[max(0, number - DEPTH + 1) : number + 1]
        assert one.kept <= min(other.since for other in under_way)


@pytest.mark.parametrize("refused", [1, 2, 3])
async def test_a_refused_chunk_and_those_after_it_are_read_again(refused: int) -> None:
    times = iter(["it changed"])
    stream = Stream(lambda one: next(times, None) if one.read.endswith(f":{refused}") else None)
    shown = await read(Table(9), stream)
    first = stream.entered[0].attempt
    published = [one for one in stream.entered if one.attempt > first or number_of(one) < refused]
    found = [orjson.loads(one.note[1])["after"] for one in published]
    assert found == [["2"], ["4"], ["6"], ["8"], ["9"]]
    assert [one.rows for one in shown] == [2, 4, 6, 8, 9]
    again = next(one for one in stream.entered if one.attempt > first)
    assert again.since > 0, "it is read after the statement that refused the first"


async def test_a_definition_that_the_server_no_longer_has_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    table = Table(5, errors={0: [DefinitionChanged("1054")], 2: [DefinitionChanged("1054")] * 2})
    shown = await read(table, Stream())
    assert (shown[-1].state, shown[-1].rows) == (SnapshotState.DONE, 5)


async def test_a_definition_that_the_server_does_not_have_for_long_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(module, "_DIFFERS_SECONDS", 0.03)
    lacking: list[Exception] = [DefinitionChanged("Unknown column 'v' (error 1054)")] * 9
    shown = await read(Table(3, errors={0: lacking}), Stream())
    assert [(one.state, bool(one.error)) for one in shown] == [
        (SnapshotState.WAITING, True), (SnapshotState.WAITING, False), (SnapshotState.READING, False),
        (SnapshotState.DONE, False),
    ]  # fmt: skip
    error = shown[0].error or ""
    assert error.startswith("TableUnreadable: ")
    assert "not as its schema history has it: Unknown column 'v' (error 1054)" in error
    assert "schema check" in error


async def test_a_quarantined_table_is_shown_until_it_is_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_QUARANTINED_SECONDS", 0.01)
    times = iter([QUARANTINED] * 3)
    shown = await read(Table(3), Stream(lambda _: next(times, None)))
    assert [bool(one.error) for one in shown][:2] == [True, False]
    assert "schema quarantine shop" in (shown[0].error or "")
    assert (shown[-1].state, shown[-1].error) == (SnapshotState.DONE, None)


async def test_a_table_that_is_gone_and_one_that_cannot_be_read_end_with_that_state() -> None:
    shown = await read(Table(5, exists=False), Stream())
    assert [(one.state, one.rows) for one in shown] == [(SnapshotState.GONE, 0)]
    # A copy that takes its name has rows that are in no topic.
    assert "were not all read" in (shown[-1].unlogged or "")
    table = Table(5, errors={2: [SnapshotUnsupported("a value", table="shop.t")]})
    shown = await read(table, Stream())
    assert (shown[-1].state, shown[-1].rows) == (SnapshotState.FAILED, 2)
    assert shown[-1].error is not None
    assert shown[-1].error.startswith("SnapshotUnsupported: ")


@pytest.mark.remedy("SpoolFull")
async def test_a_spool_without_room_is_tried_again_until_there_is_some_or_an_hour_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ROOM_SECONDS", 0.01)
    full: list[Exception] = [SpoolFull("3 MiB free", table="shop.t", folder="spools")] * 3
    shown = await read(Table(5, errors={0: full[:]}), Stream())
    assert [bool(one.error) for one in shown][:2] == [True, False]
    assert "snapshot.spool_dir" in (shown[0].error or "")
    assert (shown[-1].state, shown[-1].rows) == (SnapshotState.DONE, 5)
    monkeypatch.setattr(module, "_FULL_SECONDS", 0.0)
    shown = await read(Table(5, errors={0: full[:]}), Stream())
    assert shown[-1].state is SnapshotState.FAILED
    assert (shown[-1].error or "").startswith("SpoolFull: ")


async def test_rows_that_cannot_be_decoded_end_their_table() -> None:
    stream = Stream(lambda one: UNREADABLE if one.blocks and number_of(one) == 2 else None)
    shown = await read(Table(9), stream)
    assert [(one.state, one.rows) for one in shown] == [
        (SnapshotState.READING, 2), (SnapshotState.FAILED, 2),
    ]  # fmt: skip
    assert shown[-1].error == UNREADABLE


async def test_a_table_that_is_not_published_any_more_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    stream = Stream(lambda one: NOT_PUBLISHED if one.blocks and number_of(one) > 1 else None)
    shown = await read(Table(9), stream)
    assert [(one.state, one.rows) for one in shown] == [
        (SnapshotState.READING, 2), (SnapshotState.GONE, 2),
    ]  # fmt: skip


async def test_a_source_that_cannot_be_read_now_is_shown_and_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOST_SECONDS", 0.01)
    table = Table(5, errors={2: [SourceLost("gone"), SourceLost("gone"), SourceRefused("no")]})
    shown = await read(table, Stream())
    errors = [one.error.partition(":")[0] for one in shown if one.error is not None]
    assert errors == ["SourceLost", "SourceRefused"]
    assert (shown[-1].state, shown[-1].rows, shown[-1].error) == (SnapshotState.DONE, 5, None)


async def test_what_is_under_way_is_published_when_it_is_stopped() -> None:
    table, stream = Table(100), Stream()
    reading, shown = reading_of(table, stream)
    committing = asyncio.create_task(stream.commit())
    running = asyncio.create_task(reading.run())
    try:
        await stream.some.wait()
        reading.stop()
        async with asyncio.timeout(20):
            await running
    finally:
        committing.cancel()
    assert shown[-1].chunks == len(stream.entered) < 50
    assert shown[-1].after == (str(2 * len(stream.entered)),)
    assert table.is_closed


async def test_the_end_of_the_connection_is_no_error_of_a_stopped_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table, stream = Table(100), Stream()
    reading, shown = reading_of(table, stream)

    def read(_after: Sequence[str] | None, _sees: GtidSet) -> ReadChunk | None:
        reading.stop()
        raise SourceLost("the connection was closed")

    table.read = read  # type: ignore[method-assign,assignment]
    async with asyncio.timeout(20):
        await reading.run()
    assert (shown, caplog.messages) == ([], [])


async def test_a_reading_that_waits_for_its_turn_ends_when_it_is_stopped() -> None:
    table, turns = Table(5), asyncio.Semaphore(1)
    await turns.acquire()
    reading, shown = reading_of(table, Stream(), turns=turns)
    running = asyncio.create_task(reading.run())
    await asyncio.sleep(0)
    reading.stop()
    async with asyncio.timeout(1):
        await running
    assert (table.reads, shown, table.is_closed) == ([], [], True)
    turns.release()
    async with asyncio.timeout(1):
        await turns.acquire()


async def test_a_reading_whose_turn_comes_as_it_is_stopped_leaves_it_to_others() -> None:
    table, turns = Table(5), asyncio.Semaphore(1)
    await turns.acquire()
    reading, _ = reading_of(table, Stream(), turns=turns)
    running = asyncio.create_task(reading.run())
    await asyncio.sleep(0)
    turns.release()
    reading.stop()
    async with asyncio.timeout(1):
        await running
        await turns.acquire()
    assert table.reads == []


@pytest.mark.parametrize(
    "error",
    [
        DefinitionChanged("1054"),
        SpoolFull("3 MiB free", table="shop.t", folder="spools"),
        SourceLost("gone"),
        None,
    ],
)
async def test_a_reading_that_waits_to_read_again_ends_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    for name in ("_AGAIN_SECONDS", "_ROOM_SECONDS", "_LOST_SECONDS", "_QUARANTINED_SECONDS"):
        monkeypatch.setattr(module, name, 60.0)
    table, stream = Table(1), Stream(lambda _: QUARANTINED)
    table.errors = {0: [error]} if error is not None else {}
    reading, _ = reading_of(table, stream)
    committing = asyncio.create_task(stream.commit())
    running = asyncio.create_task(reading.run())
    try:
        async with asyncio.timeout(5):
            while not table.reads:  # noqa: ASYNC110 - there is no event of it
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            reading.stop()
            await running
    finally:
        committing.cancel()
    assert len(table.reads) == 1


async def test_the_end_of_a_run_ends_a_reading_that_waits_for_its_turn() -> None:
    turns = asyncio.Semaphore(1)
    await turns.acquire()
    reading, _ = reading_of(Table(5), Stream(), turns=turns)
    running = asyncio.create_task(reading.run())
    await asyncio.sleep(0)
    running.cancel()
    reading.stop()
    async with asyncio.timeout(1):
        await asyncio.wait([running])
    assert running.cancelled()


@dataclass
class SlowTable(Table):
    """A table that counts the reads at once of all that share the counter."""

    at_once: list[int] = field(default_factory=list)
    now: list[int] = field(default_factory=lambda: [0])

    def read(self, after: Sequence[str] | None, sees: GtidSet) -> ReadChunk | None:
        self.now[0] += 1
        self.at_once.append(self.now[0])
        time.sleep(0.01)
        self.now[0] -= 1
        return Table.read(self, after, sees)


@pytest.mark.parametrize("turns", [1, 2])
async def test_no_more_tables_are_selected_from_at_once_than_have_turns(turns: int) -> None:
    at_once: list[int] = []
    now, stream = [0], Stream()
    limit = asyncio.Semaphore(turns)
    readings = [
        reading_of(SlowTable(20, at_once=at_once, now=now), stream, turns=limit)[0]
        for _ in range(4)
    ]
    committing = asyncio.create_task(stream.commit())
    async with asyncio.timeout(20):
        await asyncio.gather(*(reading.run() for reading in readings))
    committing.cancel()
    assert max(at_once) == turns
