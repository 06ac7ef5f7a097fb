"""The columns of a table version as the warehouse names them now, and its rows' values in later columns.

Invariant: the rules of the wire contract are applied without the sink's code: a column is found by its
identity, or else by its name; in rows older than a column, the column has its initial value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wire.table_version import Definition

Name = tuple[str, str]
"""Database and table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A version of a table's columns, as consumers have it."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    charsets: tuple[str | None, ...]
    primary_key: tuple[str, ...]
    topic: str
    partitions: int | None = None
    """The number of partitions over which its keys are spread; None if not recorded."""
    ids: tuple[str | None, ...] = ()
    """The identity of each column; None if its name identifies it."""
    initial: tuple[Mapping[str, Any] | None, ...] = ()
    """The value of each column in rows that are older than the column."""
    nullable: tuple[bool, ...] = ()
    """Whether each column may be NULL; empty if that is not known."""

    @classmethod
    def of(cls, definition: Definition) -> Described:
        """Return a definition as a version that is not published."""
        columns = definition.columns
        return cls(
            columns=tuple(one.name for one in columns),
            types=tuple(one.type for one in columns),
            charsets=tuple(one.charset for one in columns),
            primary_key=definition.primary_key,
            topic="",
            ids=tuple(one.id for one in columns),
            initial=tuple(one.initial for one in columns),
            nullable=tuple(one.nullable for one in columns),
        )


Versions = dict[tuple[str, str, int], Described]
"""By database, table and version."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The versions up to which a table of the warehouse has the columns of its source tables."""

    until: Mapping[Name, int] = field(default_factory=dict)
    is_apart: bool = False
    """Whether each row belongs to one of several source tables."""
    stays: tuple[tuple[Name, int, int], ...] = ()
    """The names of a renamed table in their order, each with the first and the last version of its rows."""

    @classmethod
    def of(cls, part: Mapping[str, Any], destination: str) -> Followed:
        """Read the members of a table in a dump; dumps of an earlier sink lack them."""
        own = [one for one in part.get("followed", ()) if one[0] == destination]
        until = {(one[1], one[2]): one[3] for one in own if len(one) == 4}
        # Such an entry ends with the position since which the table had the name.
        renamed = sorted((one for one in own if len(one) > 4), key=lambda one: one[5:7])
        stays = tuple(((one[1], one[2]), one[4], one[3]) for one in renamed)
        return cls(until, bool(part.get("apart")), stays)

    def versions(self, key: tuple[str, str, int], table: Name) -> list[tuple[Name, int, int]]:
        """The names of a table with the versions that its rows had, oldest first; they include `key`.

        Empty if its columns are identified by their names alone.
        """
        own, number = key[:2], key[2]
        if self.stays:
            at = [n for n, (name, _, _) in enumerate(self.stays) if name == own]
            found = list(self.stays)
            if at and not any(found[n][1] <= number <= found[n][2] for n in at):
                _, first, last = found[at[-1]]
                found[at[-1]] = own, min(number, first or number), max(number, last)
            return found
        # Rows from before a rename of the table are older than all others.
        chain = [*sorted(name for name in self.until if name != table), table]
        if self.is_apart:
            chain = [own]
        if not any(name in self.until for name in chain):
            return []
        until = {name: self.until.get(name, 0) for name in chain}
        until[own] = max(number, until.get(own, 0))
        return [(name, 1, until[name]) for name in chain]


@dataclass(frozen=True, slots=True)
class Present:
    """One version: present names by its own names, and values and types by present names, in lower case."""

    names: Mapping[str, str]
    values: Mapping[str, Any]
    types: Mapping[str, str]
    altered: frozenset[str] = frozenset()
    """The present names of columns whose values a later statement may have changed."""

    def image(self, image: Mapping[str, Any]) -> dict[str, Any]:
        """A row's image with the columns as they are now."""
        own = {self.names.get(name.lower(), ""): value for name, value in image.items()}
        own.pop("", None)
        return {**self.values, **own}

    def name(self, name: str) -> str:
        """The present name of a column."""
        return self.names.get(name.lower(), name.lower())


