"""A baseline's definition is sufficient to recreate a table, with any columns and keys."""

from typing import Any, cast

import pytest
from pymysql.cursors import Cursor

from connectors.mysql.ddl.definition import Table
from connectors.mysql.ddl.show_create import create_table
from connectors.mysql.schema.baseline import read_baseline
from connectors.mysql.schema.information_schema import InventoryReader
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.baseline.conftest import SERIES
from tests.integration.baseline.shapes import tables
from tests.integration.worker.source import address_of, facts_of

FIRST, AGAIN = "told", "told_again"


class Asked:
    """A cursor that counts what it is asked."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor, self.count = cursor, 0

    def execute(self, sql: str, arguments: object = None) -> Any:
        self.count += 1
        return self._cursor.execute(sql, arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def emptied(mysql: Mysql, *databases: str) -> None:
    for name in databases:
        run(mysql, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")


def described(mysql: Mysql, database: str) -> dict[str, Table]:
    found = read_baseline(address_of(mysql), facts_of(mysql))
    assert not found.unseen
    return {table: one for (name, table), one in found.tables.items() if name == database}


@pytest.mark.parametrize("series", SERIES)
def test_a_table_recreated_from_its_definition_has_the_same_definition(
    servers: Servers, series: str
) -> None:
    mysql = servers(series)
    emptied(mysql, FIRST, AGAIN)
    session = ["SET SESSION sql_mode = ''"]
    if series == "9.7":
        session.append("SET SESSION sql_generate_invisible_primary_key = ON")
    made = [f"CREATE TABLE {FIRST}.{name} {body}" for name, body in tables(series)]
    run(mysql, *session, *made)
    first = described(mysql, FIRST)
    assert len(first) == len(made)
    rebuilt = [create_table((AGAIN, name), table) for name, table in first.items()]
    run(mysql, "SET SESSION sql_mode = ''", *rebuilt)
    assert described(mysql, AGAIN) == first


def test_any_number_of_tables_takes_the_same_few_queries(servers: Servers) -> None:
    mysql = servers("9.7")
    counts = []
    for count in (1, 40):
        emptied(mysql, FIRST)
        run(
            mysql, *(f"CREATE TABLE {FIRST}.t{n} (a int PRIMARY KEY, b text)" for n in range(count))
        )
        server = read_baseline(address_of(mysql), facts_of(mysql)).server
        with connected(mysql) as cursor:
            asked = Asked(cursor)
            found = InventoryReader(cast(Cursor, asked), server).all()
        assert sum(database == FIRST for database, _ in found.tables) == count
        counts.append(asked.count)
    assert counts[0] == counts[1] < 10


def test_equal_columns_are_one_object(servers: Servers) -> None:
    mysql = servers("9.7")
    emptied(mysql, FIRST)
    run(mysql, *(f"CREATE TABLE {FIRST}.t{n} (a int PRIMARY KEY, b text)" for n in range(2)))
    first, second = described(mysql, FIRST).values()
    assert first.columns[1] is second.columns[1]


def test_a_mariadb_sequence_is_described_as_the_table_of_its_rows(servers: Servers) -> None:
    mysql = servers("mariadb-11.8")
    emptied(mysql, FIRST)
    run(mysql, f"CREATE SEQUENCE {FIRST}.s", f"CREATE VIEW {FIRST}.v AS SELECT 1 AS a")
    (found,) = described(mysql, FIRST).items()
    assert found[0] == "s"
    assert [column.name for column in found[1].columns][:2] == [
        "next_not_cached_value",
        "minimum_value",
    ]


@pytest.mark.parametrize("series", SERIES)
def test_a_view_is_listed_by_name_and_not_as_a_table(servers: Servers, series: str) -> None:
    mysql = servers(series)
    emptied(mysql, FIRST, AGAIN)
    run(
        mysql,
        f"CREATE TABLE {FIRST}.t (a int)",
        f"CREATE VIEW {FIRST}.v AS SELECT a FROM {FIRST}.t",
        f"CREATE VIEW {FIRST}.broken AS SELECT a FROM {FIRST}.t",
        f"DROP TABLE {FIRST}.t",
        f"CREATE VIEW {AGAIN}.gone AS SELECT 1 AS a",
        f"DROP DATABASE {AGAIN}",
    )
    found = read_baseline(address_of(mysql), facts_of(mysql))
    assert {name for name in found.views if name[0] in (FIRST, AGAIN)} == {
        (FIRST, "v"),
        (FIRST, "broken"),
    }
    assert not [name for name in found.tables if name[0] == FIRST]


def test_each_database_is_described_with_the_defaults_of_its_tables(servers: Servers) -> None:
    mysql = servers("9.7")
    run(mysql, "DROP DATABASE IF EXISTS d1", "CREATE DATABASE d1 COLLATE latin1_bin")
    found = read_baseline(address_of(mysql), facts_of(mysql)).databases
    assert (found["d1"].charset, found["d1"].collation) == ("latin1", "latin1_bin")
    assert not {"mysql", "sys", "information_schema", "performance_schema"} & found.keys()
