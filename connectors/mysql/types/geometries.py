"""Geometries.

Invariant: a geometry keeps its SRID and its bytes in stored axis order.
"""

from __future__ import annotations

import base64

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.types.registry import (
    BinlogType,
    FieldType,
    Listed,
    MappedColumn,
    Reader,
    SqlType,
    by_metadata,
    register,
    sized,
    within,
)

GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection",
)  # fmt: skip
"""The names of the types, in the order of their numbers."""


def _reader(column: MappedColumn, _charsets: Charsets) -> Reader:
    """A length, four bytes of SRID, then WKB."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[dict[str, int | str], int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return {"srid": uint(raw, 0, 4), "wkb": base64.b64encode(raw[4:]).decode()}, end

    return read


def _text(column: MappedColumn, _charsets: Charsets) -> str:
    known = column.geometry_type is not None and column.geometry_type < len(GEOMETRIES)
    return GEOMETRIES[column.geometry_type or 0] if known else "geometry"


register(
    BinlogType(
        code=FieldType.GEOMETRY,
        reader=_reader,
        extent=by_metadata,
        metadata_size=1,
        is_possible=within(1, 4),
        listed=Listed.MARIADB_TEXTS,
        is_blob=True,
        text=_text,
        packet_image=sized,
    ),
    named=(
        SqlType(name=name, layout=lambda _kind, _mariadb: (FieldType.GEOMETRY, 4))
        for name in (*GEOMETRIES, "geometrycollection")
    ),
)
