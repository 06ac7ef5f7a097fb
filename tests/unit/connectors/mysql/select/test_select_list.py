"""Columns are selected with all that their values have."""

import pytest

from tests.unit.connectors.mysql.select.tables import MARIADB, MYSQL, column, selected


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("float", "`c`"), ("double(10,2)", "`c`"), ("enum('a')", "CAST(`c` AS UNSIGNED)"),
        ("set('a')", "CAST(`c` AS UNSIGNED)"), ("bigint", "`c`"), ("decimal(5,2)", "`c`"), ("char(4)", "`c`"),
        ("binary(16)", "`c`"), ("timestamp", "`c`"), ("json", "`c`"), ("bit(3)", "`c`"), ("point", "`c`"),
    ],
)  # fmt: skip
def test_a_column_of_mysql_is_selected(kind: str, expression: str) -> None:
    assert selected(column(kind), server=MYSQL).select_list == expression


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("enum('a')", "CAST(`c` AS UNSIGNED) | 0"), ("set('a')", "CAST(`c` AS UNSIGNED) | 0"),
        ("inet4", "CAST(`c` AS BINARY(4))"), ("uuid", "CAST(`c` AS BINARY(16))"), ("vector(3)", "`c`"),
        # A definition from rows does not distinguish it from an INET6.
        ("binary(16)", "CAST(`c` AS BINARY(16))"), ("binary(8)", "`c`"), ("char(4)", "`c`"),
    ],
)  # fmt: skip
def test_a_column_of_mariadb_is_selected(kind: str, expression: str) -> None:
    assert selected(column(kind), server=MARIADB).select_list == expression


def test_columns_are_in_their_order_and_quoted() -> None:
    made = selected(column("int", "b"), column("float", "a`b"), column("int", "select"))
    assert made.select_list == "`b`, `a``b`, `select`"
