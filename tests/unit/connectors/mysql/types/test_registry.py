"""The records of types fit together, so that one of them is all that a new type needs."""

from __future__ import annotations

from collections import Counter

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.counter import row_count
from connectors.mysql.select.packets import PacketDecoder
from connectors.mysql.types import registry
from connectors.mysql.types.registry import (
    BinlogType,
    FieldType,
    Kind,
    MappedColumn,
    SqlType,
    binlog_type,
    column_type,
    extent,
    reader_for,
    sql_type,
    sql_types,
)
from connectors.mysql.types.strings import ADDRESSES
from tests.unit.connectors.mysql.select.packets import packets_of
from tests.unit.connectors.mysql.select.tables import CHARSETS, column, encoder, read_back
from wire.warehouse_types import warehouse_type

NUMBERS = {"decimal": (12, 2), "bit": (9,), "vector": (3,)}
NO_SELECT = {
    FieldType.BLOB_COMPRESSED, FieldType.VARCHAR_COMPRESSED, FieldType.DATETIME,
    FieldType.TIMESTAMP, FieldType.TIME, FieldType.MARIADB_DATETIME, FieldType.MARIADB_TIMESTAMP,
    FieldType.MARIADB_TIME,
}  # fmt: skip
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


@pytest.mark.parametrize("code", sorted(set(FieldType) - {FieldType.DECIMAL}))
def test_each_type_of_the_binlog_has_a_record_with_a_reader(code: FieldType) -> None:
    known = binlog_type(code)
    assert known is not None
    assert (known.packet_image is None) == (code in NO_SELECT)
    assert bool(known.literal) == bool(known.published_literal)


def test_a_type_without_a_record_is_refused_by_name() -> None:
    column = MappedColumn(type=FieldType.DECIMAL, metadata=0, nullable=True, name="old")
    with pytest.raises(UnsupportedEvent, match="column 'old' has the type 0"):
        reader_for(column, CHARSETS)
    with pytest.raises(ValueError, match="unknown type 0"):
        extent(column)


@pytest.mark.parametrize("name", sorted(one.name for one in sql_types()))
def test_the_layout_of_a_name_is_that_of_a_type_with_this_name(name: str) -> None:
    kind = Kind(base=name, numbers=NUMBERS.get(name, ()), labels=("a",))
    layout = sql_type(name).layout(kind, False)
    if layout is None:
        # MariaDB's own, which are bytes in the binlog.
        layout = sql_type(name).layout(kind, True)
        assert layout is not None
        assert layout[0] == FieldType.STRING
        return
    column = MappedColumn(
        type=layout[0],
        metadata=layout[1],
        nullable=True,
        name="c",
        unsigned=False,
        collation=63 if name in BYTES else 255,
        labels=(b"a",),
        geometry_type=None,
    )
    printed = column_type(column, CHARSETS).partition("(")[0]
    assert printed == ("geometry" if layout[0] == FieldType.GEOMETRY else name)
    reader_for(column, CHARSETS)


def test_no_name_has_two_meanings() -> None:
    names = Counter(name for one in sql_types() for name in (one.name, *one.synonyms))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_type_needs_no_more_than_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CODES", {**registry._CODES})
    monkeypatch.setattr(registry, "_NAMES", {**registry._NAMES})
    registry.register(
        BinlogType(
            code=243,
            reader=lambda _column, _charsets: lambda data, at: (data[at : at + 2].hex(), at + 2),
            extent=registry.fixed(2),
            text=registry.plain("pair"),
            packet_image=registry.unchanged,
        ),
        named=(SqlType(name="pair", layout=lambda _kind, _mariadb: (243, 0)),),
    )
    with pytest.raises(ValueError, match="registered twice: pair"):
        registry.register(named=(SqlType(name="pair"),))
    made = encoder(column("int", "id", nullable=False), column("pair", "p"), key="id")
    rows = [(b"1", b"ab"), (b"2", None)]
    assert read_back(made, rows) == [(1, "6162"), (2, None)]
    table_map = parse_table_map(made.table_map)
    decoder = CompiledDecoder(table_map, CHARSETS)
    (body,) = made.bodies(rows)
    texts = ['{"id":1,"p":"6162"}', '{"id":2,"p":null}']
    assert [row[1] for row in decoder.rows(int(made.event_type), body)] == texts
    direct = PacketDecoder(decoder.table, table_map, CHARSETS, rules={})
    assert [row[1] for row in direct.rows(packets_of(table_map.columns, rows))] == texts
    assert row_count(table_map, int(made.event_type), body) == 2


def test_the_warehouse_has_a_type_for_each_name() -> None:
    # The sink, which knows nothing of connectors, has these types from the wire contract, where addresses are
    # bytes.
    names = {one.name for one in sql_types()}
    assert {name for name in names if warehouse_type(name) is None} == ADDRESSES.keys()
