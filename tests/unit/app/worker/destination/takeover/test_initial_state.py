"""The initial state where the schema history begins again at the cursor, without a server."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.destination.takeover import initial_state
from app.worker.destination.takeover.initial_state import InitialState, InitialStateBuilder
from connectors.errors import StartIncomplete
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.lookup.start import Latest
from connectors.mysql.schema.baseline import Baseline, LoggedStatement, server_of
from tables.history.codec import checkpoint_records, history_records
from tables.history.record import CheckpointPolicy
from tables.state.cursor import Cursor, Resume
from tables.state.journal.state import DestinationState, cursor_key, encoded, fold
from tests.unit.connectors.mysql.facts import ADDRESS, facts
from tests.unit.tables.made import (
    ORDERS,
    SHOP,
    UTF8,
    UUID,
    WrittenJournal,
    applied,
    at,
    begun,
    names_of,
    offset,
    table,
)

OTHER: TableName = ("shop", "other")
CURSOR = Cursor(
    destination="shop",
    installation="i",
    epoch=4,
    seq=70,
    versions=0,
    offset=offset(500, gtids=f"{UUID}:1-9"),
    resume=Resume(transaction_id=f"{UUID}:10", rows=3, published=2, part=1),
    history=2,
)


class Server:
    """A server's tables, and the statements in its binlog since the cursor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables = {ORDERS: table("now"), OTHER: table("as", "ever")}
        self.statements: list[str] = []
        self.variables = {"binlog_row_metadata": "MINIMAL"}
        self.binlogs: tuple[tuple[str, int], ...] = (("b.000001", 1000),)
        server = self

        class Passage:
            def __init__(self, **_: Any) -> None:
                self.statements: list[LoggedStatement] = []

            def read_to(self, *_: Any) -> None:
                self.statements = [_logged(sql) for sql in server.statements]

        def baseline(*_: Any) -> Baseline:
            return Baseline(
                tables=server.tables,
                databases={"shop": UTF8},
                server=server_of(facts()),
                at=offset(900),
                unseen={},
            )

        proving = SimpleNamespace(
            at_home=lambda _offset, proof: proof, reads_by_coordinates=lambda *_: True
        )
        monkeypatch.setattr(InitialStateBuilder, "_proving", proving)
        monkeypatch.setattr(initial_state, "read_baseline", baseline)
        monkeypatch.setattr(initial_state, "StatementsRead", Passage)
        monkeypatch.setattr(initial_state, "check", lambda *_: None)
        monkeypatch.setattr(initial_state, "in_current_terms", lambda position, *_: position)

    def opened(self, state: DestinationState) -> InitialState:
        builder = InitialStateBuilder(
            destination="shop",
            installation="i",
            start=Latest(),
            facts=facts(self.variables, binlogs=self.binlogs),
            address=ADDRESS,
            policy=CheckpointPolicy(),
        )
        return builder.open(state)


def _logged(sql: str) -> LoggedStatement:
    query: Any = SimpleNamespace(sql=sql)
    return LoggedStatement(query=query, statement=query, gtid=None, end=offset(600).coordinates)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    def affected(query: Any, _statement: Any, known: Any) -> set[TableName]:
        return {name for name in known if f"{name[0]}.{name[1]}" in query.sql}

    monkeypatch.setattr(initial_state, "affected_tables", affected)
    return Server(monkeypatch)


def written(*, has_history: bool = True) -> WrittenJournal:
    """A journal with a history that is wrong: it has two columns that the server does not have."""
    journal, history = WrittenJournal(), begun("orders")
    head = history.checkpoints[0]
    journal.write(checkpoint_records(replace(history.content(head), head=head)))
    for number in (1, 2):
        record = applied(history, 100 + 100 * number, f"ALTER TABLE orders ADD wrong{number} INT")
        journal.write(history_records(record))
    cursor = CURSOR if has_history else replace(CURSOR, history=None)
    journal.write([(cursor_key("shop"), encoded(cursor.to_json()))])
    return journal


def begins_again(journal: WrittenJournal) -> DestinationState:
    state = fold("shop", journal.records)
    state.begin_history_again()
    return state


def committed(journal: WrittenJournal, opened: InitialState) -> DestinationState:
    journal.write([*opened.notes, (cursor_key("shop"), encoded(opened.cursor.to_json()))])
    return fold("shop", journal.records)


