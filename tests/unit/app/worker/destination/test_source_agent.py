"""What a run learns for the next one from Kafka's time; what holds a merge back; which tables wait alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination import source_agent as runs
from app.worker.destination.commit.participants import Commits
from app.worker.destination.snapshot.read_times import ReadTimes
from app.worker.destination.source_agent import SourceAgent, StreamStart
from app.worker.destination.takeover.timings import Phases
from app.worker.pipeline.publish.publisher import TablesOf
from connectors.errors import (
    AqueductError,
    DecoderLost,
    KafkaSlow,
    SourceLost,
    TopicUnfit,
    TopicUnusable,
)
from tables.history.record import SchemaRecord
from tables.rules.routes.routes import Routes
from tables.state.quarantine import Entry, Outcome
from tests.unit.app.worker.destination.commit.made import BEFORE, piece, run_of
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.tables.made import applied, at, begun


@pytest.mark.parametrize("step", ["lead", "release"])
async def test_whatever_of_a_run_was_too_slow_the_next_publishes_less_and_waits_longer(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def slow(*_: object) -> None:
        raise KafkaSlow("10 s were not enough")

    @contextlib.asynccontextmanager
    async def led(*_: object) -> AsyncIterator[Any]:
        if step == "lead":
            await slow()
        yield None

    monkeypatch.setattr(runs, "Takeover", lambda **_: SimpleNamespace(lead=led))
    monkeypatch.setattr(SourceAgent, "_capture", slow)
    most = 8 * 1024 * 1024
    topics = SimpleNamespace(keeps_existing=False)
    plan: Any = SimpleNamespace(name="shop", rules=SimpleNamespace(max_bytes=most), topics=topics)
    rest: Any = None
    run = SourceAgent(
        plan=plan, status=rest, checkpoint=rest, policy=rest, signals=rest, sources=rest
    )
    with pytest.raises(KafkaSlow):
        await run.run()
    assert (run.budget.bytes, run.budget.timeout_factor) == (most // 2, 2.0)


def test_existing_rows_that_were_read_hold_a_merge_back() -> None:
    times = ReadTimes(is_merged=True)
    led: Any = SimpleNamespace(address=None, publisher=SimpleNamespace(stated=None))
    snapshot: Any = SimpleNamespace(times=times)
    agent: Any = SimpleNamespace()
    watch = SourceAgent._completeness(agent, led, snapshot)
    times.set(times.begin(), 50)
    assert (watch.stated(70), led.publisher.stated(70), watch.stated(40)) == (50, 50, 40)


class Unfit:
    """A publisher for which the topics of all tables are unfit."""

    cursor = BEFORE

    async def publish(self, _piece: object) -> None:
        raise TopicUnfit("it has 1 partitions, and 2 are wanted")

    async def of_tables(
        self, error: AqueductError, _topics: object, tables: TablesOf
    ) -> AqueductError:
        names = tables("aq.shop.later")
        return TopicUnusable.of_all(dict.fromkeys(names, error.name)) if names else error


async def refused(agent: SourceAgent, record: SchemaRecord) -> AqueductError:
    """The error of a piece with a statement whose record a topic cannot take."""
    given, publisher = piece(), Unfit()
    given.tables.history.append(record)
    with pytest.raises(AqueductError) as raised:
        await agent._commit(publisher, given, Commits(()))  # type: ignore[arg-type]
    return raised.value


def agent() -> SourceAgent:
    found = run_of()
    routes = Routes(prefix="aq", include=r"shop\..*")
    found.plan = replace(found.plan, rules=replace(RULES, routes=routes))
    return found


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE later (id int)", "RENAME TABLE orders TO later"]
)
async def test_a_table_that_the_run_has_seen_come_waits_alone_if_its_topic_is_unfit(
    statement: str,
) -> None:
    error = await refused(agent(), applied(begun("orders"), 200, statement))
    assert isinstance(error, TopicUnusable)
    assert error.name_of_table == ("shop", "later")


async def test_a_table_that_an_operator_gave_up_waits_for_no_topic_until_it_is_made_again() -> None:
    of_run = agent()
    name = ("shop", "later")
    of_run._names = {name}
    of_run._quarantine.entries[name] = Entry(
        destination="shop", name=name, since=at(200), why="a test", outcome=Outcome.GIVEN_UP
    )
    assert of_run._tables_of("aq.shop.later") == set()
    assert of_run._by_topic() == {}
    altered = applied(begun("later"), 200, "ALTER TABLE later ADD a INT")
    assert isinstance(await refused(of_run, altered), TopicUnfit)
    of_run._quarantine.released_by_statement(applied(begun("later"), 200, "DROP TABLE later"))
    assert of_run._tables_of("aq.shop.later") == {name}


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
