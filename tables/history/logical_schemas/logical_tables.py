"""All logical tables: real tables grouped by the routes of their destinations, and their schemas.

Invariant: the content is that of the schemas topic and the DDL topics; the routes alone decide which real
tables belong together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from connectors.errors import JournalUnreadable
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import Decisions
from tables.history.logical_schemas.logical_schema import (
    LogicalSchema,
    is_understood,
    logical_schema,
)
from tables.history.logical_schemas.shard import RealTable, Shard, ShardName
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from wire.table_version import VersionKey

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
        found = {
            ShardName(destination, table["database"], table["table"]): (
                int(record["source"]["ts_ms"]) if table["new"] is None else None
            )
            for table in record.get("tables", ())
        }
        if not all(isinstance(name, str) for one in found for name in one):
            raise TypeError("a name is no text")
        changed = set()
        for name, ts_ms in found.items():
            if ts_ms is not None:
                self._dropped_ms[name] = ts_ms
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedVersion:
    """A table version whose record cannot be read."""

    number: int
    why: str


@dataclass(slots=True)
class LogicalTables:
    """The logical tables of an installation."""

    _routes: Mapping[str, Routes] = field(default_factory=dict)
    _dropped: DroppedTables = field(default_factory=DroppedTables)
    _real: dict[ShardName, RealTable] = field(default_factory=dict)
    _shards: dict[TableName, set[ShardName]] = field(default_factory=dict)
    changed: set[TableName] = field(default_factory=set)
    """The logical tables that changed since their schemas were last made."""
    missed: dict[ShardName, MissedVersion] = field(default_factory=dict)
    """The real tables whose newest version cannot be read."""

    def route_by(self, routes: Mapping[str, Routes]) -> None:
        """Group the real tables by these routes."""
        if routes == self._routes:
            return
        self._routes = routes
        self.changed |= self._shards.keys()
        self._shards = {}
        for name in self._real.keys() | self.missed.keys():
            self._group(name)

    def take(self, version: TableVersion) -> None:
        """Add a version of a real table."""
        name = ShardName(version.destination, version.database, version.table)
        real = self._real.setdefault(name, RealTable(name))
        missed, number = self.missed.get(name), version.version
        is_next = bool(real.versions) and number > max(real.versions)
        if missed is not None and (is_next or number >= missed.number):
            # The records come in the topic's order: the one that was missed is not the newest any more.
            del self.missed[name]
            self._group(name)
        if real.take(version):
            self._group(name)

    def miss(self, version: VersionKey, why: str) -> None:
        """Note a version that cannot be read, unless it or a newer one of its table is known."""
        name = ShardName(version.destination, version.database, version.table)
        known = max(self._real[name].versions) if name in self._real else 0
        missed = self.missed.get(name)
        if version.version > max(known, missed.number if missed is not None else 0):
            self.missed[name] = MissedVersion(number=version.version, why=why)
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
        route = routes.of((name.database, name.table)) if routes is not None else None
        if route is not None and route.fault:
            # Its destination shows the fault. The rows that it published are those of this logical table.
            versions = self._real[name].versions if name in self._real else {}
            known = versions[max(versions)].logical if versions else None
            return known if known != (name.database, name.table) else None
        return route.logical if route is not None and route.mapped is not None else None

    @property
    def names(self) -> Iterable[TableName]:
        """All logical tables that have a shard."""
        return self._shards.keys()

    def shards(self, name: TableName) -> list[ShardName]:
        """The real tables of a logical one, sorted, also those of which no version can be read."""
        return sorted(self._shards.get(name, ()))

    def of_destinations(self, names: Collection[str]) -> set[TableName]:
        """The logical tables with a shard in one of these destinations."""
        return {
            logical
            for logical, shards in self._shards.items()
            if any(one.destination in names for one in shards)
        }

    def is_known(self, name: ShardName) -> bool:
        """Whether a version of a real table was read."""
        return name in self._real

    def schema(self, name: TableName, decisions: Decisions) -> LogicalSchema | None:
        """The schema of a logical table by the versions that were read; None if it has none."""
        shards = [self._shard(one) for one in self._shards.get(name, ()) if one in self._real]
        return logical_schema(name, shards, decisions.in_force(name)) if shards else None

    def _shard(self, name: ShardName) -> Shard:
        real = self._real[name]
        return real.shard(dropped_ms=self._dropped.dropped_ms(name, real.newest_ms))


def version_in(value: bytes) -> TableVersion:
    """The version in a record of the schemas topic; raise ValueError if it cannot be compared with others."""
    try:
        found = TableVersion.from_json(orjson.loads(value))
    except JournalUnreadable as error:
        raise ValueError(error.detail) from error
    columns = found.definition.columns
    texts = [found.destination, found.database, found.table, *found.definition.primary_key]
    texts += [text for one in columns for text in (one.name, one.type)]
    texts += [
        text for one in columns for text in (one.charset, one.column_type) if text is not None
    ]
    if not columns or not all(isinstance(one, str) for one in texts):
        raise ValueError("it has no columns, or a name that is no text")
    if not all(isinstance(one, int) for one in (found.version, found.ts_ms)):
        raise ValueError("its number or its time is none")
    if others := [one for one in columns if not is_understood(one.type)]:
        raise ValueError(f"the type {others[0].type} of column {others[0].name} is not understood")
    return found


def version_key_in(key: bytes) -> VersionKey | None:
    """The version that the key of a record names; None if it names none."""
    try:
        return VersionKey.of(orjson.loads(key))
    except (ValueError, KeyError, TypeError):
        return None
