"""Quarantined tables: their events are parked, others continue, and a release publishes them unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import Unpublished
from app.worker.schemas.quarantine_release import Release, announcing
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.ddl.definition import Column, Database
from tables.rules.mapping.forms import from_yaml
from tables.state.quarantine import BY_MAPPING, Entry, Outcome, Resolution
from tests.unit.app.worker.pipeline.actions import TOPICS, Action, Ddl, RowsOf, Truncate
from tests.unit.app.worker.pipeline.gather import parked
from tests.unit.app.worker.pipeline.gather.parked import (
    KNOWN,
    LOG,
    ORDERS,
    OTHER,
    announced,
    beginning,
    described,
    history_of,
    numbers,
    pieces,
    released,
    spec,
    table,
    waiting_in,
)
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import NOWHERE, RULES, first_cursor, records_of


def test_what_waited_comes_back_in_transactions_of_the_size_that_is_set() -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),) * 100)]], gtids=True)
    parted = records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    back, entry = released(source, waiting_in(parted), table(ORDERS), each=1000, max_bytes=5_000)
    assert len(back) == 100
    assert numbers(back) == list(range(1, 101))
    assert entry.offset == 50


def test_what_does_not_fit_is_refused_with_its_place_and_what_fits_is_published() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1), (2, 2)))
    widened = Ddl("ALTER TABLE orders ADD c0 INT", ORDERS)
    source = Source([[rows], [widened], [rows]], gtids=True)
    parted = records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    waiting = waiting_in(parted)
    assert [event.event_type == 0 for event in waiting] == [False, True, False]

    columns = table(ORDERS).columns
    other = Column(name="id", type="bigint", nullable=False)
    wrong = replace(table(ORDERS), columns=(other, *columns[1:]))
    nothing, entry = released(source, waiting, wrong, each=10)
    assert (nothing, entry.outcome, entry.offset) == ([], Outcome.REFUSED, 0)
    assert "id" in entry.reason
    assert str(source.starts[0].file) in entry.reason

    without_the_statement = [waiting[0], waiting[2]]
    some, entry = released(source, without_the_statement, table(ORDERS), each=10)
    assert len(some) == 2
    assert (entry.outcome, entry.offset) == (Outcome.REFUSED, 1)


def test_what_a_rule_quarantined_is_released_with_the_statements_before_its_first_row() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    source = Source([[Ddl("ALTER TABLE orders ADD c0 INT", ORDERS)], [rows]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    assert [event.event_type == 0 for event in waiting] == [True, False]
    back, entry = released(source, waiting, table(ORDERS), each=10, by_mapping=True)
    assert (len(back), entry.outcome) == (1, Outcome.RELEASING)
    # An operator's definition is that of the first row.
    _, entry = released(source, waiting, table(ORDERS), each=10)
    assert entry.outcome is Outcome.REFUSED


@pytest.mark.parametrize("each", [1, 10])
def test_what_statements_made_of_a_quarantined_table_is_announced_though_no_row_follows(
    each: int,
) -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    there, back = (f"ALTER TABLE orders {change}" for change in ("ADD c0 INT", "DROP c0"))
    source = Source([[rows], [Ddl(there)], [Ddl(back)]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    found, _ = released(source, waiting, table(ORDERS), each=each)
    assert announced(found) == [(ORDERS, 2), (ORDERS, 3)]
    ids = [dict(one.headers)["change_id"] for one in found]
    assert len(set(ids)) == len(ids)
    assert numbers(found) == [1, 2, 3]


@pytest.mark.parametrize("column", ["", "c0"])
def test_the_given_definition_is_announced_at_the_end_of_a_release_unless_it_is_known(
    column: str,
) -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),))]], gtids=True)
    (version,) = [one for piece in pieces(source, NOWHERE, KNOWN) for one in piece.tables.versions]
    given = table(ORDERS, 3 if column else 2)
    entry = Entry(destination="shop", name=ORDERS, since=beginning(source), why="a test")
    resolution = Resolution(
        destination="shop", name=ORDERS, id="r1", table=given, by="anna", ts_ms=1
    )
    of_run = replace(spec(source, {}), versions={ORDERS: version})
    at = announcing(Transaction("b.000001", 4, None, 0, "", 1, 7), ORDERS, "shop:1")
    release = Release(of_run, resolution, entry, history_of(source))
    piece = release.last(first_cursor(source), at)
    assert announced(records_of([piece])) == ([(ORDERS, 2)] if column else [])
    assert [one.version for one in piece.tables.versions] == ([2] if column else [])


def test_a_definition_that_fits_some_events_is_kept_for_the_next_version_of_the_mapping() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    widened = Ddl("ALTER TABLE orders ADD c0 INT", ORDERS)
    again = Ddl("ALTER TABLE orders ADD c1 INT", ORDERS)
    source = Source([[rows], [widened], [rows], [again], [rows]], gtids=True)
    parted = records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    waiting = waiting_in(parted)
    without_a_statement = [*waiting[:3], waiting[4]]
    _, entry = released(source, without_a_statement, table(ORDERS), each=10, by_mapping=True)
    assert (entry.outcome, entry.offset, entry.is_by_rule) == (Outcome.REFUSED, 3, True)
    assert entry.table is not None
    assert [column.name for column in entry.table.columns][2:] == ["c0"]
    # A definition of an operator that fits no event is not kept.
    _, entry = released(source, waiting[2:], table(ORDERS), each=10)
    assert (entry.outcome, entry.table) == (Outcome.REFUSED, None)


def test_a_table_is_quarantined_by_a_statement_that_cannot_be_resolved_and_stays_so() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    unclear = Ddl("ALTER TABLE orders FROBNICATE c")
    again = Ddl("ALTER TABLE orders ADD c0 INT")
    source = Source(
        [[rows], [unclear], [rows], [again], [rows], [RowsOf(LOG, "c", ((1, 1),))]], gtids=True
    )
    found = pieces(source, NOWHERE, KNOWN)
    records = records_of(found)
    assert [aside.name for piece in found for aside in piece.tables.quarantined] == [ORDERS]
    assert len(described(records, "aq.shop.orders")) == 1
    assert len(described(records, "aq.shop.log")) == 1
    assert len(waiting_in(records)) == 3
    (statement,) = [
        r.value for r in records if r.topic == "aq.__ddl.shop" and "FROB" in r.value["ddl"]
    ]
    assert statement["outcome"] == "unresolved"
    assert statement["unresolved"] == [{"database": "shop", "table": "orders"}]


def test_a_table_that_is_not_captured_quarantines_nothing() -> None:
    unclear = Ddl("ALTER TABLE other.orders FROBNICATE c")
    source = Source(
        [[unclear], [RowsOf(OTHER, "c", ((1, 1),))], [RowsOf(LOG, "c", ((1, 1),))]], gtids=True
    )
    found = pieces(source, NOWHERE, KNOWN)
    assert [aside for piece in found for aside in piece.tables.quarantined] == []
    assert found[-1].error is None
    assert len(described(records_of(found), "aq.shop.log")) == 1


def test_a_table_without_history_is_read_by_the_binlog_where_that_has_all() -> None:
    unclear = Ddl("ALTER TABLE orders FROBNICATE c")
    source = Source([[unclear], [RowsOf(ORDERS, "c", ((1, 1),))]], gtids=True)
    found = pieces(source, NOWHERE, {LOG: table(LOG)})
    assert [aside for piece in found for aside in piece.tables.quarantined] == []
    assert len(described(records_of(found), "aq.shop.orders")) == 1


def decoded(source: Source, *, given: bool) -> tuple[Release, Entry]:
    """The release of what waits of a table, by its own definition, which is given or the quarantine's."""
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    own = table(ORDERS)
    entry = Entry(
        destination="shop", name=ORDERS, since=beginning(source), why="a test",
        is_by_rule=not given, table=None if given else own,
    )  # fmt: skip
    resolution = Resolution(
        destination="shop", name=ORDERS, id="r1", table=own if given else None, by="anna", ts_ms=1,
        source="" if given else BY_MAPPING,
    )  # fmt: skip
    release = Release(spec(source, {}), resolution, entry, history_of(source))
    events = [event for event in waiting if event.name == ORDERS]
    return release, release.decode(events, first_cursor(source)).entry


