"""Another producer's open transaction: whose it is, and that it can be ended."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from connectors.errors import TransactionOpen
from connectors.kafka import reading
from connectors.kafka.open_transactions import open_transactions
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import read_to_end
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack


@pytest.fixture
async def options(stack: Stack) -> dict[str, Any]:
    return {"bootstrap_servers": stack.kafka}


async def test_an_open_transaction_is_named_and_ended(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = f"held-{uuid4().hex[:8]}", f"foreign-{uuid4().hex[:8]}"
    plan = TopicPlan(name=topic, partitions=1, replication_factor=1, max_message_bytes=1_000_000)
    await Topics(options).ensure(plan)
    assert await open_transactions(options, topic, 0) == []
    foreign = TransactionalProducer(other, options=options, compression=None)
    await foreign.init_transactions()
    assert foreign._kafka is not None
    await foreign._kafka.begin_transaction()
    await (await foreign._kafka.send(topic, key=b"k", value=b"v", partition=0))
    monkeypatch.setattr(reading, "SILENCE", 2.0)
    with pytest.raises(TransactionOpen) as caught:
        await read_to_end(options, topic, 0)
    assert other in str(caught.value)
    (found,) = await open_transactions(options, topic, 0)
    assert (found.transactional_id, found.offset) == (other, 0)

    # As the command does.
    ending = TransactionalProducer(other, options=options, compression=None)
    await ending.init_transactions()
    assert await open_transactions(options, topic, 0) == []
    assert await read_to_end(options, topic, 0) == []
    await ending.discard()
    await foreign.discard()