@dataclass(slots=True)
class PresentColumns:
    """The versions of one destination."""

    versions: Versions
    _known: dict[tuple[object, ...], dict[tuple[str, str, int], Present]] = field(
        default_factory=dict
    )

    def of(self, key: tuple[str, str, int], table: Name, followed: Followed) -> Present:
        """A version as it appears in the warehouse's table of that name."""
        described = self.versions.get(key)
        if described is None:
            return Present({}, {}, {})
        held = tuple(followed.versions(key, table))
        if not held:
            return _as_it_is(described)
        if held not in self._known:
            keys = [
                (*name, number)
                for name, first, last in held
                for number in range(first, last + 1)
                if (*name, number) in self.versions
            ]
            found = _placed([self.versions[one] for one in keys])
            self._known[held] = dict(zip(keys, found, strict=True))
        return self._known[held].get(key) or _as_it_is(described)


def _as_it_is(described: Described) -> Present:
    types = {
        name.lower(): kind for name, kind in zip(described.columns, described.types, strict=True)
    }
    return Present({name: name for name in types}, {}, types)


def _placed(versions: list[Described]) -> Iterable[Present]:
    steps = list(_identified(versions))
    last: dict[str, tuple[str, str, Any]] = {}
    used: set[str] = set()
    for described, identities in reversed(list(zip(versions, steps, strict=True))):
        for at, identity in enumerate(identities):
            name = described.columns[at].lower()
            if identity not in last and name not in used:
                last[identity] = name, described.types[at], described.initial[at]
                used.add(name)
    first: dict[str, int] = {}
    for number, identities in enumerate(steps):
        for identity in identities:
            first.setdefault(identity, number)
    for number, (described, identities) in enumerate(zip(versions, steps, strict=True)):
        names = {
            described.columns[at].lower(): last[identity][0]
            for at, identity in enumerate(identities)
            if identity in last
        }
        types = {
            last[identity][0]: described.types[at]
            for at, identity in enumerate(identities)
            if identity in last
        }
        values: dict[str, Any] = {}
        for identity, (name, kind, initial) in last.items():
            if identity not in identities and first[identity] > number:
                values[name], types[name] = (initial or {}).get("value"), kind
        yield Present(names, values, types, frozenset(_altered(versions, steps, number, last)))


def _altered(
    versions: list[Described],
    steps: list[list[str]],
    number: int,
    last: Mapping[str, tuple[str, str, Any]],
) -> Iterable[str]:
    """The columns of a version that got another definition later.

    In a table without a key also columns that are gone, even if they came after the version: the sink has NULL
    in them, as images from after the DROP have.
    """
    own = dict(zip(steps[number], _definitions(versions[number]), strict=True))
    for described, identities in zip(versions[number + 1 :], steps[number + 1 :], strict=True):
        for identity, found in zip(identities, _definitions(described), strict=True):
            if own.get(identity, found) != found and identity in last:
                yield last[identity][0]
    if not versions[-1].primary_key:
        there = {one for step in steps[number:] for one in step}
        yield from (last[one][0] for one in there.difference(steps[-1]) if one in last)


def _definitions(one: Described) -> list[tuple[Any, ...]]:
    nullable = one.nullable or (True,) * len(one.columns)
    return list(zip(one.types, one.charsets, nullable, strict=True))


def _identified(versions: list[Described]) -> Iterable[list[str]]:
    """The identity of each column of each version."""
    known: dict[str, str] = {}
    named: dict[str, str] = {}
    for version in versions:
        taken: dict[str, str] = {}
        for name, id_, initial in zip(version.columns, version.ids, version.initial, strict=True):
            if id_ in known:
                taken[name] = known[id_]
            elif id_ is not None and initial is not None:
                taken[name] = known[id_] = id_
        for name, id_ in zip(version.columns, version.ids, strict=True):
            if name not in taken:
                own = named.get(name.lower())
                if own is None or own in taken.values():
                    own = id_ or name
                    while own in known.values():
                        own += "'"
                taken[name] = known[id_ or name] = own
            known[taken[name]] = named[name.lower()] = taken[name]
        yield [taken[name] for name in version.columns]
