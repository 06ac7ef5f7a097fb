"""The mapping: which logical table, topic and tags a real table has.

Invariant: a mapping is a value. The order of its documents has no meaning, so equal contents are equal
mappings with equal digests.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, Generic, TypeVar

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import LogicalDatabase, LogicalTable, Rules, Tag
from tables.rules.mapping.topic_sharing import TopicSharing

Rule = TypeVar("Rule", LogicalDatabase, LogicalTable)

MOST_TABLES = 20_000
"""The tables whose rules are kept in memory; a source may create and drop tables under ever new names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTable:
    """What a mapping states about one real table."""

    logical: TableName
    topic: str
    """Empty: the table's own row topic."""
    tags: tuple[Tag, ...]
    rules: Rules
    partitions: int
    """Partitions of the topic; 0: the settings' number."""
    repartition_from: int
    """Partitions of the topic before a change that the rules request; 0: they request no change."""
    format: str
    """The name of the records' format."""
    key_has_shard: bool
    """Whether the records' keys name the real table, since keys of several tables could be equal."""
    has_own_case: bool = True
    """Whether the rules that name it literally have its letters in the same case."""


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """All logical databases and tables, sorted by name."""

    databases: tuple[LogicalDatabase, ...] = ()
    tables: tuple[LogicalTable, ...] = ()
    _databases: TableIndex[LogicalDatabase] = field(init=False, repr=False, compare=False)
    _tables: TableIndex[LogicalTable] = field(init=False, repr=False, compare=False)
    _sharing: TopicSharing = field(init=False, repr=False, compare=False)
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
        object.__setattr__(self, "_sharing", TopicSharing(self.databases, self.tables))
        object.__setattr__(self, "_known", {})

    def __reduce__(self) -> tuple[Any, ...]:
        """The contents alone: indexes are computed again."""
        return _made, (self.databases, self.tables)

    @property
    def digest(self) -> str:
        """SHA-256 of the contents, in hexadecimal."""
        shown = [_shown(getattr(self, one.name)) for one in fields(self) if one.init]
        return hashlib.sha256("\0".join(shown).encode()).hexdigest()

    def of(self, table: TableName) -> MappedTable | None:
        """What the mapping states about a real table; None if no rule names the table.

        Raise MappingError if two rules of the same rank match it, if its own name is the logical name of other
        tables, if its topic has two formats, or if keys of its topic are certain to collide.
        """
        try:
            return self._known[table]
        except KeyError:
            found = self._mapped(table)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        self._known[table] = found
        return found

    def _mapped(self, table: TableName) -> MappedTable | None:
        database_name, by_database = _only(self._databases.matches("", table[0]), table)
        if by_database is None and self._sharing.lists_others(table[0]):
            raise MappingError(
                f"{'.'.join(table)} is in a database with the name of a logical one, which does not "
                "list it; add it there, or exclude it by filter.black"
            )
        own = by_database.name if by_database else table[0]
        rule_name, rule = _only(
            self._tables.matches(
                *table,
                lambda name, one: bool(name.database) or one.database.lower() in ("", own.lower()),
            ),
            table,
        )
        if rule is None and (other := self._sharing.owner((own, table[1]))):
            raise MappingError(
                f"{'.'.join(table)} would be published as {other}, which does not list it; add it "
                "there, or give one of the two another name"
            )
        if rule is None and by_database is None:
            return None
        stated = self._stated(table, (own, by_database), rule)
        return replace(stated, has_own_case=_has_own_case(table, database_name, rule_name, rule))

    def _stated(
        self,
        table: TableName,
        database: tuple[str, LogicalDatabase | None],
        rule: LogicalTable | None,
    ) -> MappedTable:
        """What the rules of a table's database and of the table state together."""
        own, by_database = database
        logical = (
            rule.database if rule and rule.database else own,
            rule.name if rule else table[1],
        )
        topic = self._sharing.topic(logical[0], rule)
        rules = rule.rules if rule else Rules()
        return MappedTable(
            logical=logical,
            topic=topic,
            tags=rule.tags if rule else (),
            rules=rules,
            partitions=rules.partitions or self._sharing.partitions(topic),
            repartition_from=rules.repartition_from or self._sharing.repartition_from(topic),
            format=self._sharing.format(logical[0], rule),
            key_has_shard=self._sharing.key_has_shard(logical, by_database, rule),
        )

    def owner_of_topic(self, topic: str) -> str:
        """The rule that names this topic, or a topic that Kafka treats as equal; empty if no rule does."""
        return self._sharing.named.get(topic.replace(".", "_"), "")

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that rules name, without the installation's prefix."""
        found = {one.topic for one in self.databases} | {one.topic for one in self.tables}
        return tuple(sorted(found - {""}))


def _only(found: Matches[Rule], table: TableName) -> tuple[RealName, Rule] | tuple[None, None]:
    """The best matching rule, with the name by which it matches; raise MappingError if there are two."""
    if len(found) > 1:
        (first, one), (second, other) = found[:2]
        raise MappingError(
            f"{'.'.join(table)} matches {first.text!r} of {one.name} and {second.text!r} of "
            f"{other.name}, which have the same rank",
        )
    return found[0] if found else (None, None)


def _has_own_case(
    table: TableName,
    database: RealName | None,
    name: RealName | None,
    rule: LogicalTable | None,
) -> bool:
    """Whether the literal names that match a table have its letters in the same case."""
    if database is not None and database.literal and database.name != table[0]:
        return False
    if name is None or rule is None:
        return True
    if name.literal and (name.database or table[0], name.name) != table:
        return False
    # A rule without a real database is for the logical database, or for the real one of that name.
    return bool(database or name.database) or rule.database in ("", table[0])


