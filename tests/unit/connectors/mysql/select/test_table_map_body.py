"""A table map that is written is the one that is read."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.buffer import packed
from connectors.mysql.select.described_table import packed_integer, table_map_body
from connectors.mysql.types.registry import FieldType as T
from connectors.mysql.types.registry import MappedColumn


def mapped(kind: int, metadata: int = 0, **more: Any) -> MappedColumn:
    return MappedColumn(
        type=kind, metadata=metadata, **({"nullable": True, "visible": True} | more)
    )


COLUMNS = (
    mapped(T.LONGLONG, unsigned=True, nullable=False, visible=False),
    mapped(T.YEAR, unsigned=True), mapped(T.NEWDECIMAL, 0x020C, unsigned=False),
    mapped(T.FLOAT, 4, unsigned=True),
    mapped(T.BIT, 0x0103), mapped(T.DATE), mapped(T.DATETIME2, 6), mapped(T.TIME2, 3), mapped(T.TIMESTAMP2),
    mapped(T.STRING, 1020, collation=255), mapped(T.STRING, 255, collation=63),
    mapped(T.STRING, 0, collation=8),
    mapped(T.VARCHAR, 65532, collation=300), mapped(T.BLOB, 3, collation=63),
    mapped(T.ENUM, 1, labels=(b"", "é".encode(), b"x" * 300), collation=255),
    mapped(T.SET, 8, labels=tuple(b"%d" % n for n in range(64)), collation=8),
    mapped(T.ENUM, 2, labels=tuple(b"%d" % n for n in range(300)), collation=28),
    mapped(T.JSON, 4), mapped(T.GEOMETRY, 4, geometry_type=7), mapped(T.GEOMETRY, 4, geometry_type=0),
    mapped(T.VECTOR, 4, dimensions=2048, collation=63),
)  # fmt: skip
NAMED = tuple(replace(one, name=f"c`{n}é") for n, one in enumerate(COLUMNS))


def table_map(columns: tuple[MappedColumn, ...], key: tuple[int, ...] | None = None) -> TableMap:
    return TableMap(
        table_id=(1 << 48) - 1, database="sh`op", table="täble", columns=columns, primary_key=key
    )


@pytest.mark.parametrize("mariadb", [False, True])
@pytest.mark.parametrize("key", [None, (0,), (9, 3, 0)])
def test_every_kind_of_column_is_read_back(mariadb: bool, key: tuple[int, ...] | None) -> None:
    columns = tuple(
        one for one in NAMED if not mariadb or one.type not in (T.GEOMETRY, T.VECTOR, T.JSON)
    )
    written = table_map(columns, key)
    assert parse_table_map(table_map_body(written, mariadb=mariadb), mariadb=mariadb) == written


def test_mariadb_lists_the_collation_of_geometries_too() -> None:
    columns = (
        replace(mapped(T.GEOMETRY, 4, geometry_type=1, collation=63), name="g"),
        replace(mapped(T.VARCHAR, 40, collation=255), name="v"),
    )
    written = table_map(columns)
    assert parse_table_map(table_map_body(written, mariadb=True), mariadb=True) == written


@pytest.mark.parametrize("count", [1, 8, 9, 250, 251, 4096])
def test_any_number_of_columns_is_read_back(count: int) -> None:
    columns = tuple(
        replace(
            mapped(T.LONG, unsigned=n % 3 == 0, nullable=n % 2 == 0, visible=n % 5 != 0),
            name=f"c{n}",
        )
        for n in range(count)
    )
    written = table_map(columns, key=(count - 1,))
    assert parse_table_map(table_map_body(written)) == written


@pytest.mark.parametrize(
    "value", [0, 250, 251, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, (1 << 64) - 1]
)
def test_an_integer_is_read_back(value: int) -> None:
    raw = packed_integer(value)
    assert packed(raw, 0) == (value, len(raw))


def test_an_integer_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        packed_integer(1 << 64)
