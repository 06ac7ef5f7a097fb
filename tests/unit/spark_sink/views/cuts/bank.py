"""A bank on a source, its topics in a model of Kafka, and a sink between them that is driven step by step.

Accounts lie in two tables of two partitions each. Each transfer is one transaction and one Kafka transaction,
or several of these. As in Kafka, a committed transaction appears in one partition after another, and the next
one of the same producer begins only once the last has appeared everywhere; offsets of partitions
are asked for one by one, while all this happens.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_sink.source.positions import Offsets
from tests.unit.spark_sink.history import Change, Image, schema

TABLES = ("a", "b")
PARTITIONS = 2
ACCOUNTS = 6
MONEY = 100
MARKERS = ("aq.__transactions.shop", 0)
PLACES = [(f"aq.shop.{table}", number) for table in TABLES for number in range(PARTITIONS)]
SCHEMAS = [schema(("id", "int"), ("v", "int"), table=table) for table in TABLES]

State = dict[str, dict[int, int]]


@dataclass(slots=True)
class Bank:
    """The source and its topics."""

    seed: int
    state: State = field(default_factory=lambda: {table: {} for table in TABLES})
    states: dict[int, State] = field(default_factory=dict)
    """The accounts after each transaction, by the `seq` of its last change."""
    ids: dict[int, str] = field(default_factory=dict)
    """The transaction that ends at a `seq`."""
    logs: dict[tuple[str, int], list[str | None]] = field(init=False)
    """The values of each partition; None for the end of a Kafka transaction."""
    shown: dict[tuple[str, int], int] = field(init=False)
    """The committed end of each partition, as a reader sees it."""
    random: random.Random = field(init=False)
    _pending: list[tuple[str, int]] = field(default_factory=list)
    _queue: list[list[tuple[tuple[str, int], str]]] = field(default_factory=list)
    _seq: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _number: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        """Opens the accounts, in one transaction."""
        self.random = random.Random(self.seed)
        self.logs = {at: [] for at in (*PLACES, MARKERS)}
        self.shown = dict.fromkeys(self.logs, 0)
        self.states[0] = self._copy()
        accounts = [(table, account) for table in TABLES for account in range(ACCOUNTS)]
        self._transaction([(table, account, MONEY) for table, account in accounts])

    def transfer(self, *, parts: int = 1) -> None:
        """Moves money between random accounts, in a transaction of so many Kafka transactions."""
        steps: list[tuple[str, int, int]] = []
        for _ in range(parts):
            (one, giver), (other, taker) = self.random.sample(
                [(table, number) for table in TABLES for number in range(ACCOUNTS)], 2
            )
            amount = self.random.randint(1, 20)
            steps += [(one, giver, -amount), (other, taker, amount)]
        self._transaction(steps, parts=parts)

    def _transaction(self, steps: list[tuple[str, int, int]], *, parts: int = 1) -> None:
        name = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{next(self._number)}"
        each = len(steps) // parts
        order, last = 0, 0
        for part in range(parts):
            records = []
            for table, account, amount in steps[part * each : (part + 1) * each]:
                order, last = order + 1, next(self._seq)
                records.append(self._change(table, account, amount, last, name, order))
            if parts > 1:
                is_last = part + 1 == parts
                end = {"status": "END", "id": name, "part": part + 1, "last": is_last, "wire": 1}
                records.append((MARKERS, json.dumps(end)))
            self._queue.append(records)
        self.states[last], self.ids[last] = self._copy(), name

    def read(self, table: str) -> str:
        """Publishes a table's accounts as rows that existed already; returns the id of their SELECT."""
        name = f"snapshot:1:shop.{table}:{next(self._number)}"
        records = []
        for order, (account, money) in enumerate(sorted(self.state[table].items()), start=1):
            last = next(self._seq)
            row = Change(
                op="r",
                seq=last,
                table=table,
                after={"id": account, "v": money},
                # Of the SELECT, at another clock than that of commits.
                ts_ms=1_000_000,
                more={"transaction": {"id": name, "total_order": order}},
            )
            records.append(((f"aq.shop.{table}", account % PARTITIONS), row.value()))
        self._queue.append(records)
        self.states[last], self.ids[last] = self._copy(), name
        return name

    def remove(self, table: str) -> str:
        """Publishes the delete of a row that only the topic has; returns the id of its SELECT."""
        name, last = f"snapshot:2:shop.{table}:{next(self._number)}", next(self._seq)
        row = Change(
            op="d",
            seq=last,
            table=table,
            before={"id": 0},
            ts_ms=1_000_000,
            more={"absent": ["v"], "transaction": {"id": name, "total_order": 1}},
        )
        self._queue.append([((f"aq.shop.{table}", 0), row.value())])
        self.states[last], self.ids[last] = self._copy(), name
        return name

    def _change(
        self, table: str, account: int, amount: int, seq: int, name: str, order: int
    ) -> tuple[tuple[str, int], str]:
        held = self.state[table]
        before: Image | None = {"id": account, "v": held[account]} if account in held else None
        held[account] = held.get(account, 0) + amount
        change = Change(
            op="u" if before else "c",
            seq=seq,
            table=table,
            before=before,
            after={"id": account, "v": held[account]},
            more={"transaction": {"id": name, "total_order": order}},
        )
        return (f"aq.shop.{table}", account % PARTITIONS), change.value()

    def move(self) -> None:
        """Lets one thing happen in Kafka: a transaction is committed, or it appears in a partition."""
        if self._pending:
            at = self._pending.pop(self.random.randrange(len(self._pending)))
            self.shown[at] = len(self.logs[at])
        elif self._queue:
            records = self._queue.pop(0)
            for at, value in records:
                self.logs[at].append(value)
            self._pending = sorted({at for at, _ in records})
            for at in self._pending:
                self.logs[at].append(None)

    def settle(self) -> None:
        """Lets everything happen that is left."""
        while self._pending or self._queue:
            self.move()

    def ends(self) -> dict[tuple[str, int], int]:
        """The committed ends, asked for one by one."""
        found = {}
        for at in self.random.sample(sorted(self.logs), len(self.logs)):
            found[at] = self.shown[at]
            if self.random.random() < 0.5:
                self.move()
        return found

    def reach(self, **_: bool) -> dict[tuple[str, int], int]:
        """The ends with undecided records, asked for one by one; there is no DDL."""
        found = {}
        for at in self.random.sample(sorted(self.logs), len(self.logs)):
            found[at] = len(self.logs[at])
            if self.random.random() < 0.5:
                self.move()
        return found

    def records(self, start: Offsets, end: Offsets) -> list[dict[str, object]]:
        """The records between offsets, in the columns of Spark's Kafka source."""
        return [
            {"topic": at[0], "partition": at[1], "offset": offset, "key": None, "value": value}
            for at, log in self.logs.items()
            for offset, value in enumerate(log)
            if value is not None and start.get(at, 0) <= offset < end.get(at, 0)
        ]

    def last_values(self, ends: Offsets) -> list[str]:
        """The last value of each partition before its end."""
        found = []
        for at, end in ends.items():
            values = [value for value in self.logs[at][:end] if value is not None]
            found += values[-1:]
        return found

    def _copy(self) -> State:
        return {table: dict(held) for table, held in self.state.items()}
