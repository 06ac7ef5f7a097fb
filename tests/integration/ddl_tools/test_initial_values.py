"""What existing rows have in added columns, from DDL alone: what the same server wrote into them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.mysql.binlog.events import execution_of
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Database, Server
from connectors.mysql.ddl.parsed_statement import parse_statement
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.ddl_tools.source import server_of, steps
from tests.integration.old_mysql.source import charsets_of
from tests.steps import Rows, Statement

DATABASE = "added"
TABLE = f"{DATABASE}.t"


def definitions(text: str) -> tuple[str, ...]:
    """One on each line."""
    return tuple(text.strip().split("\n"))


NAMES = ("9.7", "8.0", "5.7", "mariadb-11.8")

NUMBERS = definitions(
    r"""
int
int NOT NULL
int DEFAULT 5
int NOT NULL DEFAULT -7
int DEFAULT '12'
int DEFAULT +3
tinyint(1) DEFAULT TRUE
tinyint unsigned NOT NULL
bigint unsigned DEFAULT 18446744073709551615
smallint DEFAULT 0x10
mediumint DEFAULT b'101'
int DEFAULT 1e3
bool NOT NULL DEFAULT 0
decimal(10,2)
decimal(10,2) NOT NULL
decimal(10,2) DEFAULT 1.5
decimal(10,2) DEFAULT '-3.25'
decimal(5) DEFAULT 7
decimal(65,30) DEFAULT 1.000000000000000000000000000001
decimal DEFAULT 9
decimal(10,2) DEFAULT 0
float DEFAULT 0.1
float NOT NULL
float(7,3) DEFAULT 1.25
float(7,2) DEFAULT 0.125
double(10,2) DEFAULT 1.005
double(15,10) DEFAULT -0.1
double DEFAULT 0.1
double NOT NULL
double DEFAULT 1e100
double DEFAULT -2
float DEFAULT 16777217
year NOT NULL
year DEFAULT 2026
year DEFAULT '1999'
year NOT NULL DEFAULT '0000'
year DEFAULT '0'
bit(1) DEFAULT b'1'
bit(10) DEFAULT b'1000000001'
bit(9) NOT NULL
bit(64) DEFAULT 18446744073709551615
bit(8) DEFAULT 'a'
bit(16) DEFAULT 0x41
bit DEFAULT NULL
"""
)
TEXTS = definitions(
    r"""
varchar(20)
varchar(20) NOT NULL
varchar(20) DEFAULT ''
varchar(20) DEFAULT 'it''s'
varchar(20) DEFAULT 'back\\slash \n line'
varchar(20) DEFAULT 5
varchar(20) DEFAULT 1.50
varchar(20) DEFAULT 007
varchar(20) DEFAULT .5
varchar(20) DEFAULT -0.0
char(5) DEFAULT 00000
varbinary(8) DEFAULT 07
varchar(20) DEFAULT 'Zoë €'
varchar(20) CHARACTER SET latin1 DEFAULT 'Zoë'
varchar(20) DEFAULT x'4142'
varchar(9) CHARACTER SET utf8mb4 DEFAULT '😀'
char(10) DEFAULT 'ab  '
char(10) NOT NULL
varchar(10) DEFAULT 'ab  '
varchar(10) CHARACTER SET ucs2 DEFAULT 'ucs'
char(4) DEFAULT _utf8'a'
varchar(10) DEFAULT 'NULL'
varchar(10) DEFAULT NULL COMMENT 'DEFAULT 5'
varchar(10) COMMENT 'x' DEFAULT 'y'
text
text NOT NULL
blob
blob NOT NULL
binary(4) DEFAULT 'ab'
binary(4) NOT NULL
varbinary(8) DEFAULT x'00ff'
varbinary(8) DEFAULT 'ab '
varbinary(8) NOT NULL
binary(3) DEFAULT 0x0102
enum('a','b') NOT NULL
enum('a','b') DEFAULT 'b'
enum('a','b')
enum('x','Y') DEFAULT 'y'
set('a','b','c') NOT NULL
set('a','b','c') DEFAULT 'c,a'
set('a','b') DEFAULT ''
set('a','b')
enum('it''s','n') NOT NULL
"""
)
TIMES = definitions(
    r"""
date
date NOT NULL
date DEFAULT '2020-02-29'
date DEFAULT '0000-00-00'
date DEFAULT 20200131
datetime
datetime NOT NULL
datetime DEFAULT '2020-01-02 03:04:05'
datetime(6) NOT NULL
datetime DEFAULT '2020-1-2 3:4:5'
datetime DEFAULT '2020-01-02'
datetime DEFAULT CURRENT_TIMESTAMP
datetime(6) DEFAULT CURRENT_TIMESTAMP(6)
datetime(3) DEFAULT NOW(3)
datetime NOT NULL DEFAULT LOCALTIMESTAMP ON UPDATE CURRENT_TIMESTAMP
datetime ON UPDATE CURRENT_TIMESTAMP
timestamp NULL
timestamp NULL DEFAULT '2020-07-02 03:04:05'
timestamp(6) NULL DEFAULT CURRENT_TIMESTAMP(6)
timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'
time
time NOT NULL
time(2) NOT NULL
time DEFAULT '12:34:56'
time DEFAULT '-838:59:59'
time DEFAULT '1:02'
"""
)
ROUNDED = definitions(
    r"""
