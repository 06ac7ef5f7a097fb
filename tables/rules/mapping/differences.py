"""The differences of two mappings as values."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tables.rules.mapping.logical import LogicalDatabase, LogicalTable
from tables.rules.mapping.mapping import Mapping


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
