"""Over how many partitions a table's keys are: the count it was first written with, else the settings'."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from app.pipeline.number.table_versions import VersionBook
from tables.table_version import Column, Definition, TableVersion

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
CHANGE: Any = SimpleNamespace(gtid="u:1", file="b.000001", committed_ms=1)


def definition(*names: str) -> Definition:
    columns = (Column(name=name, type="int", nullable=False, charset=None) for name in names)
    return Definition(columns=tuple(columns), primary_key=(names[0],))


def first(book: VersionBook, name: tuple[str, str] = ORDERS) -> TableVersion:
    return book.at(name, definition("id"), CHANGE, 4)[0]


def test_a_new_version_keeps_the_count_of_the_one_before_and_a_new_table_has_the_settings() -> None:
    old = first(VersionBook("shop", prefix="aq", known={}, partitions=4))
    known = TableVersion.from_json(old.to_json())
    assert known == old
    book = VersionBook("shop", prefix="aq", known={ORDERS: known}, partitions=6)
    changed, is_new = book.at(ORDERS, definition("id", "n"), CHANGE, 9)
    assert (is_new, changed.partitions) == (True, 4)
    assert first(book, ITEMS).partitions == 6
    assert (book.partitions(old.topic), book.partitions("aq.shop.items")) == (4, 6)


def test_a_version_that_an_older_worker_wrote_is_read_and_goes_by_the_settings() -> None:
    written = first(VersionBook("shop", prefix="aq", known={})).to_json()
    assert "partitions" not in written
    known = TableVersion.from_json(written)
    book = VersionBook("shop", prefix="aq", known={ORDERS: known}, partitions=6)
    assert book.partitions(known.topic) is None
    assert book.at(ORDERS, definition("id"), CHANGE, 9) == (known, False)
    assert book.at(ORDERS, definition("id", "n"), CHANGE, 9)[0].partitions == 6