@pytest.mark.parametrize("given", [False, True], ids=["of the quarantine", "given"])
def test_a_table_made_again_while_it_waits_has_its_databases_character_set(
    monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    latin1 = Database(charset="latin1", collation="latin1_swedish_ci")
    monkeypatch.setattr(parked, "UTF8MB4", latin1)
    source = Source(
        [
            [RowsOf(ORDERS, "c", ((1, 1),))],
            [Ddl("DROP TABLE orders")],
            [Ddl("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))")],
            [Ddl("ALTER DATABASE shop CHARACTER SET greek")],
        ],
        gtids=True,
    )
    release, _ = decoded(source, given=given)
    found = release.definition(latin1)
    assert found is not None
    assert found.columns[1].charset == "latin1"


@pytest.mark.parametrize(
    ("statements", "columns"),
    [
        (["DROP TABLE orders", "CREATE TABLE orders LIKE log"], ["id", "note", "since"]),
        (["RENAME TABLE orders TO old, log TO orders"], ["id", "note", "since"]),
        (["DROP TABLE orders", "RENAME TABLE log TO orders"], ["id", "note", "since"]),
        (["DROP TABLE log", "CREATE TABLE log (a INT)"], ["id", "note"]),
    ],
)
@pytest.mark.parametrize("gtids", [True, False])
def test_statements_that_waited_see_the_other_tables_as_they_were_then(
    statements: list[str], columns: list[str], gtids: bool
) -> None:
    actions: list[list[Action]] = [[RowsOf(ORDERS, "c", ((1, 1),))]]
    actions += [[Ddl(one)] for one in ("ALTER TABLE log ADD since INT", *statements)]
    source = Source([*actions, [Ddl("DROP TABLE IF EXISTS log")]], gtids=gtids)
    release, _ = decoded(source, given=True)
    found = release.definition(parked.UTF8MB4)
    assert found is not None
    assert [column.name for column in found.columns] == columns


def test_a_statement_that_copies_a_table_that_is_not_known_is_refused() -> None:
    source = Source(
        [
            [RowsOf(ORDERS, "c", ((1, 1),))],
            [Ddl("ALTER TABLE log FROBNICATE c")],
            [Ddl("RENAME TABLE orders TO old, log TO orders")],
        ],
        gtids=True,
    )
    _, entry = decoded(source, given=True)
    assert (entry.outcome, entry.offset) == (Outcome.REFUSED, 1)
    assert "DdlUnresolved" in entry.reason


@pytest.mark.parametrize("truncates", ["record", "omit", "deletes"])
def test_a_truncate_that_waited_has_a_record_only_where_it_is_published(truncates: str) -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),))], [Truncate(ORDERS)]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, (False,), {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    routes = replace(RULES.routes, truncates=truncates)
    found, entry = released(
        source,
        waiting,
        table(ORDERS),
        each=9,
        by_mapping=True,
        error="TopicUnusable",
        routes=routes,
    )
    ops = [one.op for one in found if one.topic == TOPICS[ORDERS]]
    assert ops == ["c"] + ["t"] * (truncates == "record")
    assert (entry.outcome is Outcome.REFUSED) == (truncates == "deletes")
    assert ("set record or omit until it is released" in entry.reason) == (truncates == "deletes")
    # Its topic takes rows again: what is to be done now is about the mapping.
    assert ("Correct the mapping" in entry.action) == (truncates == "deletes")


GONE = [
    ["DROP TABLE orders", "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))"],
    ["RENAME TABLE orders TO old, log TO orders"],
    ["DROP TABLE log, orders", "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))"],
]
NOISE = [
    "CREATE TABLE _orders_gho (id INT PRIMARY KEY, note VARCHAR(20))",
    "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
]


@pytest.mark.parametrize(
    ("rules", "statements", "ops"),
    [
        *(("topic: moved", one, "ctc") for one in GONE),
        ("topic: moved", NOISE, "cc"),
        ("{topic: moved, on_drop: keep}", GONE[0], "cc"),
        ("truncates: omit", GONE[0], "cc"),
        ("truncates: deletes", GONE[0], "c"),
        (None, GONE[0], "cc"),
    ],
)
def test_a_mapped_table_that_was_dropped_or_renamed_while_it_waited_loses_its_rows_between_the_others(
    rules: str | None, statements: list[str], ops: str
) -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    between: list[list[Action]] = [[Ddl(one)] for one in statements]
    source = Source([[rows], *between, [rows]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    text = rules if rules is None or rules.startswith("{") else f"{{{rules}}}"
    mapping = None if text is None else from_yaml(f"tables: {{shop.orders: {text}}}")
    routes = replace(RULES.routes, mapping=mapping)
    events = [event for event in waiting if event.name == ORDERS]
    found, entry = released(source, events, table(ORDERS), each=10, routes=routes)
    own = [one for one in found if one.topic in ("aq.moved", TOPICS[ORDERS])]
    assert "".join(str(one.op) for one in own) == ops
    # The record of DROP has an id of its own, whatever else the statement has emptied.
    ids = [dict(one.headers)["change_id"] for one in own]
    assert len(set(ids)) == len(ids)
    if "log, orders" in statements[0]:
        assert ids[1].endswith(b"#3")
    refused = "set record or omit until it is released" in entry.reason
    assert refused == (rules == "truncates: deletes")


def test_a_table_whose_drop_waits_alone_loses_its_rows_as_it_is_released() -> None:
    """Its definition is the operator's, or the rows' own, and the table is gone before the first row."""
    source = Source([[Ddl("DROP TABLE orders")]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    routes = replace(RULES.routes, mapping=from_yaml("tables: {shop.orders: {topic: moved}}"))
    for given in (table(ORDERS), None):
        found, _ = released(source, waiting, given, each=10, routes=routes)
        assert [one.op for one in found if one.topic == "aq.moved"] == ["t"]
    # A worker of an earlier version has not recorded it.
    (event,) = waiting
    found, _ = released(source, [replace(event, departed=None)], None, each=10, routes=routes)
    assert found == []


@pytest.mark.parametrize("each", [1, 10])
def test_versions_between_which_rows_waited_are_announced_once_and_in_order(each: int) -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    first, second = (Ddl(f"ALTER TABLE orders ADD c{n} INT", ORDERS) for n in (0, 1))
    source = Source([[rows], [first], [rows], [second], [rows]], gtids=True)
    waiting = waiting_in(
        records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    )
    found, _ = released(source, waiting, table(ORDERS), each=each)
    assert announced(found) == [(ORDERS, 2), (ORDERS, 3)]
    versions = [one.value["source"]["schema"] for one in found if one.op == "c"]
    assert versions == [1, 2, 3]
