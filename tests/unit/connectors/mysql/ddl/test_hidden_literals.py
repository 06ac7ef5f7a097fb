"""Statements without their literals: none remains that may be data, and all that makes a type does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Column, Database, Index, Server, Session, Table
from connectors.mysql.ddl.hidden_literals import (
    query_without_literals,
    table_without_literals,
    without_literals,
)

MYSQL = Server(version=(8, 4, 0))
CORPUS = Path(__file__).parents[4] / "integration/ddl/corpus"


def hidden(sql: str, *modes: str) -> str | None:
    return without_literals(sql, MYSQL, Session(sql_mode=frozenset(modes)))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE t ALTER c SET DEFAULT 'x'", "ALTER TABLE t ALTER c SET DEFAULT '?'"),
        ("CREATE TABLE t (a int DEFAULT -5 COMMENT \"x\")", "CREATE TABLE t (a int DEFAULT -0 COMMENT '?')"),
        ("ALTER TABLE t ADD b bit(3) DEFAULT b'101'", "ALTER TABLE t ADD b bit(3) DEFAULT '?'"),
        ("ALTER TABLE t ADD b blob DEFAULT (0xCAFE), ADD c char(3) DEFAULT N'x'",
         "ALTER TABLE t ADD b blob DEFAULT ('?'), ADD c char(3) DEFAULT '?'"),
        ("CREATE TABLE t (e enum('a','b') DEFAULT 'a', s set('c'))",
         "CREATE TABLE t (e enum('a','b') DEFAULT '?', s set('c'))"),
        ("CREATE TABLE t (d decimal(10,2), x double precision(9,3), v text(70000), p point SRID 4326)",
         "CREATE TABLE t (d decimal(10,2), x double precision(9,3), v text(70000), p point SRID 4326)"),
        ("CREATE TABLE t (a text CHARACTER SET 'latin1' COLLATE = \"latin1_bin\") ENGINE 'InnoDB'",
         "CREATE TABLE t (a text CHARACTER SET 'latin1' COLLATE = \"latin1_bin\") ENGINE 'InnoDB'"),
        ("CREATE TABLE t (a text, KEY k (a(10)), PRIMARY KEY (b(5) DESC), KEY ((abs(1234))), CHECK (f(77)))",
         "CREATE TABLE t (a text, KEY k (a(10)), PRIMARY KEY (b(5) DESC), KEY ((abs(0))), CHECK (f(0)))"),
        ("CREATE INDEX i ON t (a(10))", "CREATE INDEX i ON t (a(10))"),
        ("ALTER TABLE t AUTO_INCREMENT = 77, COMMENT 'x'", "ALTER TABLE t AUTO_INCREMENT = 0, COMMENT '?'"),
        ("ALTER TABLE t PARTITION BY LIST (a) (PARTITION p VALUES IN (7, 8))",
         "ALTER TABLE t PARTITION BY LIST (a) (PARTITION p VALUES IN (0, 0))"),
        ("ALTER TABLE t ADD CHECK (a <> CHAR(72,105) AND b > YEAR(19991231) AND c > DATE('1999-12-31'))",
         "ALTER TABLE t ADD CHECK (a <> CHAR(0,0) AND b > YEAR(0) AND c > DATE('?'))"),
        ("ALTER TABLE t /* x */ DROP c -- x\n# x", "ALTER TABLE t DROP c"),
        ("/*!50100 ALTER TABLE t ALTER c SET DEFAULT 'x' */", "ALTER TABLE t ALTER c SET DEFAULT '?'"),
        ("ALTER TABLE `it's` ADD t timestamp(6) DEFAULT CURRENT_TIMESTAMP(6)",
         "ALTER TABLE `it's` ADD t timestamp(6) DEFAULT CURRENT_TIMESTAMP(6)"),
        ("CREATE USER u IDENTIFIED BY 'x'", "CREATE USER u IDENTIFIED BY '?'"),
    ],
)  # fmt: skip
def test_literals_are_hidden_but_for_those_of_types_keys_and_character_sets(
    sql: str, expected: str
) -> None:
    assert hidden(sql) == expected


def test_a_text_ends_where_the_session_has_it_end() -> None:
    sql = r"ALTER TABLE t COMMENT 'a\', ALTER c SET DEFAULT 'canary'"
    assert (
        hidden(sql, "NO_BACKSLASH_ESCAPES") == "ALTER TABLE t COMMENT '?', ALTER c SET DEFAULT '?'"
    )
    assert hidden(sql) is None
    assert hidden('ALTER TABLE "t" COMMENT "x"', "ANSI_QUOTES") == 'ALTER TABLE "t" COMMENT "x"'


def test_a_query_whose_texts_may_end_elsewhere_is_hidden_whole() -> None:
    assert query_without_literals(r"INSERT INTO t VALUES ('a\', 'canary')", MYSQL) is None
    assert query_without_literals("INSERT INTO t VALUES ('open", MYSQL) is None
    assert query_without_literals("INSERT INTO t VALUES (" + "1," * 40_000 + "1)", MYSQL) is None
    assert (
        query_without_literals(
            "UPDATE t SET a='x''y', b = \"x\", c=CAST(15 AS CHAR(7)) -- x", MYSQL
        )
        == "UPDATE t SET a='?', b = '?', c=CAST(0 AS CHAR(0))"
    )


def test_a_definition_keeps_its_types_and_the_prefixes_of_keys() -> None:
    column = Column(name="a", type="enum('x')", nullable=True, definition="DEFAULT 'x' COMMENT 'x'")
    table = Table(
        columns=(column,),
        indexes=(
            Index(
                name="k", columns=("a", ""), parts=("(10) DESC", "(abs(77))"), options="COMMENT 'x'"
            ),
        ),
        charset="utf8mb4",
        collation="utf8mb4_bin",
        options="ENGINE=InnoDB COMMENT='x'",
    )
    found = table_without_literals(table)
    assert found.columns[0].type == "enum('x')"
    assert found.columns[0].definition == "DEFAULT '?' COMMENT '?'"
    assert found.indexes[0].parts == ("(10) DESC", "(abs(0))")
    assert found.indexes[0].options == "COMMENT '?'"
    assert found.options == "ENGINE=InnoDB COMMENT='?'"


def test_statements_of_the_corpus_have_the_same_effect_on_columns_without_their_literals() -> None:
    compared = 0
    for file in sorted(CORPUS.glob("*.sql")):
        compared += _compared(file.read_text())
    assert compared > 300


def _compared(text: str) -> int:
    """The number of statements that were applied to both; a query's columns depend on its literals."""
    pair, count = (Catalog(MYSQL), Catalog(MYSQL)), 0
    for catalog in pair:
        catalog.put_database("d", Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci"))
    database = "d"
    for sql in filter(None, (one.strip() for one in text.split(";\n"))):
        sql = "\n".join(line for line in sql.splitlines() if not line.startswith("#:"))
        if sql.upper().startswith("USE "):
            database = sql[4:].strip("`; ")
        session = Session(database=database)
        other = without_literals(sql, MYSQL, session)
        # 1e5 is a name there.
        if other is None or "SELECT" in other.upper() or "ADD 1e5 " in sql:
            continue
        outcomes = [_outcome(pair[0], sql, session), _outcome(pair[1], other, session)]
        assert outcomes[0] == outcomes[1], sql
        count += 1
    return count


def _outcome(catalog: Catalog, sql: str, session: Session) -> object:
    """The columns and keys after a statement, as far as rows depend on them."""
    try:
        changes = catalog.apply(sql, session)
    except DdlUnresolved:
        return None
    return [
        (
            one.name,
            table and [replace(column, definition="") for column in table.columns],
            table and [(i.name, i.columns, i.unique, i.prefixed) for i in table.indexes],
        )
        for one in changes
        for one_new in (one.new,)
        for table in (one_new if isinstance(one_new, Table) else None,)
    ]  # fmt: skip
