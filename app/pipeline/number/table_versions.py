"""The version of a table's columns at a position of the stream.

Invariant: a version is announced before the first row that uses it; a table whose definition did not change
keeps its number, through restarts too, since the journal stores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.position import Coordinates
from tables.routes.routes import Route
from tables.table_version import Definition, TableVersion

Name = tuple[str, str]
"""Database and table."""


class VersionBook:
    """The latest version of each table of a destination."""

    def __init__(
        self,
        destination: str,
        *,
        known: Mapping[Name, TableVersion],
    ) -> None:
        self._destination = destination
        self._latest = dict(known)
        self._spread = {one.topic: one.partitions for one in known.values() if one.partitions}
        self.count = sum(version.version for version in known.values())
        """Count of the versions of all tables."""

    def learn(self, version: TableVersion) -> None:
        """Record a version announced elsewhere; a known one changes nothing."""
        name = (version.database, version.table)
        latest = self._latest.get(name)
        if latest is None or latest.version < version.version:
            self._latest[name] = version
            if version.partitions:
                self._spread[version.topic] = version.partitions
            self.count += version.version - (latest.version if latest else 0)

    def latest(self, database: str, table: str) -> TableVersion | None:
        """Return the latest version of a table, if any of its rows was ever published."""
        return self._latest.get((database, table))

    def partitions(self, topic: str) -> int | None:
        """Return the partition count of a topic's keys, if recorded."""
        return self._spread.get(topic)

    def at(
        self,
        route: Route,
        definition: Definition,
        transaction: Transaction,
        pos: int,
        *,
        shows_not_null: bool = True,
    ) -> tuple[TableVersion, bool]:
        """Return the version of a table whose rows at ``pos`` have this definition, and whether it is new.

        Without ``shows_not_null`` the definition lacks the nullability of columns.
        """
        database, table = route.table
        latest = self._latest.get(route.table)
        if latest is not None:
            if not shows_not_null:
                definition = _with_nullability(definition, latest.definition)
            if latest.definition.is_same(definition) and latest.topic == route.topic:
                return latest, False
        version = TableVersion(
            destination=self._destination,
            database=database,
            table=table,
            version=latest.version + 1 if latest else 1,
            topic=route.topic,
            definition=definition,
            gtid=transaction.gtid,
            coordinates=Coordinates(transaction.file, pos),
            ts_ms=transaction.committed_ms,
            partitions=self._partitions_of(route, latest),
        )
        self.learn(version)
        return version, True

    def _partitions_of(self, route: Route, latest: TableVersion | None) -> int:
        """Return the partition count of a table's keys; a topic keeps its own, whichever table came first."""
        is_noted = latest is not None and latest.topic == route.topic
        noted = latest.partitions if latest is not None and is_noted else None
        return noted or self.partitions(route.topic) or route.partitions


def _with_nullability(definition: Definition, known: Definition) -> Definition:
    """Return a definition with the nullability of ``known``."""
    nullable = {column.name: column.nullable for column in known.columns}
    columns = (
        replace(one, nullable=nullable.get(one.name, one.nullable)) for one in definition.columns
    )
    return replace(definition, columns=tuple(columns))
