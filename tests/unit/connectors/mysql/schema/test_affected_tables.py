"""The tables that a statement may have changed."""

import pytest

from connectors.mysql.binlog.events import Query
from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.schema.baseline import (
    affected_tables,
    mentioned,
    parsed,
    sets_defaults,
)

SERVER = Server(version=(8, 0, 36))
NAMES: set[TableName] = {("shop", "orders"), ("shop", "order"), ("old", "orders"), ("a`b", "c")}


def query(sql: str, database: str | None = "shop") -> Query:
    return Query(thread=1, database=database, sql=sql, sql_mode=0, error_code=0)


def found(sql: str, database: str | None = "shop") -> set[TableName]:
    one = query(sql, database)
    return affected_tables(one, parsed(one, SERVER), NAMES)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("ALTER TABLE orders ADD COLUMN old int", {("shop", "orders")}),
        ("alter table Old.orders add a int", {("Old", "orders")}),
        ("RENAME TABLE orders TO old.passing", {("shop", "orders"), ("old", "passing")}),
        ("DROP TABLE IF EXISTS `orders`, never", {("shop", "orders"), ("shop", "never")}),
        ("DROP DATABASE shop", {("shop", "orders"), ("shop", "order")}),
        ("CREATE VIEW v AS SELECT * FROM orders", set()),
    ],
)
def test_a_statement_touches_the_tables_it_names(sql: str, tables: set[TableName]) -> None:
    assert found(sql) == tables


def test_one_that_is_not_understood_touches_all_that_it_mentions() -> None:
    assert found("ALTER TABLE orders FROBNICATE ((") >= {("shop", "orders"), ("shop", "order")}
    assert ("old", "orders") not in found("ALTER TABLE orders FROBNICATE ((")
    assert ("old", "orders") in found("ALTER TABLE old.orders FROBNICATE ((", None)


@pytest.mark.parametrize("quoted", ["`A``B`.`C`", '"a`b"."c"', "a`b c"])
def test_a_name_is_found_however_it_is_quoted(quoted: str) -> None:
    assert mentioned(query(f"FROBNICATE {quoted}", None), NAMES) == {("a`b", "c")}


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER DATABASE shop CHARACTER SET latin1", True),
        ("CREATE SCHEMA x", True),
        ("ALTER TABLE orders FROBNICATE ((", True),
        ("ALTER TABLE orders ADD a int", False),
    ],
)
def test_statements_on_databases_change_what_later_tables_take(sql: str, wanted: bool) -> None:
    assert sets_defaults(parsed(query(sql), SERVER)) is wanted
