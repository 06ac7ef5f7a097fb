"""Tables whose key and name both change while they wait, on a real Spark: a reload gives the source's rows."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from spark_sink.errors import KeyChanged, RenamedWhileWaiting
from tests.unit.spark_sink.batch.drops_and_renames.statements import rename
from tests.unit.spark_sink.batch.drops_and_renames.test_following import following
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, Image, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COLUMNS = (("id", "int"), ("k", "int"), ("v", "int"))
KEYS = (("id",), ("id", "k"), ("k", "id"), ("k",))
NAMES = ("a", "b")
Key = tuple[str, ...]


class Source:
    """Two tables that are altered and exchange their names, and what a worker publishes of them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.keys: dict[str, Key] = dict.fromkeys(NAMES, ("id",))
        self.rows: dict[str, list[Image]] = {name: [] for name in NAMES}
        self.schemas: list[str] = []
        self.written: list[Change | str] = []
        self._versions: dict[str, tuple[int, Key]] = {}
        self._seq = itertools.count(1)

    def alter(self, name: str, key: Key) -> bool:
        """Give a table another key, unless values of it occur twice."""
        if len({_of(row, key) for row in self.rows[name]}) < len(self.rows[name]):
            return False
        self.keys[name] = key
        return True

    def exchange(self) -> None:
        self.written.append(rename(next(self._seq), ("a", "t"), ("b", "a"), ("t", "b")))
        self.keys = dict(zip(NAMES, reversed(self.keys.values()), strict=True))
        self.rows = dict(zip(NAMES, reversed(self.rows.values()), strict=True))

    def insert(self, name: str, row: Image) -> None:
        if _of(row, self.keys[name]) not in {_of(one, self.keys[name]) for one in self.rows[name]}:
            self.rows[name].append(row)
            self._write("c", name, after=row)

    def update(self, name: str, at: int, **values: int) -> None:
        before = self.rows[name].pop(at)
        after = before | values
        key = self.keys[name]
        if any(_of(one, key) == _of(after, key) for one in self.rows[name]):
            after = before
        self.rows[name].insert(at, after)
        if _of(before, key) == _of(after, key):
            self._write("u", name, before=before, after=after)
            return
        # As a worker publishes a changed key.
        self._write("d", name, before=before)
        self._write("c", name, after=after)

    def delete(self, name: str, at: int) -> None:
        self._write("d", name, before=self.rows[name].pop(at))

    def play(self, length: int) -> None:
        """Change anything, at random."""
        small = self.rng.randrange
        while len(self.written) < length:
            name, choice = self.rng.choice(NAMES), self.rng.random()
            rows = self.rows[name]
            if choice < 0.08:
                self.exchange()
            elif choice < 0.2:
                self.alter(name, self.rng.choice(KEYS))
            elif choice < 0.5 or not rows:
                self.insert(name, {"id": small(6), "k": small(6), "v": small(1000)})
            elif choice < 0.85:
                column = self.rng.choice(("id", "k", "k", "v"))
                self.update(name, small(len(rows)), **{column: small(6)})
            else:
                self.delete(name, small(len(rows)))

    def _write(
        self, op: str, name: str, *, before: Image | None = None, after: Image | None = None
    ) -> None:
        version, seq = self._version(name), next(self._seq)
        self.written.append(
            Change(op=op, seq=seq, table=name, version=version, before=before, after=after)
        )

    def _version(self, name: str) -> int:
        """That of a name; it is a new one only if the name's last one differs, as the worker has it."""
        number, key = self._versions.get(name, (0, None))
        if key != self.keys[name]:
            number += 1
            self._versions[name] = number, self.keys[name]
            self.schemas.append(schema(*COLUMNS, table=name, key=self.keys[name], version=number))
        return number


def test_a_row_that_is_updated_under_another_name_and_key_is_one_row_once_it_is_reloaded(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(0))
    source.insert("a", {"id": 1, "k": 1, "v": 1})
    source.insert("b", {"id": 7, "k": 7, "v": 7})
    source.alter("a", ("id", "k"))
    source.update("a", 0, v=2)
    source.alter("a", ("id",))
    source.exchange()
    # Its version has the key that the table had at first.
    source.update("b", 0, k=2)
    reloaded(warehouse, source, first=2)
    shape = warehouse.kept.tables.shape("shop", "b")
    assert shape is not None
    assert shape.key == ("id",)


def test_a_version_of_which_a_table_has_rows_before_and_after_another_key_is_applied_in_two_parts(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(0))
    source.insert("a", {"id": 1, "k": 1, "v": 1})
    source.insert("b", {"id": 7, "k": 7, "v": 7})
    source.update("a", 0, v=3)
    source.exchange()
    source.alter("b", ("id", "k"))
    source.update("b", 0, v=2)
    source.alter("b", ("id",))
    source.exchange()
    # The other table had this name meanwhile, and the same columns and key, so the version is the first one.
    source.update("a", 0, k=2)
    reloaded(warehouse, source, first=2)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.long("the test above has one such course of things")
def test_tables_that_are_altered_and_exchange_their_names_at_random_are_the_sources_once_reloaded(
    warehouse: Warehouse, seed: int
) -> None:
    source = Source(random.Random(seed))
    source.play(60)
    reloaded(warehouse, source, first=10)


def reloaded(warehouse: Warehouse, source: Source, *, first: int) -> None:
    """Apply what the source has written in two batches, reload what waits, and compare."""
    warehouse.schemas = source.schemas
    topic = following(warehouse, on_drop="truncate")
    topic.all_rows = len(source.written)
    for part in (source.written[:first], source.written[first:]):
        start = warehouse.ends()
        for one in part:
            if isinstance(one, str):
                topic.values.append(one)
            else:
                warehouse.write(one)
        warehouse.catch_up(start)
    waiting = [name for name in NAMES if warehouse.waiting(name)]
    assert waiting
    for name in waiting:
        held = warehouse.waiting(name)
        assert held is not None
        assert held.error in (KeyChanged.__name__, RenamedWhileWaiting.__name__)
        warehouse.reload(name, from_beginning="--from-beginning" in held.action)
    for name in NAMES:
        assert _sorted(warehouse.rows(name)) == _sorted(source.rows[name]), name


def _of(row: Image, key: Key) -> tuple[Any, ...]:
    return tuple(row[column] for column in sorted(key))


def _sorted(rows: list[Image]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["k"], row["v"]) for row in rows)
