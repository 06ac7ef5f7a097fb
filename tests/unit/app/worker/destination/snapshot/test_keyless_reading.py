"""The reading of a table without a key: all its rows enter as portions of one read, or none does."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import orjson
import pytest

from app.worker.destination.snapshot import table_reading
from app.worker.destination.snapshot.table_reading import SelectedSpool
from tables.state.snapshots.snapshot_progress import SnapshotState
from tests.unit.app.worker.destination.snapshot.test_table_reading import (
    FIRST,
    HIGH,
    START,
    Stream,
    Table,
    number_of,
    read,
    reading_of,
)


async def test_all_rows_of_a_table_without_a_key_enter_as_portions_of_one_read() -> None:
    table, stream = Table(0, portions=3), Stream()
    shown = await read(table, stream)
    assert [one.blocks for one in stream.entered] == [(b"rows 0",), (b"rows 1",), (b"rows 2",)]
    assert [one.read for one in stream.entered] == [f"snapshot:one:shop.t:{n}" for n in (1, 2, 3)]
    assert [one.empties for one in stream.entered] == [True, False, False]
    assert [one.is_last for one in stream.entered] == [False, False, True]
    assert [one.replaced for one in stream.entered] == [False, False, True]
    assert (
        len({(one.id, one.attempt, one.since, one.begins, one.kept) for one in stream.entered}) == 1
    )
    assert stream.least == [HIGH]
    journal = [orjson.loads(one.note[1]) for one in stream.entered]
    assert [(one["state"], one["replaces"], one["chunks"], one["rows"]) for one in journal] == [
        ("reading", True, 1, 2), ("reading", True, 2, 4), ("done", False, 3, 6),
    ]  # fmt: skip
    (one,) = shown
    assert (one.state, one.rows, one.estimated_rows) == (SnapshotState.DONE, 6, 9)
    assert [spool.blocks(0) for spool in table.spools] == [None]


async def test_a_marked_table_fails_with_its_last_portion() -> None:
    stream = Stream()
    (shown,) = await read(
        Table(0, portions=2), stream, replace(START, unlogged="IMPORT TABLESPACE")
    )
    journal = [orjson.loads(one.note[1]) for one in stream.entered]
    assert [(one["state"], one["error"]) for one in journal] == [
        ("reading", None), ("failed", "IMPORT TABLESPACE"),
    ]  # fmt: skip
    assert (shown.state, shown.error) == (SnapshotState.FAILED, "IMPORT TABLESPACE")


async def test_after_a_kill_between_two_portions_its_rows_are_removed_first_and_no_name_comes_again() -> (
    None
):
    table, stream = Table(0, portions=2), Stream()
    left = replace(START, state=SnapshotState.READING, chunks=7, rows=14, replaces=True)
    shown = await read(table, stream, left)
    emptied, *others = stream.entered
    assert (emptied.empties, emptied.blocks) == (True, ())
    assert [number_of(one) for one in stream.entered] == [8, 9, 10]
    assert [one.blocks for one in others] == [(b"rows 0",), (b"rows 1",)]
    assert [(one.rows, one.chunks, one.replaces) for one in shown] == [
        (0, 8, False),
        (4, 10, False),
    ]
    assert shown[-1].state is SnapshotState.DONE


async def test_if_such_a_table_changed_all_its_rows_are_read_again_and_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_reading, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(table_reading, "_MOST_SECONDS", 0.01)
    times = iter(["rows of it changed"])
    table, stream = Table(0, portions=3), Stream(lambda _: next(times, None))
    shown = await read(table, stream)
    assert [one.attempt for one in stream.entered] == [stream.entered[0].attempt] * 3 + [
        stream.entered[3].attempt
    ] * 3
    assert [(one.state, one.error) for one in shown] == [
        (SnapshotState.WAITING, "rows of it changed; all its rows are read again"),
        (SnapshotState.WAITING, None),
        (SnapshotState.DONE, None),
    ]
    assert [number_of(one) for one in stream.entered] == [1, 2, 3] * 2, (
        "none of the first was published"
    )
    assert [spool.blocks(0) for spool in table.spools] == [None] * 2


async def test_no_more_portions_are_made_of_rows_that_are_refused_or_of_a_run_that_ended() -> None:
    table = Table(0, portions=3)
    chunk = table.read(None, FIRST)
    assert chunk is not None
    assert chunk.spool is not None
    rows = SelectedSpool(chunk.spool, chunk, START, number=5, since=1, attempt=2, server_id=9)
    portions = rows.entering(HIGH)
    assert next(portions).blocks == (b"rows 0",)
    rows.close()
    assert list(portions) == []


async def test_rows_of_a_run_that_ends_are_removed() -> None:
    table, stream = Table(0, portions=3), Stream()
    reading, _ = reading_of(table, stream)
    running = asyncio.create_task(reading.run())
    async with asyncio.timeout(20):
        while not stream.entered:  # noqa: ASYNC110 - there is no event of it
            await asyncio.sleep(0.001)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert [spool.blocks(0) for spool in table.spools] == [None]
