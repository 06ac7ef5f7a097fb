"""The ``column_type`` of a schemas record, from DDL alone: what the same server prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.errors import DdlUnresolved
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.types.type_spec import TypeSpec
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.ddl import type_cases
from tests.integration.ddl_tools.source import LEVELS, recording_metadata, server_of, steps
from tests.integration.ddl_tools.test_witness import shapes
from tests.integration.old_mysql.source import charsets_of
from tests.steps import Rows, Statement
from wire.table_version import Column

DATABASE = "witness"
_AT_ONCE = 60
_LONGEST = 255
"""Longer text and bytes fill a row, and are printed alike."""
CASES = [(name, levels[-1]) for name, levels in LEVELS.items()]
"""A server with minimal metadata; the witness's tests show that rows without it are read alike."""


def accepted(server: Server) -> list[str]:
    """Every type with every argument that the server takes, as far as the model knows."""
    cases: list[TypeSpec] = [
        *type_cases.names(), *type_cases.numbers(), *type_cases.others(), *type_cases.labels(),
        *(type_cases.of_mariadb() if server.mariadb else ()),
    ]  # fmt: skip
    found = []
    short = (one for one in cases if all(size <= _LONGEST for size in one.arguments))
    for sql in dict.fromkeys(map(type_cases.written, short)):
        catalog = Catalog(server)
        try:
            catalog.apply(f"CREATE TABLE d.t (c {sql})", Session())
        except DdlUnresolved:
            continue
        (column,) = catalog["d", "t"].columns
        # SERIAL has a key, of which a table can have one.
        if not column.definition.startswith("AUTO_INCREMENT"):
            found.append(sql)
    return found


def tables(mysql: Mysql, name: str) -> Iterator[tuple[str, list[str]]]:
    """Tables of all types and shapes, each with the statements that make it and write a row."""
    kinds = accepted(server_of(mysql))
    for begin in range(0, len(kinds), _AT_ONCE):
        columns = ",".join(
            f"c{n} {sql} NULL" for n, sql in enumerate(kinds[begin : begin + _AT_ONCE])
        )
        table = f"types_{begin}"
        made = f"CREATE TABLE {DATABASE}.{table} ({columns}) CHARACTER SET utf8mb4"
        yield table, ["SET sql_mode = ''", made, f"INSERT INTO {DATABASE}.{table} () VALUES ()"]
    yield from ((shape, made) for shape, made in shapes(name) if shape != "null_byte")


def published(mysql: Mysql, table: str, statements: list[str]) -> list[Column]:
    """The columns of the version that the rows get."""
    server, charsets = server_of(mysql), charsets_of(mysql)
    catalog = Catalog(server)
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@collation_server")
        catalog.apply(f"CREATE DATABASE {DATABASE} COLLATE {cursor.fetchone()[0]}", Session())
    version = None
    for step in steps(mysql, *statements):
        if isinstance(step, Statement):
            status, query = step.query.status, step.query
            session = session_of(
                status, database=query.database, thread=query.thread, charsets=charsets
            )
            catalog.apply(query.sql, session)
        elif isinstance(step, Rows):
            known = {(DATABASE, table): catalog[DATABASE, table]}
            book = CapturedTables(Routes(prefix="aq"), charsets, server=server, known=known)
            met = book.of(step.table_map)
            assert isinstance(met, CapturedTable)
            version = met.definition
    assert version is not None
    return list(version.columns)


def printed(mysql: Mysql, table: str) -> dict[str, str]:
    with connected(mysql) as cursor:
        cursor.execute(
            "SELECT column_name, column_type FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s",
            (DATABASE, table),
        )
        return {
            name: kind.decode() if isinstance(kind, bytes) else kind
            for name, kind in cursor.fetchall()
        }


@pytest.mark.parametrize(("name", "level"), CASES)
def test_the_column_types_of_a_version_are_those_that_the_server_prints(
    servers: Servers, name: str, level: str
) -> None:
    mysql = servers(name)
    run(mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    wrong: dict[str, object] = {}
    seen: set[str] = set()
    with recording_metadata(mysql, level):
        for table, statements in tables(mysql, name):
            ours = {one.name: one.column_type for one in published(mysql, table, statements)}
            theirs = printed(mysql, table)
            seen |= set(theirs.values())
            # What the server keeps for itself is in rows and in no list.
            wrong |= {
                f"{table}.{column}": (kind, ours.get(column))
                for column, kind in theirs.items()
                if ours.get(column) != kind
            }
            wrong |= {
                f"{table}.{one}": kind for one, kind in ours.items() if kind and one not in theirs
            }
    assert wrong == {}
    assert len(seen) > 100
    assert {"tinyint(1)", "float(5,2)", "int(5) unsigned zerofill"} <= seen
