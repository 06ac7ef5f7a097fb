"""The contract of journal checkpoints, in memory and in Faust tables: equal records give equal rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.recovery import recover
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.process import journal_agent
from app.worker.process.faust_app import AqueductApp
from app.worker.process.http import HttpServer
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import read_in_pieces, read_to_end
from connectors.kafka.topics import Topics
from devstack import Stack
from tables.history.codec import checkpoint_records, history_records, tombstones
from tables.history.history import SchemaHistory
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint, Row
from tables.state.journal.faust_checkpoint import FaustCheckpoint
from tables.state.journal.state import JournalPartition
from tests.harness.wait import until_async, until_in_loop
from tests.unit.tables.made import ORDERS, SERVER, applied, between, names_of, offset, table

TABLES = 60
PART_BYTES = 2000


class Follower(Protocol):
    """A checkpoint that follows the journal, by itself or on request."""

    async def rows(self, upto: int) -> Mapping[str, Row]:
        """All rows, after the journal's record at this offset is applied."""
        ...


def latest(rows: Mapping[str, Row]) -> int:
    return max((row["offset"] for row in rows.values()), default=-1)


class InMemory:
    """The in-memory twin."""

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        self._options, self._topic = options, topic
        self._checkpoint = MemoryCheckpoint()

    async def rows(self, upto: int) -> Mapping[str, Row]:
        for record in await read_to_end(self._options, self._topic, 0):
            self._checkpoint.fold(record)
        assert latest(self._checkpoint.rows) == upto
        return self._checkpoint.rows


class InFaust:
    """Faust's tables, filled by the worker's own agent."""

    def __init__(self, checkpoint: FaustCheckpoint) -> None:
        self._checkpoint = checkpoint

    async def rows(self, upto: int) -> Mapping[str, Row]:
        await until_in_loop(lambda: latest(self._checkpoint.rows) >= upto, glance=0.1)
        assert latest(self._checkpoint.rows) == upto
        return self._checkpoint.rows


def plans_of(prefix: str) -> TopicPlans:
    return TopicPlans(
        prefix=prefix,
        replication_factor=1,
        cleanup_policy="delete",
        retention_ms=-1,
        max_message_bytes=10 * 1024 * 1024,
        journal_partitions=1,
        offline_seconds=120.0,
    )


@asynccontextmanager
async def faust_worker(
    options: dict[str, Any], prefix: str, folder: Path
) -> AsyncIterator[FaustCheckpoint]:
    """The part of a worker that folds the journal."""
    plans = plans_of(prefix)
    app = AqueductApp(
        f"{prefix}.__worker",
        broker=[f"kafka://{options['bootstrap_servers']}"],
        store="memory://",
        datadir=str(folder),
        web_enabled=False,
        topic_disable_leader=True,
        topic_replication_factor=1,
        topic_partitions=1,
    )
    app.http = HttpServer("127.0.0.1", 0, dict)
    checkpoint = FaustCheckpoint(app, partitions=1)
    app.needed = (plans.journal(), *map(plans.changelog, checkpoint.changelogs))
    app.kafka_options = options
    app.folded = (plans.journal().name,)
    app.journal_is = partial(setattr, checkpoint, "journal")
    app.folds_from_start = checkpoint.begin
    topic = app.topic(
        plans.journal().name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=1,
    )
    name = plans.journal().name
    journal_agent.install(
        app, topic, checkpoint, lambda part, start: read_in_pieces(options, name, part, start=start)
    )
    app.finalize()
    await app.start()
    try:
        yield checkpoint
    finally:
        await app.stop()


@pytest.fixture
def options(stack: Stack) -> dict[str, Any]:
    return {"bootstrap_servers": stack.kafka}


@pytest.fixture
def prefix() -> str:
    return f"rows-{uuid4().hex[:8]}"


@pytest.fixture(params=["memory", "faust"])
async def follower(
    request: pytest.FixtureRequest, options: dict[str, Any], prefix: str, tmp_path: Path
) -> AsyncIterator[Follower]:
    plan = plans_of(prefix).journal()
    await Topics(options).ensure(plan)
    if request.param == "memory":
        yield InMemory(options, plan.name)
        return
    async with faust_worker(options, prefix, tmp_path) as checkpoint:
        yield InFaust(checkpoint)


