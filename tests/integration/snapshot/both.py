"""Rows of a table by both ways: decoded from the binlog, and selected.

Selected ones are decoded twice, from their packets and the long way, and must be alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.ddl.definition import Table
from connectors.mysql.rows.compiled import CompiledDecoder, RowText
from connectors.mysql.rows.decoder import Image, RowDecoder
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.schema.server_columns import prepare
from connectors.mysql.select.packets import PacketEncoder
from connectors.mysql.select.prepared_select import PreparedSelect, SelectedPackets
from connectors.mysql.select.selected_table import SESSION, SelectedTable
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.types.labels import labels_of
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.sql import connected, run
from tests.integration.worker.source import facts_of, written
from tests.steps import Rows, Step

DATABASE = "snapshot"
LAX = "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', time_zone = '+00:00'"

_HOSTILE = (
    "SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES', time_zone = '+05:30'",
    "SET SESSION character_set_results = latin1",
)
"""A session whose settings change what is selected."""
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Read:
    """One row: its values, and its record's texts."""

    image: Image
    text: RowText

    def values(self) -> list[str]:
        """The values in a form that distinguishes what compares equal, such as -0.0 and 0.0."""
        return [f"{type(value).__name__} {value!r}" for value in self.image]


@lru_cache(maxsize=8)
def known_facts(mysql: Mysql) -> ServerFacts:
    """The server's properties, asked once: these tests do not change them."""
    return facts_of(mysql)


def definition_of(mysql: Mysql, name: Name, facts: ServerFacts) -> Table:
    """The table's definition as a baseline has it."""
    with connected(mysql) as cursor:
        prepare(cursor)
        return InventoryReader(cursor, server_of(facts)).some([name]).tables[name]


def selected_table(mysql: Mysql, name: Name, table: Table | None = None) -> SelectedTable:
    """What is selected of a table."""
    facts = known_facts(mysql)
    known = table or definition_of(mysql, name, facts)
    return SelectedTable(name, known, facts.charsets, server=server_of(facts))


def selected(
    mysql: Mysql, name: Name, *, table: Table | None = None, most: int = 1000
) -> list[Read]:
    """The table's rows by SELECT, as the pipeline decodes them, in the order of their images' id.

    ``table``: a definition from elsewhere; ``most``: bytes of an event.
    """
    facts = known_facts(mysql)
    known = table or definition_of(mysql, name, facts)
    made = selected_table(mysql, name, known)
    blocks = packets_of(mysql, made, name).blocks
    table_map = parse_table_map(made.table_map, mariadb=facts.is_mariadb)
    captured = assert_accepted(table_map, known, facts)
    encoder = PacketEncoder(table_map)
    bodies = [body for block in blocks for body in encoder.bodies(block, most_bytes=most)]
    found = list(_read(table_map, int(encoder.event_type), bodies, facts))
    direct = [captured.packets.rows(block) for block in blocks]
    if None in direct:
        # Characters that Unicode lacks are in such rows.
        assert any(row.text.marks for row in found)
    else:
        rows = [RowText._make(row) for block in direct for row in block or ()]
        assert rows == [row.text for row in found]
    return found


def packets_of(mysql: Mysql, made: SelectedTable, name: Name) -> SelectedPackets:
    """The packets of all rows of a table."""

    def check(types: list[int]) -> None:
        assert made.difference(types) is None

    with connected(mysql, use_unicode=False, conv={}) as cursor:
        for statement in (*_HOSTILE, *SESSION):
            cursor.execute(statement)
        select = PreparedSelect(cursor.connection)
        return select.packets(f"SELECT {made.select_list} FROM `{name[0]}`.`{name[1]}`", check)


def assert_accepted(table_map: TableMap, table: Table, facts: ServerFacts) -> CapturedTable:
    """The pipeline takes the table map for the definition of its history."""
    name = (table_map.database, table_map.table)
    tables = CapturedTables(
        Routes(prefix="aq"), facts.charsets, server=server_of(facts), known={name: table}
    )
    accepted = tables.of(table_map)
    assert isinstance(accepted, CapturedTable)
    return accepted


def logged(mysql: Mysql, steps: Iterable[Step], name: Name) -> list[Read]:
    """The table's rows after the changes among some steps, in order."""
    facts, found = known_facts(mysql), list[Read]()
    for step in steps:
        if isinstance(step, Rows) and (step.table_map.database, step.table_map.table) == name:
            found += _read(step.table_map, step.event_type, [step.body], facts)
    return found


def _read(
    table_map: TableMap, event_type: int, bodies: list[bytes], facts: ServerFacts
) -> Iterator[Read]:
    plain, compiled = (
        RowDecoder(table_map, facts.charsets),
        CompiledDecoder(table_map, facts.charsets),
    )
    for body in bodies:
        texts = compiled.decode(event_type, body)
        for change, text in zip(plain.decode(event_type, body), texts, strict=True):
            if change.after is not None:
                yield Read(change.after, text._replace(before=None, old_key=None))


def table_map_of(steps: Iterable[Step], name: Name) -> TableMap:
    """The last table map of a table among some steps."""
    return [
        step.table_map
        for step in steps
        if isinstance(step, Rows) and (step.table_map.database, step.table_map.table) == name
    ][-1]


def assert_same(ours: list[Read], theirs: list[Read]) -> None:
    """The rows are equal, value by value and text by text, in any order."""
    assert ours
    one, other = sorted(ours, key=_id), sorted(theirs, key=_id)
    assert len(one) == len(other)
    for mine, its in zip(one, other, strict=True):
        different = [
            (n, *pair)
            for n, pair in enumerate(zip(mine.values(), its.values(), strict=True))
            if pair[0] != pair[1]
        ]
        assert not different
        assert mine.text == its.text


def _id(row: Read) -> Any:
    return row.image[0]


def assert_same_map(mysql: Mysql, name: Name, theirs: TableMap) -> None:
    """Our table map is the server's, but for the table's id."""
    facts = known_facts(mysql)
    ours = parse_table_map(selected_table(mysql, name).table_map, mariadb=facts.is_mariadb)
    assert _compared(ours, facts) == _compared(theirs, facts)


def _compared(table_map: TableMap, facts: ServerFacts) -> TableMap:
    """The table map with its labels' text: some sets have several bytes for a character."""
    columns = (
        column
        if column.labels is None
        else replace(column, labels=tuple(x.encode() for x in labels_of(column, facts.charsets)))
        for column in table_map.columns
    )
    return replace(table_map, table_id=0, columns=tuple(columns))


def assert_both_ways(stack: Stack, table: str, *statements: str) -> None:
    """Of the rows that the last statement writes: both ways and both table maps are alike."""
    name = (DATABASE, table)
    run(stack.mysql, *statements[:-1], database=DATABASE)
    steps = written(stack.mysql, LAX, statements[-1], database=DATABASE)
    assert_same(selected(stack.mysql, name), logged(stack.mysql, steps, name))
    assert_same_map(stack.mysql, name, table_map_of(steps, name))
