"""A load, a consumer that is never informed of a switch, and their comparison.

Invariant: what is expected is what the load did, in its own order; what is found is what a consumer of the
other program's topics makes of its records by that program's documentation. Neither knows of Aqueduct.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from devstack.mysql import Mysql
from tests.harness.sql import connected

Row = dict[str, Any]
Name = tuple[str, int, str]
"""Table, the number that the load gave the change, and ``c``, ``u`` or ``d``."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row."""

    name: Name
    key: Any
    before: Row | None
    after: Row | None


Interpret = Callable[[ConsumerRecord], Iterable[Change]]
"""Returns the changes of a record, by the other program's documentation."""


@dataclass(slots=True)
class Load:
    """Transactions of one connection until it is ended; each numbers the rows that it changes."""

    mysql: Mysql
    act: Callable[[Load, Any, int], None]
    """Does one transaction, whose number it is given."""
    done: list[Change] = field(default_factory=list)
    number: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> list[Change]:
        """End; return what was done, in order."""
        self._ending.set()
        assert self._thread is not None
        self._thread.join(60)
        if self._error is not None:
            raise self._error
        return self.done

    def next(self) -> int:
        """Return the number of the next change."""
        self.number += 1
        return self.number

    def _run(self) -> None:
        try:
            with connected(self.mysql) as cursor:
                cursor.execute("SET time_zone = '+00:00', autocommit = 0")
                transaction = 0
                while not self._ending.is_set():
                    transaction += 1
                    self.act(self, cursor, transaction)
                    cursor.execute("COMMIT")
        except BaseException as error:
            self._error = error


@dataclass(slots=True)
class Reader:
    """A consumer of topics by a pattern, in a group, from their beginning; with Kafka's own defaults."""

    kafka: str
    pattern: str
    interpret: Interpret
    found: list[Change] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()), daemon=True)
        self._thread.start()

    def end(self) -> list[Change]:
        """End; return all that was read, in the order of reading."""
        self._ending.set()
        assert self._thread is not None
        self._thread.join(60)
        if self._error is not None:
            raise self._error
        return self.found

    async def _read(self) -> None:
        try:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.kafka,
                group_id="never-informed",
                auto_offset_reset="earliest",
                metadata_max_age_ms=500,
            )
            consumer.subscribe(pattern=self.pattern)
            await consumer.start()
            try:
                while not self._ending.is_set():
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        for record in records:
                            self.found += self.interpret(record)
            finally:
                await consumer.stop()
        except BaseException as error:
            self._error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The differences, by kind."""

    changes: int
    lost: list[Name]
    repeated: list[Name]
    different: list[tuple[Change | None, Change]]
    """Also what nobody did, and a key's changes in another order."""

    def line(self) -> str:
        """The outcome in a line."""
        counts = (
            f"lost={len(self.lost)} repeated={len(self.repeated)} different={len(self.different)}"
        )
        return f"switch: changes={self.changes} {counts}"


def compare(done: Iterable[Change], found: Iterable[Change]) -> Outcome:
    """Compare what was done with what was found."""
    expected = {one.name: one for one in done}
    times = Counter(one.name for one in found)
    different = [(expected.get(one.name), one) for one in found if expected.get(one.name) != one]
    different += _disordered(expected, found)
    return Outcome(
        changes=len(expected),
        lost=[name for name in expected if name not in times],
        repeated=[name for name, count in times.items() if count > 1],
        different=different,
    )


def _disordered(
    expected: Mapping[Name, Change], found: Iterable[Change]
) -> list[tuple[Change | None, Change]]:
    """Changes of a key that came after a later one of it, which is of no other reading."""
    ranks = {name: rank for rank, name in enumerate(expected)}
    last: dict[tuple[str, Any], int] = defaultdict(lambda: -1)
    wrong = []
    for one in found:
        place, rank = (one.name[0], one.key), ranks.get(one.name, -1)
        if rank < last[place]:
            wrong.append((expected.get(one.name), one))
        last[place] = max(rank, last[place])
    return wrong