datetime(3) DEFAULT '2020-01-02 03:04:05.6789'
timestamp(2) NOT NULL DEFAULT '2020-01-02 03:04:05.678'
datetime DEFAULT '2020-01-02 03:04:05.999999'
time(3) DEFAULT '01:02:03.4567'
"""
)
EXPRESSIONS = definitions(
    r"""
int DEFAULT (7)
varchar(20) DEFAULT ('abc')
text DEFAULT ('long')
blob DEFAULT ('bytes')
json
json NOT NULL
json DEFAULT (JSON_OBJECT())
json DEFAULT (JSON_ARRAY())
json DEFAULT (NULL)
json DEFAULT ('{"bb": [1, true, null], "a": "ë"}')
date DEFAULT (CURRENT_DATE)
date DEFAULT (CURDATE())
datetime DEFAULT (NOW())
datetime DEFAULT (UTC_TIMESTAMP())
datetime DEFAULT (CURRENT_DATE)
datetime(3) DEFAULT (UTC_DATE())
timestamp NULL DEFAULT (CURDATE())
timestamp NULL DEFAULT (UTC_TIMESTAMP())
time DEFAULT (CURRENT_DATE)
time DEFAULT (CURTIME())
time(6) DEFAULT (UTC_TIME())
datetime(6) DEFAULT (NOW())
text DEFAULT (007)
year DEFAULT ('0000')
int NOT NULL DEFAULT (0)
datetime DEFAULT (TIMESTAMP'2020-01-02 03:04:05')
date DEFAULT (DATE'2020-01-02')
"""
)
NOT_KNOWN = definitions(
    r"""
