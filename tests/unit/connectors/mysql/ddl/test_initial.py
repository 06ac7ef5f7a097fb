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
        ("datetime DEFAULT (CURRENT_DATE)", "2026-11-21T00:00:00"),
        ("datetime(3) DEFAULT (UTC_DATE())", "2026-11-21T00:00:00.000"),
        ("timestamp NULL DEFAULT (CURDATE())", "2026-11-20T22:00:00Z"),
        ("time DEFAULT (CURRENT_DATE)", "00:00:00"),
        ("time DEFAULT (CURTIME())", "06:16:07"),
        ("time(6) DEFAULT (UTC_TIME())", "04:16:07.000000"),
        ("datetime(6) DEFAULT (NOW())", "2026-11-21T06:16:07.000000"),
        ("timestamp NULL DEFAULT (UTC_TIMESTAMP())", "2026-11-21T02:16:07Z"),
        ("timestamp NULL DEFAULT '2020-01-02 03:04:05'", "2020-01-02T01:04:05Z"),
    ],
)
def test_a_time_is_that_of_the_statement_in_its_session(definition: str, expected: str) -> None:
    played = Played("a int", time_zone="+02:00").run(f"ALTER TABLE d.t ADD c {definition}")
    assert played.value() == {"value": expected}


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("year NOT NULL DEFAULT '0000'", 0), ("year DEFAULT '0'", 2000), ("year DEFAULT ' 0000'", 2000),
        ("varchar(10) DEFAULT 007", "7"), ("varchar(10) DEFAULT .5", "0.5"), ("varchar(10) DEFAULT 5.", "5"),
        ("varchar(10) DEFAULT -0.0", "0.0"), ("char(5) DEFAULT 00000", "0"),
        ("varbinary(9) DEFAULT 07", "Nw=="),
        ("float(7,2) DEFAULT 0.125", 0.12), ("double(10,2) DEFAULT 1.005", 1.0),
        ("double(15,10) DEFAULT -0.1", -0.09999999999999998), ("float(7,3) DEFAULT 1.25", 1.25),
    ],
)  # fmt: skip
def test_a_number_is_stored_as_its_column_has_it(definition: str, expected: Any) -> None:
    played = Played("a int").run(f"ALTER TABLE d.t ADD c {definition}")
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
        "varchar(10) DEFAULT 1e3", "varbinary(10) DEFAULT 1e3", f"varchar(90) DEFAULT {'1' * 66}",
        "date DEFAULT (CURTIME())", "datetime DEFAULT (UTC_TIME())", "timestamp NULL DEFAULT (CURTIME())",
        "datetime DEFAULT (NOW(6))", "time(2) DEFAULT (CURTIME(3))", "date DEFAULT (NOW(6))",
        "float(5,2) DEFAULT (1234567)", "float DEFAULT (1e39)", "double DEFAULT (1e309)", "double DEFAULT '-0'",
        "float unsigned DEFAULT (-1)", "decimal(5,2) unsigned DEFAULT (-1)", "varchar(3) DEFAULT ('abcd')",
        "varbinary(3) DEFAULT (x'01020304')", "date DEFAULT ('2020-13-01')", "date DEFAULT ('2020-02-30')",
        "datetime DEFAULT ('2020-01-02 25:00:00')",
    ],
)  # fmt: skip
def test_what_is_no_constant_is_not_known_and_names_its_definition(definition: str) -> None:
    played = Played("a int").run(f"ALTER TABLE d.t ADD c {definition}")
    assert list(played.value()) == ["unknown"]
    assert played.value()["unknown"] == played.columns()["c"].definition


def test_mariadb_has_its_own_fraction_for_a_time_of_another_length() -> None:
    mariadb = Server(version=(11, 8, 2), mariadb=True, system_time_zone="UTC")
    played = Played("a int", server=mariadb).run("ALTER TABLE d.t ADD c datetime(6) DEFAULT NOW()")
    assert played.value() == {"unknown": "DEFAULT NOW()"}


