"""Real tables grouped by the routes of their destinations, and what is published of them."""

from __future__ import annotations

from typing import Any

import pytest

from tables.history.logical_schemas.decisions import Decisions
from tables.history.logical_schemas.logical_schema import State
from tables.history.logical_schemas.logical_tables import LogicalTables
from tables.history.logical_schemas.published import PublishedSchema, key_name, next_published
from tables.history.logical_schemas.shard import ShardName
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.tables.history.logical_schemas.made import NAME, Shards, full_name, version
from wire.table_version import VersionKey

MAPPING = "tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade}}"


def routes(mapping: str = MAPPING, *, names: str = "ab", black: str = "") -> dict[str, Routes]:
    return {
        name: Routes(prefix="aq", destination=name, black=black, mapping=from_yaml(mapping))
        for name in names
    }


def tables(*names: str) -> LogicalTables:
    made = LogicalTables()
    for name in names:
        made.take(version(full_name(name), 1, "id int"))
    return made


def shards(made: LogicalTables) -> list[str]:
    schema = made.schema(NAME, Decisions())
    return [str(one.name) for one in schema.shards] if schema is not None else []


def test_the_real_tables_of_all_destinations_are_shards_of_one_logical_table() -> None:
    made = tables("a1", "b1")
    made.take(version(ShardName("a", "shop", "items"), 1, "id int"))
    assert (list(made.names), shards(made)) == ([], [])
    made.route_by(routes())
    assert (list(made.names), made.changed) == ([NAME], {NAME})
    assert shards(made) == ["a:shop.orders_1", "b:shop.orders_1"]


def test_a_version_that_is_known_changes_nothing() -> None:
    made = tables("a1")
    made.route_by(routes())
    made.changed.clear()
    made.take(version(full_name("a1"), 1, "id int"))
    made.route_by(routes())
    assert made.changed == set()
    made.take(version(full_name("a1"), 2, "id int"))
    assert made.changed == {NAME}


@pytest.mark.parametrize(
    "other",
    [
        routes(names="a"),
        routes(MAPPING.replace("orders_[0-9]+", "orders_2")),
        routes(black=r"shop\.orders_1"),
    ],
)
def test_other_routes_take_shards_away(other: dict[str, Routes]) -> None:
    made = tables("a2", "b1")
    made.route_by(routes())
    made.changed.clear()
    made.route_by(other)
    assert (shards(made), made.changed) == (["a:shop.orders_2"], {NAME})
    made.route_by({})
    assert (shards(made), list(made.names)) == ([], [])


def statement(table: str, *, is_dropped: bool, ts_ms: int = 5) -> dict[str, Any]:
    """A record of the DDL topic."""
    new: dict[str, Any] | None = None if is_dropped else {"columns": []}
    return {
        "source": {"ts_ms": ts_ms},
        "tables": [{"database": "shop", "table": table, "new": new}],
    }


def dropped(made: LogicalTables) -> list[str]:
    schema = made.schema(NAME, Decisions())
    assert schema is not None
    return [str(one.name) for one in schema.shards if one.dropped_ms is not None]


def test_a_table_is_dropped_until_it_is_created_or_has_a_later_version() -> None:
    made = tables("a1", "b1")
    made.route_by(routes())
    made.changed.clear()
    made.take_statement("a", statement("orders_1", is_dropped=True))
    made.take_statement("a", statement("items", is_dropped=True))
    assert (dropped(made), made.changed) == (["a:shop.orders_1"], {NAME})
    made.take_statement("b", statement("orders_1", is_dropped=False))
    made.take_statement("a", statement("orders_1", is_dropped=False))
    assert dropped(made) == []
    made.drop(full_name("b1"), 5)
    assert dropped(made) == ["b:shop.orders_1"]
    made.take(version(full_name("b1"), 2, "id int", ts_ms=6))
    assert dropped(made) == []


def test_a_statement_without_tables_drops_none_and_another_record_is_refused() -> None:
    made = tables("a1")
    made.route_by(routes())
    made.take_statement("a", {"source": {"ts_ms": 5}})
    assert dropped(made) == []
    with pytest.raises(KeyError):
        made.take_statement("a", {"tables": [{"database": "shop"}]})


def test_a_table_that_the_mapping_refuses_is_no_shard_and_stops_no_other() -> None:
    twice = (
        "tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade},"
        " trade.other: {from: ['shop.orders_1+'], topic: other}}"
    )
    made = tables("a1", "a2")
    made.route_by(routes(twice))
    assert shards(made) == ["a:shop.orders_2"]


def test_a_schema_is_published_when_it_changes_and_only_then() -> None:
    found = Shards("a1", "b1")
    first = next_published(found.schema, None, 100)
    assert first is not None
    assert (first.version, first.since_ms, first.state) == (1, 100, State.EQUAL)
    key, value = first.to_record()
    read = PublishedSchema.from_record(value)
    assert (read, key_name(key)) == (first, NAME)
    assert next_published(found.schema, read, 200) is None
    second = next_published(found.alter("a1", "id int not null; x int"), read, 300)
    assert second is not None
    assert (second.version, second.since_ms, second.state) == (2, 300, State.CONVERGING)
    third = next_published(found.alter("a1", "id int not null; x int; y int"), second, 400)
    assert third is not None
    assert (third.version, third.since_ms, third.ts_ms) == (3, 300, 400)
    found.dropped["b1"] = 7
    last = next_published(found.schema, third, 500)
    assert last is not None
    assert (last.dropped, third.dropped) == ({full_name("b1"): 7}, {})
    assert third.open_changes == [
        "add x int: lacking on b:shop.orders_1",
        "add y int: lacking on b:shop.orders_1",
    ]


@pytest.mark.parametrize("value", [b"{}", b"[]", b'{"version":1,"since_ms":1,"ts_ms":1}'])
def test_another_record_is_no_logical_schema(value: bytes) -> None:
    with pytest.raises(ValueError, match="no logical schema"):
        PublishedSchema.from_record(value)
    with pytest.raises(ValueError, match="no key of a logical schema"):
        key_name(value)


def test_a_table_whose_mapping_has_a_fault_may_have_no_version_that_can_be_read() -> None:
    made = LogicalTables()
    both = f"{MAPPING[:-1]}, x.y: {{from: ['shop.[a-z]+_1'], topic: x}}}}"
    made.route_by(routes(both))
    missed = VersionKey("a", "shop", "orders_1", 1)
    made.miss(missed, "it is foreign")
    assert (list(made.names), made.is_known(full_name("a1"))) == ([], False)
    made.take(version(full_name("a1"), 2, "id int"))
    assert made.missed == {}
