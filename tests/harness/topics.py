"""Published records in the order of each topic's sequence numbers, and topics as an administrator sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient

from connectors.kafka.reading import StoredRecord, read_to_end
from devstack import Stack
from devstack import topics as consumed
from tables.rules.routes.routes import Routes
from wire.topics import ddl_topic


@dataclass(frozen=True, slots=True)
class Change:
    """A record with a value."""

    value: dict[str, Any]
    change_id: str
    key: bytes = b""

    @property
    def seq(self) -> int:
        """The sequence number."""
        return int(self.value["source"]["seq"])


def stored(stack: Stack, topic: str, *, partitions: int = 1) -> list[list[StoredRecord]]:
    """The committed records of each partition; none of a topic that a worker has yet to create.

    The reader itself waits for a topic, but not for as long as a test that polls.
    """
    options = {"bootstrap_servers": stack.kafka}

    async def read() -> list[list[StoredRecord]]:
        if topic not in await consumed.names(stack.kafka):
            return [[] for _ in range(partitions)]
        return [await read_to_end(options, topic, number) for number in range(partitions)]

    return asyncio.run(read())


def changes(
    stack: Stack, topic: str, *, partitions: int = 1, only: int | None = None
) -> list[Change]:
    """The records with a value in a topic or one of its partitions, by sequence number."""
    found = stored(stack, topic, partitions=partitions if only is None else only + 1)
    return sorted(
        (
            Change(json.loads(one.value), dict(one.headers).get("change_id", b"").decode(), one.key)
            for records in (found if only is None else [found[only]])
            for one in records
            if one.value
        ),
        key=lambda change: change.seq,
    )


def rows(stack: Stack, prefix: str, table: str, *, database: str = "shop") -> list[Change]:
    """A table's changes from a worker with the settings of ``tests.harness.worker``."""
    return changes(stack, Routes(prefix=prefix).topic((database, table)), partitions=2)


def keys(stack: Stack, prefix: str, table: str) -> list[dict[str, Any] | None]:
    """The keys of a table's changes."""
    return [json.loads(change.key) if change.key else None for change in rows(stack, prefix, table)]


def values(stack: Stack, topic: str) -> list[dict[str, Any]]:
    """The values of a topic of one partition, in its order."""
    (found,) = stored(stack, topic)
    return [json.loads(record.value) for record in found if record.value]


def statements(stack: Stack, prefix: str) -> list[Change]:
    """The records of the DDL topic."""
    return changes(stack, ddl_topic(prefix, "shop"))


def names(stack: Stack) -> set[str]:
    """The names of all topics."""
    return asyncio.run(consumed.names(stack.kafka))


def has_rows(stack: Stack, topic: str, *, partitions: int = 2) -> bool:
    """Whether a topic has changes."""
    return bool(changes(stack, topic, partitions=partitions))


def on_kafka(stack: Stack, act: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    """Do something as an administrator."""

    async def done() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
        await admin.start()
        try:
            return await act(admin)
        finally:
            await admin.close()

    return asyncio.run(done())
