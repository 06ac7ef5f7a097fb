"""The tables that a statement writes: a corpus of applications' and tools' statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.dml import is_tools_own, written_tables

SERVER = Server(version=(8, 4, 0))
TOOLS = (
    "Amazon",
    "Google",
    "Azure",
    "Alibaba",
    "pt-table-checksum",
    "pt-heartbeat",
    "Orchestrator",
)


def corpus() -> list[tuple[str, str | None, set[str] | None, str]]:
    """Section, default database, tables (None: not certain) and statement of each paragraph."""
    found, section = [], ""
    for part in Path(__file__).with_name("corpus.sql").read_text().split("\n\n"):
        if part.startswith("##"):
            section = part.strip("# \n")
        elif not part.startswith("#"):
            head, _, sql = part.strip("\n").partition("\n")
            database, *tables = head.split()
            names = None if tables == ["?"] else set(tables)
            found.append((section, None if database == "-" else database, names, sql))
    return found


CORPUS = corpus()


@pytest.mark.parametrize(("section", "database", "tables", "sql"), CORPUS)
def test_a_statement_names_the_tables_that_it_writes_or_is_not_certain(
    section: str, database: str | None, tables: set[str] | None, sql: str
) -> None:
    server = Server(version=(10, 11, 0), mariadb=True) if "SET STATEMENT" in sql else SERVER
    session = Session(database=database)
    assert kind_of(sql) is Kind.CHANGE
    if tables is None:
        with pytest.raises(ValueError):  # noqa: PT011 - of two kinds, each with words of its own
            written_tables(sql, server, session)
        return
    names = written_tables(sql, server, session)
    assert {".".join(name) for name in names} == tables
    if section.startswith(TOOLS):
        assert all(map(is_tools_own, names))


def test_the_sql_mode_says_what_quotes_mean() -> None:
    sql = 'INSERT INTO "shop"."orders" VALUES ("it")'
    ansi = Session(sql_mode=frozenset({"ANSI_QUOTES"}))
    assert written_tables(sql, SERVER, ansi) == {("shop", "orders")}
    with pytest.raises(ValueError, match="expected"):
        written_tables(sql, SERVER, Session())


def test_no_name_is_certain_where_a_word_alone_may_call_a_function() -> None:
    with pytest.raises(ValueError, match="ORACLE"):
        written_tables(
            "INSERT INTO a.t VALUES (1)", SERVER, Session(sql_mode=frozenset({"ORACLE"}))
        )


@pytest.mark.parametrize("name", [("shop", "checksums"), ("mysql", "user"), ("mysql", "x.rds_y")])
def test_other_tables_are_no_tools_own(name: tuple[str, str]) -> None:
    assert not is_tools_own(name)
