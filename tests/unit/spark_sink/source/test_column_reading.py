"""Types: exact, or refused."""

import pytest

from spark_sink.errors import UnsupportedType
from spark_sink.source.column_reading import reading


@pytest.mark.parametrize(
    ("mysql", "spark"),
    [
        ("tinyint(1)", "int"),
        ("smallint unsigned", "int"),
        ("mediumint unsigned", "int"),
        ("int(11)", "int"),
        ("int unsigned", "bigint"),
        ("int(10) unsigned zerofill", "bigint"),
        ("int(10) zerofill", "bigint"),
        ("bigint", "bigint"),
        ("bigint unsigned", "decimal(20,0)"),
        ("year", "int"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("decimal(38,10) unsigned", "decimal(38,10)"),
        ("decimal(39,0)", "string"),
        ("decimal(65,30)", "string"),
        ("float", "float"),
        ("float(7,3) unsigned", "float"),
        ("double", "double"),
        ("double precision", "double"),
        ("date", "date"),
        ("datetime(6)", "timestamp_ntz"),
        ("timestamp", "timestamp"),
        ("time(2)", "string"),
        ("enum('a)','unsigned')", "string"),
        ("set('a','b')", "string"),
        ("json", "string"),
        ("varchar(80)", "string"),
        ("longtext", "string"),
        ("bit(5)", "binary"),
        ("varbinary(10)", "binary"),
        ("blob", "binary"),
        ("point", "struct<srid:bigint,wkb:binary>"),
        ("geomcollection", "struct<srid:bigint,wkb:binary>"),
        ("vector(3)", "array<float>"),
    ],
)
def test_every_mysql_type_has_one_exact_warehouse_type(mysql: str, spark: str) -> None:
    assert reading(mysql).type == spark


@pytest.mark.parametrize("mysql", ["inet6", "", "uuid"])
def test_an_unknown_type_is_a_named_error(mysql: str) -> None:
    with pytest.raises(UnsupportedType):
        reading(mysql)
