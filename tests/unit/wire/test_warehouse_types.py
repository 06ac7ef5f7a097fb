"""The types of the warehouse: each value stays exact."""

import pytest

from wire.warehouse_types import warehouse_type, widened


@pytest.mark.parametrize(
    ("column_type", "found"),
    [
        ("bigint(20) unsigned", "decimal(20,0)"),
        ("int(5) unsigned zerofill", "bigint"),
        ("decimal(65,30) unsigned", "string"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("enum('a(1)','unsigned')", "string"),
        ("inet6", None),
        ("()", None),
    ],
)
def test_a_column_of_a_type_has_one_type_or_none(column_type: str, found: str | None) -> None:
    assert warehouse_type(column_type) == found


@pytest.mark.parametrize(
    ("held", "wanted", "result"),
    [
        ("int", "int", "int"),
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("int", "decimal(20,0)", "decimal(20,0)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("decimal(20,0)", "bigint", "decimal(20,0)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("int", "decimal(5,0)", "int"),
        ("decimal(5,0)", "int", "decimal(10,0)"),
        ("bigint", "decimal(19,0)", "decimal(20,0)"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(12,4)", "decimal(10,2)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("float", "double", "double"),
        ("double", "float", "double"),
        ("int", "double", "double"),
        ("bigint", "double", None),
        ("double", "decimal(10,2)", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp", None),
        ("int", "string", None),
        ("string", "int", None),
        ("binary", "string", None),
    ],
)
def test_a_type_is_widened_only_where_every_old_and_new_value_stays_exact(
    held: str, wanted: str, result: str | None
) -> None:
    assert widened(held, wanted) == result
