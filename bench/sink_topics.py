"""Topics of made-up tables, in the wire format, for benchmarks of the sink that need no worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

At = tuple[str, int]
PARTITIONS: Final = 4
DATABASE: Final = "shop"
_COLUMNS: Final = (
    {"name": "id", "type": "int", "nullable": False},
    {"name": "v", "type": "varchar(50)", "nullable": True},
)


@dataclass(slots=True)
class Writer:
    """Writes changes, each at the time of its commit, to the topics of an installation."""

    producer: AIOKafkaProducer
    prefix: str
    sent: list[tuple[At, int, float]] = field(default_factory=list)
    """The partition, the offset and the time of each change."""
    seq: int = 0
    rows: dict[tuple[int, int], str] = field(default_factory=dict)

    async def write(self, changes: Iterable[tuple[int, int]]) -> None:
        """Write one change each of these tables' rows."""
        now, futures = time.time(), []
        for table, row in changes:
            topic, partition = f"{self.prefix}.{DATABASE}.t{table}", row % PARTITIONS
            value = self._value(table, row, int(now * 1000))
            futures.append(
                (topic, partition, await self.producer.send(topic, value, partition=partition))
            )
        for topic, partition, future in futures:
            self.sent.append(((topic, partition), (await future).offset, now))

    def _value(self, table: int, row: int, now_ms: int) -> bytes:
        self.seq += 1
        before = self.rows.get((table, row))
        text = self.rows[table, row] = f"written as number {self.seq}"
        source: dict[str, Any] = {
            "name": DATABASE,
            "db": DATABASE,
            "table": f"t{table}",
            "ts_ms": now_ms,
        }
        source |= {"seq": self.seq, "epoch": 1, "schema": 1, "wire": 1}
        body = {
            "op": "c" if before is None else "u",
            "before": None if before is None else {"id": row, "v": before},
            "after": {"id": row, "v": text},
            "source": source,
            "ts_ms": now_ms,
        }
        return json.dumps(body, separators=(",", ":")).encode()

    def ends(self) -> dict[At, int]:
        """The offset after the last change of each partition."""
        return {at: offset + 1 for at, offset, _ in self.sent}


async def create(kafka: str, prefix: str, tables: int) -> None:
    """Create the topics, and publish the tables' versions."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    names = [NewTopic(f"{prefix}.{DATABASE}.t{table}", PARTITIONS, 1) for table in range(tables)]
    await admin.create_topics([*names, NewTopic(f"{prefix}.__schemas", 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    for table in range(tables):
        version: dict[str, Any] = {"destination": DATABASE, "database": DATABASE, "wire": 1}
        version |= {"table": f"t{table}", "version": 1, "columns": _COLUMNS, "primary_key": ["id"]}
        key = f"t{table}".encode()
        await producer.send_and_wait(f"{prefix}.__schemas", json.dumps(version).encode(), key=key)
    await producer.stop()


async def publish(kafka: str, prefix: str, tables: int, *, rows: int, changes: int) -> None:
    """Create the topics; write so many rows of each table, then so many changes of all together."""
    await create(kafka, prefix, tables)
    producer = AIOKafkaProducer(bootstrap_servers=kafka, enable_idempotence=True, linger_ms=20)
    await producer.start()
    writer = Writer(producer, prefix)
    for row in range(rows):
        await writer.write((table, row) for table in range(tables))
    for start in range(0, changes, 1_000):
        some = range(start, min(start + 1_000, changes))
        await writer.write((n % tables, n // tables % rows) for n in some)
    await producer.stop()
