"""Ranges of a key: each key is in one of them, whatever the limits are."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

import pytest

from spark_sink.errors import LoadRefused
from spark_sink.jobs.load.origin import KeyColumn, conditions, key_ranges


def rows_by(condition: str, keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The keys that a condition selects, by a database that compares numbers as MySQL does."""
    names = [f"k{number}" for number in range(len(keys[0]))]
    with sqlite3.connect(":memory:") as database:
        database.execute(f"CREATE TABLE t ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        database.executemany(f"INSERT INTO t VALUES ({marks})", keys)
        return list(database.execute(f"SELECT * FROM t WHERE {condition}"))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_each_key_is_in_one_range(columns: int, seed: int) -> None:
    chance = random.Random(seed)
    keys = [tuple(chance.randrange(6) for _ in range(columns)) for _ in range(80)]
    limits = sorted({tuple(chance.randrange(6) for _ in range(columns)) for _ in range(5)})
    key = [KeyColumn(f"k{number}", "int") for number in range(columns)]
    ranges = conditions(key, [tuple(map(str, limit)) for limit in limits])
    found = [one for condition in ranges for one in rows_by(condition, keys)]
    assert sorted(found) == sorted(keys)
    assert len(ranges) == len(limits) + 1


def test_without_limits_there_is_one_range() -> None:
    assert conditions([KeyColumn("id", "int")], []) == ["TRUE"]


class Answers:
    """A server with a fixed number of rows for each integer of a range."""

    def __init__(self, *keys: int) -> None:
        self.keys = keys
        self.asked: list[str] = []

    def ask(self, sql: str, *, table: tuple[str, str]) -> list[tuple[Any, ...]]:
        assert table == ("shop", "t")
        self.asked.append(sql)
        if sql.startswith("SELECT MIN"):
            return [(str(min(self.keys)), str(max(self.keys)))] if self.keys else [(None, None)]
        words = sql.replace("`", "").split()
        low, high = (int(words[words.index(mark) + 1]) for mark in (">=", "<"))
        rows = sum(low <= key < high for key in self.keys)
        return [(None,) * 9 + (str(rows), "100.00", None)]


def test_a_sparse_key_is_halved_until_ranges_are_small() -> None:
    keys = (*range(100), *range(10**15, 10**15 + 100))
    server: Any = Answers(*keys)
    ranges = key_ranges(server, ("shop", "t"), [KeyColumn("id", "bigint")], rows=30)
    sizes = [len(rows_by(one, [(key,) for key in keys])) for one in _renamed(ranges)]
    assert sum(sizes) == 200
    assert max(sizes) <= 30
    assert len(server.asked) < 500


def _renamed(ranges: list[str]) -> list[str]:
    return [one.replace("`id`", "k0") for one in ranges]


def test_a_table_without_rows_has_one_range() -> None:
    server: Any = Answers()
    assert key_ranges(server, ("shop", "t"), [KeyColumn("id", "int")], rows=3) == ["TRUE"]


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        ("int", "-5", "-5"),
        ("decimal", "12.50", "12.50"),
        ("double", "1.5e-300", "1.5e-300"),
        ("varchar", "27", "_utf8mb4 X'27'"),
        ("varbinary", "00ff", "X'00ff'"),
        ("datetime", "2026-01-01 00:00:00", "'2026-01-01 00:00:00'"),
        ("enum", "3", "3"),
    ],
)
def test_a_literal_of_each_kind(kind: str, value: str, literal: str) -> None:
    assert KeyColumn("id", kind).literal(value) == literal


@pytest.mark.parametrize(("kind", "value"), [("int", "1 OR 1"), ("varchar", "x'"), ("bit", "'")])
def test_what_is_no_value_is_no_literal(kind: str, value: str) -> None:
    with pytest.raises(LoadRefused):
        KeyColumn("id", kind).literal(value)
