"""A source, its worker and their topic in memory, which move while they are looked at.

As in MySQL, a transaction is in the binlog first, visible next, and among the executed ones last; the worker
may publish it as soon as it is in the binlog. Each wait for an answer gives the others time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from app.operator.validation.folded_topic import SelectedRow
from connectors.kafka.reading import Partition, StoredRecord
from connectors.mysql.position import Coordinates
from tests.unit.app.operator.validation.records import record, selected, tombstone

PARTITION: Partition = ("aq.shop.t", 0)
CHUNK = 7


@dataclass(slots=True)
class World:
    """Rows are numbers with a value; a transaction changes one row, or deletes it."""

    chance: random.Random
    keys: range
    """The keys that transactions change."""
    wrong: dict[int, int | None] = field(default_factory=dict)
    """What the source has of other keys, without any transaction."""
    limit: int = 400
    written: list[tuple[int, int | None]] = field(default_factory=list)
    visible: int = 0
    executed: int = 0
    topic: list[StoredRecord] = field(default_factory=list)
    published: int = 0
    consumed: int = 0

    def fill(self, rows: dict[int, int]) -> None:
        """Publish rows that are there before."""
        self.written += rows.items()
        self.visible = self.executed = len(self.written)
        while self.published < len(self.written):
            self._publish()

    def step(self) -> None:
        """Give all of them some time."""
        for _ in range(self.chance.randrange(4)):
            what = self.chance.randrange(4)
            if what == 0 and len(self.written) < self.limit:
                value = self.chance.choice([None, self.chance.randrange(1000)])
                self.written.append((self.chance.choice(self.keys), value))
            elif what == 1 and self.visible < len(self.written):
                self.visible += 1
            elif what == 2 and self.executed < self.visible:
                self.executed += 1
            elif what == 3 and self.published < len(self.written):
                self._publish()

    def _publish(self) -> None:
        number, value = self.written[self.published]
        at = len(self.topic)
        if value is None:
            self.topic += [record(number, None, at=at, op="d"), tombstone(number, at=at + 1)]
        else:
            self.topic.append(record(number, value, at=at))
        self.published += 1

    def rows(self) -> dict[int, int]:
        """What a SELECT returns now."""
        found = dict(self.written[: self.visible]) | self.wrong
        return {number: value for number, value in sorted(found.items()) if value is not None}


class Reader:
    """The twin of a ChunkReader, of a server whose transactions have the numbers of a list."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, after: int | None, sees: int) -> SimpleNamespace:
        world = self._world
        world.step()
        while world.executed < sees:
            world.step()
        rows = [(key, value) for key, value in world.rows().items() if after is None or key > after]
        own = rows[:CHUNK]
        world.step()
        high = Coordinates("b.000001", len(world.written))
        last = own[-1][0] if own else None
        return SimpleNamespace(
            rows=len(own), found=own, last=last, is_last=len(own) < CHUNK, high=high
        )


class Expected:
    """The twin of ExpectedRows."""

    def of(self, _name: Any, chunk: Any) -> tuple[list[SelectedRow], int]:
        return [selected(key, value) for key, value in chunk.found], 0


class Published:
    """The twin of PublishedPosition."""

    changes = 0

    def __init__(self, world: World) -> None:
        self._world = world

    async def settled(self) -> int:
        self._world.step()
        return self._world.published

    async def reached(self, position: Coordinates) -> None:
        while self._world.published < position.pos:
            self._world.step()


class Topic:
    """The twin of a Follower, with one partition."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def position(self, _partition: Partition) -> int:
        self._world.step()
        return self._world.consumed

    async def ends(self, _partitions: Any) -> dict[Partition, int]:
        self._world.step()
        return {PARTITION: len(self._world.topic)}

    async def read(self, _seconds: float, *, most: int, only: Any) -> dict[Partition, list[Any]]:  # noqa: ARG002
        world = self._world
        world.step()
        until = world.consumed + world.chance.randrange(1, 9)
        found = world.topic[world.consumed : until]
        world.consumed += len(found)
        return {PARTITION: found}

    async def unread(self) -> dict[Partition, int]:
        return {}
