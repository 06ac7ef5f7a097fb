"""The topics as a consumer reads them: committed records only."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

import orjson
from aiokafka.structs import ConsumerRecord

from demo.checks import Record
from devstack import topics as consumed
from tables.rules.routes.routes import Routes
from wire.topics import ddl_topic

Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The topics of a destination: its row topics, by its routes, and its DDL topic."""

    routes: Routes
    destination: str

    def topic_of(self, table: str) -> str:
        """The topic of a table of a database named as the destination."""
        return self.routes.topic((self.destination, table))

    @property
    def ddl_topic(self) -> str:
        """The topic of the destination's DDL statements."""
        return ddl_topic(self.routes.prefix, self.destination)


@dataclass(slots=True)
class Contents:
    """Records with a value; the number of tombstones; records that contain the forbidden mark."""

    rows: defaultdict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    """By the table that they name, not by topic: a topic may have the rows of several tables."""
    statements: list[Record] = field(default_factory=list)
    """Of the DDL topic."""
    tombstones: int = 0
    marked: list[Record] = field(default_factory=list)

    @property
    def records(self) -> list[Record]:
        """All that have a value."""
        return [*itertools.chain.from_iterable(self.rows.values()), *self.statements]


async def ends(bootstrap: str, topics: list[str]) -> Offsets:
    """The last stable offset of each partition: all before it is committed or aborted."""
    found = await consumed.ends(bootstrap, topics)
    return {(tp.topic, tp.partition): end for tp, end in found.items()}


async def read(bootstrap: str, topics: list[str], *, mark: bytes) -> Contents:
    """All committed records of these topics, from the first."""
    contents = Contents()
    async for messages in consumed.batches(bootstrap, topics):
        for message in messages:
            _add(contents, message, mark)
    return contents


def _add(contents: Contents, message: ConsumerRecord, mark: bytes) -> None:
    if message.value is None:
        contents.tombstones += 1
        return
    value = orjson.loads(message.value)
    source = value["source"]
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
    held = contents.statements if "ddl" in value else contents.rows[source["table"]]
    held.append(record)
    if mark in message.value:
        contents.marked.append(record)
