"""Schemas that Kafka Connect's JSON converter puts into each record, for ``schemas.enable``.

Source: records of Debezium 3.6.1 on Kafka Connect 4.1.2. Defaults of columns are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from connectors.mysql.types.registry import Form, Modes, Schema, kind_of, sql_type
from wire.table_version import Column

_SNAPSHOTS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_SOURCE = {
    "version": ("string", False), "connector": ("string", False), "name": ("string", False),
    "ts_ms": ("int64", False), "snapshot": ("string", True), "db": ("string", False),
    "sequence": ("string", True), "ts_us": ("int64", True), "ts_ns": ("int64", True),
    "table": ("string", True), "server_id": ("int64", False),
    "gtid": ("string", True), "file": ("string", False), "pos": ("int64", False), "row": ("int32", False),
    "thread": ("int64", True), "query": ("string", True),
}  # fmt: skip
"""The members of ``source``: the type, and whether it is optional."""
_ORDER = (
    "type", "fields", "items", "optional", "name", "version", "doc", "parameters", "default", "field",
)  # fmt: skip
"""The members of a schema as the converter orders them: a key's partition depends on its bytes."""
_BLOCK = ("id", "total_order", "data_collection_order")
_TIMES = ("ts_ms", "ts_us", "ts_ns")


def form_of(column: Column, modes: Modes) -> Form:
    """Return the form of a column in the modes of a connector. NULL is given to no function."""
    kind = kind_of(column.type)
    found = sql_type(kind.base).connect(kind, column.nullable, modes)
    return Form({**found.schema, "optional": column.nullable}, found.value)


def key_schema(topic: str, forms: Mapping[str, Form]) -> bytes:
    """Return the schema of a key, as JSON."""
    return _json(_struct(f"{topic}.Key", _columns(forms), optional=False))


def row_schema(topic: str, forms: Mapping[str, Form], *, optional: bool) -> bytes:
    """Return the schema of a row alone, as JSON; after a delete it is ``optional``."""
    return _json(_struct(f"{topic}.Value", _columns(forms), optional=optional))


def envelope_schema(topic: str, forms: Mapping[str, Form], connector: str) -> bytes:
    """Return the schema of a value, as JSON."""
    row = _struct(f"{topic}.Value", _columns(forms), optional=True)
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {**_source(connector), "field": "source"},
        {**_block(), "field": "transaction"},
        _field("op", "string", optional=False),
        *(_field(name, "int64", optional=True) for name in _TIMES),
    ]
    return _json({**_struct(f"{topic}.Envelope", fields, optional=False), "version": 2})


def _json(schema: Schema) -> bytes:
    return orjson.dumps(_ordered(schema))


def _ordered(schema: Schema) -> Schema:
    found = {name: schema[name] for name in _ORDER if name in schema}
    if "fields" in found:
        found["fields"] = [_ordered(one) for one in found["fields"]]
    if "items" in found:
        found["items"] = _ordered(found["items"])
    return found


def _columns(forms: Mapping[str, Form]) -> list[Schema]:
    return [{**form.schema, "field": name} for name, form in forms.items()]


def _source(connector: str) -> Schema:
    fields = [_field(name, kind, optional=optional) for name, (kind, optional) in _SOURCE.items()]
    snapshot = {
        "name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": _SNAPSHOTS},
        "default": "false",
    }  # fmt: skip
    fields = [{**one, **snapshot} if one["field"] == "snapshot" else one for one in fields]
    name = f"io.debezium.connector.{connector}.Source"
    return {**_struct(name, fields, optional=False), "version": 1}


def _block() -> Schema:
    fields = [
        _field(name, "string" if name == "id" else "int64", optional=False) for name in _BLOCK
    ]
    return {**_struct("event.block", fields, optional=True), "version": 1}


def _struct(name: str, fields: list[Schema], *, optional: bool) -> Schema:
    return {"type": "struct", "fields": fields, "optional": optional, "name": name}


def _field(name: str, kind: str, *, optional: bool) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}
