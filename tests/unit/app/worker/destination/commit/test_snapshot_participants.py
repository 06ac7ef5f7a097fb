"""Tables that are renamed while they are read, and those that take the name of one that is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.participants import Commits
from app.worker.destination.commit.snapshot_participants import (
    ReadTables,
    RenamedTables,
    UnloggedRows,
)
from app.worker.pipeline.piece import TableChanges, UnloggedChange
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest, request_in
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, requested
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.tables.made import applied, begun


@pytest.mark.parametrize("state", [SnapshotState.WAITING, SnapshotState.PAUSED])
@pytest.mark.parametrize(
    ("statements", "started"),
    [
        (["RENAME TABLE orders TO gone"], ["gone"]),
        (["RENAME TABLE orders TO gone, other TO orders"], ["gone", "orders"]),
        # The rows of a table that was not captured, up to the key that was read last, are in no change.
        (["DROP TABLE orders", "RENAME TABLE other TO orders"], ["orders"]),
        (["RENAME TABLE other TO third"], []),
        (["DROP TABLE orders"], []),
    ],
)
def test_what_is_read_from_its_first_row(
    statements: list[str], started: list[str], state: SnapshotState
) -> None:
    history = begun("orders", "other")
    read = requested("shop", [("shop", "orders")], name="1", now_ms=1)
    tables = ReadTables(
        destination="shop",
        captured=lambda number: history.after(number or 0).tables(),
        snapshots={one.name: replace(one, state=state) for one in read},
    )
    found: list[str] = []
    for number, statement in enumerate(statements):
        record = applied(history, 200 + 100 * number, statement)
        piece: Any = SimpleNamespace(tables=TableChanges(history=[record]))
        for _, value in RenamedTables(tables, can_replace=bool).before(piece, BEFORE):
            assert value is not None
            found.append(orjson.loads(value)["table"])
    assert sorted(found) == started


def read_again(
    *statements: str, read: TableSnapshot, can_replace: bool = True
) -> list[list[SnapshotRequest]]:
    """The requests of statements in one piece, and of each in its own.

    The reader's thread has reached the last statement before the first piece is committed, and the worker has
    followed the journal up to none of the requests.
    """
    history = begun("orders", "other")
    records = [applied(history, 200 + 100 * number, one) for number, one in enumerate(statements)]
    answers = []
    for pieces in ([records], [[record] for record in records]):
        tables = ReadTables(
            destination="shop",
            captured=lambda number: history.after(number or 0).tables(),
            snapshots={read.name: read},
        )
        renamed = RenamedTables(tables, can_replace=lambda _: can_replace)
        found = []
        for some in pieces:
            given: Any = SimpleNamespace(tables=TableChanges(history=some))
            found += [
                request_in(StoredRecord(key, value, 1))
                for key, value in renamed.before(given, BEFORE)
            ]
        answers.append(found)
    return answers


READ = TableSnapshot(destination="shop", database="shop", table="orders", id="1", where="id < 9")


def test_one_that_is_renamed_twice_is_read_by_its_last_name() -> None:
    once, twice = read_again("RENAME TABLE orders TO gone", "RENAME TABLE gone TO there", read=READ)
    assert [(one.table, one.where) for one in once] == [("there", "id < 9")]
    assert [(one.table, one.where) for one in twice] == [("gone", "id < 9"), ("there", "id < 9")]


def test_one_that_has_left_by_then_is_not_read() -> None:
    once, _ = read_again("RENAME TABLE orders TO gone", "DROP TABLE gone", read=READ)
    assert once == []


@pytest.mark.parametrize(
    ("read", "replaces"),
    [
        ({}, False),
        ({"replaces": True}, True),
        ({"replacing": True}, True),
        # The topic may have rows that a statement without row events has removed.
        ({"unlogged": "DROP PARTITION changed rows"}, True),
        ({"unlogged": "it was, of all rows", "where": "id < 9"}, False),
    ],
)
@pytest.mark.parametrize("can_replace", [False, True])
def test_rows_that_subscribers_have_are_replaced_if_they_would_have_been(
    read: dict[str, Any], *, replaces: bool, can_replace: bool
) -> None:
    one = replace(READ, **{"where": None, **read})
    found = read_again("RENAME TABLE orders TO gone", read=one, can_replace=can_replace)
    assert [[request.replaces for request in some] for some in found] == [
        [replaces and can_replace]
    ] * 2


def test_keys_of_rows_that_only_subscribers_have_are_removed_by_both_names() -> None:
    keys = ('{"id":7}', '{"id":8}')
    one = replace(READ, where="`id` IN (7, 8)", removes=keys)
    for found in read_again("RENAME TABLE orders TO gone, other TO orders", read=one):
        assert sorted((some.table, some.where, some.removes) for some in found) == [
            (name, one.where, keys) for name in ("gone", "orders")
        ]


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
