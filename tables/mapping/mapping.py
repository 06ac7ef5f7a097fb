"""The mapping: which logical table, topic and tags a real table has.

Invariant: a mapping is a value. The order of its documents has no meaning, so equal contents are equal
mappings with equal digests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.mapping.real_name import RealName
from tables.mapping.rules import Rules
from tables.mapping.table_index import Matches, TableIndex


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Tag:
    """A tag of a logical table's records."""

    name: str
    column: str = ""
    """The column whose change gives a record the tag; empty: each record has it."""

    @property
    def label(self) -> str:
        """The name, with the column if it has one."""
        return f"{self.name} ({self.column})" if self.column else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalDatabase:
    """A logical database and the real ones it stands for."""

    name: str
    real: tuple[str, ...] = ()
    """Names and patterns of real databases; none: the database of the same name."""
    topic: str = ""
    """The topic of all its tables; empty: each table has its own."""
    share_topic: bool = False
    """Whether another logical name may have the same topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTable:
    """A logical table and the real ones it stands for."""

    name: str
    database: str = ""
    """Its logical database; empty: any."""
    real: tuple[str, ...] = ()
    """Names and patterns, each ``table`` or ``database.table``; none: the table of the same name."""
    topic: str = ""
    share_topic: bool = False
    tags: tuple[Tag, ...] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def label(self) -> str:
        """The name with the database if it has one."""
        return f"{self.database}.{self.name}" if self.database else self.name


Rule = TypeVar("Rule", LogicalDatabase, LogicalTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTable:
    """What a mapping states about one real table."""

    logical: TableName
    topic: str
    """Empty: the table's own row topic."""
    tags: tuple[Tag, ...]
    rules: Rules


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """All logical databases and tables, sorted by name."""

    databases: tuple[LogicalDatabase, ...] = ()
    tables: tuple[LogicalTable, ...] = ()
    _databases: TableIndex[LogicalDatabase] = field(init=False, repr=False, compare=False)
    _tables: TableIndex[LogicalTable] = field(init=False, repr=False, compare=False)
    _topics: dict[str, str] = field(init=False, repr=False, compare=False)
    _known: dict[TableName, MappedTable | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        databases = [
            (RealName.of_database(text), one)
            for one in self.databases
            for text in one.real or (one.name,)
        ]
        tables = [
            (RealName.of_table(text), one)
            for one in self.tables
            for text in one.real or (one.name,)
        ]
        object.__setattr__(self, "_databases", TableIndex(databases))
        object.__setattr__(self, "_tables", TableIndex(tables))
        topics = {one.name.lower(): one.topic for one in self.databases}
        object.__setattr__(self, "_topics", topics)
        object.__setattr__(self, "_known", {})

    def __reduce__(self) -> tuple[Any, ...]:
        """The contents alone: indexes are computed again."""
        return _made, (self.databases, self.tables)

    @property
    def digest(self) -> str:
        """SHA-256 of the contents, in hexadecimal."""
        shown = [repr(getattr(self, one.name)) for one in fields(self) if one.init]
        return hashlib.sha256("\0".join(shown).encode()).hexdigest()

    def of(self, table: TableName) -> MappedTable | None:
        """The logical table of a real one; None if nothing names it.

        Raises MappingError if two rules of the same rank match it.
        """
        try:
            return self._known[table]
        except KeyError:
            found = self._known[table] = self._mapped(table)
            return found

    def _mapped(self, table: TableName) -> MappedTable | None:
        by_database = _only(self._databases.matches("", table[0]), table)
        own = by_database.name if by_database else table[0]
        rule = _only(
            self._tables.matches(
                *table,
                lambda name, one: bool(name.database) or one.database.lower() in ("", own.lower()),
            ),
            table,
        )
        if rule is None and by_database is None:
            return None
        database = rule.database if rule and rule.database else own
        return MappedTable(
            logical=(database, rule.name if rule else table[1]),
            topic=(rule.topic if rule else "") or self._topic(database),
            tags=rule.tags if rule else (),
            rules=rule.rules if rule else Rules(),
        )

    def _topic(self, database: str) -> str:
        """The topic of a logical database; empty if it has none."""
        return self._topics.get(database.lower(), "")


def _only(found: Matches[Rule], table: TableName) -> Rule | None:
    """The rule that matches best; raise MappingError if there are two."""
    if len(found) > 1:
        (first, one), (second, other) = found[:2]
        raise MappingError(
            f"{'.'.join(table)} matches {first.text!r} of {one.name} and {second.text!r} of "
            f"{other.name}, which have the same rank",
        )
    return found[0][1] if found else None


def _made(databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]) -> Mapping:
    return Mapping(databases=databases, tables=tables)
