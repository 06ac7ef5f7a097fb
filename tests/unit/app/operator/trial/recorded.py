"""Recorded events of three tables, and both sides of a trial over them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from app.operator.trial.side import Side
from app.operator.trial.tally import ShownValues, Tally
from app.worker.pipeline.gather.captured_tables import Schema
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tables.state.cursor import Cursor
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.gather.parked import SERVER, UTF8MB4
from tests.unit.app.worker.pipeline.history import CHARSETS
from tests.unit.app.worker.pipeline.runs import RULES, spec_of

INSERT, UPDATE, DELETE = EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS
KEYS = MaskingKeys((("k", bytes(range(32))),))

Row = tuple[int, int, str]
"""Values of id, number and name."""


def _number(name: str) -> MappedColumn:
    return MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name=name, unsigned=False)


def table(name: str, number: int) -> TableMap:
    """A table with the columns id, number and name."""
    text = MappedColumn(
        type=FieldType.VARCHAR, metadata=400, nullable=True, name="name", collation=255
    )
    columns = (_number("id"), _number("number"), text)
    return TableMap(table_id=number, database="shop", table=name, columns=columns, primary_key=(0,))


ORDERS, USERS, OTHER = table("orders", 1), table("users", 2), table("other", 3)


def image(row: Row) -> bytes:
    number, other, text = row
    raw = text.encode("utf-8", "surrogateescape")
    return b"\0" + struct.pack("<ii", number, other) + struct.pack("<H", len(raw)) + raw


def rows(kind: EventType, described: TableMap, *found: Row) -> list[bytes]:
    """The events of a statement; an update has pairs of rows."""
    body = made.rows(described, list(map(image, found)), kind=kind)
    return [made.rows_query(f"a statement with {found[0][2]!r}"), made.table_map(described), body]


def chunks(*transactions: list[bytes], together: bool = False) -> Iterator[Chunk]:
    """The chunks of transactions, each given by its events, or one chunk of all; a statement is a chunk."""
    start, wholes = made.START, []
    for number, events in enumerate(transactions, 1):
        is_statement = len(events) == 1
        begin = [made.gtid(number)] if is_statement else [made.gtid(number), made.query("BEGIN")]
        wholes.append([*begin, *events, *([] if is_statement else [made.xid()])])
    if together:
        wholes = [[one for whole in wholes for one in whole]]
    for whole in wholes:
        chunk = made.chunk_of(*whole, start=start)
        chunk.ends_in_statement = len(whole) == 2
        start = made.places(*whole, start=start)[-1]
        yield chunk


def routes(mapping: str | None, **more: Any) -> Routes:
    found = None if mapping is None else from_yaml(mapping)
    return Routes(
        prefix="aq", include=r"shop\..*", destination="shop", mapping=found, keys=KEYS, **more
    )


def cursor() -> Cursor:
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    return Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)


def history() -> SchemaHistory:
    found = SchemaHistory()
    found.init("shop")
    tables = {
        ("shop", one.table): adopted(one, CHARSETS, database=UTF8MB4)
        for one in (ORDERS, USERS, OTHER)
    }
    position = HistoryPosition.between(cursor().offset, ts_ms=0)
    found.baseline(tables, {"shop": UTF8MB4}, position, SERVER)
    return found


def side(own: Routes, **rules: Any) -> Side:
    """One side, as of the position before all events."""
    started = history()
    known: dict[tuple[str, str], Schema] = {
        name: one for name, one in started.now().tables().items() if own.of(name) is not None
    }
    made_by = replace(RULES, routes=own, statements=True, **rules)
    spec = replace(spec_of(made_by, cursor(), {}), server=SERVER, known=known)
    return Side(spec, started, cursor())


@dataclass(frozen=True, slots=True)
class Tried:
    """What a trial has found."""

    tally: Tally
    old: Side
    new: Side

    def counts(self, name: str) -> dict[str, int]:
        """The counts of a table that are not zero; of no name, those of statements."""
        key = ("shop", name) if name else ("", "")
        (counts,) = (one.counts for one in self.tally.tables() if one.table == key)
        found = {"old": counts.old, "new": counts.new, "equal": counts.equal}
        found |= {one.value: number for one, number in counts.by_respect.items()}
        found["both"] = counts.refused_by_both
        return {name: number for name, number in found.items() if number}

    def shown(self) -> str:
        """All samples as text."""
        return repr([one.samples for one in self.tally.tables()])


def tried(
    old: str | None, new: str | None, found: Iterable[Chunk], *, partitions: int = 4, **rules: Any
) -> Tried:
    """Run both mappings over chunks."""
    sides = [side(routes(one, partitions=partitions), **rules) for one in (old, new)]
    tally = Tally(ShownValues(sides[0].routes, sides[1].routes), samples=50)
    for chunk in found:
        tally.add(sides[0].published(chunk), sides[1].published(chunk))
    return Tried(tally, *sides)
