"""A source for the sink's crash tests: its tables change at random, and a worker's records say how.

Invariant: all follows from a seed. `tables` are what the warehouse must have once all records are applied.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.unit.spark_sink.batch.drops_and_renames.statements import record, renames, table
from tests.unit.spark_sink.history import Change, Image, schema
from wire.records import HEADER_NEW_KEY, HEADER_OLD_KEY

PARTITIONS: Final = 2
KEYED: Final = ("a", "b", "c", "d")
LOG: Final = "log"
NAMES: Final = (*KEYED, LOG)
SCHEMAS: Final = "__schemas"
DDL: Final = "__ddl.shop"
TOPICS: Final = (SCHEMAS, DDL, *(f"shop.{name}" for name in NAMES))
"""Without the installation's prefix."""
_FIRST: Final = (("id", "int"), ("v", "varchar(20)"), ("n", "int"))
_KEYS: Final = 24
_NOBODY: Final = 1_000
"""Keys from here on are only in unusable records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, of a topic without its prefix."""

    topic: str
    value: bytes | None
    partition: int = 0
    key: bytes | None = b"k"
    headers: tuple[str, ...] = ()


@dataclass(slots=True)
class Table:
    """A table of the source."""

    keyed: bool
    columns: list[tuple[str, str]] = field(default_factory=lambda: list(_FIRST))
    rows: dict[int, Image] = field(default_factory=dict)
    """By key; of a table without one, by any number."""
    was_renamed: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


