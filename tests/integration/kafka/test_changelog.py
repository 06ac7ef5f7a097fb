"""A changelog that is lost: the checkpoint is filled again from the journal, and takeovers are short again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import Topics
from devstack import Stack
from tests.contract.test_journal_checkpoint import (
    InFaust,
    Writer,
    faust_worker,
    plans_of,
    recovered,
)
from tests.harness.wait import until_async
from tests.unit.tables.made import ORDERS, names_of


@pytest.fixture
def options(stack: Stack) -> dict[str, Any]:
    return {"bootstrap_servers": stack.kafka}


@pytest.fixture
def prefix() -> str:
    return f"changelog-{uuid4().hex[:8]}"


async def test_a_changelog_that_was_deleted_is_filled_from_the_journals_beginning(
    options: dict[str, Any], prefix: str, tmp_path: Path
) -> None:
    plan = plans_of(prefix).journal()
    await Topics(options).ensure(plan)
    producer = TransactionalProducer(prefix, options=options, compression="lz4")
    await producer.init_transactions()
    writer = Writer(producer, plan.name)
    try:
        await writer.begin()
        await writer.alter(200)
        async with faust_worker(options, prefix, tmp_path) as checkpoint:
            before = dict(await InFaust(checkpoint).rows(writer.end))
        await deleted(options, *checkpoint.changelogs)
        await writer.alter(300)
        async with faust_worker(options, prefix, tmp_path / "again") as checkpoint:
            after = dict(await InFaust(checkpoint).rows(writer.end))
    finally:
        await producer.discard()
    assert before.keys() < after.keys()
    history = await recovered(options, prefix, after)
    assert names_of(history.find(*ORDERS)) == ["id", "c200", "c300"]


async def gone(admin: AIOKafkaAdminClient, *topics: str) -> bool:
    return set(topics).isdisjoint(await admin.list_topics())


async def deleted(options: Mapping[str, Any], *topics: str) -> None:
    """Delete topics, and wait until no broker lists them."""
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        await admin.delete_topics(list(topics))
        await until_async(lambda: gone(admin, *topics))
    finally:
        await admin.close()
