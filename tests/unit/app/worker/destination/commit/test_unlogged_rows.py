"""Tables whose rows a statement changed without row events: their marks, and what is shown of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.participants import Commits
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from app.worker.destination.commit.unlogged_rows import UnloggedRows
from app.worker.pipeline.piece import TableChanges, UnloggedChange
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.tables.made import applied, begun

ORDERS = ("shop", "my orders")
READING = TableSnapshot(
    destination="shop", database="shop", table="my orders", id="1", state=SnapshotState.READING, chunks=1
)  # fmt: skip
WAITING = replace(READING, state=SnapshotState.WAITING, chunks=0)


def noted(
    snapshot: TableSnapshot | None,
    *requests: SnapshotRequest,
    is_read: bool = False,
    can_replace: bool = True,
) -> tuple[dict[str, dict[str, Any]], list[TableSnapshot]]:
    """The records of a statement by key, and the states that are shown once it is committed."""
    shown: list[TableSnapshot] = []
    one = UnloggedRows(
        tables=ReadTables(
            destination="shop",
            captured=lambda _: [ORDERS],
            snapshots={} if snapshot is None else {ORDERS: snapshot},
            requests=lambda: requests,
        ),
        can_replace=lambda _: can_replace,
        is_read=lambda _: is_read,
        show=shown.append,
    )
    changes = TableChanges()
    for name in (ORDERS, ("other", "t")):
        changes.absorb(
            TableChanges(
                unlogged=[UnloggedChange(name, "DROP PARTITION", "u:1", Coordinates("b.1", 9))]
            )
        )
    given = piece(tables=changes)
    assert not given.only_moves
    notes = {key.decode(): orjson.loads(value) for key, value in one.before(given, BEFORE)}
    assert shown == []
    one.committed(given, BEFORE)
    one.committed(piece(), BEFORE)
    return notes, shown


def test_one_that_was_never_read_is_shown_as_failed_with_the_command_that_ends_it() -> None:
    notes, (shown,) = noted(None)
    assert list(notes) == ["snapshot/shop/shop/my%20orders"]
    assert shown.state is SnapshotState.FAILED
    assert shown.error is not None
    assert shown.error.startswith("DROP PARTITION (GTID u:1, before b.1:9) changed rows")
    assert shown.error.endswith("snapshot start shop 'shop.my orders' --replace")
    _, (shown,) = noted(None, can_replace=False)
    assert (shown.error or "").endswith("snapshot start shop 'shop.my orders'")


def test_one_whose_start_was_stopped_before_it_was_applied_is_shown_so_too() -> None:
    stop = SnapshotRequest(
        destination="shop", database=ORDERS[0], table=ORDERS[1], id="2", action=SnapshotAction.STOP,
        by="anna", ts_ms=1,
    )  # fmt: skip
    notes, (shown,) = noted(None, stop)
    assert list(notes) == ["snapshot/shop/shop/my%20orders"], "a mark would replace the stop"
    assert (shown.state, shown.request) == (SnapshotState.FAILED, "")


@pytest.mark.parametrize(
    ("snapshot", "is_read"),
    [
        (READING, True),
        (READING, False),
        (replace(READING, state=SnapshotState.PAUSED), False),
        (replace(READING, state=SnapshotState.DONE), False),
        # Its first SELECT may be under way.
        (WAITING, True),
        # Rows of a request are read besides those that the topic has.
        (replace(WAITING, request="2"), False),
    ],
)
def test_one_that_is_read_or_was_is_marked(snapshot: TableSnapshot, is_read: bool) -> None:
    notes, shown = noted(snapshot, is_read=is_read)
    ((key, request),) = notes.items()
    assert key == "snapshot-request/shop/shop/my%20orders"
    assert (request["action"], request["by"]) == ("mark", "DROP PARTITION")
    assert request["why"].endswith("--replace")
    assert shown == []


ITEMS = ("shop", "items")
OF_ITEMS = replace(READING, table="items")


def marked(
    *statements: str,
    snapshots: dict[TableName, TableSnapshot],
    can_replace: bool = True,
    end: int = 290,
    is_ahead: bool = False,
) -> list[tuple[str, str, bool | None]]:
    """The records of a piece with a DROP PARTITION of ``items``, in their order.

    ``end``: where it ends; the first statement ends at 260, the next ones are after 300.
    ``is_ahead``: whether the reader's thread is further, after a RENAME of the table.
    """
    history = begun("items", "other")
    records = [applied(history, 200 + 100 * number, one) for number, one in enumerate(statements)]
    if is_ahead:
        applied(history, 900, "RENAME TABLE items TO gone")
    tables = ReadTables(
        destination="shop",
        captured=lambda number: history.after(number or 0).tables(),
        snapshots=snapshots,
    )
    parts = Commits(
        (
            RenamedTables(tables, can_replace=lambda _: can_replace),
            UnloggedRows(
                tables=tables,
                can_replace=lambda _: can_replace,
                is_read=lambda _: False,
                show=lambda _: None,
            ),
        )
    )
    dropped = UnloggedChange(ITEMS, "DROP PARTITION", "u:1", Coordinates("b.000001", end))
    given = piece(tables=TableChanges(history=records, unlogged=[dropped]))
    parts.before(given, replace(BEFORE, history=0))
    found = [(key.decode().split("/"), orjson.loads(value)) for key, value in given.notes]
    return [
        (f"{key[0]}/{key[-1]}", one.get("action") or one["state"], one.get("replaces"))
        for key, one in found
    ]


ALTER, LEAVES = "ALTER TABLE items ADD a INT", "RENAME TABLE items TO later"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ((ALTER, LEAVES), "later"),
        ((ALTER, LEAVES, "RENAME TABLE later TO items_2"), "items_2"),
        ((ALTER, "RENAME TABLE items TO tmp, other TO items, tmp TO other"), "other"),
        # It is another table that is renamed, before.
        (("RENAME TABLE other TO later",), "items"),
        (("RENAME TABLE items TO later, other TO items",), "items"),
        ((ALTER, "DROP TABLE items"), None),
    ],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_one_that_was_renamed_since_is_marked_by_its_new_name(
    statements: tuple[str, ...], found: str | None, *, is_done: bool
) -> None:
    one = replace(OF_ITEMS, state=SnapshotState.DONE)
    names = [ITEMS, *([("shop", found)] if found else [])]
    snapshots = {name: replace(one, table=name[1]) for name in names} if is_done else {}
    expected = ("snapshot-request", "mark") if is_done else ("snapshot", "failed")
    assert [one[:2] for one in marked(*statements, snapshots=snapshots)] == (
        [(f"{expected[0]}/{found}", expected[1])] if found else []
    )


def test_a_statement_may_rename_the_table_whose_rows_it_changes() -> None:
    found = marked(LEAVES, snapshots={}, end=260)
    assert [one[:2] for one in found] == [("snapshot/later", "failed")]


def test_one_that_is_renamed_after_the_piece_is_marked_by_the_name_that_it_has_there() -> None:
    found = marked(ALTER, snapshots={}, is_ahead=True)
    assert [one[:2] for one in found] == [("snapshot/items", "failed")]


@pytest.mark.parametrize(
    ("where", "can_replace", "replaces"),
    [(None, True, True), (None, False, False), ("id < 9", True, False)],
)
def test_a_mark_does_not_replace_a_request_that_was_not_applied_yet(
    where: str | None, *, can_replace: bool, replaces: bool
) -> None:
    found = marked(
        ALTER,
        LEAVES,
        snapshots={ITEMS: replace(OF_ITEMS, where=where)},
        can_replace=can_replace,
    )
    assert found[-1] == ("snapshot-request/later", "start", replaces)


@pytest.mark.parametrize("snapshot", [WAITING, replace(WAITING, request="2", replaces=True)])
def test_one_of_which_nothing_was_read_yet_and_all_will_be_is_not(snapshot: TableSnapshot) -> None:
    assert noted(snapshot) == ({}, [])
