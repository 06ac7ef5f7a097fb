"""Deletes of rows that subscribers have and the source does not, made from the rows' records.

Invariant: ``before`` of such a delete has the columns of the key, and those of the last record if it is given;
``absent`` names all other columns, as in a partial row image. A key whose form differs from that of the table's
present records makes no delete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from app.worker.pipeline.gather.captured_tables import CapturedTable
from connectors.kafka.record_batches import PLACE
from connectors.mysql.rows.compiled import Row
from tables.rules.routes.rule_faults import place_columns
from wire.records import KEY_SHARD, shard_head


class RemovedRow(NamedTuple):
    """A row as subscribers have it."""

    key: str
    """The key of its records, as JSON."""
    image: str | None
    """Its columns in the last record, as JSON; None if they are not known."""


def removed_rows(table: CapturedTable, rows: Iterable[RemovedRow]) -> list[Row]:
    """Return the deletes of rows."""
    return [found for one in rows if (found := _removed(table, one)) is not None]


def key_values(table: CapturedTable, key: str) -> dict[str, Any] | None:
    """Return the values of a key's columns by their published names; None if it has another form."""
    shard = table.route.shard
    if not key.startswith(shard_head(shard)):
        return None
    values: dict[str, Any] = orjson.loads(key)
    if shard is not None:
        del values[KEY_SHARD]
    return values if tuple(values) == table.definition.primary_key else None


def _removed(table: CapturedTable, row: RemovedRow) -> Row | None:
    values = key_values(table, row.key)
    if values is None:
        return None
    place = place_columns(table.route, values)
    if place is None:
        return None
    known = values if row.image is None else {**orjson.loads(row.image), **values}
    names = [column.name for column in table.definition.columns]
    before = _dumped({name: known[name] for name in names if name in known})
    absent = [name for name in names if name not in known]
    marks = f'"absent":{_dumped(absent)}' if absent else None
    placed = row.key
    if place:
        placed = f"{row.key}{PLACE}{_dumped({name: values[name] for name in place})}"
    return before, None, placed, None, marks


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()
