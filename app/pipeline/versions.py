"""Which version of its columns a table has at this place of the stream.

The law: a version is announced before the first row that uses it; a table whose definition did not change keeps
its number, through restarts too, since the journal has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.mysql.charsets import Charsets
from connectors.mysql.column_type import column_charset, column_type
from connectors.mysql.compiled.decoder import CompiledDecoder
from connectors.mysql.position import Coordinates
from connectors.mysql.table_map import MappedColumn, TableMap
from connectors.mysql.transactions import Transaction
from connectors.wire import row_topic
from tables.version import Column, Definition, TableVersion


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table version with what is needed to publish its rows."""

    version: TableVersion
    decoder: CompiledDecoder


class VersionBook:
    """The latest version of each table of a destination."""

    def __init__(
        self,
        destination: str,
        *,
        prefix: str,
        charsets: Charsets,
        known: Mapping[tuple[str, str], TableVersion],
    ) -> None:
        self._destination = destination
        self._prefix = prefix
        self._charsets = charsets
        self._latest = dict(known)
        self._captured: dict[int, tuple[TableMap, CapturedTable]] = {}
        self.count = sum(version.version for version in known.values())
        """How many versions there are of all tables."""

    def at(
        self, table_map: TableMap, transaction: Transaction, place: Coordinates
    ) -> tuple[CapturedTable, TableVersion | None]:
        """The table as these rows have it, and its version if it is a new one, to be announced."""
        seen = self._captured.get(id(table_map))
        name = (table_map.database, table_map.table)
        if seen is not None and self._latest.get(name) is seen[1].version:
            return seen[1], None
        definition = _definition(table_map, self._charsets)
        latest, announced = self._latest.get(name), None
        if latest is None or latest.definition != definition:
            latest = announced = self._next(table_map, definition, transaction, place)
        table = CapturedTable(
            version=latest,
            decoder=CompiledDecoder(table_map, self._charsets),
        )
        if len(self._captured) > 20_000:
            self._captured.clear()
        # The map is kept beside, so that its id is not given to another while it stands here.
        self._captured[id(table_map)] = (table_map, table)
        return table, announced

    def latest(self, database: str, table: str) -> TableVersion | None:
        """The latest version of a table, if any of its rows was ever published."""
        return self._latest.get((database, table))

    def _next(
        self,
        table_map: TableMap,
        definition: Definition,
        transaction: Transaction,
        place: Coordinates,
    ) -> TableVersion:
        name = (table_map.database, table_map.table)
        latest = self._latest.get(name)
        version = TableVersion(
            destination=self._destination,
            database=table_map.database,
            table=table_map.table,
            version=latest.version + 1 if latest else 1,
            topic=row_topic(self._prefix, *name),
            definition=definition,
            gtid=transaction.gtid,
            coordinates=place,
            ts_ms=transaction.committed_ms,
        )
        self._latest[name] = version
        self.count += 1
        return version


def _definition(table_map: TableMap, charsets: Charsets) -> Definition:
    columns = tuple(_column(column, charsets) for column in table_map.columns)
    key = tuple(columns[index].name for index in table_map.primary_key or ())
    return Definition(columns=columns, primary_key=key)


def _column(column: MappedColumn, charsets: Charsets) -> Column:
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=column.nullable,
        charset=column_charset(column, charsets),
    )
