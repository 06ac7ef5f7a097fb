"""Takeovers of a unit: what comes before the id is taken, and two workers that find out about each other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.coordination.cluster_view import Identity
from app.worker.coordination.write_permit import StopRequested, WritePermit
from app.worker.coordination.zookeeper_lease import Lease, PermanentLease
from app.worker.merge.plan import MergeStatus
from app.worker.unit import takeover
from app.worker.unit import takeover as module
from app.worker.unit.requests import Requests
from app.worker.unit.retry_policy import ErrorPolicy
from app.worker.unit.run_loop import Unit
from app.worker.unit.takeover import UnitTakeover, client_id, is_gone, is_here, living, this_process
from connectors.errors import AnotherWorkerLeads, Fenced, LeadershipLost
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.operator_requests import Control, DesiredState, control_note
from tests.unit.app.worker.merge.test_shares import PLAN

UNIT = "merge.trade"
JOURNAL = JournalPartition(destination=UNIT, topic="aq.__journal", number=0, options={})


class Kafka:
    """A journal, the worker that took the transactional id last, and the workers in the group."""

    def __init__(self) -> None:
        self.records: list[StoredRecord] = []
        self.owner = ""
        self.living: set[str] | None = {"a", "b"}
        self.here = ""
        """The worker that runs now."""
        self.events: list[str] = []


class Producer:
    def __init__(self, kafka: Kafka, worker: str) -> None:
        self._kafka, self._worker = kafka, worker

    async def init_transactions(self) -> None:
        self._kafka.events.append("init")
        self._kafka.owner = self._worker

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Producer]:
        self._kafka.events.append("transaction")
        yield self
        if self._kafka.owner != self._worker:
            raise Fenced("by another producer")

    async def send(self, topic: str, *, key: bytes, value: bytes, partition: int) -> Any:
        assert (topic, partition) == (JOURNAL.topic, JOURNAL.number)

        async def sent() -> SimpleNamespace:
            offset = len(self._kafka.records)
            self._kafka.records.append(StoredRecord(key, value, offset))
            return SimpleNamespace(offset=offset)

        return sent()


class Worker:
    """A worker without coordination, over all its runs."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self.kafka, self.name = kafka, name
        self.requests = Requests()
        self.takeover = UnitTakeover(
            identity=Identity(worker=name, address=""), journal=JOURNAL, requests=self.requests
        )
        self.permit = WritePermit()

    async def take(self) -> Producer:
        """Take the id."""
        self.kafka.here = self.name
        producer = Producer(self.kafka, self.name)
        await self.takeover.take_id(cast(TransactionalProducer, producer), self.permit)
        return producer

    async def claim(self, producer: Producer) -> None:
        self.kafka.here = self.name
        state = DestinationState(UNIT)
        for record in self.kafka.records:
            state.apply(record)
        await self.takeover.claim(cast(TransactionalProducer, producer), self.permit, state)

    async def lead(self) -> Producer:
        producer = await self.take()
        await self.claim(producer)
        return producer


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    made = Kafka()

    async def living(*_: object) -> frozenset[str] | None:
        return None if made.living is None else frozenset(made.living - {made.here})

    async def read(_: object, take: Callable[[StoredRecord], object], **__: object) -> int:
        for record in made.records:
            take(record)
        return len(made.records)

    monkeypatch.setattr(takeover, "living_workers", living)
    monkeypatch.setattr(JournalPartition, "read", read)
    for place in (module, takeover):
        monkeypatch.setattr(place, "this_process", lambda: made.here)
    return made


async def works(producer: Producer) -> bool:
    """Whether a leader can still publish."""
    try:
        async with producer.transaction():
            pass
    except Fenced:
        return False
    return True


async def test_a_worker_does_not_fence_one_that_leads_and_lives(kafka: Kafka) -> None:
    one, two = Worker(kafka, "a"), Worker(kafka, "b")
    leads = await one.lead()
    for _ in range(3):
        with pytest.raises(AnotherWorkerLeads, match="worker 'a'"):
            await two.lead()
    assert await works(leads)
    assert kafka.living is not None
    kafka.living.discard("a")
    assert await works(await two.lead())


async def test_two_that_start_at_once_do_not_fence_each_other_again_and_again(kafka: Kafka) -> None:
    one, two = Worker(kafka, "a"), Worker(kafka, "b")
    first, second = await one.take(), await two.take()
    with pytest.raises(Fenced):
        await one.claim(first)
    # What is not committed is not in the journal.
    kafka.records.clear()
    await two.claim(second)
    with pytest.raises(AnotherWorkerLeads):
        await one.lead()
    assert await works(second)


@pytest.mark.remedy("Fenced")
async def test_one_that_was_fenced_waits_while_the_group_is_not_known_and_until_the_other_ends(
    kafka: Kafka,
) -> None:
    one, two = Worker(kafka, "a"), Worker(kafka, "b")
    leads = await one.lead()
    kafka.living = None
    # One that has never led does not wait for what Kafka does not report.
    await two.lead()
    assert not await works(leads)
    with pytest.raises(Fenced, match="worker b leads in epoch"):
        await one.lead()
    kafka.living = {"a", "b"}
    with pytest.raises(AnotherWorkerLeads):
        await one.lead()
    # The other is stopped; nothing else is to be done.
    kafka.living.discard("b")
    assert await works(await one.lead())


