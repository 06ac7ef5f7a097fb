"""A source whose tables come, go and change names, and the order in which the sink sees what it writes."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.spark_sink.batch.drops_and_renames.statements import create, drop, rename
from tests.unit.spark_sink.history import Change

NAMES = ("a", "b", "c")
Rows = dict[int, int]


class Source:
    """A database with few tables, and what it writes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tables: dict[str, Rows] = {}
        self.written: list[tuple[int, str, Change | str]] = []
        """`seq`, the table of a row or "" of a statement, and the record."""

    def play(self, length: int) -> None:
        while len(self.written) < length:
            if not self.tables or self.rng.random() < 0.25:
                self._statement()
            else:
                self._row(self.rng.choice(sorted(self.tables)))

    def add(self, table: str, record: Change | str) -> None:
        self.written.append((len(self.written) + 1, table, record))

    @property
    def next(self) -> dict[str, Any]:
        seq = len(self.written) + 1
        return {"seq": seq, "epoch": 1 + seq // 12}

    def _statement(self) -> None:
        there, free = sorted(self.tables), sorted(set(NAMES) - set(self.tables))
        choice = self.rng.random()
        if free and (not there or choice < 0.4):
            name = self.rng.choice(free)
            self.add("", create(name=name, **self.next))
            self.tables[name] = {}
        elif len(there) >= 2 and choice < 0.7:
            one, two = self.rng.sample(there, 2)
            self.add(
                "",
                rename(
                    self.next["seq"], (one, "t"), (two, one), ("t", two), epoch=self.next["epoch"]
                ),
            )
            self.tables[one], self.tables[two] = self.tables[two], self.tables[one]
        elif free and choice < 0.85:
            old, new = self.rng.choice(there), self.rng.choice(free)
            self.add("", rename(self.next["seq"], (old, new), epoch=self.next["epoch"]))
            self.tables[new] = self.tables.pop(old)
        else:
            name = self.rng.choice(there)
            self.add("", drop(self.next["seq"], name, epoch=self.next["epoch"]))
            del self.tables[name]

    def _row(self, name: str) -> None:
        rows, key, value = self.tables[name], self.rng.randrange(4), self.rng.randrange(1000)
        if self.rng.random() < 0.08:
            rows.clear()
            self.add(name, Change(op="t", table=name, **self.next))
        elif key not in rows:
            rows[key] = value
            self.add(name, Change(op="c", after={"id": key, "v": value}, table=name, **self.next))
        elif self.rng.random() < 0.3:
            before = {"id": key, "v": rows.pop(key)}
            self.add(name, Change(op="d", before=before, table=name, **self.next))
        else:
            before, rows[key] = {"id": key, "v": rows[key]}, value
            after = {"id": key, "v": value}
            self.add(name, Change(op="u", before=before, after=after, table=name, **self.next))


def arrivals(source: Source, *, batches: int) -> list[tuple[list[str], list[Change]]]:
    """Batches of rows in random order, each with the statements that are visible by then.

    A row may come long after a statement that follows it, but no later than a statement that precedes it.
    """
    rng, last = source.rng, batches - 1
    statements = [(seq, str(text)) for seq, table, text in source.written if not table]
    rows: list[list[tuple[int, Change]]] = [[] for _ in range(batches)]
    for seq, _, one in source.written:
        if isinstance(one, Change):
            early = min(last, batches * seq // len(source.written))
            rows[min(last, max(0, early + rng.choice([-1, 0, 0, 1, 2])))].append((seq, one))
    found = []
    for batch in rows:
        newest = max((seq for seq, _ in batch), default=0)
        visible = []
        while statements and (statements[0][0] < newest or rng.random() < 0.2):
            visible.append(statements.pop(0)[1])
        found.append((visible, [one for _, one in rng.sample(batch, len(batch))]))
    return [*found, ([text for _, text in statements], [])]