int DEFAULT (id + 1)
int DEFAULT (1 + 1)
int GENERATED ALWAYS AS (id * 2) STORED
int GENERATED ALWAYS AS (id * 2) VIRTUAL
varchar(20) DEFAULT (concat('a', 'b'))
varchar(20) DEFAULT 1e3
varchar(3) DEFAULT ('abcd')
float(5,2) DEFAULT (1234567)
date DEFAULT ('2020-13-01')
date DEFAULT (CURTIME())
datetime DEFAULT (NOW(6))
"""
)
ZONES = ("+00:00", "+05:30", "-11:00", "SYSTEM")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", [NUMBERS, TEXTS, TIMES], ids=["numbers", "texts", "times"])
def test_an_added_column_has_in_existing_rows_what_the_server_writes(
    servers: Servers, name: str, family: tuple[str, ...]
) -> None:
    wrong, known = compared(servers(name), family)
    assert (wrong, known) == ({}, len(family))


@pytest.mark.parametrize("name", ["9.7", "8.0"])
def test_an_expression_that_is_a_constant_is_known_and_no_other(
    servers: Servers, name: str
) -> None:
    assert compared(servers(name), EXPRESSIONS) == ({}, len(EXPRESSIONS))
    assert compared(servers(name), NOT_KNOWN) == ({}, 0)


def test_a_fraction_is_rounded_as_mysql_does_it(servers: Servers) -> None:
    assert compared(servers("9.7"), ROUNDED) == ({}, len(ROUNDED))


@pytest.mark.parametrize("zone", ZONES)
def test_a_time_is_that_of_the_session_that_ran_the_statement(servers: Servers, zone: str) -> None:
    before = ["SET timestamp = 1795234567.123456", f"SET time_zone = '{zone}'"]
    wrong, known = compared(servers("9.7"), TIMES, *before)
    assert (wrong, known) == ({}, len(TIMES))


@pytest.mark.parametrize("how", ["INSTANT", "INPLACE", "COPY"])
def test_each_algorithm_fills_alike(servers: Servers, how: str) -> None:
    assert compared(servers("9.7"), NUMBERS, algorithm=how) == ({}, len(NUMBERS))


CONVERTED = {
    "int DEFAULT 5": "varchar(10)",
    "varchar(10) DEFAULT '12'": "int",
    "decimal(5,2) DEFAULT 1.25": "decimal(9,3)",
    "date DEFAULT '2020-01-02'": "datetime",
    "datetime DEFAULT '2020-01-02 03:04:05'": "date",
    "enum('a','b') DEFAULT 'b'": "varchar(9)",
    "int NULL": "bigint",
    "varchar(9) DEFAULT 'ë'": "varchar(20) CHARACTER SET latin1",
    "int": "int NOT NULL",
    "varchar(9)": "varchar(20) NOT NULL",
    "binary(2)": "binary(2) NOT NULL",
    "year": "year NOT NULL DEFAULT 2020",
}
COMPUTED = {
    "enum('0','1') NOT NULL DEFAULT '1'": "tinyint NOT NULL",
    "set('1','2') DEFAULT '2'": "int",
    "int DEFAULT 1": "enum('0','1')",
    "int(5) zerofill DEFAULT 5": "varchar(10)",
    "varchar(10) DEFAULT 'abcdef'": "varchar(3)",
    "varchar(10) DEFAULT 'b'": "enum('B') COLLATE utf8mb4_bin",
    "timestamp NULL": "timestamp NOT NULL",
    "enum('a','b')": "enum('a','b') NOT NULL",
    "int DEFAULT 5": "int AS (id * 2) STORED",
    "int": "int AUTO_INCREMENT UNIQUE",
}


@pytest.mark.parametrize("name", ["9.7", "mariadb-11.8"])
def test_a_later_statement_converts_the_value_or_makes_it_unknown(
    servers: Servers, name: str
) -> None:
    for changes, known in ((CONVERTED, len(CONVERTED)), (COMPUTED, 0)):
        later = ", ".join(f"MODIFY c{n} {kind}" for n, kind in enumerate(changes.values()))
        found = compared(servers(name), tuple(changes), later=f"ALTER TABLE {TABLE} {later}")
        assert found == ({}, known)


def test_mariadb_reads_only_the_digits_of_a_text(servers: Servers) -> None:
    texts = tuple(f"varchar(9) DEFAULT '{text}'" for text in ("7", "1.5", "1e2"))
    later = f"ALTER TABLE {TABLE} MODIFY c0 int, MODIFY c1 int, MODIFY c2 int"
    assert compared(servers("9.7"), texts, later=later) == ({}, 3)
    assert compared(servers("mariadb-11.8"), texts, later=later) == ({}, 1)


def compared(
    mysql: Mysql,
    kinds: tuple[str, ...],
    *before: str,
    algorithm: str = "",
    later: str = "",
) -> tuple[dict[str, tuple[Any, Any]], int]:
    """Where ours and the server's values differ, and the number of ours that are known."""
    run(
        mysql,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    )
    added = ", ".join(f"ADD COLUMN c{n} {kind}" for n, kind in enumerate(kinds))
    how = f", ALGORITHM={algorithm}" if algorithm else ""
    made = [
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, touched int)",
        f"INSERT INTO {TABLE} VALUES (1, 1)",
        "SET sql_mode = ''",
        *before,
        f"ALTER TABLE {TABLE} {added}{how}",
        *([later] if later else []),
        f"UPDATE {TABLE} SET touched = 2",
    ]
    ours, theirs = values(mysql, made)
    wrong: dict[str, tuple[Any, Any]] = {}
    known = 0
    for n, kind in enumerate(kinds):
        found = ours[f"c{n}"]
        assert set(found) in ({"value"}, {"unknown"}), kind
        if "value" in found:
            known += 1
            if json.dumps(found["value"]) != json.dumps(theirs[f"c{n}"]):
                wrong[kind] = found["value"], theirs[f"c{n}"]
    return wrong, known


def values(mysql: Mysql, statements: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns' initial values, and those of the row as its first change has them before it."""
    server, charsets = server_of(mysql), charsets_of(mysql)
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@system_time_zone")
        server = replace(server, system_time_zone=cursor.fetchone()[0])
    catalog = Catalog(server)
    catalog.put_database(DATABASE, database_of(mysql))
    for step in steps(mysql, *statements):
        if isinstance(step, Statement):
            take(catalog, step, server, charsets)
        elif isinstance(step, Rows) and len(catalog[DATABASE, "t"].columns) > 2:
            known = {(DATABASE, "t"): catalog[DATABASE, "t"]}
            met = CapturedTables(Routes(prefix="aq"), charsets, server=server, known=known).of(
                step.table_map
            )
            assert isinstance(met, CapturedTable)
            (row,) = met.rows(step.event_type, step.body)
            ours = {one.name: one.initial for one in met.definition.columns}
            return ours, json.loads(row[0] or "")
    raise AssertionError("no row was changed")


def take(catalog: Catalog, step: Statement, server: Server, charsets: Any) -> None:
    query = step.query
    session = session_of(
        query.status,
        database=query.database,
        thread=query.thread,
        charsets=charsets,
        mariadb=server.mariadb,
    )
    statement = parse_statement(query.sql, server, session)
    catalog.apply_parsed(replace(statement, execution=execution_of(query, step.transaction.id)))


def database_of(mysql: Mysql) -> Database:
    with connected(mysql) as cursor:
        cursor.execute(
            "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
            " WHERE schema_name = %s",
            (DATABASE,),
        )
        charset, collation = cursor.fetchone()
        return Database(charset=charset, collation=collation)
