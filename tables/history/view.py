"""All tables as of one position of the stream.

Invariant: of each table it has the greatest version at or before that position. A view never
changes while its history grows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, TypeVar

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Database, Server, Table, TableName
from tables.history.position import HistoryPosition, PositionQuery, reached
from tables.history.record import Dropped, Known, TableState, Unresolved
from wire.text import printed

# Versions of many keys, each in force from a step of the history on.
#
# Invariant: versions are only added after existing ones; a rollback makes a new timeline. So a
# reader of an old timeline sees no change while another thread continues.


Key = TypeVar("Key")
Value = TypeVar("Value")

_number = itemgetter(0)


class Timeline(Generic[Key, Value]):
    """The versions of each key, with the number of the step that made them."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: dict[Key, list[tuple[int, Value]]] = {}

    def put(self, key: Key, number: int, value: Value) -> None:
        """Add a version from this step on; steps are in order, and the last version of a step is valid."""
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [(number, value)]
        elif versions[-1][0] == number:
            versions[-1] = (number, value)
        else:
            versions.append((number, value))

    def at(self, key: Key, number: int) -> tuple[int, Value] | None:
        """The greatest version at or before this step, and the step that made it."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        found = bisect_right(versions, number, key=_number)
        return versions[found - 1] if found else None

    def names(self) -> list[Key]:
        """All keys that ever had a version; may be called while another thread adds keys."""
        return list(self._versions)

    def all_at(self, number: int) -> Iterator[tuple[Key, int, Value]]:
        """Each key with its version as of this step."""
        for key in self.names():
            found = self.at(key, number)
            if found is not None:
                yield key, *found

    def since(self, number: int) -> Timeline[Key, Value]:
        """Another timeline that begins at this step; versions in force there belong to this step."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            first = bisect_right(versions, number, key=_number)
            begin = [(number, versions[first - 1][1])] if first else []
            new._versions[key] = begin + versions[first:]
        return new

    def until(self, number: int) -> Timeline[Key, Value]:
        """Another timeline without versions after this step."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            kept = versions[: bisect_right(versions, number, key=_number)]
            if kept:
                new._versions[key] = kept
        return new


Version = Table | Unresolved | Dropped | None
"""None: dropped by the step that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """A definition that an operator gave, valid from a position after a step."""

    amends: int
    position: HistoryPosition
    number: int
    """The number of the step that gave it."""
    table: Version

    @property
    def order(self) -> tuple[int, tuple[int, int], int]:
        """The order among several amendments: the greatest is valid."""
        return self.amends, self.position.start.order, self.number


@dataclass(slots=True)
class Versions:
    """The versions of a history at all positions."""

    server: Server
    tables: Timeline[TableName, Version] = field(default_factory=Timeline)
    databases: Timeline[str, Database | None] = field(default_factory=Timeline)
    views: Timeline[TableName, bool] = field(default_factory=Timeline)
    """Whether a view has the name."""
    amendments: dict[TableName, tuple[Amendment, ...]] = field(default_factory=dict)

    def name(self, name: TableName) -> TableName:
        """A table's name as the key of its versions."""
        return (lowered(name[0]), lowered(name[1])) if self.server.lower_case_table_names else name

    def database_name(self, name: str) -> str:
        """A database's name as the key of its versions."""
        return lowered(name) if self.server.lower_case_table_names else name


