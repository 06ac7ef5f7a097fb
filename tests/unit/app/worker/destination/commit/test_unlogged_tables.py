"""Tables of which a statement changed rows without row events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.unlogged_tables import UnloggedRows
from app.worker.pipeline.piece import TableChanges, UnloggedChange
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot
from tests.unit.app.worker.destination.commit.made import BEFORE, piece

ORDERS = ("shop", "my orders")
READING = TableSnapshot(
    destination="shop", database="shop", table="my orders", id="1", state=SnapshotState.READING, chunks=1
)  # fmt: skip
WAITING = replace(READING, state=SnapshotState.WAITING, chunks=0)


def noted(
    snapshot: TableSnapshot | None, *, is_read: bool = False, can_replace: bool = True
) -> tuple[dict[str, dict[str, Any]], list[TableSnapshot]]:
    """The records of a statement by key, and the states that are shown once it is committed."""
    shown: list[TableSnapshot] = []
    one = UnloggedRows(
        tables=ReadTables(
            destination="shop",
            captured=lambda: [ORDERS],
            snapshots={} if snapshot is None else {ORDERS: snapshot},
        ),
        can_replace=lambda _: can_replace,
        is_read=lambda _: is_read,
        show=shown.append,
    )
    changes = TableChanges()
    for name in (ORDERS, ("other", "t")):
        changes.absorb(
            TableChanges(unlogged=[UnloggedChange(name, "DROP PARTITION", "u:1", "b.1:9")])
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


@pytest.mark.parametrize("snapshot", [WAITING, replace(WAITING, request="2", replaces=True)])
def test_one_of_which_nothing_was_read_yet_and_all_will_be_is_not(snapshot: TableSnapshot) -> None:
    assert noted(snapshot) == ({}, [])
