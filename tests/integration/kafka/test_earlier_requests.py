"""A start with a table older than the journal finds each request, before the tail's position or after it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

from app.worker.destination.takeover.recovery import earlier_requests, reads_journal
from app.worker.process.journal_agent import journal_tail
from connectors.kafka.producer import TransactionalProducer, append
from connectors.kafka.reading import StoredRecord
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tables.journal_kind import Addressed
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.operator_requests import Control, DesiredState, control_note
from tests.harness.wait import TIMEOUT


async def test_a_request_that_no_row_has_is_found_and_one_after_an_open_transaction_is_left_to_the_tail(
    stack: Stack,
) -> None:
    options = {"bootstrap_servers": stack.kafka}
    topic = f"journal-{uuid.uuid4().hex[:8]}"
    plan = TopicPlan(name=topic, partitions=1, replication_factor=1, max_message_bytes=10**6)
    await Topics(options).ensure(plan)
    checkpoint = MemoryCheckpoint()
    notices: asyncio.Queue[Addressed] = asyncio.Queue()

    async def ask(name: str, desired: DesiredState) -> StoredRecord:
        key, value = control_note(Control(destination=name, desired=desired))
        assert value is not None
        return StoredRecord(key, value, await append(options, topic, 0, key=key, value=value))

    async def known() -> dict[str, DesiredState]:
        found = await earlier_requests(checkpoint, partitions=1, read=reads_journal(topic, options))
        return {one.destination: one.desired for one in found}

    for name in ("east", "west"):
        checkpoint.fold(await ask(name, DesiredState.PAUSE))
    await ask("east", DesiredState.RUN)
    other = TransactionalProducer(f"{topic}.other", options=options, compression=None)
    await other.init_transactions()
    try:
        async with other.transaction() as opened:
            await (await opened.send(topic, key=b"cursor/other", value=b"{}", partition=0))
            await ask("west", DesiredState.RUN)
            tail = journal_tail(
                topic, 1, options=options, notify=lambda _, one: notices.put_nowait(one)
            )
            follower = asyncio.create_task(tail.run())
            await tail.placed()
            assert await known() == {"east": DesiredState.RUN, "west": DesiredState.PAUSE}
        async with asyncio.timeout(TIMEOUT):
            notice = await notices.get()
        assert isinstance(notice, Control)
        assert (notice.destination, notice.desired) == ("west", DesiredState.RUN)
    finally:
        await other.discard()
        follower.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await follower
    assert await known() == dict.fromkeys(("east", "west"), DesiredState.RUN)
