"""What a run learns for the next one from Kafka's time; what holds a merge back; which tables wait alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.destination import source_agent as runs
from app.worker.destination.commit.participants import Commits
from app.worker.destination.snapshot.read_times import ReadTimes
from app.worker.destination.source_agent import SourceAgent
from app.worker.pipeline.publish.publisher import TablesOf
from connectors.errors import AqueductError, KafkaSlow, TopicUnfit, TopicUnusable
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