class SchemaView:
    """The schemas as of a position."""

    def __init__(
        self,
        versions: Versions,
        number: int,
        *,
        query: PositionQuery | None,
        positions: Callable[[int], HistoryPosition],
    ) -> None:
        self._versions = versions
        self._tables, self._databases = versions.tables, versions.databases
        self._views = versions.views
        self._amendments = dict(versions.amendments)
        self.number = number
        """The number of the last step that had happened."""
        self._query = query
        self._positions = positions

    def find(self, schema: str, table: str) -> Table | None:
        """A table's definition; None if it is dropped, unresolved or unknown."""
        found = self._at(self._versions.name((schema, table)))
        return found[0] if found and isinstance(found[0], Table) else None

    def state(self, schema: str, table: str) -> TableState | None:
        """The state of a table and its start; None for a table that the history never contained."""
        found = self._at(self._versions.name((schema, table)))
        if found is None:
            return None
        version, since = found
        if isinstance(version, Unresolved | Dropped):
            return version
        position = self._position(since)
        return Dropped(since=position) if version is None else Known(table=version, since=position)

    def database(self, name: str) -> Database | None:
        """The defaults that tables take from a database; None if it is dropped or unknown."""
        found = self._databases.at(self._versions.database_name(name), self.number)
        return found[1] if found else None

    def tables(self) -> dict[TableName, Table]:
        """All tables whose definition is known."""
        return {name: version for name, version in self.versions() if isinstance(version, Table)}

    def unresolved(self) -> dict[TableName, Unresolved]:
        """All tables whose definition is not known."""
        return {
            name: version for name, version in self.versions() if isinstance(version, Unresolved)
        }

    def dropped(self) -> dict[TableName, HistoryPosition]:
        """All dropped tables, and when they were dropped."""
        return {
            name: version.since for name, version in self.versions() if isinstance(version, Dropped)
        }

    def databases(self) -> dict[str, Database]:
        """All databases."""
        found = self._databases.all_at(self.number)
        return {name: version for name, _, version in found if version is not None}

    def views(self) -> frozenset[TableName]:
        """The names of all views, as the server compares them."""
        return frozenset(name for name, _, is_there in self._views.all_at(self.number) if is_there)

    def has_view(self, schema: str, view: str) -> bool:
        """Whether a view has that name."""
        found = self._views.at(self._versions.name((schema, view)), self.number)
        return found is not None and found[1]

    def snapshot(self, create_table: Callable[[TableName, Table], str]) -> Mapping[str, str]:
        """For each database, the statements that rebuild it."""
        texts: dict[str, list[str]] = {}
        for name, database in sorted(self.databases().items()):
            quoted = name.replace("`", "``")
            charset = f"CHARACTER SET {database.charset} COLLATE {database.collation}"
            texts[name] = [f"CREATE DATABASE `{quoted}` DEFAULT {charset};"]
        for table, version in sorted(self.versions(), key=lambda pair: pair[0]):
            lines = texts.setdefault(table[0], [])
            if isinstance(version, Table):
                lines.append(f"{create_table(table, version)};")
            elif isinstance(version, Unresolved):
                reason = " ".join(version.reason.split())
                # Whatever the name contains, the comment ends with its line.
                lines.append(printed(f"-- {'.'.join(table)} is not resolved: {reason}"))
        return {schema: "\n\n".join(lines) + "\n" for schema, lines in texts.items()}

    def versions(self) -> Iterator[tuple[TableName, Version]]:
        """Every table that ever existed, as of this position; a dropped table as Dropped."""
        # An operator may have given the definition of a table that no step has.
        for name in dict.fromkeys((*self._tables.names(), *self._amendments)):
            found = self._at(name)
            if found is not None:
                version, since = found
                yield name, Dropped(since=self._position(since)) if version is None else version

    def _at(self, name: TableName) -> tuple[Version, HistoryPosition | int] | None:
        """A version, and the position or the step that made it."""
        found = self._tables.at(name, self.number)
        since = found[0] if found else 0
        amended = [
            one
            for one in self._amendments.get(name, ())
            if one.amends >= since and self._holds(one)
        ]
        if amended:
            last = max(amended, key=lambda one: one.order)
            return last.table, last.position
        return (found[1], found[0]) if found else None

    def _position(self, since: HistoryPosition | int) -> HistoryPosition:
        return since if isinstance(since, HistoryPosition) else self._positions(since)

    def _holds(self, one: Amendment) -> bool:
        if one.amends != self.number or self._query is None:
            return one.amends <= self.number
        return reached(one.position, self._query) is not False
