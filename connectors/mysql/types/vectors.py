"""Vectors of 32-bit floats.

Invariant: a vector keeps each of its floats.
"""

from __future__ import annotations

from typing import Any

import orjson

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.server_version import Server
from connectors.mysql.types.decimals import written
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.registry import (
    BinlogType,
    FieldType,
    Form,
    Kind,
    Layout,
    Listed,
    MappedColumn,
    Modes,
    Reader,
    SqlType,
    by_metadata,
    register,
    sized,
    within,
)
from connectors.mysql.types.type_spec import Refused, TypeSpec

BYTES_OF_ELEMENT = 4
"""Bytes of a float."""


def _reader(column: MappedColumn, _charsets: Charsets) -> Reader:
    """A length, then 32-bit floats."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[list[float], int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return [shortest_float32(raw[n : n + 4]) for n in range(0, len(raw), 4)], end

    return read


def _text(column: MappedColumn, _charsets: Charsets) -> str:
    return f"vector({column.dimensions})" if column.dimensions else "vector"


def _layout(kind: Kind, mariadb: bool) -> Layout:
    """MariaDB stores a vector as VARBINARY."""
    return (FieldType.VARCHAR, BYTES_OF_ELEMENT * kind.size) if mariadb else (FieldType.VECTOR, 4)


_MOST_DIMENSIONS, _DIMENSIONS = 16383, 2048


def _printed(spec: TypeSpec, server: Server) -> str:
    given = spec.arguments[0] if spec.arguments else None if server.mariadb else _DIMENSIONS
    if not given or given > _MOST_DIMENSIONS:
        raise Refused(f"a vector has 1 to {_MOST_DIMENSIONS} dimensions, not {given}")
    return f"vector({given})"


def _connect(_kind: Kind, _nullable: bool, _modes: Modes) -> Form:
    items = {"type": "float", "optional": False}
    return Form(
        {"type": "array", "items": items, "name": "io.debezium.data.FloatVector", "version": 1}
    )


def _floats(value: Any) -> list[float]:
    return [float(one) for one in value]


register(
    BinlogType(
        code=FieldType.VECTOR,
        reader=_reader,
        extent=by_metadata,
        metadata_size=1,
        is_possible=within(1, 4),
        # As a kind of BLOB, a vector has an entry in the list of collations; JSON and GEOMETRY have none.
        listed=Listed.TEXTS,
        is_blob=True,
        text=_text,
        packet_image=sized,
    ),
    named=(
        SqlType(
            name="vector",
            since=((9, 0, 0), (11, 7, 1)),
            printed=_printed,
            layout=_layout,
            avro=lambda _: {"type": "array", "items": "float"},
            avro_value=lambda _: _floats,
            connect=_connect,
            # Canal cannot read the type; the text is the list as JSON.
            canal_text=lambda _: written,
            canal_value=lambda _: orjson.loads,
        ),
    ),
)