def _shown(value: object) -> str:
    """The text of a value without fields at their defaults, so that a new rule changes no old digest."""
    if isinstance(value, tuple):
        return f"({''.join(f'{_shown(one)},' for one in value)})"
    if not is_dataclass(value):
        return repr(value)
    pairs = [(one, getattr(value, one.name)) for one in fields(value)]
    stated = [f"{one.name}={_shown(found)}" for one, found in pairs if found not in _defaults(one)]
    return f"{type(value).__name__}({', '.join(stated)})"


def _defaults(one: Field[Any]) -> list[object]:
    """The default of a field, if it has one."""
    if one.default is not MISSING:
        return [one.default]
    return [one.default_factory()] if one.default_factory is not MISSING else []


def _made(databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]) -> Mapping:
    return Mapping(databases=databases, tables=tables)


Indexed = TypeVar("Indexed")
Matches = list[tuple[RealName, Indexed]]


class TableIndex(Generic[Indexed]):
    """Rules by the real names that they list."""

    def __init__(self, entries: Iterable[tuple[RealName, Indexed]]) -> None:
        self._literal: dict[tuple[str, str], Matches[Indexed]] = {}
        self._patterns: list[tuple[re.Pattern[str], RealName, Indexed]] = []
        for name, rule in entries:
            if name.literal:
                key = (name.database.lower(), name.name.lower())
                self._literal.setdefault(key, []).append((name, rule))
            else:
                pattern = re.compile(name.expression, re.IGNORECASE | re.DOTALL)
                self._patterns.append((pattern, name, rule))

    def matches(
        self,
        database: str,
        name: str,
        fits: Callable[[RealName, Indexed], bool] | None = None,
    ) -> Matches[Indexed]:
        """The matches of the highest rank, one for each rule."""
        own = database.lower()
        found = [one for key in {own, ""} for one in self._literal.get((key, name.lower()), ())]
        found += [
            (real, rule)
            for pattern, real, rule in self._patterns
            if pattern.fullmatch(f"{database}.{name}" if real.database else name)
        ]
        fitting = [one for one in found if fits is None or fits(*one)]
        best = max((real.rank for real, _ in fitting), default=0)
        return list({id(one[1]): one for one in fitting if one[0].rank == best}.values())


# A mapping as a decoder keeps it: as bytes, except while tables are looked up in it.
#
# A decoder looks up each table once, and a mapping of 5,000 tables is 46,000 objects. With these
# objects in memory, encoding a row took a tenth longer, although it uses none of them: measured on
# replayed portions.


_CALLS_OF_REST: Final = 16
"""Calls of ``rest`` without a look-up after which the mapping is packed; unpacking takes 50 ms."""


class PackedMapping:
    """Answers as its mapping does, and keeps the mapping in memory only while it is used."""

    def __init__(self, packed: bytes) -> None:
        """``packed``: a pickled Mapping, of our own process or of its parent."""
        self._packed = packed
        self._mapping: Mapping | None = None
        self._unasked = 0

    @classmethod
    def of_mapping(cls, mapping: Mapping) -> PackedMapping:
        """Pack a mapping."""
        return cls(pickle.dumps(mapping, protocol=5))

    def __reduce__(self) -> tuple[Any, ...]:
        """The bytes alone."""
        return PackedMapping, (self._packed,)

    def __eq__(self, other: object) -> bool:
        """Whether the contents are equal; the other mapping may be packed or not."""
        if isinstance(other, PackedMapping):
            return self._unpacked() == other._unpacked()
        return self._unpacked() == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._unpacked())

    @property
    def tables(self) -> tuple[LogicalTable, ...]:
        return self._unpacked().tables

    def of(self, table: TableName) -> MappedTable | None:
        return self._unpacked().of(table)

    def owner_of_topic(self, topic: str) -> str:
        """See Mapping."""
        return self._unpacked().owner_of_topic(topic)

    @property
    def is_unpacked(self) -> bool:
        """Whether the mapping itself is in memory."""
        return self._mapping is not None

    def rest(self) -> None:
        """Keep only the bytes, if nothing was looked up for several calls."""
        self._unasked += 1
        if self._unasked > _CALLS_OF_REST:
            self._mapping = None

    def _unpacked(self) -> Mapping:
        self._unasked = 0
        if self._mapping is None:
            self._mapping = pickle.loads(self._packed)  # noqa: S301 - see __init__
        return self._mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One logical database or table that was added, removed or changed."""

    kind: str
    """``database`` or ``table``."""
    name: str
    change: str
    """``added``, ``removed`` or ``changed``."""
    parts: tuple[str, ...] = ()
    """What changed: ``real``, ``topic``, ``tags``, ``rules`` and so on."""


def differences(old: Mapping, new: Mapping) -> tuple[Difference, ...]:
    """All differences, databases first, sorted by name."""
    return (
        *_of(
            "database",
            {one.name: one for one in old.databases},
            {one.name: one for one in new.databases},
        ),
        *_of(
            "table", {one.label: one for one in old.tables}, {one.label: one for one in new.tables}
        ),
    )


def _of(
    kind: str,
    old: dict[str, LogicalDatabase] | dict[str, LogicalTable],
    new: dict[str, LogicalDatabase] | dict[str, LogicalTable],
) -> list[Difference]:
    found = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            change = "added" if before is None else "removed"
            found.append(Difference(kind=kind, name=name, change=change))
        elif before != after:
            parts = tuple(
                one.name
                for one in fields(before)
                if getattr(before, one.name) != getattr(after, one.name)
            )
            found.append(Difference(kind=kind, name=name, change="changed", parts=parts))
    return found
