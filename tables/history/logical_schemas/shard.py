"""One shard of a logical table: a real table, its newest columns, and when each of them changed.

Invariant: only the versions decide, not the order in which they are received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tables.rules.table_version import TableVersion
from wire.table_version import Column, Definition


class ShardName(NamedTuple):
    """The name of a real table, over all destinations."""

    destination: str
    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.destination}:{self.database}.{self.table}"


class Form(NamedTuple):
    """A column without its name, as far as subscribers see it."""

    type: str
    nullable: bool
    charset: str | None

    @classmethod
    def of(cls, column: Column) -> Form:
        """The form of a column."""
        return cls(column.type, column.nullable, column.charset)

    def __str__(self) -> str:
        charset = f" {self.charset}" if self.charset else ""
        return f"{self.type}{charset}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A real table as its versions show it; columns are known by their names in lower case."""

    name: ShardName
    version: int
    """The newest version."""
    dropped_ms: int | None
    """The time at which the table was dropped; None if it exists."""
    definition: Definition
    forms: Mapping[str, Form]
    key: tuple[str, ...]
    """The columns of the records' key, in order; empty if there is none."""
    moved_ms: Mapping[str, int]
    """By column, the time of the version that last added or dropped it; first columns have no time."""
    changed_ms: Mapping[str, int]
    """By column, the time of the version that last changed its form."""
    key_changed_ms: int | None
    """None if it is the key of the first version."""
    former: Mapping[str, frozenset[str]]
    """By column, the earlier names of a renamed column."""


@dataclass(slots=True)
class RealTable:
    """All versions of one real table."""

    name: ShardName
    versions: dict[int, TableVersion] = field(default_factory=dict)

    def take(self, version: TableVersion) -> bool:
        """Add a version; return whether it is new."""
        is_new = version.version not in self.versions
        self.versions[version.version] = version
        return is_new

    @property
    def newest_ms(self) -> int:
        """The time of the newest version."""
        return self.versions[max(self.versions)].ts_ms

    def shard(self, *, dropped_ms: int | None = None) -> Shard:
        """What the versions show together."""
        ordered = [self.versions[number] for number in sorted(self.versions)]
        newest = ordered[-1]
        moved: dict[str, int] = {}
        changed: dict[str, int] = {}
        key_changed: int | None = None
        former: dict[str, frozenset[str]] = {}
        for before, after in pairwise(ordered):
            old, new = _forms(before.definition), _forms(after.definition)
            for name in old.keys() | new.keys():
                if (name in old) != (name in new):
                    moved[name] = after.ts_ms
                    changed.pop(name, None)
                elif old[name] != new[name]:
                    changed[name] = after.ts_ms
            if _key(before.definition) != _key(after.definition):
                key_changed = after.ts_ms
            for origin, name in _renames(before.definition, after.definition):
                former[name] = former.pop(origin, frozenset()) | {origin}
        forms = _forms(newest.definition)
        return Shard(
            name=self.name,
            version=newest.version,
            dropped_ms=dropped_ms,
            definition=newest.definition,
            forms=forms,
            key=_key(newest.definition),
            moved_ms=moved,
            changed_ms=changed,
            key_changed_ms=key_changed,
            former={name: origins for name, origins in former.items() if name in forms},
        )


def _forms(definition: Definition) -> dict[str, Form]:
    return {column.name.lower(): Form.of(column) for column in definition.columns}


def _key(definition: Definition) -> tuple[str, ...]:
    return tuple(name.lower() for name in definition.primary_key)


def _renames(before: Definition, after: Definition) -> list[tuple[str, str]]:
    """The columns that one step renamed: another name with the same form, at the same position.

    A version does not contain its statement, so DROP and ADD at the same position count as a rename too.
    """
    if len(before.columns) != len(after.columns):
        return []
    old, new = _forms(before), _forms(after)
    pairs = (
        (one.name.lower(), other.name.lower())
        for one, other in zip(before.columns, after.columns, strict=True)
        if Form.of(one) == Form.of(other)
    )
    return [(origin, name) for origin, name in pairs if origin not in new and name not in old]
