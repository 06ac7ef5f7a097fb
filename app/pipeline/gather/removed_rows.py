"""Deletes of rows that subscribers have and the source has not, made of the keys of their records.

Invariant: such a delete is that of a partial row image: ``before`` has the columns of the key, ``absent`` names
the others. A key in another form than the table's records have now makes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from app.pipeline.gather.captured_tables import CapturedTable
from connectors.kafka.record_writer import PLACE
from connectors.mysql.rows.compiled.generate import Row
from connectors.wire import KEY_SHARD, shard_head
from tables.routes.routes import Route


def removed_rows(table: CapturedTable, keys: Iterable[str]) -> list[Row]:
    """Return the deletes of rows with these keys, which are JSON."""
    return [row for key in keys if (row := _removed(table, key)) is not None]


def place_columns(route: Route, key: Iterable[str]) -> list[str] | None:
    """Return the columns that choose a row's partition, by their names in a key; None if the key lacks one.

    ``key``: the names of the key's columns, as published.
    """
    published = {name.lower(): name for name in key}
    actions = route.mapped.rules.column_actions if route.mapped is not None else ()
    renamed = {one.column.lower(): one.argument for one in actions if one.action == "rename"}
    found = [published.get(renamed.get(name.lower(), name).lower()) for name in route.partition_by]
    return None if None in found else [name for name in found if name is not None]


def _removed(table: CapturedTable, key: str) -> Row | None:
    values = _values(table, key)
    if values is None:
        return None
    place = place_columns(table.route, values)
    if place is None:
        return None
    names = [column.name for column in table.definition.columns]
    before = _dumped({name: values[name] for name in names if name in values})
    absent = [name for name in names if name not in values]
    marks = f'"absent":{_dumped(absent)}' if absent else None
    placed = f"{key}{PLACE}{_dumped({name: values[name] for name in place})}" if place else key
    return before, None, placed, None, marks


def _values(table: CapturedTable, key: str) -> dict[str, Any] | None:
    """Return the values of a key's columns by their published names; None if it has another form."""
    shard = table.route.shard
    if not table.has_row_keys or not key.startswith(shard_head(shard)):
        return None
    values: dict[str, Any] = orjson.loads(key)
    if shard is not None:
        del values[KEY_SHARD]
    return values if tuple(values) == table.definition.primary_key else None


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()
