"""Tables that are set aside: their events wait, the others go on, and they come back as if never gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.pipeline.capture.schema_tracker import Historian
from app.pipeline.gather.captured_tables import Schema, SetAside
from app.pipeline.gather.parked_event import Parked, parked_of
from app.pipeline.piece import Piece
from app.pipeline.portions.captured_chunk import CapturedChunk
from app.pipeline.stage import StageSpec
from app.schemas.parked_replay import Release
from connectors.mysql.ddl.definition import Column, Database, Server, Table, TableName
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from connectors.mysql.schema.from_table_map import adopted
from connectors.mysql.stream.chunk import Chunk
from connectors.wire import quarantine_topic
from tables.quarantine import Entry, Outcome, Resolution
from tables.schema_history.history import SchemaHistory
from tables.schema_history.position import HistoryPlace
from tests.made import SERVER as UUID
from tests.unit.app.pipeline.actions import TABLES, Action, Ddl, RowsOf, Truncate, cuts, histories
from tests.unit.app.pipeline.history import CHARSETS, Source, _table_map
from tests.unit.app.pipeline.runs import (
    NOWHERE,
    RULES,
    WHOLE,
    Record,
    first_cursor,
    records_of,
    run_stage,
    spec_of,
)

ORDERS, LOG, OTHER = TABLES
UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
SERVER = Server(version=(9, 7, 4))
WAITING = quarantine_topic("aq", "shop")


def table(name: TableName, width: int = 2) -> Table:
    return adopted(_table_map(name, width), CHARSETS, database=UTF8MB4)


def followed(chunks: Iterable[Chunk], place: HistoryPlace) -> Iterator[CapturedChunk]:
    """The chunks as a worker's decoder gets them, with what statements did."""
    history = SchemaHistory()
    history.init("shop")
    databases = dict.fromkeys(("shop", "other"), UTF8MB4)
    history.baseline({name: table(name) for name in TABLES}, databases, place, SERVER)
    historian = Historian(
        history,
        server_uuid=UUID,
        charsets=CHARSETS,
        mariadb=False,
        server=SERVER,
        shadows=ShadowRules(),
    )
    for chunk in chunks:
        yield CapturedChunk(chunk, historian.note(chunk))


def beginning(source: Source) -> HistoryPlace:
    return HistoryPlace.between(first_cursor(source).offset, ts_ms=0)


def pieces(source: Source, cut: Sequence[bool], known: dict[TableName, Schema]) -> list[Piece]:
    cursor = first_cursor(source)
    chunks = followed(source.chunks(source.first, cut), beginning(source))
    return run_stage(chunks, cursor, spec(source, known))


def spec(source: Source, known: dict[TableName, Schema]) -> StageSpec:
    return replace(spec_of(RULES, first_cursor(source), {}), server=SERVER, known=known)


_VERSION = 800
"""Bytes of a record that announces a version of the table."""


def released(
    source: Source,
    waiting: list[Parked],
    given_: Table | None,
    *,
    each: int,
    max_bytes: int = RULES.max_bytes,
) -> tuple[list[Record], Entry]:
    """What comes of waiting events, at most so many at a time, after what was published."""
    entry = Entry(destination="shop", name=ORDERS, since=beginning(source), why="a test")
    resolution = Resolution(
        destination="shop", name=ORDERS, id="r1", table=given_, by="anna", ts_ms=1
    )
    of_run = spec(source, {})
    of_run = replace(of_run, rules=replace(of_run.rules, max_bytes=max_bytes))
    release = Release(of_run, resolution, entry)
    cursor, found = first_cursor(source), list[Record]()
    while waiting and entry.outcome is not Outcome.REFUSED:
        outcome = release.decode(waiting[:each], cursor)
        # A share ends with the event that fills it, and announces its table's version.
        emptied = sum(event.query is not None for event in waiting[: outcome.events])
        assert outcome.piece.size < 2.5 * max_bytes + _VERSION + _TRUNCATION * emptied
        found += records_of([outcome.piece])
        cursor = replace(cursor, seq=outcome.piece.seq)
        waiting, entry = waiting[outcome.events :], outcome.entry
    return found, entry


def waiting_in(records: Iterable[Record]) -> list[Parked]:
    return [
        parked_of(record.key or b"", record.value, dict(record.headers), offset)
        for offset, record in enumerate(one for one in records if one.topic == WAITING)
    ]


def told(records: Iterable[Record], topic: str) -> list[tuple[Any, ...]]:
    """What subscribers of a topic see, without the numbers of the run that published it."""
    found = []
    for record in records:
        if record.topic == topic:
            value = record.value and {
                **record.value, "ts_ms": 0, "transaction": None,
                "source": {**record.value["source"], "seq": 0, "schema": 0},
            }  # fmt: skip
            found.append((record.key, value, record.headers))
    return found


def numbers(records: Iterable[Record]) -> list[int]:
    """The numbers of all records that have one, in their order."""
    found = [
        record.value["source"]["seq"]
        for record in records
        if isinstance(record.value, dict) and "source" in record.value
    ]
    return sorted(found)


KNOWN: dict[TableName, Schema] = {ORDERS: table(ORDERS), LOG: table(LOG)}


