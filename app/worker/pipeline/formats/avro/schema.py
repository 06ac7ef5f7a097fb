"""Avro schemas of the envelopes of a table version.

Invariant: equal columns make equal schemas, also in other shards and on other workers. Each column may be null,
with null as default, so that columns may come and go compatibly. Names have only what Avro allows; where a
column's differs, ``doc`` has the column's own.
Source: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import Schema, kind_of, sql_type
from wire.records import SOURCE, TRANSACTION, Field
from wire.table_version import Column

_FOREIGN = re.compile(r"[^A-Za-z0-9_]")
_TEXTS: Schema = {"type": "array", "items": "string"}
_KINDS: Mapping[str, Any] = {"text": "string", "texts": _TEXTS, "int": "int", "long": "long"}


def namespace_of(table: TableName) -> str:
    """Return the namespace of a table's schemas: its database and name."""
    return ".".join(map(avro_name, table))


def avro_name(name: str) -> str:
    """Return a name as Avro allows it; different ones may become equal."""
    found = _FOREIGN.sub("_", name)
    return found if found and not found[0].isdigit() else f"_{found}"


def field_names(columns: Iterable[Column]) -> dict[str, str]:
    """Return the field of each column; of columns whose fields would be equal, later ones get a number."""
    found: dict[str, str] = {}
    for number, column in enumerate(columns, 1):
        name = avro_name(column.name)
        while name in found.values():
            name = f"{name}_{number}"
        found[column.name] = name
    return found


def row_schema(table: TableName, columns: tuple[Column, ...]) -> Schema:
    """Return the schema of an image."""
    names = field_names(columns)
    kinds = _column_types(columns)
    fields = [
        {
            "name": names[one.name],
            "type": ["null", kind],
            "default": None,
            **({} if names[one.name] == one.name else {"doc": one.name}),
        }
        for one, kind in zip(columns, kinds, strict=True)
    ]
    return {"type": "record", "name": "Value", "namespace": namespace_of(table), "fields": fields}


def envelope_schema(table: TableName, columns: tuple[Column, ...]) -> Schema:
    """Return the schema of the envelope of a table's rows."""
    images = [
        _optional("before", row_schema(table, columns)),
        _optional("after", f"{namespace_of(table)}.Value"),
    ]
    more = [_optional(name, _TEXTS) for name in ("absent", "replaced")]
    more += [_optional(name, "string") for name in ("claim_check", "left_out")]
    return _record("Envelope", table, [*images, *_common(), *more])


def truncation_schema(table: TableName) -> Schema:
    """Return the schema of the record of a TRUNCATE, which has no images."""
    return _record("Truncation", table, _common())


def _record(name: str, table: TableName, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": namespace_of(table), "fields": fields}


def _common() -> list[Schema]:
    return [
        {
            "name": "source",
            "type": {"type": "record", "name": "Source", "fields": _members(SOURCE)},
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {
            "name": "transaction",
            "type": {"type": "record", "name": "Transaction", "fields": _members(TRANSACTION)},
        },
    ]


def _members(fields: Mapping[str, Field]) -> list[Schema]:
    return [
        _optional(name, _KINDS[one.kind])
        if one.optional
        else {"name": name, "type": _KINDS[one.kind]}
        for name, one in fields.items()
    ]


def _optional(name: str, kind: Any) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None}


def _column_types(columns: Iterable[Column]) -> list[Any]:
    """Return the types of columns; a named one is defined at its first use."""
    found: list[Any] = []
    for one in columns:
        kind = kind_of(one.type)
        made = sql_type(kind.base).avro(kind)
        is_defined = made in found and isinstance(made, dict) and "name" in made
        found.append(made["name"] if is_defined else made)
    return found
