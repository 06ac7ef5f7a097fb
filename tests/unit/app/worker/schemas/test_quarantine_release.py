"""What a release writes into the schema history, also into one that began after the quarantine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.schemas.parked_replay import Release
from app.worker.schemas.quarantine_release import QuarantineRelease
from connectors.mysql.ddl.definition import Table
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.state.quarantine import Entry, Resolution
from tests.unit.tables.made import (
    ORDERS,
    OTHER,
    applied,
    at,
    begun,
    between,
    names_of,
    offset,
    table,
)

SINCE = at(200)
GIVEN, LAST = table("given"), table("given", "later")


def resolved(
    history: SchemaHistory, last: Table | None, since: HistoryPosition = SINCE
) -> list[SchemaRecord]:
    """The records of a release whose events begin at a position and end with a definition."""
    publisher: Any = SimpleNamespace(cursor=SimpleNamespace(offset=offset(900)))
    releasing = QuarantineRelease(publisher, history, cast(Any, None), options={})
    resolution = Resolution(
        destination="shop",
        name=ORDERS,
        id="r",
        table=GIVEN,
        by="anna",
        ts_ms=1,
        source="definition",
    )
    entry = Entry(destination="shop", name=ORDERS, since=since, why="a test")
    release = cast(Release, SimpleNamespace(definition=lambda _: last))
    return releasing._resolved(resolution, release, entry)


def test_the_given_definition_is_valid_from_the_quarantine_and_its_result_from_now_on() -> None:
    history = begun("orders")
    applied(history, 200, "ALTER TABLE orders ADD wrong INT")
    assert [one.position.start.pos for one in resolved(history, LAST)] == [200, 900]
    assert names_of(history.find(*ORDERS)) == names_of(LAST)


@pytest.mark.parametrize("since", [SINCE, at(200, server=OTHER)])
def test_a_history_that_began_later_has_the_result_alone(since: HistoryPosition) -> None:
    history = begun("orders", position=between(800))
    records = resolved(history, LAST, since)
    assert [one.position.start.pos for one in records] == [900]
    assert names_of(history.find(*ORDERS)) == names_of(LAST)
    # Nothing to correct is recorded too: by whom the table came back.
    (again,) = resolved(history, LAST, since)
    assert (again.changes, again.unchanged) == ((), (ORDERS,))
    assert again.given is not None
    assert again.given.by == "anna"
