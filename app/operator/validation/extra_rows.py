"""Extra rows of a table: the keys by which a worker can look for them at the source, and remove them.

Invariant: a key is removable only if SQL would find the source's row with this key, and only if no row of
another table could have it. If a key is not removable, the reason is stated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from connectors.errors import SnapshotUnsupported
from connectors.mysql.ddl.definition import Table
from connectors.mysql.select.record_keys import RecordKeys
from tables.rules.routes.routes import Route
from tables.rules.routes.table_faults import place_columns
from wire.records import KEY_SHARD

_SHARED = (
    "its keys do not name the real table (shard_in_key: never), so another one may have the row"
)
_MASKED = "its key is masked, so the source's row cannot be looked for"
_PLACED = "partition_by has columns that are not in its key"


class ExtraRow(NamedTuple):
    """A row that only the topic has."""

    key: str
    """The key of its record, as JSON."""
    literals: tuple[str, ...]
    """The source's key as SQL."""


class ExtraRows:
    """The extra rows of one table."""

    def __init__(self, route: Route, table: Table, keys: RecordKeys) -> None:
        self._route, self._keys = route, keys
        actions = route.mapped.rules.column_actions if route.mapped is not None else ()
        self._renamed = {one.argument: one.column for one in actions if one.action == "rename"}
        self._own = {name.lower(): name for name in table.primary_key}

    def removable(self, keys: Iterable[bytes]) -> tuple[list[ExtraRow], set[str]]:
        """Return the rows with these keys that can be removed, and the reasons why others cannot."""
        found, obstacles = list[ExtraRow](), set[str]()
        for key in keys:
            values = self._values(key)
            if (obstacle := self._obstacle(values)) is not None:
                obstacles.add(obstacle)
                continue
            try:
                own = {self._own_name(name): value for name, value in values.items()}
                found.append(ExtraRow(key.decode(), self._keys.literals(own)))
            except SnapshotUnsupported as error:
                obstacles.add(error.detail)
        return found, obstacles

    def _values(self, key: bytes) -> dict[str, Any]:
        values: dict[str, Any] = orjson.loads(key)
        if self._route.shard is not None:
            values.pop(KEY_SHARD, None)
        return values

    def _own_name(self, published: str) -> str:
        name = self._renamed.get(published, published)
        return self._own[name.lower()]

    def _obstacle(self, values: dict[str, Any]) -> str | None:
        mapped = self._route.mapped
        if not self._own.keys().isdisjoint(self._route.column_rules):
            return _MASKED
        if mapped is not None and mapped.rules.shard_in_key == "never":
            return _SHARED
        if place_columns(self._route, values) is None:
            return _PLACED
        if {self._renamed.get(name, name).lower() for name in values} != self._own.keys():
            return "its key had other columns"
        return None
