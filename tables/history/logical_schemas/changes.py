"""The changes that some shards of a logical table have and others lack.

Invariant: a change is named by its newest author: the form that a shard took last is the one that the others
lack. Where no shard changed anything, they lack what the union of all has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tables.history.logical_schemas.joined import joined_form
from tables.history.logical_schemas.shard import Shard, ShardName

T = TypeVar("T")


class Kind(Enum):
    """The kinds of changes."""

    ADD = "add"
    DROP = "drop"
    MODIFY = "modify"
    RENAME = "rename"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change, and the shards that have it or lack it."""

    kind: Kind
    column: str
    """In lower case; empty for a change of the key."""
    to: str
    """The new form, name or key, as text; empty for a dropped column."""
    done: tuple[ShardName, ...]
    lacking: tuple[ShardName, ...]
    forms: tuple[str, ...]
    """The different forms or keys among the shards, as text."""
    is_conflict: bool

    @property
    def identity(self) -> str:
        """What differs, whichever shards it is in."""
        kind = Kind.ADD if self.kind is Kind.DROP else self.kind
        to = self.to if kind is Kind.RENAME else ""
        return "\0".join((kind.value, self.column, to, *self.forms))

    def __str__(self) -> str:
        match self.kind:
            case Kind.KEY:
                return f"key ({self.to})"
            case Kind.RENAME | Kind.MODIFY:
                return f"{self.kind.value} {self.column} to {self.to}"
        return f"{self.kind.value} {self.column} {self.to}".rstrip()


def changes_of(shards: Sequence[Shard], columns: Iterable[str]) -> list[Change]:
    """All differences of the shards, by column in the given order; columns are in lower case."""
    renames = list(_renames(shards))
    known = {name for one in renames for name in (one.column, one.to)}
    found = [*renames]
    for column in columns:
        if column not in known:
            found += _of_column(shards, column)
    return [*found, *_of_key(shards)]


def _renames(shards: Sequence[Shard]) -> Iterator[Change]:
    """Columns that some shards renamed and others still have by the earlier name."""
    seen = set()
    for shard in shards:
        for name, origins in sorted(shard.former.items()):
            for origin in sorted(origins - shard.forms.keys()):
                if (origin, name) in seen:
                    continue
                seen.add((origin, name))
                lacking = [one for one in shards if origin in one.forms and name not in one.forms]
                if lacking:
                    yield Change(
                        kind=Kind.RENAME,
                        column=origin,
                        to=name,
                        done=_names(one for one in shards if name in one.forms),
                        lacking=_names(lacking),
                        forms=(),
                        is_conflict=True,
                    )


def _of_column(shards: Sequence[Shard], column: str) -> Iterator[Change]:
    having = [one for one in shards if column in one.forms]
    forms = [one.forms[column] for one in having]
    joined = joined_form(forms)
    if len(having) < len(shards):
        is_there = _newest(
            shards,
            lambda one: column in one.forms,
            {one.name: one.moved_ms.get(column) for one in shards},
        )
        added = True if is_there is None else is_there
        yield Change(
            kind=Kind.ADD if added else Kind.DROP,
            column=column,
            to=str(joined or forms[0]) if added else "",
            done=_names(one for one in shards if (column in one.forms) is added),
            lacking=_names(one for one in shards if (column in one.forms) is not added),
            forms=(),
            is_conflict=False,
        )
    if len(set(forms)) > 1:
        newest = _newest(
            having,
            lambda one: one.forms[column],
            {one.name: one.changed_ms.get(column) for one in having},
        )
        to = newest or joined or _most_frequent(forms)
        yield Change(
            kind=Kind.MODIFY,
            column=column,
            to=str(to),
            done=_names(one for one in having if one.forms[column] == to),
            lacking=_names(one for one in having if one.forms[column] != to),
            forms=_texts(forms),
            is_conflict=joined is None,
        )


def _of_key(shards: Sequence[Shard]) -> Iterator[Change]:
    keys = [one.key for one in shards]
    if len(set(keys)) < 2:
        return
    newest = _newest(shards, lambda one: one.key, {one.name: one.key_changed_ms for one in shards})
    to = _most_frequent(keys) if newest is None else newest
    yield Change(
        kind=Kind.KEY,
        column="",
        to=", ".join(to),
        done=_names(one for one in shards if one.key == to),
        lacking=_names(one for one in shards if one.key != to),
        forms=_texts(", ".join(key) for key in keys),
        is_conflict=True,
    )


def _newest(
    shards: Collection[Shard], value: Callable[[Shard], T], times: Mapping[ShardName, int | None]
) -> T | None:
    """The value of the shard that changed it last; None if none did."""
    moved = [(time, one.name, one) for one in shards if (time := times[one.name]) is not None]
    return value(max(moved)[2]) if moved else None


def _most_frequent(values: Iterable[T]) -> T:
    """The value that most have; among equals the first by its text."""
    counts = Counter(values)
    return min(counts, key=lambda one: (-counts[one], str(one)))


def _names(shards: Iterable[Shard]) -> tuple[ShardName, ...]:
    return tuple(one.name for one in shards)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({str(one) for one in values}))
