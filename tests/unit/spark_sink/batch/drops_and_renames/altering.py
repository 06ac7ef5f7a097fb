"""A source whose tables are renamed, swapped and altered while it writes rows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.unit.spark_sink.batch.drops_and_renames.statements import record, renames, table
from tests.unit.spark_sink.conftest import TOPIC
from tests.unit.spark_sink.history import Change, Image, schema

EXACT, WHOLE = "decimal(10,2)", "int"


@dataclass
class Table:
    """One table, whatever its name is: its columns with what the schemas topic says of them, rows and key."""

    columns: dict[str, Image] = field(
        default_factory=lambda: {"id": {"type": "int"}, "v": {"type": EXACT}}
    )
    rows: dict[int, Image] = field(default_factory=dict)
    key: tuple[str, ...] = ("id",)


@dataclass
class Source:
    """A database, and what it writes: rows with the versions of each name, and RENAMEs."""

    rng: random.Random
    tables: dict[str, Table] = field(default_factory=lambda: {"a": Table(), "b": Table()})
    written: list[Change | str] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    last: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """The number of each name's last version, and its columns and key."""
    marks: int = 0
    announces: bool = True
    """Whether statements state versions, as those of earlier workers did not."""

    @property
    def seq(self) -> int:
        return len(self.written) + 1

    def rename(self, old: str, new: str) -> None:
        self.tables[new] = self.tables.pop(old)
        self._renamed((old, new))

    def swap(self, one: str, two: str) -> None:
        self.tables[one], self.tables[two] = self.tables[two], self.tables[one]
        self._renamed((one, "t"), (two, one), ("t", two))

    def _renamed(self, *pairs: tuple[str, str]) -> None:
        steps = renames(*pairs)
        published = {one["table"] for one in steps if one["table"] in self.last}
        for one in steps:
            if one["renamed_from"] and self.announces and published:
                one["version"] = self._version(one["table"])
        self.written.append(record(self.seq, "RENAME TABLE …", *steps))

    def _altered(self, name: str) -> None:
        if self.announces and name in self.last:
            step = table(name, "altered", version=self._version(name))
            self.written.append(record(self.seq, "ALTER TABLE …", step))

    def add(self, name: str, column: str, value: int) -> None:
        """ALTER TABLE ADD COLUMN, perhaps of one that was dropped."""
        table = self.tables[name]
        self.marks += 1
        more = {"id": f"{column}@{self.marks}", "initial": {"value": value}}
        table.columns[column] = {"type": "int", **more}
        for row in table.rows.values():
            row[column] = value
        self._altered(name)

    def drop(self, name: str, column: str) -> None:
        table = self.tables[name]
        del table.columns[column]
        for row in table.rows.values():
            del row[column]
        self._altered(name)

    def modify(self, name: str) -> None:
        table = self.tables[name]
        table.columns["v"] = {**table.columns["v"], "type": WHOLE}
        for row in table.rows.values():
            row["v"] = rounded(row["v"])
        self._altered(name)

    def restore(self, name: str) -> None:
        """ALTER TABLE back to the type before; the digits stay lost."""
        self.tables[name].columns["v"]["type"] = EXACT
        for row in self.tables[name].rows.values():
            row["v"] = str(Decimal(row["v"]).quantize(Decimal("0.01")))
        self._altered(name)

    def put(self, name: str, key: int) -> None:
        """INSERT or UPDATE."""
        table = self.tables[name]
        image: Image = {"id": key}
        for column, more in table.columns.items():
            if column != "id":
                image[column] = self.rng.randrange(100)
                if more["type"] == EXACT:
                    image[column] = f"{image[column]}.75"
                elif column == "v":
                    image[column] = str(image[column])
        before = table.rows.get(key)
        table.rows[key] = image
        self.write(name, "u" if before else "c", before=before, after=image)

    def delete(self, name: str, key: int) -> None:
        self.write(name, "d", before=self.tables[name].rows.pop(key))

    def write(self, name: str, op: str, **images: Image | None) -> None:
        number = self._version(name)
        given = {side: image and dict(image) for side, image in images.items()}
        change = Change(op=op, seq=self.seq, table=name, version=number, **given)  # type: ignore[arg-type]
        self.written.append(change)

    def _version(self, name: str) -> int:
        """The version of a table's columns, which is announced if it is new."""
        columns = {own: dict(more) for own, more in self.tables[name].columns.items()}
        key, (number, known) = self.tables[name].key, self.last.get(name, (0, None))
        if known != (columns, key):
            number += 1
            self.last[name] = number, (columns, key)
            kinds = [(own, str(more["type"])) for own, more in columns.items()]
            more = {
                own: {k: v for k, v in one.items() if k != "type"} for own, one in columns.items()
            }
            found = schema(*kinds, key=key, table=name, version=number, more=more, topic=TOPIC[0])
            self.schemas.append(found)
        return number

    def step(self) -> None:
        """Anything of this."""
        rng, there = self.rng, sorted(self.tables)
        name, roll = rng.choice(there), rng.random()
        table = self.tables[name]
        more = [one for one in table.columns if one not in {"id", "v"}]
        free = [one for one in ("c", "d") if one not in table.columns]
        if roll < 0.1:
            self.swap(*rng.sample(there, 2))
        elif roll < 0.16:
            self.rename(name, rng.choice([one for one in "abc" if one not in there]))
        elif roll < 0.26 and free:
            self.add(name, rng.choice(free), rng.randrange(200, 300))
        elif roll < 0.3 and more:
            self.drop(name, rng.choice(more))
        elif roll < 0.34 and more:
            column = rng.choice(more)
            self.drop(name, column)
            self.add(name, column, rng.randrange(300, 400))
        elif roll < 0.38 and table.columns["v"]["type"] == EXACT:
            self.modify(name)
        elif roll < 0.4 and self.announces and table.columns["v"]["type"] == WHOLE:
            self.restore(name)
        elif roll < 0.45 and table.rows:
            self.delete(name, rng.choice(sorted(table.rows)))
        else:
            self.put(name, rng.randrange(6))

    def end(self) -> None:
        """A row in each table, so that its last columns are known."""
        for name in sorted(self.tables):
            self.put(name, 9)


def rounded(value: str) -> str:
    """A value as an ALTER of EXACT to WHOLE leaves it."""
    return str(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))


def late(source: Source, *, batches: int, delays: tuple[int, ...]) -> list[list[Change | str]]:
    """What was written in batches: rows come late by any of the delays, statements with what is before them."""
    places = range(len(source.written))
    order = sorted(
        places,
        key=lambda at: (
            at if isinstance(source.written[at], str) else at + source.rng.choice(delays)
        ),
    )
    size = -(-len(order) // batches)
    return [
        [source.written[at] for at in order[first : first + size]]
        for first in range(0, len(order), size)
    ]