class Source:
    """The database, and what is to be written to Kafka, one list for each Kafka transaction."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tables: dict[str, Table] = {}
        self.letters: list[bytes] = []
        """The values that become dead letters, whatever happens: they name no table."""
        self.perhaps: list[bytes] = []
        """Those that do unless their table is truncated or dropped before they are merged."""
        self._versions: Counter[str] = Counter()
        self._seq = itertools.count(1)
        self._epoch = 1
        self._began_ms = int(time.time() * 1000)
        self._numbers = itertools.count(1)
        self._transactions: list[list[Record]] = []
        self._open: list[Record] = []
        self._past: list[tuple[str, Change]] = []
        """The changes of rows since the last statement, for replays."""
        for name in ("a", "b", LOG):
            self._create(name)
        self.commit()

    def take(self) -> list[list[Record]]:
        """What is new."""
        self.commit()
        found, self._transactions = self._transactions, []
        return found

    def commit(self) -> None:
        """Ends the transaction."""
        if self._open:
            self._transactions.append(self._open)
        self._open = []

    def play(self, *kinds: str) -> None:
        """Makes every kind of change at least once, or the given ones, in a random order."""
        wanted = list(kinds) or [kind for kind, number in _KINDS.items() for _ in range(number)]
        self.random.shuffle(wanted)
        for kind in wanted:
            getattr(self, f"_{kind}")()
            if self.random.random() < 0.5:
                self.commit()
        self.commit()

    def replay(self, *, failover: bool) -> None:
        """Writes the last changes of rows since a statement again; after a failover with a higher epoch.

        A table without a key knows a change by epoch and number, so there it is never written under another.
        """
        most = min(len(self._past), 30)
        again = self._past[len(self._past) - self.random.randint(most // 2, most) :]
        if failover:
            self._epoch += 1
            # A partial image is of the row as it then was, which is gone.
            apart = {LOG, *(name for name, change in again if (change.more or {}).get("absent"))}
            again = [(name, change) for name, change in again if name not in apart]
        for name, change in again:
            one = replace(change, epoch=self._epoch) if failover else change
            self._put(name, one)
        self.commit()

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table, sorted, in the order of `columns`; none if it does not exist."""
        held = self.tables.get(name)
        if held is None:
            return []
        return ordered(tuple(row[one] for one in held.names) for row in held.rows.values())

    # Statements

    def _create(self, name: str = "") -> None:
        free = [one for one in KEYED if one not in self.tables]
        if not name and not free:
            self._insert()
            return
        name = name or self.random.choice(free)
        self.tables[name] = Table(keyed=name != LOG)
        self._statement(f"CREATE TABLE {name} …", table(name, "created"), defines=[name])

    def _drop(self) -> None:
        there = self._keyed()
        if len(there) < 2:
            self._insert()
            return
        name = self.random.choice(there)
        del self.tables[name]
        self._statement(f"DROP TABLE {name}", table(name, "dropped"))

    def _rename(self) -> None:
        there, free = self._keyed(), [one for one in KEYED if one not in self.tables]
        if not there or not free:
            self._swap()
            return
        old, new = self.random.choice(there), self.random.choice(free)
        self._renamed((old, new), defines=[new])

    def _swap(self) -> None:
        there = self._keyed()
        if len(there) < 2:
            self._insert()
            return
        one, two = self.random.sample(there, 2)
        self._renamed((one, "t"), (two, one), ("t", two), defines=[one, two])

    def _renamed(self, *pairs: tuple[str, str], defines: Collection[str]) -> None:
        for old, new in pairs:
            self.tables[new] = self.tables.pop(old)
        for name in defines:
            self.tables[name].was_renamed = True
        self._statement("RENAME TABLE …", *renames(*pairs), defines=defines)

    def _add_column(self) -> None:
        name, held = self._any()
        column = (f"x{next(self._numbers)}", self.random.choice(("int", "bigint", "varchar(20)")))
        held.columns.insert(self.random.randint(1, len(held.columns)), column)
        for row in held.rows.values():
            row[column[0]] = None
        self._statement(f"ALTER TABLE {name} ADD COLUMN …", table(name, "altered"), defines=[name])

    def _drop_column(self) -> None:
        name = self.random.choice(self._keyed())
        held = self.tables[name]
        if len(held.columns) < 3:
            self._add_column()
            return
        column = held.columns.pop(self.random.randrange(1, len(held.columns)))
        for row in held.rows.values():
            del row[column[0]]
        self._statement(f"ALTER TABLE {name} DROP COLUMN …", table(name, "altered"), defines=[name])

    def _widen_column(self) -> None:
        name = self.random.choice(self._keyed())
        held = self.tables[name]
        narrow = [at for at, (one, kind) in enumerate(held.columns) if at and kind == "int"]
        if not narrow:
            self._add_column()
            return
        place = self.random.choice(narrow)
        held.columns[place] = (held.columns[place][0], "bigint")
        self._statement(f"ALTER TABLE {name} MODIFY …", table(name, "altered"), defines=[name])

    def _rename_column(self) -> None:
        name = self.random.choice(self._keyed())
        held = self.tables[name]
        if len(held.columns) < 2:
            self._add_column()
            return
        place, new = self.random.randrange(1, len(held.columns)), f"x{next(self._numbers)}"
        old, kind = held.columns[place]
        held.columns[place] = (new, kind)
        for row in held.rows.values():
            row[new] = row.pop(old)
        self._statement(
            f"ALTER TABLE {name} RENAME COLUMN …", table(name, "altered"), defines=[name]
        )
        # The warehouse may have another column for it, which each row has once it is written again.
        for key in sorted(held.rows):
            self._change(name, "u", before=held.rows[key], after=held.rows[key])

    def _statement(self, text: str, *steps: Image, defines: Collection[str] = ()) -> None:
        self.commit()
        self._past = []
        value = record(next(self._seq), text, *steps, epoch=self._epoch)
        self._open.append(Record(topic=DDL, value=value.encode()))
        for name in defines:
            self._versions[name] += 1
            held = self.tables[name]
            version = schema(
                *held.columns,
                key=("id",) if held.keyed else (),
                table=name,
                version=self._versions[name],
            )
            key = json.dumps([name, self._versions[name]]).encode()
            self._open.append(Record(topic=SCHEMAS, value=version.encode(), key=key))
        self.commit()

    # Rows

    def _insert(self) -> None:
        name, held = self._any()
        free = [key for key in range(_KEYS) if key not in held.rows]
        if held.keyed and not free:
            self._delete()
            return
        key = self.random.choice(free) if held.keyed else next(self._numbers)
        row = {column: self._value(kind) for column, kind in held.columns}
        row["id"] = key if held.keyed else self.random.randrange(4)
        held.rows[key] = row
        self._change(name, "c", after=row)

    def _update(self) -> None:
        if (found := self._row()) is None:
            self._insert()
            return
        name, held, key = found
        before = dict(held.rows[key])
        held.rows[key] |= {
            column: self._value(kind)
            for column, kind in held.columns
            if column != "id" and self.random.random() < 0.7
        }
        self._change(name, "u", before=before, after=held.rows[key])

    def _delete(self) -> None:
        if (found := self._row()) is None:
            self._insert()
            return
        name, held, key = found
        row = held.rows.pop(key)
        self._change(name, "d", before=row)
        if held.keyed:
            self._tombstone(name, key)

    def _move(self) -> None:
        """A change of the key."""
        self._moved(is_partial=False)

    def _partial_move(self) -> None:
        self._moved(is_partial=True)

    def _moved(self, *, is_partial: bool) -> None:
        found = self._row(self._whole_named() if is_partial else self._keyed())
        free = [key for key in range(_KEYS) if found and key not in found[1].rows]
        if found is None or not free:
            self._insert()
            return
        name, held, key = found
        before, to = held.rows.pop(key), self.random.choice(free)
        new = self._some(held) if is_partial else {}
        held.rows[to] = before | new | {"id": to}
        lacks = [one for one in held.names if one != "id" and one not in new]
        more = {"absent": lacks} if is_partial and lacks else None
        of = {"id": key} if is_partial else before
        self._change(name, "d", before=of, headers=(HEADER_NEW_KEY,), more=more)
        self._tombstone(name, key)
        image = {"id": to} | new if is_partial else held.rows[to]
        self._change(name, "c", after=image, headers=(HEADER_OLD_KEY,), more=more)

    def _partial(self) -> None:
        """An update with MINIMAL images."""
        if (found := self._row(self._whole_named())) is None:
            self._insert()
            return
        name, held, key = found
        new = self._some(held)
        held.rows[key] |= new
        lacks = [one for one in held.names if one != "id" and one not in new]
        more = {"absent": lacks} if lacks else None
        self._change(name, "u", before={"id": key}, after={"id": key} | new, more=more)

    def _partial_delete(self) -> None:
        if (found := self._row(self._whole_named())) is None:
            self._insert()
            return
        name, held, key = found
        del held.rows[key]
        self._change(name, "d", before={"id": key}, more={"absent": held.names[1:]})
        self._tombstone(name, key)

    def _truncate(self) -> None:
        name, held = self._any()
        held.rows.clear()
        self._put(name, self._made(name, "t"))

    def _unusable(self) -> None:
        """An unusable record: one without a table, with an invalid value, or without a needed column."""
        name = self.random.choice(self._whole_named() or self._keyed())
        held, number = self.tables[name], _NOBODY + next(self._numbers)
        kind = self.random.choice(("text", "value", "lacking"))
        if kind == "text":
            value = b'{"number": %d, "text": "\xff' % number
        elif kind == "value" or held.was_renamed:
            row: Image = dict.fromkeys(held.names)
            row |= {"id": "none", "id ": number}
            value = self._made(name, "c", after=row).value().encode()
        else:
            more = {"absent": held.names[1:]}
            image = {"id": number}
            value = self._made(name, "u", before=image, after=image, more=more).value().encode()
        (self.letters if kind == "text" else self.perhaps).append(value)
        self._open.append(Record(topic=f"shop.{name}", value=value, partition=number % PARTITIONS))

    def _change(self, name: str, op: str, **more: Any) -> None:
        for one in {"before", "after"} & more.keys():
            more[one] = dict(more[one])
        self._put(name, self._made(name, op, **more))

    def _made(self, name: str, op: str, **more: Any) -> Change:
        return Change(
            op=op,
            seq=next(self._seq),
            epoch=self._epoch,
            table=name,
            version=self._versions[name],
            ts_ms=self._began_ms,
            **more,
        )

    def _put(self, name: str, change: Change) -> None:
        self._past.append((name, change))
        image = change.after or change.before
        self._open.append(
            Record(
                topic=f"shop.{name}",
                value=change.value().encode(),
                partition=self._partition(name, image["id"]) if image else 0,
                key=json.dumps({"id": image["id"]}).encode() if image and name != LOG else None,
                headers=change.headers,
            )
        )

    def _tombstone(self, name: str, key: int) -> None:
        self._open.append(
            Record(
                topic=f"shop.{name}",
                value=None,
                partition=self._partition(name, key),
                key=json.dumps({"id": key}).encode(),
            )
        )

    @staticmethod
    def _partition(name: str, key: int) -> int:
        return 0 if name == LOG else key % PARTITIONS

    def _some(self, held: Table) -> Image:
        """New values of some columns, but the key."""
        names = [name for name in held.names if name != "id"]
        chosen = self.random.sample(names, self.random.randint(0, len(names)))
        kinds = dict(held.columns)
        return {name: self._value(kinds[name]) for name in chosen}

    def _value(self, kind: str) -> int | str | None:
        if self.random.random() < 0.1:
            return None
        number = self.random.randrange(1000)
        return f"s{number}" if kind.startswith("varchar") else number

    def _keyed(self) -> list[str]:
        return [name for name in KEYED if name in self.tables]

    def _whole_named(self) -> list[str]:
        """Tables with a key that always had their names: all images of a row are in one partition."""
        return [name for name in self._keyed() if not self.tables[name].was_renamed]

    def _any(self) -> tuple[str, Table]:
        name = self.random.choice(sorted(self.tables))
        return name, self.tables[name]

    def _row(self, names: Collection[str] | None = None) -> tuple[str, Table, int] | None:
        """A table and one of its rows; None if there is none."""
        there = [
            one
            for one in (sorted(self.tables) if names is None else names)
            if self.tables[one].rows
        ]
        if not there:
            return None
        name = self.random.choice(there)
        return name, self.tables[name], self.random.choice(sorted(self.tables[name].rows))


_KINDS: Final = {
    "insert": 16,
    "update": 10,
    "delete": 3,
    "move": 3,
    "partial": 3,
    "partial_move": 1,
    "partial_delete": 1,
    "truncate": 1,
    "unusable": 2,
    "add_column": 1,
    "drop_column": 1,
    "rename_column": 1,
    "widen_column": 1,
    "rename": 1,
    "swap": 1,
    "create": 1,
    "drop": 1,
}
"""The kinds of changes of a round, and how many of each."""


def ordered(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order that does not depend on where they come from."""
    return sorted(rows, key=lambda row: [str(one) for one in row])