class Writer:
    """A destination's history on a real broker, transaction by transaction."""

    def __init__(self, producer: TransactionalProducer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self.history = SchemaHistory()
        self.history.init("shop")
        self._seq = 0
        self.end = 0
        """The offset of the last cursor."""

    async def begin(self) -> None:
        tables = {("shop", f"t{n}"): table("a", "b") for n in range(TABLES)}
        first = self.history.baseline({ORDERS: table(), **tables}, {}, between(100), SERVER)
        await self.commit(checkpoint_records(first, limit=PART_BYTES))

    async def commit(self, entries: list[Entry]) -> None:
        self._seq += 1
        cursor = Cursor(
            destination="shop",
            installation="i",
            epoch=1,
            seq=self._seq,
            versions=0,
            offset=offset(100),
            history=self.history.count,
        )
        last = (journal.cursor_key("shop"), journal.encoded(cursor.to_json()))
        async with self._producer.transaction() as kafka:
            sent = [
                await kafka.send(self._topic, key=key, value=value, partition=0)
                for key, value in [*entries, last]
            ]
            self.end = (await asyncio.gather(*sent))[-1].offset

    async def alter(self, pos: int) -> None:
        record = applied(self.history, pos, f"ALTER TABLE orders ADD c{pos} INT")
        await self.commit(history_records(record))

    async def checkpoint(self, pos: int) -> None:
        made = self.history.checkpoint(between(pos), made_ms=0)
        await self.commit(checkpoint_records(made, limit=PART_BYTES))


@pytest.fixture
async def writer(options: dict[str, Any], prefix: str, follower: Follower) -> AsyncIterator[Writer]:
    assert follower, "it makes the journal"
    producer = TransactionalProducer(prefix, options=options, compression="lz4")
    await producer.init_transactions()
    one = Writer(producer, plans_of(prefix).journal().name)
    await one.begin()
    yield one
    await producer.discard()


def checkpoints(rows: Mapping[str, Row]) -> set[str]:
    return {key.split("/")[2] for key in rows if key.startswith("checkpoint/")}


async def recovered(
    options: dict[str, Any], prefix: str, rows: Mapping[str, Row], *, whole_history: bool = False
) -> SchemaHistory:
    checkpoint = MemoryCheckpoint()
    checkpoint.rows.update(rows)
    state = await recover(
        JournalPartition.of("shop", plans_of(prefix).journal(), options),
        checkpoint,
        Verification(installation="i"),
        whole_history=whole_history,
    )
    history = state.history()
    assert history is not None
    return history


async def test_the_newest_checkpoint_and_the_statements_after_it_are_rows(
    writer: Writer, follower: Follower
) -> None:
    await writer.alter(200)
    rows = await follower.rows(writer.end)
    assert {key.partition("/")[0] for key in rows} == {"cursor", "checkpoint", "history"}
    assert checkpoints(rows) == {"1"}
    assert len([key for key in rows if key.startswith("checkpoint/")]) > 2


async def test_the_rows_of_an_older_checkpoint_go_when_a_newer_one_is_whole(
    writer: Writer, follower: Follower
) -> None:
    for pos in (200, 300):
        await writer.alter(pos)
        await writer.checkpoint(pos + 50)

    async def only_the_newest() -> Mapping[str, Row] | None:
        rows = await follower.rows(writer.end)
        return rows if checkpoints(rows) == {"3"} else None

    # A global table of Faust reads its own changelog too, in which an older row precedes its removal.
    rows = await until_async(only_the_newest, glance=0.1)
    assert not any(key.startswith("history/") for key in rows)


async def test_what_the_journal_forgets_is_no_row(writer: Writer, follower: Follower) -> None:
    await writer.checkpoint(150)
    await writer.commit(tombstones(heads=writer.history.checkpoints[1:]))
    rows = await follower.rows(writer.end)
    assert "checkpoint/shop/2/head" not in rows


async def test_a_run_begins_with_the_rows_and_what_the_journal_has_after_them(
    writer: Writer, follower: Follower, options: dict[str, Any], prefix: str
) -> None:
    await writer.alter(200)
    await writer.checkpoint(250)
    await writer.alter(300)
    rows = await follower.rows(writer.end)
    await writer.alter(400)
    history = await recovered(options, prefix, rows)
    assert [head.number for head in history.checkpoints] == [2]
    assert names_of(history.find(*ORDERS)) == ["id", "c200", "c300", "c400"]
    assert history.now().tables() == writer.history.now().tables()


async def test_with_the_whole_history_every_place_is_within_reach(
    writer: Writer, follower: Follower, options: dict[str, Any], prefix: str
) -> None:
    await writer.alter(200)
    await writer.checkpoint(250)
    await writer.alter(300)
    rows = await follower.rows(writer.end)
    history = await recovered(options, prefix, rows, whole_history=True)
    assert [head.number for head in history.checkpoints] == [1, 2]
    for pos, count in ((150, 1), (250, 2), (350, 3)):
        assert len(names_of(history.at(offset(pos)).find(*ORDERS))) == count


async def test_without_any_rows_the_journal_alone_gives_the_same(
    writer: Writer, options: dict[str, Any], prefix: str
) -> None:
    await writer.alter(200)
    await writer.checkpoint(250)
    await writer.alter(300)
    history = await recovered(options, prefix, {})
    assert history.now().tables() == writer.history.now().tables()
    assert history.count == 2


async def test_rows_stay_through_a_restart_of_the_worker(
    options: dict[str, Any], prefix: str, tmp_path: Path
) -> None:
    plan = plans_of(prefix).journal()
    await Topics(options).ensure(plan)
    producer = TransactionalProducer(prefix, options=options, compression="lz4")
    await producer.init_transactions()
    writer = Writer(producer, plan.name)
    try:
        await writer.begin()
        await writer.checkpoint(150)
        async with faust_worker(options, prefix, tmp_path) as checkpoint:
            await InFaust(checkpoint).rows(writer.end)
            # If Faust rebalances meanwhile, the changelog's older rows return until it is read to its end.
            await until_in_loop(
                lambda: checkpoints(checkpoint.rows) == {"2"},
                glance=0.1,
                late=lambda: f"present: {sorted(checkpoint.rows)}",
            )
            before = dict(checkpoint.rows)
        async with faust_worker(options, prefix, tmp_path / "lost") as checkpoint:
            # Rows that the changelog had not accepted are sent again, and until then some are missing.
            await until_in_loop(
                lambda: checkpoint.rows == before,
                glance=0.1,
                late=lambda: f"missing: {sorted(before.keys() - checkpoint.rows.keys())}",
            )
    finally:
        await producer.discard()
