"""What rows have in an added column, and what identifies a column through renames, without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Column, Execution, Server, Session
from connectors.mysql.ddl.hidden_literals import table_without_literals
from connectors.mysql.ddl.parsed_statement import parse_statement
from tables.history.definition_json import Definitions, table_json

SERVER = Server(version=(9, 7, 0), system_time_zone="UTC")
STARTED_US = 1_795_234_567_123_456


class Played:
    """A table after statements, each executed at a known time."""

    def __init__(self, *columns: str, server: Server = SERVER, time_zone: str = "SYSTEM") -> None:
        self.catalog = Catalog(server)
        self.time_zone = time_zone
        self.marks = 0
        self.run(f"CREATE TABLE d.t ({', '.join(columns)})")

    def run(self, sql: str) -> Played:
        self.marks += 1
        statement = parse_statement(sql, self.catalog.server, Session())
        execution = Execution(mark=str(self.marks), started_us=STARTED_US, time_zone=self.time_zone)
        self.catalog.apply_parsed(replace(statement, execution=execution))
        return self

    def columns(self) -> dict[str, Column]:
        return {one.name: one for one in self.catalog["d", "t"].columns}

    def origins(self) -> dict[str, str]:
        return {one.name: one.origin for one in self.columns().values()}

    def value(self, name: str = "c") -> Any:
        return json.loads(self.columns()[name].initial or "null")


def test_only_a_column_that_a_statement_adds_has_a_value_for_existing_rows() -> None:
    played = Played("a int", "b int DEFAULT 3").run("ALTER TABLE d.t ADD c int DEFAULT 5")
    assert [one.initial for one in played.columns().values()] == ["", "", '{"value":5}']
    assert played.origins() == {"a": "", "b": "", "c": "c@2"}


def test_a_renamed_column_keeps_what_identifies_it() -> None:
    played = Played("a int", "b int", "k int")
    played.run("ALTER TABLE d.t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    assert played.origins() == {"b": "a", "a": "b", "k": ""}
    played.run("ALTER TABLE d.t CHANGE b x bigint, MODIFY k bigint, ADD b int DEFAULT 1")
    assert played.origins() == {"x": "a", "a": "b", "k": "", "b": "b@3"}
    played.run("ALTER TABLE d.t CHANGE b y int")
    assert (played.origins()["y"], played.value("y")) == ("b@3", {"value": 1})


def test_a_column_that_is_dropped_and_added_alike_is_another_one_in_the_history_too() -> None:
    played = Played("a int", "c int")
    before = played.catalog["d", "t"]
    played.run("ALTER TABLE d.t DROP c, ADD c int")
    after = played.catalog["d", "t"]
    assert played.origins() == {"a": "", "c": "c@2"}
    kept = Definitions().table(table_json(after, before), old=before)
    assert [(one.origin, one.initial) for one in kept.columns] == [
        ("", ""),
        ("c@2", '{"value":null}'),
    ]


def test_a_table_made_like_another_has_its_columns() -> None:
    played = Played("a int").run("ALTER TABLE d.t ADD c int").run("CREATE TABLE d.s LIKE d.t")
    assert [one.origin for one in played.catalog["d", "s"].columns] == ["", "c@2"]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("timestamp NULL DEFAULT CURRENT_TIMESTAMP", "2026-11-21T04:16:07Z"),
        ("datetime(6) DEFAULT NOW(6)", "2026-11-21T06:16:07.123456"),
        ("date DEFAULT (CURRENT_DATE)", "2026-11-21"),
        ("timestamp NULL DEFAULT '2020-01-02 03:04:05'", "2020-01-02T01:04:05Z"),
    ],
)
def test_a_time_is_that_of_the_statement_in_its_session(definition: str, expected: str) -> None:
    played = Played("a int", time_zone="+02:00").run(f"ALTER TABLE d.t ADD c {definition}")
    assert played.value() == {"value": expected}


def test_a_time_zone_that_is_not_known_is_not_guessed() -> None:
    system = replace(SERVER, system_time_zone="CST")
    played = Played("a int", server=system).run("ALTER TABLE d.t ADD c datetime DEFAULT NOW()")
    assert played.value() == {"unknown": "DEFAULT NOW()"}
    played.run("ALTER TABLE d.t ADD e timestamp NULL DEFAULT NOW()")
    assert played.value("e") == {"value": "2026-11-21T04:16:07Z"}


@pytest.mark.parametrize(
    "definition",
    [
        "int DEFAULT (1 + 1)", "varchar(36) DEFAULT (uuid())", "int GENERATED ALWAYS AS (a + 1) STORED",
        "int NOT NULL AUTO_INCREMENT UNIQUE", "point NOT NULL", "date DEFAULT 'tomorrow'",
        "json DEFAULT (CAST('1' AS JSON))", "varchar(9) DEFAULT _latin1'\u00e9'",
    ],
)  # fmt: skip
def test_what_is_no_constant_is_not_known_and_names_its_definition(definition: str) -> None:
    played = Played("a int").run(f"ALTER TABLE d.t ADD c {definition}")
    assert list(played.value()) == ["unknown"]
    assert played.value()["unknown"] == played.columns()["c"].definition


def test_a_value_that_a_literal_gave_is_hidden_with_the_literals() -> None:
    played = Played("a int").run(
        "ALTER TABLE d.t ADD c int DEFAULT 5, ADD n int, ADD z int NOT NULL"
    )
    hidden = table_without_literals(played.catalog["d", "t"])
    assert [one.initial for one in hidden.columns] == [
        "",
        '{"unknown":""}',
        '{"value":null}',
        '{"value":0}',
    ]
    assert [one.origin for one in hidden.columns] == ["", "c@2", "n@2", "z@2"]


def test_without_its_execution_a_statement_gives_no_value() -> None:
    catalog = Catalog(SERVER)
    for sql in ("CREATE TABLE d.t (a int)", "ALTER TABLE d.t ADD c int DEFAULT 5"):
        catalog.apply(sql, Session())
    assert [(one.origin, one.initial) for one in catalog["d", "t"].columns] == [("", ""), ("", "")]
