"""A load, a consumer that is never informed of a switch, and their comparison.

Invariant: what is expected is what the load did, in its own order; what is found is what a consumer of the
other program's topics makes of its records by that program's documentation. Neither knows of Aqueduct.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
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


COLUMNS = (
    "n BIGINT, price DECIMAL(10,2), big BIGINT UNSIGNED, day DATE, at DATETIME(6), sold TIMESTAMP(3) NULL, "
    "lasts TIME(3), flag BIT(1), bits BIT(12), bytes VARBINARY(9), doc JSON, state ENUM('new','paid'), "
    "tags SET('a','b'), made YEAR, rate DOUBLE, note VARCHAR(99)"
)


def row(number: int, key: Any) -> Row:
    """The values of a row, all of which depend on the number of its change."""
    seconds = timedelta(seconds=number, microseconds=number * 7 % 1_000_000)
    return {
        "id": key,
        "n": number,
        "price": Decimal(number * 37 - 5000).scaleb(-2),
        "big": 2**64 - number,
        "day": date(2026, 1, 1) + timedelta(days=number % 900),
        "at": datetime(2026, 11, 21, tzinfo=UTC) + seconds,
        "sold": None
        if number % 5 == 0
        else datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        "lasts": timedelta(milliseconds=number * 1001) - timedelta(hours=3),
        "flag": number % 2 == 1,
        "bits": number % 4096,
        "bytes": number.to_bytes(5, "big"),
        "doc": {"n": number, "text": f"a, b: {number}"},
        "state": ("new", "paid")[number % 2],
        "tags": ("", "a", "b", "a,b")[number % 4],
        "made": 1990 + number % 100,
        "rate": number / 7,
        "note": f"Zoë №{number}",
    }


def literals(values: Row) -> dict[str, Any]:
    """A row as the client's parameters."""
    return {
        **values,
        "at": values["at"].replace(tzinfo=None),
        "sold": values["sold"] and values["sold"].replace(tzinfo=None),
        "lasts": _time(values["lasts"]),
        "flag": int(values["flag"]),
        "doc": json.dumps(values["doc"], ensure_ascii=False),
    }


def _time(value: timedelta) -> str:
    sign, whole = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(whole.total_seconds(), 60)
    return f"{sign}{int(minutes // 60)}:{int(minutes % 60):02}:{seconds:06.3f}"


def _key(table: str, number: int) -> Any:
    if table == "items":
        return number
    return Decimal(number).scaleb(-3) if table.startswith("my") else number.to_bytes(3, "big")


class Changing:
    """Inserts, updates, changes of keys and deletes of several rows in each transaction."""

    def __init__(self, tables: list[str]) -> None:
        self.tables = tables
        self._rows: dict[str, list[Row]] = {}

    def __call__(self, load: Load, cursor: Any, transaction: int) -> None:
        """Do one transaction."""
        for table in self.tables:
            held = self._rows.setdefault(table, [])
            for _ in range(1 + transaction % 3):
                self._insert(load, cursor, table, held)
            if len(held) > 3:
                self._update(load, cursor, table, held, moved=transaction % 4 == 0)
            if len(held) > 9:
                gone = held.pop(0)
                number = gone["n"]
                cursor.execute(f"DELETE FROM inv_shop.`{table}` WHERE id = %s", [gone["id"]])
                load.done.append(Change((table, number, "d"), gone["id"], gone, None))

    def _insert(self, load: Load, cursor: Any, table: str, held: list[Row]) -> None:
        number = load.next()
        made = row(number, _key(table, number))
        names = ", ".join(f"`{name}`" for name in made)
        marks = ", ".join(["%s"] * len(made))
        values = list(literals(made).values())
        cursor.execute(f"INSERT INTO inv_shop.`{table}` ({names}) VALUES ({marks})", values)
        load.done.append(Change((table, number, "c"), made["id"], None, made))
        held.append(made)

    def _update(self, load: Load, cursor: Any, table: str, held: list[Row], *, moved: bool) -> None:
        was, number = held.pop(1), load.next()
        made = row(number, _key(table, number) if moved else was["id"])
        sets = ", ".join(f"`{name}` = %s" for name in made)
        values = [*literals(made).values(), was["id"]]
        cursor.execute(f"UPDATE inv_shop.`{table}` SET {sets} WHERE id = %s", values)
        if moved:
            load.done.append(Change((table, was["n"], "d"), was["id"], was, None))
            load.done.append(Change((table, number, "c"), made["id"], None, made))
        else:
            load.done.append(Change((table, number, "u"), made["id"], was, made))
        held.append(made)
