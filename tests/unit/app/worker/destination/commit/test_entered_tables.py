"""Tables that a RENAME brings in, whose rows are in no topic."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.worker.destination.commit.entered_tables import EnteredTables
from app.worker.destination.commit.gone_tables import GoneTables
from app.worker.destination.commit.participants import Commits
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.history import SchemaHistory
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.tables.made import SERVER, UTF8, applied, between, table

ORDERS: TableName = ("shop", "orders")
IN_TWO = (
    "RENAME TABLE hidden.t TO orders_next",
    "RENAME TABLE orders TO orders_prev, orders_next TO orders",
)


def begun() -> SchemaHistory:
    history = SchemaHistory()
    history.init("shop")
    names = [("shop", name) for name in ("orders", "_orders_new", "orders_load", "items")]
    tables = dict.fromkeys([*names, ("hidden", "t")], table())
    history.baseline(tables, {"shop": UTF8, "hidden": UTF8}, between(100), SERVER)
    return history


def captures(name: TableName) -> bool:
    return name[0] == "shop" and not name[1].endswith("_load")


def entered(
    *statements: str,
    is_read: bool,
    snapshots: dict[TableName, TableSnapshot] | None = None,
    is_apart: bool = False,
    mapped: str = "",
) -> tuple[dict[str, dict[str, Any]], list[TableSnapshot]]:
    """The records of statements in one piece, or of each in its own, by key; and the states that are shown.

    The reader's thread has reached the last statement before the first piece is committed.
    """
    history, states, shown = begun(), snapshots or {}, list[TableSnapshot]()
    records = [applied(history, 200 + 100 * number, one) for number, one in enumerate(statements)]
    tables = ReadTables(
        destination="shop",
        captured=lambda number: filter(captures, history.after(number or 0).tables()),
        snapshots=states,
    )

    def show(one: TableSnapshot) -> None:
        states[one.name] = one
        shown.append(one)

    one = EnteredTables(
        tables=tables,
        captures=captures,
        is_mapped=lambda name: name[1] in mapped.split(),
        shadows=ShadowRules(),
        can_replace=lambda _: True,
        is_read=is_read,
        show=show,
    )
    gone = GoneTables(tables=tables, shadows=ShadowRules(), can_replace=lambda _: True, show=show)
    parts = Commits((RenamedTables(tables, can_replace=lambda _: True), gone, one))
    notes: dict[str, dict[str, Any]] = {}
    for some in [[record] for record in records] if is_apart else [records]:
        given = piece()
        given.tables.history += some
        parts.before(given, BEFORE)
        notes |= {key.decode(): orjson.loads(value) for key, value in given.notes}
        parts.committed(given, BEFORE)
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


def test_the_request_to_replace_counts_besides_that_for_the_name_of_a_table_that_was_being_read() -> (
    None
):
    read = TableSnapshot(destination="shop", database="shop", table="orders", id="1")
    notes, _ = entered(
        "RENAME TABLE orders TO orders_old, orders_load TO orders",
        is_read=True,
        snapshots={ORDERS: read},
    )
    wanted = {key: one["replaces"] for key, one in notes.items()}
    assert wanted == {
        "snapshot-request/shop/shop/orders_old": False,
        "snapshot-request/shop/shop/orders": True,
    }


@pytest.mark.parametrize("is_apart", [False, True])
def test_it_may_come_by_two_statements(*, is_apart: bool) -> None:
    notes, _ = entered(*IN_TWO, is_read=True, is_apart=is_apart)
    first = ["snapshot-request/shop/shop/orders_next"] if is_apart else []
    assert list(notes) == [*first, "snapshot-request/shop/shop/orders"]
    request = notes["snapshot-request/shop/shop/orders"]
    assert (request["action"], request["replaces"]) == ("start", True)


@pytest.mark.parametrize("is_apart", [False, True])
def test_elsewhere_it_is_failed_by_its_last_name_alone(*, is_apart: bool) -> None:
    notes, shown = entered(*IN_TWO, is_read=False, is_apart=is_apart)
    states = {one.name: one for one in shown}
    assert notes.keys() == {f"snapshot/shop/shop/{table}" for _, table in states}
    assert {name[1]: one.state.value for name, one in states.items()} == (
        {"orders_next": "gone", "orders": "failed"} if is_apart else {"orders": "failed"}
    )
    origin = "shop.orders_next, whose" if is_apart else "hidden.t, which is not captured, so its"
    error = states[ORDERS].error or ""
    assert error.startswith(f"renamed from {origin} existing rows are")
    assert error.endswith("Run: python -m app snapshot start shop shop.orders --replace")


@pytest.mark.parametrize(
    "statements",
    [
        ("RENAME TABLE hidden.t TO later", "DROP TABLE later"),
        ("RENAME TABLE hidden.t TO later", "RENAME TABLE later TO hidden.later"),
        ("RENAME TABLE hidden.t TO later", "DROP TABLE later", "CREATE TABLE later (id int)"),
    ],
)
def test_one_that_has_left_by_the_end_of_the_piece_is_not_read(statements: tuple[str, ...]) -> None:
    assert entered(*statements, is_read=True) == ({}, [])


def test_elsewhere_it_is_shown_as_failed_with_the_command_until_an_operator_starts_it() -> None:
    done = TableSnapshot(
        destination="shop",
        database="shop",
        table="orders",
        id="1",
        state=SnapshotState.DONE,
        request="asked",
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


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(
    ("mapped", "statement", "read"),
    [
        ("orders orders_old", "RENAME TABLE orders TO orders_old", ["orders_old"]),
        ("orders", "RENAME TABLE orders TO orders_old", ["orders_old"]),
        ("orders_old", "RENAME TABLE orders TO orders_old", ["orders_old"]),
        (
            "orders items",
            "RENAME TABLE orders TO t1, items TO orders, t1 TO items",
            ["items", "orders"],
        ),
        ("orders", "RENAME TABLE orders TO t1, t1 TO orders", []),
        # A tool's copy has all rows of the table whose name it gets.
        ("orders", "RENAME TABLE orders TO _orders_old, _orders_new TO orders", []),
        ("orders", "RENAME TABLE items TO orders_2", []),
    ],
)
def test_a_mapped_table_is_read_under_its_new_name_wherever_its_rows_were_published(
    mapped: str, statement: str, read: list[str], *, is_read: bool
) -> None:
    notes, shown = entered(statement, is_read=is_read, mapped=mapped)
    assert sorted(notes) == [f"snapshot-request/shop/shop/{name}" for name in read]
    assert all(one["replaces"] for one in notes.values())
    assert shown == []
