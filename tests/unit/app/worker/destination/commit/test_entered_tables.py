"""Tables that a RENAME brings in, whose rows are in no topic."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.entered_tables import EnteredTables
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session, TableName
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from tables.state.snapshots.table_snapshot import TableSnapshot
from tests.unit.app.worker.destination.commit.made import BEFORE, piece

SHOP = Session(database="shop")
ORDERS: TableName = ("shop", "orders")


def catalog() -> Catalog:
    tables = Catalog(Server(version=(9, 7, 4)))
    for sql in (
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE DATABASE hidden CHARACTER SET utf8mb4",
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE _orders_new (id int PRIMARY KEY)",
        "CREATE TABLE orders_load (id int PRIMARY KEY)",
        "CREATE TABLE items (id int PRIMARY KEY)",
        "CREATE TABLE hidden.t (id int PRIMARY KEY)",
    ):
        tables.apply(sql, SHOP)
    return tables


def entered(
    statement: str, *, is_read: bool, snapshots: dict[TableName, TableSnapshot] | None = None
) -> tuple[dict[str, dict[str, Any]], list[TableSnapshot]]:
    """The records of a statement by key, and the states that are shown."""
    tables = catalog()
    changes = tables.apply(statement, SHOP)
    shown: list[TableSnapshot] = []

    def captures(name: TableName) -> bool:
        return name[0] == "shop" and not name[1].endswith("_load")

    one = EnteredTables(
        tables=ReadTables(
            destination="shop",
            captured=lambda: [name for name in tables if captures(name)],
            snapshots=snapshots or {},
        ),
        captures=captures,
        shadows=ShadowRules(),
        can_replace=lambda _: True,
        is_read=is_read,
        show=shown.append,
    )
    record: Any = type("Record", (), {"changes": changes})()
    given = piece()
    given.tables.history.append(record)
    notes = {key.decode(): orjson.loads(value) for key, value in one.before(given, BEFORE)}
    one.committed(given, BEFORE)
    return notes, shown


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE orders TO orders_old, orders_load TO orders",
        "RENAME TABLE orders TO orders_old, orders_load TO tmp, tmp TO orders",
        "RENAME TABLE orders TO orders_old, hidden.t TO orders",
        # Rows of a table that looks like a shadow are skipped.
        "RENAME TABLE items TO _orders_del, _orders_new TO items",
    ],
)
def test_its_rows_are_read_where_the_destination_began_with_existing_rows(statement: str) -> None:
    name = "items" if "items" in statement else "orders"
    notes, shown = entered(statement, is_read=True)
    assert list(notes) == [f"snapshot-request/shop/shop/{name}"]
    (request,) = notes.values()
    assert (request["action"], request["replaces"], request["by"]) == (
        "start",
        True,
        "RENAME TABLE",
    )
    assert shown == []


def test_the_request_to_replace_counts_besides_that_for_the_name_of_a_table_that_was_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000_000_000)
    statement = "RENAME TABLE orders TO orders_old, orders_load TO orders"
    changes = catalog().apply(statement, SHOP)
    record: Any = type("Record", (), {"changes": changes, "type": "RENAME TABLE"})()
    given = piece()
    given.tables.history.append(record)
    snapshots = {ORDERS: TableSnapshot(destination="shop", database="shop", table="orders", id="1")}
    tables = ReadTables(
        destination="shop", captured=lambda: [ORDERS, ("shop", "orders_old")], snapshots=snapshots
    )
    renamed = dict(RenamedTables(tables).before(given, BEFORE))
    (request,) = entered(statement, is_read=True)[0].values()
    other = orjson.loads(renamed[b"snapshot-request/shop/shop/orders"] or b"")
    # The worker may follow the journal between the two records.
    assert request["id"] != other["id"]
    assert request["replaces"]


def test_elsewhere_it_is_shown_as_failed_with_the_command_until_an_operator_starts_it() -> None:
    done = TableSnapshot(
        destination="shop", database="shop", table="orders", id="1", request="asked"
    )
    notes, shown = entered(
        "RENAME TABLE orders TO orders_old, orders_load TO orders",
        is_read=False,
        snapshots={ORDERS: done},
    )
    assert list(notes) == ["snapshot/shop/shop/orders"]
    (one,) = shown
    assert (one.name, one.state.value, one.request) == (ORDERS, "failed", "asked")
    assert one.error == (
        "renamed from shop.orders_load, which is not captured, so its existing rows are in no topic. "
        "Run: python -m app snapshot start shop shop.orders --replace"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE orders TO _orders_old, _orders_new TO orders",
        "RENAME TABLE items TO orders_2",
        "RENAME TABLE orders TO orders_load_2, items TO orders",
        "RENAME TABLE orders_load TO other_load",
        "RENAME TABLE orders TO t1, items TO orders, t1 TO items",
        "DROP TABLE orders",
        "CREATE TABLE more LIKE orders_load",
    ],
)
def test_all_others_have_their_rows_in_a_topic(statement: str) -> None:
    assert entered(statement, is_read=True) == ({}, [])
