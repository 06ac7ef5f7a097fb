"""Reads the topics a consumer would read, as a consumer must: committed records only."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from demo.checks import Record
from demo.errors import DemoError

_PATIENCE_MS = 20_000

Offsets = dict[tuple[str, int], int]


class TopicsUnreadable(DemoError):
    """Kafka's topics could not be read to their end."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The topics of a destination, by docs/wire.md: one for each table, and one for its DDL."""

    prefix: str
    destination: str

    def row_topic(self, table: str) -> str:
        """The topic of a table of a database named as the destination."""
        return f"{self.prefix}.{self.destination}.{table}"

    @property
    def ddl_topic(self) -> str:
        """The topic of the destination's DDL statements."""
        return f"{self.prefix}.__ddl.{self.destination}"


@dataclass(slots=True)
class Contents:
    """Records with a value by topic; how many tombstones; records that hold the forbidden mark."""

    records: defaultdict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    tombstones: int = 0
    marked: list[Record] = field(default_factory=list)


async def ends(bootstrap: str, topics: list[str]) -> Offsets:
    """The last stable offset of each partition: all before it is committed or aborted."""
    async with _consumer(bootstrap, topics) as consumer:
        return {(tp.topic, tp.partition): end for tp, end in (await _ends(consumer)).items()}


async def read(bootstrap: str, topics: list[str], *, mark: bytes) -> Contents:
    """All committed records of these topics, from the first."""
    contents = Contents()
    async with _consumer(bootstrap, topics) as consumer:
        last = await _ends(consumer)
        while [tp for tp, end in last.items() if await consumer.position(tp) < end]:
            fetched = await consumer.getmany(timeout_ms=_PATIENCE_MS)
            if not fetched:
                raise TopicsUnreadable
            for message in itertools.chain.from_iterable(fetched.values()):
                _add(contents, message, mark)
    return contents


def _consumer(bootstrap: str, topics: list[str]) -> AIOKafkaConsumer:
    """A consumer of no group: it is assigned every partition of the topics."""
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


async def _ends(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    missing = consumer.subscription() - {tp.topic for tp in consumer.assignment()}
    if missing:
        raise TopicsUnreadable(f"Kafka has no topic {', '.join(sorted(missing))}")
    return dict(await consumer.end_offsets(list(consumer.assignment())))


def _add(contents: Contents, message: ConsumerRecord, mark: bytes) -> None:
    if message.value is None:
        contents.tombstones += 1
        return
    source = orjson.loads(message.value)["source"]
    change_id = dict(message.headers).get("change_id")
    record = Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        change_id=change_id.decode() if change_id is not None else None,
        seq=source["seq"],
        epoch=source["epoch"],
        committed_ms=source["ts_ms"],
    )
    contents.records[message.topic].append(record)
    if mark in message.value:
        contents.marked.append(record)