def test_only_the_history_begins_again_and_the_cursor_stays(server: Server) -> None:
    journal = written()
    opened = server.opened(begins_again(journal))
    assert opened.cursor == replace(CURSOR, epoch=5)
    assert not opened.is_partial
    state = committed(journal, opened)
    assert state.is_whole()
    history = state.history()
    assert history is not None
    assert names_of(history.find(*ORDERS)) == ["id", "now"]
    assert history.checkpoints[0].position.start == CURSOR.offset.coordinates


def test_tables_that_changed_since_the_cursor_are_not_guessed_but_named(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    server.statements = ["ALTER TABLE shop.orders ADD now INT"]
    opened = server.opened(begins_again(written()))
    assert opened.history is not None
    assert opened.history.now().tables().keys() == {OTHER}
    assert "schema resolve` gives their definition: shop.orders" in caplog.text


def test_with_names_in_the_binlog_a_history_far_from_its_end_waits_for_no_table(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    server.variables = {"binlog_row_metadata": "FULL"}
    server.binlogs = (("b.000001", 1000), ("b.000002", 1 << 30))
    opened = server.opened(begins_again(written()))
    assert opened.is_partial
    assert opened.history is not None
    assert opened.history.now().tables() == {}
    assert caplog.text == ""


def rolled_back(
    server: Server, monkeypatch: pytest.MonkeyPatch, state: DestinationState
) -> InitialState:
    """Open with a history that has begun, at a server with these tables."""

    class Names:
        def __init__(self, *_: Any) -> None:
            pass

        def names(self) -> Any:
            return server.tables.keys()

        def views(self) -> list[TableName]:
            return []

    monkeypatch.setattr(initial_state, "InventoryReader", Names)
    monkeypatch.setattr(initial_state, "connected", lambda _: nullcontext())
    return server.opened(state)


@pytest.mark.parametrize(
    ("metadata", "waits", "known"),
    [("FULL", False, ["id", "now"]), ("FULL", True, None), ("MINIMAL", False, None)],
)
def test_a_table_that_was_altered_meanwhile_is_taken_in_once_the_cursor_is_past_that(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    metadata: str,
    waits: bool,
    known: list[str] | None,
) -> None:
    server.variables = {"binlog_row_metadata": metadata}
    server.statements = ["ALTER TABLE shop.orders ADD now INT"]
    journal = written()
    opened = server.opened(begins_again(journal))
    # Only where its rows describe themselves is the next run near enough: else an operator resolves it.
    assert opened.is_partial == (metadata == "FULL")
    history = opened.history
    assert history is not None
    record = history.apply(at(600), "shop", "ALTER TABLE orders ADD now INT", SHOP)
    assert record is not None
    assert record.unresolved == (ORDERS,)
    cursor = replace(opened.cursor, offset=offset(700, gtids=f"{UUID}:1-11"), history=history.count)
    journal.write([*opened.notes, *history_records(record)])
    journal.write([(cursor_key("shop"), encoded(cursor.to_json()))])
    server.statements = []
    state = fold("shop", journal.records)
    if waits:
        state.quarantine.add(ORDERS, "a test", at(600))
    again = rolled_back(server, monkeypatch, state)
    assert not again.is_partial
    read = committed(journal, again).history()
    assert read is not None
    found = read.find(*ORDERS)
    assert (found and names_of(found)) == known


@pytest.mark.parametrize("has_history", [True, False])
def test_a_missing_history_begins_by_itself_with_numbers_of_its_own(
    server: Server, has_history: bool
) -> None:
    journal = written(has_history=has_history)
    state = begins_again(journal) if has_history else fold("shop", journal.records)
    opened = server.opened(state)
    history = opened.history
    assert history is not None
    assert history.count == (2 if has_history else 0)
    assert history.checkpoints[0].number == 2
    assert history.checkpoints[0].begins


def test_the_age_of_the_oldest_file_is_asked_for_once_whatever_the_number_of_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = [SimpleNamespace(created=7), SimpleNamespace(created=9)]
    asked: list[str] = []

    def created_at(_address: object, file: str) -> float:
        asked.append(file)
        return 8.5

    monkeypatch.setattr(initial_state, "estimates", lambda _captures, _address: old)
    monkeypatch.setattr(initial_state, "created_at", created_at)
    monkeypatch.setattr(initial_state, "shown", lambda found: f"{len(found)} table(s)")
    with pytest.raises(StartIncomplete, match=r"1 table\(s\)"):
        initial_state.check_earliest(
            "shop", facts(), ADDRESS, lambda _database, _table: True, accepted=False
        )
    assert len(asked) == 1
