"""The reader of each column type: the only module that knows all families of types."""

from __future__ import annotations

from collections.abc import Callable

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.rows.values import (
    compressed,
    json_binary,
    numbers,
    spatial,
    strings,
    temporal,
)
from connectors.mysql.rows.values.shape import Reader

_BY_TYPE: dict[int, Callable[[MappedColumn], Reader]] = {
    FieldType.TINY: numbers.integer,
    FieldType.SHORT: numbers.integer,
    FieldType.INT24: numbers.integer,
    FieldType.LONG: numbers.integer,
    FieldType.LONGLONG: numbers.integer,
    FieldType.YEAR: numbers.year,
    FieldType.FLOAT: numbers.float32,
    FieldType.DOUBLE: numbers.float64,
    FieldType.NEWDECIMAL: numbers.decimal,
    FieldType.BIT: numbers.bit,
    FieldType.DATE: temporal.date,
    FieldType.DATETIME2: temporal.datetime2,
    FieldType.TIMESTAMP2: temporal.timestamp2,
    FieldType.TIME2: temporal.time2,
    FieldType.DATETIME: temporal.old_datetime,
    FieldType.TIMESTAMP: temporal.old_timestamp,
    FieldType.TIME: temporal.old_time,
    FieldType.JSON: json_binary.json_document,
    FieldType.GEOMETRY: spatial.geometry,
    FieldType.VECTOR: spatial.vector,
}

_WITH_CHARSETS: dict[int, Callable[[MappedColumn, Charsets], Reader]] = {
    FieldType.VARCHAR: strings.string,
    FieldType.VAR_STRING: strings.string,
    FieldType.STRING: strings.string,
    FieldType.BLOB: strings.string,
    FieldType.ENUM: strings.enum,
    FieldType.SET: strings.set_,
    FieldType.BLOB_COMPRESSED: compressed.compressed,
    FieldType.VARCHAR_COMPRESSED: compressed.compressed,
}


_WITHOUT_DIGITS: dict[int, str] = {
    FieldType.MARIADB_TIMESTAMP: "TIMESTAMP",
    FieldType.MARIADB_TIME: "TIME",
    FieldType.MARIADB_DATETIME: "DATETIME",
}


def reader_for(column: MappedColumn, charsets: Charsets) -> Reader:
    """The reader of a column's values; raise UnsupportedEvent for a type that has none."""
    if column.type in _WITH_CHARSETS:
        return _WITH_CHARSETS[column.type](column, charsets)
    if column.type in _BY_TYPE:
        return _BY_TYPE[column.type](column)
    if column.type in _WITHOUT_DIGITS:
        raise UnsupportedEvent(
            f"column {column.name!r} is a {_WITHOUT_DIGITS[column.type]} in the format of MariaDB 5.3, and the "
            "binlog does not state how many digits of fraction it has",
            remedy="Run ALTER TABLE … FORCE with mysql56_temporal_format = ON, or leave the table out "
            "with a filter.",
        )
    raise UnsupportedEvent(
        f"column {column.name!r} has the type {column.type}, which cannot be read yet",
        remedy="Leave the table out with a filter, or change the column's type.",
    )
