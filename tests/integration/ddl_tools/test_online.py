"""The real statements of tools that change tables online, on a real server, with rows written meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Session, Table, TableName
from connectors.mysql.ddl.online import (
    Logical,
    Noise,
    OnlineAlter,
    ShadowRules,
    TableMovedAway,
    logical,
)
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.schema.definition_check import completed_map, differences
from devstack.mysql import Mysql
from tests.golden.load import steps_of
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.ddl_tools.sequences import AFTER, BEGIN, SEQUENCES, TWO_STEPS, Step
from tests.integration.ddl_tools.source import server_of, table_of
from tests.integration.old_mysql.source import charsets_of
from tests.integration.worker.source import end_of
from tests.steps import Rows, Statement

SERIES = ["9.7", "8.0", "5.7", "mariadb-11.8"]
ORDERS = ("osc", "orders")


def play(mysql: Mysql, steps: tuple[Step, ...]) -> None:
    """Send each statement through its own session; one that waits is sent beside the next ones."""
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=1) as beside:
        cursors: dict[str, Any] = {
            name: stack.enter_context(connected(mysql, database="osc"))
            for name in ("tool", "lock", "app")
        }
        waiting: list[Future[Any]] = []
        for step in steps:
            if step.session == "app":
                while waiting:
                    waiting.pop().result(timeout=60)
            cursor = cursors[step.session]
            if step.waits:
                waiting.append(beside.submit(cursor.execute, step.sql))
                _until_waiting(mysql, waiting[-1])
            else:
                cursor.execute(step.sql)


def _until_waiting(mysql: Mysql, statement: Future[Any]) -> None:
    with connected(mysql) as cursor:
        while not statement.done():
            cursor.execute("SHOW PROCESSLIST")
            if any("metadata lock" in (row[6] or "") for row in cursor.fetchall()):
                return


@dataclass(slots=True)
class Reader:
    """A subscriber's records of a binlog: the catalog follows it, shadow tables are omitted."""

    mysql: Mysql
    catalog: Catalog
    rules: ShadowRules = field(default_factory=ShadowRules)
    last: dict[TableName, Table] = field(default_factory=dict)
    described: list[Logical] = field(default_factory=list)
    rows: list[tuple[Any, Any]] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    disagreements: list[str] = field(default_factory=list)

    def read(self, steps: Iterator[Rows | Statement]) -> None:
        for step in steps:
            self.statement(step) if isinstance(step, Statement) else self.row(step)

    def statement(self, step: Statement) -> None:
        changes = self.catalog.apply(step.query.sql, Session(database=step.query.database))
        self.described += logical(changes, self.rules, known=self.catalog, before=self.last.get)
        self.last |= dict(self.catalog.items())

    def row(self, step: Rows) -> None:
        mapped, charsets = step.table_map, charsets_of(self.mysql)
        name = (mapped.database, mapped.table)
        table, server = self.catalog[name], self.catalog.server
        self.disagreements += differences(mapped, table, charsets, server=server)
        if self.rules.shadow(name, self.catalog) is not None:
            self.skipped.add(mapped.table)
            return
        assert name == ORDERS
        mapped = completed_map(mapped, table, charsets, server=server)
        for change in RowDecoder(mapped, charsets).decode(step.event_type, step.body):
            self.rows.append((key(change.before), key(change.after)))


def key(image: Any) -> Any:
    return None if image is None else image[0]


def steps_between(
    mysql: Mysql, begin: Any, end: Any, *, mariadb: bool
) -> Iterator[Rows | Statement]:
    for step in steps_of(
        mysql.data / end.file, charsets_of(mysql), begin=begin.pos, end=end.pos, mariadb=mariadb
    ):
        if isinstance(step, Rows | Statement):
            yield step


# Spirit renames what it has locked, which MySQL lets it since 8.0.13.
RUNS = [
    (name, series)
    for name in SEQUENCES
    for series in SERIES
    if name != "Spirit" or series in ("9.7", "8.0")
]


@pytest.mark.parametrize(("name", "series"), RUNS)
def test_a_table_changed_online_is_altered_once_and_no_shadow_is_seen(
    servers: Servers, series: str, name: str
) -> None:
    mysql = servers(series)
    run(mysql, "DROP DATABASE IF EXISTS osc")
    begin = end_of(mysql)
    run(mysql, *BEGIN)
    play(mysql, SEQUENCES[name])
    end = end_of(mysql)
    assert begin.file == end.file
    server = server_of(mysql)
    reader = Reader(mysql=mysql, catalog=Catalog(server))
    reader.read(steps_between(mysql, begin, end, mariadb=server.mariadb))

    assert reader.disagreements == []
    after = reader.catalog[ORDERS]
    present = table_of(mysql, *ORDERS)
    assert comparable(after) == comparable(present)
    assert [column.name for column in after.columns] == [*AFTER]
    alters = [each for each in reader.described if isinstance(each, OnlineAlter)]
    assert [(alter.name, alter.new) for alter in alters] == [(ORDERS, after)]
    asides = [each for each in reader.described if isinstance(each, TableMovedAway)]
    assert len(asides) == (name in TWO_STEPS)
    others = [
        each
        for each in reader.described
        if not isinstance(each, OnlineAlter | TableMovedAway | Noise)
    ]
    # The database and the table are made before the tool begins.
    assert len(others) == 2
    updated = [] if name == "LHM" else [(2, 2)]
    inserted = [(None, 1), (None, 2), (None, 3), (None, 4)]
    assert reader.rows == [*inserted, *updated, (3, None), (None, 5), (1, None)]
    assert reader.skipped >= {alter.shadow[1] for alter in alters}


def comparable(table: Table) -> list[tuple[object, ...]]:
    return [
        (c.name, c.type, c.nullable, c.charset, c.collation, c.generated, c.invisible)
        for c in table.columns
    ] + [table.primary_key]
