"""A run that is stopped while its source and decoders are starting leaves neither running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination import stream_reading as runs
from app.worker.destination.stream_reading import StreamStart
from app.worker.destination.takeover.timings import Phases
from connectors.errors import DecoderLost, SourceLost

MOMENTS = 25
"""Turns of the event loop, more than all of it takes."""


class World:
    """A run's open parts, and the states of its threads."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.decoding = 0
        self.faults: dict[str, Exception] = {}

    def open(self) -> None:
        self.opened += 1
        if "open" in self.faults:
            raise self.faults["open"]

    def close(self) -> None:
        self.closed += 1

    def start(self, *_: Any, **__: Any) -> Any:
        if "start" in self.faults:
            raise self.faults["start"]
        self.decoding += 1
        return SimpleNamespace(close=self.end)

    def end(self) -> None:
        self.decoding -= 1


async def in_a_thread(work: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Continues after its waiter is cancelled, as a thread does; here for a few turns of the loop."""

    async def worked() -> Any:
        for _ in range(3):
            await asyncio.sleep(0)
        return work(*args, **more)

    return await asyncio.shield(asyncio.create_task(worked()))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(asyncio, "to_thread", in_a_thread)
    monkeypatch.setattr(runs, "BinlogStream", lambda *_, **__: made)
    monkeypatch.setattr(runs, "start_decoders", made.start)
    monkeypatch.setattr(runs, "Numbers", SimpleNamespace(of=lambda _: None))
    monkeypatch.setattr(runs, "Reader", lambda *parts: SimpleNamespace(parts=parts))
    return made


def reading() -> asyncio.Task[Any]:
    """The start of reading."""
    plan = SimpleNamespace(name="shop", decoders=2, rules=SimpleNamespace(max_bytes=1))
    rest: Any = None
    start = StreamStart(
        plan=cast(Any, plan), spec=rest, history=None, address=rest, budget=rest, phases=Phases()
    )
    cursor = SimpleNamespace(offset=SimpleNamespace(server_uuid="u"), prepared={})
    return asyncio.create_task(start.read(cast(Any, cursor), None, seen=rest))


async def rested() -> None:
    """Waits until all abandoned work has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


@pytest.mark.parametrize("times", [1, 2, 4])
async def test_whenever_it_is_cancelled_nothing_is_left(world: World, times: int) -> None:
    whole = 0
    for moment in range(MOMENTS):
        task = reading()
        for _ in range(moment):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        outcome: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        if times == 1 and isinstance(outcome, asyncio.CancelledError):
            # Those who wait for the run need not wait for more.
            assert world.decoding == 0, moment
        await rested()
        if isinstance(outcome, asyncio.CancelledError):
            assert world.decoding == 0, moment
            # Before its first turn there is nothing yet.
            assert world.closed == 1 or (world.closed, world.opened, moment) == (0, 0, 0), moment
        else:
            whole += 1
            assert (world.decoding, world.closed) == (1, 0), moment
        world.decoding = world.closed = world.opened = 0
    assert 0 < whole < MOMENTS


@pytest.mark.parametrize(
    ("step", "fault"), [("open", SourceLost("refused")), ("start", DecoderLost("no process"))]
)
async def test_where_one_of_them_fails_the_other_is_ended(
    world: World, step: str, fault: Exception
) -> None:
    world.faults[step] = fault
    with pytest.raises(type(fault)):
        await reading()
    assert (world.decoding, world.closed) == (0, 1)
