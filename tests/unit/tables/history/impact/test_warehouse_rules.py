"""The stated rules of the sink, compared with the sink's behaviour."""

from itertools import product

import pytest

from spark_sink.errors import UnsupportedType
from spark_sink.source.mysql_types import reading
from spark_sink.source.mysql_types import widened as sinks_widened
from spark_sink.source.schemas import OWN_COLUMNS
from spark_sink.wire.names import table_path
from tables.history.impact.warehouse_rules import RESERVED, warehouse_path, warehouse_type, widened

TYPES = [
    *(f"{name}{sign}" for name in ("tinyint", "smallint", "mediumint", "int", "bigint")
      for sign in ("", " unsigned", "(5) unsigned zerofill")),
    *(f"decimal({p},{s}){sign}" for p, s in ((1, 0), (9, 0), (9, 2), (10, 0), (12, 2), (18, 0), (19, 0),
      (20, 0), (20, 10), (38, 0), (38, 38), (39, 0), (65, 30)) for sign in ("", " unsigned")),
    "float", "double", "float(7,3) unsigned", "year", "bit(1)", "bit(64)", "date", "time", "time(6)",
    "datetime", "datetime(3)", "timestamp", "timestamp(6)", "char(3)", "varchar(80)", "tinytext", "text",
    "mediumtext", "longtext", "binary(4)", "varbinary(16)", "tinyblob", "blob", "mediumblob", "longblob",
    "json", "enum('a','b')", "enum('a(1)','unsigned')", "set('x')", "geometry", "point", "geomcollection",
    "multipolygon", "vector(3)",
]  # fmt: skip


@pytest.mark.parametrize("column_type", TYPES)
def test_a_column_has_the_type_that_the_sink_gives_it(column_type: str) -> None:
    assert warehouse_type(column_type) == reading(column_type).type


def test_a_type_that_the_sink_does_not_know_is_not_known() -> None:
    with pytest.raises(UnsupportedType):
        reading("inet6")
    assert warehouse_type("inet6") is None
    assert warehouse_type("()") is None


def test_a_column_is_widened_as_the_sink_widens_it() -> None:
    held = sorted({reading(column_type).type for column_type in TYPES})
    for one, other in product(held, held):
        assert (one, other, widened(one, other)) == (one, other, sinks_widened(one, other))


@pytest.mark.parametrize(
    "name", ["orders", "Orders", "_x", ".x", "a b", "ключ", "a/b", "..", "é" * 64, "%", "x" * 64, "é" * 34,
             "😀" * 60]
)  # fmt: skip
def test_a_table_lies_where_the_sink_puts_it(name: str) -> None:
    assert f"/w/{warehouse_path('Shop', name)}" == table_path("/w", "Shop", name)


def test_the_sinks_own_columns_are_known() -> None:
    assert OWN_COLUMNS == RESERVED
