"""Over how many partitions a table's keys are: the count it was first written with, else the settings'."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from app.pipeline.number.table_versions import VersionBook
from tables.routes.routes import Route, Routes
from tables.table_version import Column, Definition, TableVersion

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
CHANGE: Any = SimpleNamespace(gtid="u:1", file="b.000001", committed_ms=1)


def definition(*names: str) -> Definition:
    columns = (Column(name=name, type="int", nullable=False, charset=None) for name in names)
    return Definition(columns=tuple(columns), primary_key=(names[0],))


def route(name: tuple[str, str] = ORDERS, *, partitions: int = 6) -> Route:
    found = Routes(prefix="aq", partitions=partitions).of(name)
    assert found is not None
    return found


def first(book: VersionBook, of: Route) -> TableVersion:
    return book.at(of, definition("id"), CHANGE, 4)[0]


def test_a_new_version_keeps_the_count_of_the_one_before_and_a_new_table_has_the_settings() -> None:
    old = first(VersionBook("shop", known={}), route(partitions=4))
    known = TableVersion.from_json(old.to_json())
    assert known == old
    book = VersionBook("shop", known={ORDERS: known})
    changed, is_new = book.at(route(), definition("id", "n"), CHANGE, 9)
    assert (is_new, changed.partitions) == (True, 4)
    assert first(book, route(ITEMS)).partitions == 6
    assert (book.partitions(old.topic), book.partitions("aq.shop.items")) == (4, 6)


def test_a_version_that_an_older_worker_wrote_is_read_and_goes_by_the_settings() -> None:
    written = replace(first(VersionBook("shop", known={}), route()), partitions=None).to_json()
    assert "partitions" not in written
    known = TableVersion.from_json(written)
    book = VersionBook("shop", known={ORDERS: known})
    assert book.partitions(known.topic) is None
    assert book.at(route(), definition("id"), CHANGE, 9) == (known, False)
    assert book.at(route(), definition("id", "n"), CHANGE, 9)[0].partitions == 6


def test_a_table_that_joins_a_topic_has_its_keys_over_the_partitions_of_those_before() -> None:
    book = VersionBook("shop", known={})
    topic = first(book, route(partitions=4)).topic
    joining = replace(route(ITEMS, partitions=6), topic=topic)
    assert first(book, joining).partitions == book.partitions(topic) == 4
