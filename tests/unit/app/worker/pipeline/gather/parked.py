"""Quarantined tables over random histories: the pieces, and what their parked events become."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.gather.captured_tables import Schema
from app.worker.pipeline.gather.parked_event import ParkedEvent, parked_of
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import CapturedChunk
from app.worker.pipeline.stage import StageSpec
from app.worker.schemas.quarantine_release import Release
from connectors.mysql.ddl.definition import Database, Server, Table, TableName
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.stream.chunk import Chunk
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.rules.routes.routes import Routes
from tables.state.quarantine import BY_MAPPING, Entry, Outcome, Resolution
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.actions import TABLES, Action, Ddl
from tests.unit.app.worker.pipeline.history import CHARSETS, Source, _table_map
from tests.unit.app.worker.pipeline.runs import (
    RULES,
    Record,
    first_cursor,
    records_of,
    run_stage,
    spec_of,
)
from wire.topics import quarantine_topic

ORDERS, LOG, OTHER = TABLES
UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")

SERVER = Server(version=(9, 7, 4))

WAITING = quarantine_topic("aq", "shop")


def table(name: TableName, width: int = 2) -> Table:
    return adopted(_table_map(name, width), CHARSETS, database=UTF8MB4)


def begun(position: HistoryPosition) -> SchemaHistory:
    """A history that begins with all tables."""
    history = SchemaHistory()
    history.init("shop")
    databases = dict.fromkeys(("shop", "other"), UTF8MB4)
    history.baseline({name: table(name) for name in TABLES}, databases, position, SERVER)
    return history


def history_of(source: Source) -> SchemaHistory:
    """The history at the end of a source, of which a worker has read all."""
    history = begun(beginning(source))
    deque(followed(source.chunks(source.first, (False,)), history), maxlen=0)
    return history


def followed(chunks: Iterable[Chunk], history: SchemaHistory) -> Iterator[CapturedChunk]:
    """The chunks as a worker's decoder gets them, with what statements did."""
    tracker = SchemaTracker(
        history,
        server_uuid=UUID,
        charsets=CHARSETS,
        mariadb=False,
        server=SERVER,
        shadows=ShadowRules(),
        routes=RULES.routes,
    )
    for chunk in chunks:
        yield CapturedChunk(chunk, tracker.note(chunk))


def beginning(source: Source) -> HistoryPosition:
    return HistoryPosition.between(first_cursor(source).offset, ts_ms=0)


def pieces(source: Source, cut: Sequence[bool], known: dict[TableName, Schema]) -> list[Piece]:
    cursor = first_cursor(source)
    chunks = followed(source.chunks(source.first, cut), begun(beginning(source)))
    return run_stage(chunks, cursor, spec(source, known))


def spec(source: Source, known: dict[TableName, Schema]) -> StageSpec:
    return replace(spec_of(RULES, first_cursor(source), {}), server=SERVER, known=known)


_STATEMENT = 3_000
"""Bytes of the records that a statement makes, at most: of a TRUNCATE, or of a version of this narrow table."""
_VERSION = 800
"""Bytes of a record that announces a version of the table."""


def released(
    source: Source,
    waiting: list[ParkedEvent],
    given_: Table | None,
    *,
    each: int,
    max_bytes: int = RULES.max_bytes,
    by_mapping: bool = False,
    error: str = "",
    routes: Routes = RULES.routes,
) -> tuple[list[Record], Entry]:
    """The records of parked events, with a limit of events at a time, after those already published.

    ``given_``: the definition with which the first rows were written; with ``by_mapping`` that of the first
    event, which the quarantine itself has. ``error``: that has quarantined the table.
    """
    entry = Entry(
        destination="shop", name=ORDERS, since=beginning(source), why="a test", error=error
    )
    resolution = Resolution(
        destination="shop", name=ORDERS, id="r1", table=given_, by="anna", ts_ms=1
    )
    if by_mapping:
        entry = replace(entry, is_by_rule=True, table=given_)
        resolution = replace(resolution, table=None, source=BY_MAPPING)
    of_run = spec(source, {})
    of_run = replace(of_run, rules=replace(of_run.rules, routes=routes, max_bytes=max_bytes))
    release = Release(of_run, resolution, entry, history_of(source))
    cursor, found = first_cursor(source), list[Record]()
    while waiting and entry.outcome is not Outcome.REFUSED:
        outcome = release.decode(waiting[:each], cursor)
        # A piece ends with the event that fills it, and announces its table's version.
        stated = sum(event.query is not None for event in waiting[: outcome.events])
        assert outcome.piece.size < 2.5 * max_bytes + _VERSION + _STATEMENT * stated
        found += records_of([outcome.piece])
        cursor = replace(cursor, seq=outcome.piece.seq)
        waiting, entry = waiting[outcome.events :], outcome.entry
    return found, entry


def waiting_in(records: Iterable[Record]) -> list[ParkedEvent]:
    return [
        parked_of(record.key or b"", record.value, dict(record.headers), offset)
        for offset, record in enumerate(one for one in records if one.topic == WAITING)
    ]


def described(records: Iterable[Record], topic: str) -> list[tuple[Any, ...]]:
    """A topic's records without the numbers of the run that published them, and of versions."""
    found = []
    for record in records:
        if record.topic == topic:
            value = record.value and {
                **record.value, "ts_ms": 0, "transaction": None,
                "source": {**record.value["source"], "seq": 0, "schema": 0},
                "tables": [{**one, "version": 0} for one in record.value.get("tables", ())],
            }  # fmt: skip
            found.append((record.key, value, record.headers))
    return found


def announced(
    records: Iterable[Record], *, by_statements: bool = False
) -> list[tuple[TableName, int]]:
    """The tables and versions that records of the DDL topic announce, those without a statement or with one."""
    return [
        ((one["database"], one["table"]), one["version"])
        for record in records
        if record.topic == "aq.__ddl.shop" and bool(record.value["ddl"]) is by_statements
        for one in record.value.get("tables", ())
        if "version" in one
    ]


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
