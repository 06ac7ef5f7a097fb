"""What a release writes into the schema history, also into one that began after the quarantine, and what a new
version of the mapping announces."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.pipeline.piece import Piece, SignalRow
from app.worker.schemas.quarantine_release import QuarantineRelease, Release
from connectors.mysql.ddl.definition import Table
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.rules.mapping.forms import from_yaml
from tables.state.quarantine import AGAIN, BY_MAPPING, Entry, Resolution
from tests.unit.app.worker.pipeline.actions import RowsOf
from tests.unit.app.worker.pipeline.gather.parked import KNOWN, LOG, announced, pieces, spec
from tests.unit.app.worker.pipeline.gather.parked import ORDERS as PARKED
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import NOWHERE, RULES, first_cursor, records_of
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
    history: SchemaHistory,
    last: Table | None,
    since: HistoryPosition = SINCE,
    *,
    given: Table | None = GIVEN,
    source: str = "definition",
) -> list[SchemaRecord]:
    """The records of a release whose events begin at a position and end with a definition."""
    publisher: Any = SimpleNamespace(cursor=SimpleNamespace(offset=offset(900)))
    releasing = QuarantineRelease(publisher, history, cast(Any, None), options={}, server_id=7)
    resolution = Resolution(
        destination="shop",
        name=ORDERS,
        id="r",
        table=given,
        by="anna",
        ts_ms=1,
        source=source,
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


@pytest.mark.parametrize("source", [AGAIN, BY_MAPPING, "binlog"])
def test_only_what_was_given_or_rows_show_corrects_the_history(source: str) -> None:
    history = begun("orders", position=between(800))
    before = names_of(history.find(*ORDERS))
    (record,) = resolved(history, LAST, given=None, source=source)
    assert record.given is not None
    is_shown = source == "binlog"
    assert names_of(history.find(*ORDERS)) == (names_of(LAST) if is_shown else before)
    assert bool(record.changes) == is_shown


@pytest.mark.parametrize(
    ("rules", "masked"),
    [
        ("{truncates: omit}", None),
        ("{column_actions: {note: {redact: '***'}}}", {"note": {"redact": "***"}}),
        ("{columns: [id]}", {"note": "drop"}),
    ],
)
def test_a_column_that_is_masked_or_left_out_from_now_on_is_announced_once_and_no_other_table(
    rules: str, masked: dict[str, Any] | None
) -> None:
    source = Source([[RowsOf(one, "c", ((1, 1),))] for one in (PARKED, LOG)], gtids=True)
    first = pieces(source, NOWHERE, KNOWN)
    versions = {(one.database, one.table): one for p in first for one in p.tables.versions}
    assert versions.keys() == {PARKED, LOG}
    mapping = from_yaml(f"tables: {{shop.orders: {rules}}}")
    routes = replace(RULES.routes, mapping=mapping)
    of_run = spec(source, {})
    of_run = replace(of_run, versions=versions, rules=replace(of_run.rules, routes=routes))
    published = list[Piece]()

    async def publish(piece: Piece) -> None:
        published.append(piece)

    publisher: Any = SimpleNamespace(cursor=first_cursor(source), publish=publish)
    releasing = QuarantineRelease(publisher, SchemaHistory(), of_run, options={}, server_id=7)
    for _ in range(2):
        asyncio.run(releasing.announce(KNOWN))
    assert announced(records_of(published)) == ([(PARKED, 2)] if masked else [])
    latest = releasing.spec.versions[PARKED]
    assert (latest.version, (latest.stated or {}).get("masked")) == (2 if masked else 1, masked)
    assert releasing.spec.versions[LOG] == versions[LOG]


async def test_rows_of_the_signal_table_that_waited_are_said_to_make_no_requests(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = list[Piece]()

    async def publish(piece: Piece) -> None:
        published.append(piece)

    cursor = SimpleNamespace(offset=offset(900), resume=None, seq=0, versions=0)
    publisher: Any = SimpleNamespace(cursor=cursor, publish=publish)
    none = cast(Any, None)
    releasing = QuarantineRelease(publisher, begun("orders"), none, options={}, server_id=7)
    monkeypatch.setattr(releasing, "_learn", lambda _: None)
    entry = Entry(destination="shop", name=ORDERS, since=SINCE, why="a test")
    for signals in ([], [SignalRow("{}"), SignalRow("{}")]):
        piece = releasing._nothing()
        piece.signals = signals
        await releasing._publish(piece, entry)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "2 row(s) of the signal table that waited" in caplog.text
    assert len(published) == 2