async def test_it_leads_again_after_a_transaction_that_was_open_for_too_long(kafka: Kafka) -> None:
    one = Worker(kafka, "a")
    await one.lead()
    kafka.owner = "the broker"
    assert await works(await one.lead())


async def test_each_claim_has_a_later_epoch(kafka: Kafka) -> None:
    one = Worker(kafka, "a")
    epochs = []
    for _ in range(3):
        await one.lead()
        state = DestinationState(UNIT)
        for record in kafka.records:
            state.apply(record)
        assert state.leader is not None
        epochs.append(state.leader.epoch)
    assert epochs == sorted(set(epochs))


class LostLease(PermanentLease):
    """A lease that ZooKeeper gives to another after some questions; ``check`` does not know of it yet."""

    def __init__(self, events: list[str], *, confirmed: int) -> None:
        super().__init__(shared=True)
        self._events, self._left = events, confirmed

    async def confirm(self) -> None:
        self._events.append("confirm")
        self._left -= 1
        if self._left < 0:
            raise LeadershipLost("the node is another's")


async def test_the_lease_is_confirmed_before_the_id_is_taken_and_before_the_claim(
    kafka: Kafka,
) -> None:
    for confirmed, events in (
        (0, ["confirm"]),
        (1, ["confirm", "init", "confirm"]),
        (2, ["confirm", "init", "confirm", "transaction"]),
    ):
        worker = Worker(kafka, "a")
        kafka.events.clear()
        worker.permit.lease = cast(Lease, LostLease(kafka.events, confirmed=confirmed))
        try:
            await worker.lead()
        except LeadershipLost:
            assert confirmed < 2
        assert kafka.events == events
    # Who leads is decided by the lease, where there is one.
    kafka.records.clear()


async def test_a_unit_that_is_fenced_shows_by_whom(kafka: Kafka) -> None:
    one, two = Worker(kafka, "a"), Worker(kafka, "b")
    await one.lead()
    status = MergeStatus(PLAN)

    async def run() -> None:
        await two.lead()

    lease = PermanentLease()
    unit = Unit(
        name=UNIT, status=status, run=run, context={"merge": "trade"}, policy=lambda: ErrorPolicy()
    )
    leading = asyncio.create_task(unit.lead(lease))
    async with asyncio.timeout(10):
        while status.error is None:  # noqa: ASYNC110 - the status announces nothing
            await asyncio.sleep(0)
    assert status.to_json()["state"] == "FENCED"
    assert str(status.error).startswith("AnotherWorkerLeads: ")
    assert f"merge=trade, destination={UNIT}" in str(status.error)
    # The leader answers for the unit, not a worker that found out that there is one.
    assert unit.obey(Control(destination=UNIT, desired=DesiredState.PAUSE, offset=1))
    await asyncio.sleep(0.01)
    assert status.to_json()["state"] == "PAUSED"
    assert unit.outcome(here=True, alone=True) is None
    assert unit.outcome(here=True, alone=False) == ("PAUSED", "pause, requested by unknown", 0)
    leading.cancel()
    await asyncio.wait([leading])


async def test_a_pause_that_only_the_journal_has_is_found_before_the_claim(kafka: Kafka) -> None:
    worker = Worker(kafka, "a")
    pause = Control(destination=UNIT, desired=DesiredState.PAUSE, by="me", ts_ms=1)
    kafka.records.append(StoredRecord(*control_note(pause), 0))
    producer = await worker.take()
    kafka.events.clear()
    with pytest.raises(StopRequested):
        await worker.claim(producer)
    assert kafka.events == []
    assert worker.requests.last == pause
    # One that is resumed later claims.
    kafka.records.append(StoredRecord(*control_note(replace(pause, desired=DesiredState.RUN)), 1))
    await worker.claim(producer)
    assert kafka.events == ["transaction"]


def test_this_process_lives_and_one_that_has_ended_is_gone() -> None:
    assert is_here(this_process())
    assert not is_gone(this_process())
    result = "from app.worker.unit.takeover import this_process; print(this_process())"
    ended = subprocess.run(
        [sys.executable, "-c", result], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert is_here(ended)
    assert is_gone(ended)


def test_one_that_has_another_start_has_only_the_same_number() -> None:
    assert is_gone(f"{this_process()}0")


def test_of_one_elsewhere_nothing_is_guessed() -> None:
    assert not is_gone("b0-f1-1-7")
    assert not is_gone("nothing that a worker writes")


def test_others_are_those_that_live_and_are_not_this_worker_before_it_was_started_again() -> None:
    here = this_process().rpartition("-")[0].rpartition("-")[0]
    clients = [
        client_id("a"),
        "faust-0.15.3",
        "aqueduct.a.b0-f1-1-7",
        "aqueduct.b.example.com.b0-f1-1-7",
        f"aqueduct.c.{here}-999999999-5",
        f"aqueduct.a.{here}-1-{_started_of_the_first()}",
    ]
    assert list(living(clients, "a")) == ["b0-f1-1-7", f"{here}-1-{_started_of_the_first()}"]


def _started_of_the_first() -> str:
    return Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
