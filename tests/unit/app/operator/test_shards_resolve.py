"""A decision sent to a worker: it succeeds by the worker's outcome alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator import journal_access, shards, worker_answer
from app.operator.shards import resolve
from app.settings.model import Settings
from connectors.errors import (
    AqueductError,
    JournalUnreadable,
    NotApplied,
    RequestReplaced,
    UsageError,
)
from connectors.kafka.reading import StoredRecord
from tables.history.logical_schemas.decisions import (
    UNIT,
    Decided,
    Decision,
    Verb,
    decision_in,
    note_of_decided,
    note_of_decision,
    outcome_key,
)
from tables.history.logical_schemas.published import PublishedSchema, next_published
from tables.journal_format import Entry
from tables.state.operator_requests import Control, DesiredState
from tests.unit.tables.history.logical_schemas.made import NAME, Shards

OFFSET = 40
SETTINGS = cast(Settings, SimpleNamespace())
Answers = Callable[[Decision], list[Entry]]
Send = Callable[..., Any]


def outcome(decision: Decision, *, of: str = "", refused: str = "") -> Entry:
    return note_of_decided(
        Decided(
            table=decision.table, subject=decision.subject, id=of or decision.id, refused=refused,
            state="accepted", in_force=None if refused else decision, worker="w", ts_ms=2,
        )
    )  # fmt: skip


@pytest.fixture
def controls() -> list[Control]:
    """The desired states of the logical schemas in the journal."""
    return []


@pytest.fixture
def unreadable() -> dict[bytes, AqueductError]:
    """The records of decisions in the journal that cannot be read."""
    return {}


@pytest.fixture
def sent(
    monkeypatch: pytest.MonkeyPatch,
    controls: list[Control],
    unreadable: dict[bytes, AqueductError],
) -> tuple[Send, list[Decision]]:
    """Sends a decision to workers that give these answers; and the decisions that were sent."""
    made: list[Decision] = []
    schema = Shards("a1", "b1", columns="id int not null").alter("b1", "id int not null; x int")

    async def published(_: object, name: object) -> PublishedSchema:
        assert name == NAME
        found = next_published(schema, None, 1)
        assert found is not None
        return found

    async def write(note: Entry) -> int:
        made.append(decision_in(StoredRecord(*note, OFFSET)))
        return OFFSET

    async def workers(*_: object) -> str:
        return "no worker runs"

    def send(answers: Answers, **wanted: Any) -> Any:
        class Tail:
            def __init__(self, *, take: Any, start: Any, **_: Any) -> None:
                self._take = take
                assert start == {2: OFFSET + 1}

            async def run(self) -> None:
                for number, note in enumerate(answers(made[-1]), OFFSET + 1):
                    self._take(2, StoredRecord(*note, number))
                await asyncio.Event().wait()

        monkeypatch.setattr(journal_access, "Tail", Tail)
        return resolve(SETTINGS, NAME, by="ann", why="a test", wait=0.2, **wanted)

    async def state() -> SimpleNamespace:
        return SimpleNamespace(control=controls[-1] if controls else None, unreadable=unreadable)

    partition = SimpleNamespace(options={}, topic="t", number=2)
    journal = SimpleNamespace(
        settings=SETTINGS, name=UNIT, partition=partition, write=write, latest_state=state
    )
    monkeypatch.setattr(shards, "published_table", published)
    monkeypatch.setattr(worker_answer, "why_not_applied", workers)
    monkeypatch.setattr(shards, "UnitJournal", SimpleNamespace(of=lambda *_: journal))
    return send, made


async def test_what_a_worker_decided_is_the_outcome(sent: tuple[Send, list[Decision]]) -> None:
    send, made = sent
    decided, _ = await send(lambda one: [outcome(one)], verb=Verb.EXCLUDE, name="b:shop.orders_1")
    assert (decided.state, decided.refused) == ("accepted", "")
    assert (made[0].name, made[0].by, made[0].why) == ("b:shop.orders_1", "ann", "a test")
    decided, _ = await send(lambda one: [outcome(one, refused="no")], verb=Verb.REOPEN)
    assert decided.refused == "no"


async def test_the_difference_that_was_published_is_what_is_accepted(
    sent: tuple[Send, list[Decision]],
) -> None:
    send, made = sent
    await send(lambda one: [outcome(one)], verb=Verb.ACCEPT)
    schema = Shards("a1", "b1").alter("b1", "id int not null; x int")
    assert made[0].value == schema.difference != ""


async def test_without_an_outcome_of_its_own_it_is_not_applied(
    sent: tuple[Send, list[Decision]],
) -> None:
    send, made = sent
    with pytest.raises(NotApplied, match=r"reopen was recorded, but not applied .* no worker runs"):
        await send(lambda one: [outcome(one, of="another")], verb=Verb.REOPEN)
    assert len(made) == 1


async def test_one_whose_table_has_a_record_that_cannot_be_read_says_so(
    sent: tuple[Send, list[Decision]], unreadable: dict[bytes, AqueductError]
) -> None:
    send, _ = sent
    repair = JournalUnreadable("x", destination=UNIT)
    unreadable[outcome_key(("trade", "items"), ("accept", ""))] = repair
    with pytest.raises(NotApplied, match="no worker runs"):
        await send(lambda _: [], verb=Verb.REOPEN)
    unreadable[outcome_key(NAME, ("accept", ""))] = repair
    with pytest.raises(NotApplied, match=r"python -m app journal repair logical\.schemas"):
        await send(lambda _: [], verb=Verb.REOPEN)


async def test_while_logical_schemas_are_paused_that_is_said(
    sent: tuple[Send, list[Decision]], controls: list[Control]
) -> None:
    send, _ = sent
    controls.append(Control(destination=UNIT, desired=DesiredState.PAUSE, by="bea"))
    with pytest.raises(NotApplied, match="the desired state is pause, requested by bea"):
        await send(lambda _: [], verb=Verb.REOPEN)


async def test_another_decision_on_the_same_subject_replaces_it(
    sent: tuple[Send, list[Decision]],
) -> None:
    send, _ = sent

    def other(one: Decision) -> list[Entry]:
        return [note_of_decision(one), outcome(one)]

    with pytest.raises(RequestReplaced, match="reopen, requested by ann"):
        await send(other, verb=Verb.REOPEN)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("shop.orders_1", "is in several destinations; name one"),
        ("shop.orders_9", "is no real table of it"),
        ("c:shop.orders_1", "has a:shop.orders_1, b:shop.orders_1"),
    ],
)
async def test_a_shard_that_is_not_certain_is_refused_and_nothing_is_sent(
    sent: tuple[Send, list[Decision]], name: str, fault: str
) -> None:
    send, made = sent
    with pytest.raises(UsageError, match=fault):
        await send(lambda _: [], verb=Verb.EXCLUDE, name=name)
    assert made == []
