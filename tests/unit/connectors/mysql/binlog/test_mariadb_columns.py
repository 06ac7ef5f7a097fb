"""Columns as only MariaDB has them, by bytes that 10.11 and 11.8 wrote."""

import zlib

import pytest

from connectors.errors import CorruptEvent, UnsupportedEvent
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.charsets import Charsets
from connectors.mysql.types.registry import (
    FieldType,
    MappedColumn,
    column_charset,
    column_type,
    extent,
    reader_for,
)
from connectors.mysql.types.strings import unpacked

CHARSETS = Charsets(
    {45: "utf8mb4", 46: "utf8mb4", 54: "utf16", 63: "binary", 2304: "utf8mb4", 2816: "utf16"},
    {"utf8mb4": 4, "utf16": 4, "binary": 1},
)
# CREATE TABLE ot (id int primary key, a timestamp, b timestamp(3), c datetime, …), mysql56_temporal_format=OFF.
OLD = bytes.fromhex(
    "1f000000000001000164 0002 6f7400 0a 0307070c0c0c0b0b0b07 00 fe03 010100 0415"
    "02696401610162016301640165016601670168016908 0100".replace(" ", "")
)


def column(kind: int, metadata: int, collation: int) -> MappedColumn:
    return MappedColumn(type=kind, metadata=metadata, nullable=True, name="c", collation=collation)


def test_a_geometry_is_in_mariadbs_list_of_character_sets() -> None:
    # g geometry, p varchar(10) utf8mb4: the default collation 63, but the second (n = 1) has 45.
    body = (
        bytes(8) + b"\x01d\0\x01t\0" + b"\x02\xff\x0f" + b"\x03\x04\x28\x00" + b"\x03"
        + b"\x02\x03\x3f\x01\x2d" + b"\x04\x04\x01g\x01p"
    )  # fmt: skip
    found = parse_table_map(body, mariadb=True)
    assert [one.collation for one in found.columns] == [63, 45]
    with pytest.raises(IndexError):
        parse_table_map(body)


@pytest.mark.parametrize(
    ("kind", "metadata", "collation", "described", "charset"),
    [
        (FieldType.VARCHAR_COMPRESSED, 2001, 2304, "varchar(500)", "utf8mb4"),
        (FieldType.VARCHAR_COMPRESSED, 301, 63, "varbinary(300)", None),
        (FieldType.VARCHAR_COMPRESSED, 161, 2816, "varchar(40)", "utf16"),
        (FieldType.BLOB_COMPRESSED, 1, 45, "tinytext", "utf8mb4"),
        (FieldType.BLOB_COMPRESSED, 4, 63, "longblob", None),
    ],
)
def test_a_compressed_column_has_the_type_it_would_have_without(
    kind: int, metadata: int, collation: int, described: str, charset: str | None
) -> None:
    one = column(kind, metadata, collation)
    assert column_type(one, CHARSETS) == described
    assert column_charset(one, CHARSETS) == charset


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"", b""),
        (b"\x00short", b"short"),
        (b"\x8a\x01\x2c\x2b\x2c\x1c\x05\xc4\x02\x00", b"q" * 300),
        (b"\x82\x01\x2c" + zlib.compress(b"q" * 300), b"q" * 300),
    ],
)
def test_a_compressed_value_is_unpacked(raw: bytes, value: bytes) -> None:
    assert unpacked(raw) == value


@pytest.mark.parametrize(
    "raw", [b"\x8a\x01\x2b\x2b\x2c\x1c\x05\xc4\x02\x00", b"\x8a\x01\x2c\x2b\x2c"]
)
def test_a_compressed_value_of_another_length_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptEvent):
        unpacked(raw)


def test_an_unknown_compression_is_named() -> None:
    with pytest.raises(UnsupportedEvent, match="0x90"):
        unpacked(b"\x90\x01\x01x")


def test_a_compressed_column_is_read_after_its_length() -> None:
    one = column(FieldType.VARCHAR_COMPRESSED, 2001, 2304)
    raw = b"\x0a\x00\x8a\x01\x2c\x2b\x2c\x1c\x05\xc4\x02\x00"
    assert reader_for(one, CHARSETS)(raw, 0) == ("q" * 300, 12)
    assert extent(one) == (0, 2)


def test_a_clock_in_the_format_of_mariadb_5_3_is_refused_by_name() -> None:
    found = parse_table_map(OLD, mariadb=True)
    for one, named in zip(found.columns[1:], "TTDDDTTTT", strict=True):
        with pytest.raises(UnsupportedEvent, match=f"is a {named}.* MariaDB 5.3") as caught:
            reader_for(one, CHARSETS)
        assert "mysql56_temporal_format" in str(caught.value)


def test_the_same_numbers_are_mysqls_old_clocks_where_it_wrote_them() -> None:
    for one in parse_table_map(OLD).columns:
        reader_for(one, CHARSETS)