def spelled(history: list[list[Action]]) -> list[list[Action]]:
    """The same with statements that add the columns which rows then have."""
    widths = dict.fromkeys(TABLES, 0)

    def said(action: Action) -> Action:
        if not isinstance(action, Ddl) or action.widens is None:
            return action
        name, number = action.widens, widths[action.widens]
        widths[name] += 1
        return Ddl(f"ALTER TABLE {name[0]}.{name[1]} ADD c{number} INT", name)

    return [[said(action) for action in actions] for actions in history]


def as_of_first_rows(history: list[list[Action]]) -> Table:
    """What a person would give: the definition with which the first rows were written."""
    width = 2
    for action in (action for actions in history for action in actions):
        if isinstance(action, RowsOf) and action.table == ORDERS:
            break
        width += isinstance(action, Ddl) and action.widens == ORDERS
    return table(ORDERS, width)


@settings(max_examples=80, deadline=None)
@given(drawn=histories, cut=cuts, batch=cuts, max_bytes=st.sampled_from([600, WHOLE]))
@example(
    drawn=[
        [Truncate(ORDERS)],
        [RowsOf(ORDERS, "c", ((1, 1),)), RowsOf(ORDERS, "u", ((1, 2),) * 2)],
    ],
    cut=(False,),
    batch=(False,) * 3,
    max_bytes=600,
)
def test_what_waited_comes_back_as_if_it_had_never_waited(
    drawn: list[list[Action]], cut: tuple[bool, ...], batch: tuple[bool, ...], max_bytes: int
) -> None:
    history = spelled(drawn)
    source = Source(history, gtids=True)
    plain = records_of(pieces(source, cut, KNOWN))
    parted = records_of(pieces(source, cut, {**KNOWN, ORDERS: SetAside()}))
    assert told(parted, "aq.shop.log") == told(plain, "aq.shop.log")
    assert told(parted, "aq.__ddl.shop") == told(plain, "aq.__ddl.shop")
    assert not told(parted, "aq.shop.orders")
    assert numbers(parted) == list(range(1, len(numbers(parted)) + 1))

    given_ = as_of_first_rows(history)
    back, entry = released(source, waiting_in(parted), given_, each=len(batch), max_bytes=max_bytes)
    assert told(back, "aq.shop.orders") == told(plain, "aq.shop.orders")
    assert {record.topic for record in back} <= {"aq.shop.orders"}
    assert numbers(back) == list(range(1, len(numbers(back)) + 1))
    assert entry.outcome is not Outcome.REFUSED


def test_what_waited_comes_back_in_transactions_of_the_size_that_is_set() -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),) * 100)]], gtids=True)
    parted = records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: SetAside()}))
    back, entry = released(source, waiting_in(parted), table(ORDERS), each=1000, max_bytes=5_000)
    assert len(back) == 100
    assert numbers(back) == list(range(1, 101))
    assert entry.offset == 50


def test_what_does_not_fit_is_refused_with_its_place_and_what_fits_is_published() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1), (2, 2)))
    widened = Ddl("ALTER TABLE orders ADD c0 INT", ORDERS)
    source = Source([[rows], [widened], [rows]], gtids=True)
    parted = records_of(pieces(source, NOWHERE, {**KNOWN, ORDERS: SetAside()}))
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


def test_a_table_is_set_aside_by_a_statement_that_nobody_can_resolve_and_stays_so() -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    unclear = Ddl("ALTER TABLE orders FROBNICATE c")
    again = Ddl("ALTER TABLE orders ADD c0 INT")
    source = Source(
        [[rows], [unclear], [rows], [again], [rows], [RowsOf(LOG, "c", ((1, 1),))]], gtids=True
    )
    found = pieces(source, NOWHERE, KNOWN)
    records = records_of(found)
    assert [aside.name for piece in found for aside in piece.tables.set_aside] == [ORDERS]
    assert len(told(records, "aq.shop.orders")) == 1
    assert len(told(records, "aq.shop.log")) == 1
    assert len(waiting_in(records)) == 3
    (statement,) = [
        r.value for r in records if r.topic == "aq.__ddl.shop" and "FROB" in r.value["ddl"]
    ]
    assert statement["outcome"] == "unresolved"
    assert statement["unresolved"] == [{"database": "shop", "table": "orders"}]


def test_a_table_that_nobody_captures_sets_nothing_aside() -> None:
    unclear = Ddl("ALTER TABLE other.orders FROBNICATE c")
    source = Source(
        [[unclear], [RowsOf(OTHER, "c", ((1, 1),))], [RowsOf(LOG, "c", ((1, 1),))]], gtids=True
    )
    found = pieces(source, NOWHERE, KNOWN)
    assert [aside for piece in found for aside in piece.tables.set_aside] == []
    assert found[-1].error is None
    assert len(told(records_of(found), "aq.shop.log")) == 1


def test_a_table_without_history_is_read_by_the_binlog_where_that_tells_all() -> None:
    unclear = Ddl("ALTER TABLE orders FROBNICATE c")
    source = Source([[unclear], [RowsOf(ORDERS, "c", ((1, 1),))]], gtids=True)
    found = pieces(source, NOWHERE, {LOG: table(LOG)})
    assert [aside for piece in found for aside in piece.tables.set_aside] == []
    assert len(told(records_of(found), "aq.shop.orders")) == 1


_TRUNCATION = 600
"""Bytes of the record that a TRUNCATE makes, at most; a share is not cut for it."""