@pytest.mark.parametrize(
    ("definition", "later", "expected"),
    [
        ("int", "MODIFY c int NOT NULL", 0), ("varchar(9)", "MODIFY c varchar(20) NOT NULL", ""),
        ("binary(2)", "MODIFY c binary(2) NOT NULL", "AAA="), ("year", "MODIFY c year NOT NULL", 0),
        ("int", "DROP PRIMARY KEY, ADD PRIMARY KEY (c)", 0), ("int NOT NULL", "MODIFY c int", 0),
        ("int DEFAULT 5", "ALTER c SET DEFAULT 6", 5), ("int DEFAULT 5", "MODIFY c int DEFAULT 6", 5),
        ("int DEFAULT 5", "MODIFY c int COMMENT 'AUTO_INCREMENT'", 5),
        ("varchar(9) DEFAULT 'ab'", "MODIFY c varchar(2)", "ab"),
        ("enum('a','b') DEFAULT 'b'", "MODIFY c text", "b"),
        ("enum('a','b') DEFAULT 'b'", "MODIFY c set('b','c')", "b"),
        ("char(5) DEFAULT 'a'", "CONVERT TO CHARACTER SET ascii", "a"),
    ],
)  # fmt: skip
def test_a_later_statement_gives_existing_rows_another_value(
    definition: str, later: str, expected: Any
) -> None:
    played = Played("id int PRIMARY KEY").run(f"ALTER TABLE d.t ADD c {definition}")
    assert played.run(f"ALTER TABLE d.t {later}").value() == {"value": expected}


@pytest.mark.parametrize(
    ("definition", "later"),
    [
        ("enum('a','b')", "MODIFY c enum('a','b') NOT NULL"), ("date", "MODIFY c date NOT NULL"),
        ("timestamp NULL", "MODIFY c timestamp NOT NULL"), ("json", "MODIFY c json NOT NULL"),
        ("int DEFAULT 5", "MODIFY c int AS (id * 2) STORED"), ("int", "MODIFY c int AS (id * 2)"),
        ("int", "MODIFY c int AUTO_INCREMENT UNIQUE"), ("int DEFAULT 5", "MODIFY c int AUTO_INCREMENT UNIQUE"),
        ("enum('0','1') DEFAULT '1'", "MODIFY c tinyint"), ("set('1','2') DEFAULT '2'", "MODIFY c int"),
        ("int DEFAULT 1", "MODIFY c enum('0','1')"), ("decimal(5) DEFAULT 1", "MODIFY c set('0','1')"),
        ("int(5) zerofill DEFAULT 5", "MODIFY c varchar(10)"),
        ("decimal(6,2) zerofill DEFAULT 5", "MODIFY c text"),
        ("varchar(10) DEFAULT 'abcdef'", "MODIFY c varchar(3)"), ("char(10) DEFAULT 'abc'", "MODIFY c char(2)"),
        ("tinytext DEFAULT ('ë')", "CONVERT TO CHARACTER SET ascii"),
        ("int DEFAULT -5", "MODIFY c decimal(5,2) unsigned"),
        ("varchar(9) DEFAULT 'b'", "MODIFY c enum('B') COLLATE utf8mb4_bin"),
    ],
)  # fmt: skip
def test_a_value_that_a_later_statement_computes_is_not_known(definition: str, later: str) -> None:
    played = Played("id int PRIMARY KEY").run(f"ALTER TABLE d.t ADD c {definition}")
    assert list(played.run(f"ALTER TABLE d.t {later}").value()) == ["unknown"]


@pytest.mark.parametrize(("text", "expected"), [("1.5", None), ("1e2", None), (" -7 ", -7)])
def test_mariadb_reads_only_the_digits_of_a_text(text: str, expected: int | None) -> None:
    mariadb = Server(version=(11, 8, 2), mariadb=True, system_time_zone="UTC")
    played = Played("id int", server=mariadb).run(
        f"ALTER TABLE d.t ADD c varchar(9) DEFAULT '{text}'"
    )
    assert played.run("ALTER TABLE d.t MODIFY c int").value().get("value") == expected


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
