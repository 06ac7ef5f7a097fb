"""Geometries and vectors.

Invariant: a geometry keeps its SRID and its bytes in stored axis order; a vector keeps each 32-bit
float.
"""

from __future__ import annotations

import base64

from connectors.mysql.binlog.buffer import read_bytes, uint
from connectors.mysql.binlog.table_map import MappedColumn
from connectors.mysql.rows.values.shape import Reader
from connectors.mysql.value_text.floats import shortest_float32


def geometry(column: MappedColumn) -> Reader:
    """GEOMETRY and its subtypes: a length, four bytes of SRID, then WKB."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[dict[str, int | str], int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return {"srid": uint(raw, 0, 4), "wkb": base64.b64encode(raw[4:]).decode()}, end

    return read


def vector(column: MappedColumn) -> Reader:
    """VECTOR(n): a length, then 32-bit floats."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[list[float], int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return [shortest_float32(raw[n : n + 4]) for n in range(0, len(raw), 4)], end

    return read
