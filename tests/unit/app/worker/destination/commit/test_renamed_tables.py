"""Tables that are renamed while their rows are read, and how they are read again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from app.worker.pipeline.piece import TableChanges
from connectors.kafka.reading import StoredRecord
from tables.state.snapshots.request import SnapshotRequest, request_in
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, requested
from tests.unit.app.worker.destination.commit.made import BEFORE
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
