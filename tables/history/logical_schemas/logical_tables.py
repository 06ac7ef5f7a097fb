"""All logical tables: real tables grouped by the routes of their destinations, and their schemas.

Invariant: the content is that of the schemas topic and the DDL topics; the routes alone decide which real
tables belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import Decisions
from tables.history.logical_schemas.logical_schema import LogicalSchema, logical_schema
from tables.history.logical_schemas.shard import RealTable, Shard, ShardName
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion

# Real tables that were dropped or renamed away, by the records of the DDL topics.
#
# Invariant: the records of a destination are taken in their order, once or again; the last record
# on a table counts. A table with a version later than its drop exists again.


@dataclass(slots=True)
class DroppedTables:
    """The real tables that do not exist now."""

    _dropped_ms: dict[ShardName, int] = field(default_factory=dict)

    def drop(self, name: ShardName, ts_ms: int) -> None:
        """Note a table that was dropped at a time, in milliseconds since 1970."""
        self._dropped_ms[name] = ts_ms

    def take(self, destination: str, record: dict[str, Any]) -> set[ShardName]:
        """Take a record of a destination's DDL topic; return the tables that it drops or creates.

        Raise AttributeError, KeyError, TypeError or ValueError if it is no such record.
        """
        changed = set()
        for table in record.get("tables", ()):
            name = ShardName(destination, table["database"], table["table"])
            if table["new"] is None:
                self._dropped_ms[name] = int(record["source"]["ts_ms"])
                changed.add(name)
            elif self._dropped_ms.pop(name, None) is not None:
                changed.add(name)
        return changed

    def dropped_ms(self, name: ShardName, version_ms: int) -> int | None:
        """The time at which a table was dropped; None if it exists.

        ``version_ms``: the time of its newest version.
        """
        found = self._dropped_ms.get(name)
        return found if found is not None and found >= version_ms else None


@dataclass(slots=True)
class LogicalTables:
    """The logical tables of an installation."""

    _routes: Mapping[str, Routes] = field(default_factory=dict)
    _dropped: DroppedTables = field(default_factory=DroppedTables)
    _real: dict[ShardName, RealTable] = field(default_factory=dict)
    _shards: dict[TableName, set[ShardName]] = field(default_factory=dict)
    changed: set[TableName] = field(default_factory=set)
    """The logical tables that changed since their schemas were last made."""

    def route_by(self, routes: Mapping[str, Routes]) -> None:
        """Group the real tables by these routes."""
        if routes == self._routes:
            return
        self._routes = routes
        self.changed |= self._shards.keys()
        self._shards = {}
        for name in self._real:
            self._group(name)

    def take(self, version: TableVersion) -> None:
        """Add a version of a real table."""
        name = ShardName(version.destination, version.database, version.table)
        real = self._real.setdefault(name, RealTable(name))
        if real.take(version):
            self._group(name)

    def take_statement(self, destination: str, record: dict[str, Any]) -> None:
        """Take a record of a destination's DDL topic; raise as ``DroppedTables.take`` does."""
        for name in self._dropped.take(destination, record):
            if name in self._real:
                self._group(name)

    def drop(self, name: ShardName, ts_ms: int) -> None:
        """Note a real table that was dropped at a time, in milliseconds since 1970."""
        self._dropped.drop(name, ts_ms)

    def _group(self, name: ShardName) -> None:
        logical = self._logical(name)
        if logical is not None:
            self._shards.setdefault(logical, set()).add(name)
            self.changed.add(logical)

    def _logical(self, name: ShardName) -> TableName | None:
        """The logical table of a real one; None if no rule of the mapping names it, or it is not captured."""
        routes = self._routes.get(name.destination)
        try:
            route = routes.of((name.database, name.table)) if routes is not None else None
        except MappingError:
            # Its destination is stopped by this error, and shows it.
            return None
        return route.logical if route is not None and route.mapped is not None else None

    @property
    def names(self) -> Iterable[TableName]:
        """All logical tables that have a shard."""
        return self._shards.keys()

    def schema(self, name: TableName, decisions: Decisions) -> LogicalSchema | None:
        """The schema of a logical table now; None if it has no shard."""
        shards = self._shards.get(name)
        if not shards:
            return None
        return logical_schema(name, map(self._shard, shards), decisions.in_force(name))

    def _shard(self, name: ShardName) -> Shard:
        real = self._real[name]
        return real.shard(dropped_ms=self._dropped.dropped_ms(name, real.newest_ms))
