"""The check of a table's rules against the columns of one version.

Invariant: a rule that a version makes impossible is reported before any row of that version is published.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tables.rules.mapping.contradictions import unfit_keys
from tables.rules.mapping.filters.families import Family, family_of
from tables.rules.mapping.filters.predicate import predicate
from tables.rules.mapping.logical import Tag
from tables.rules.mapping.rules import Rules


def version_faults(
    rules: Rules, tags: Collection[Tag], types: Mapping[str, str], key: Iterable[str]
) -> list[str]:
    """All faults of rules and tags; ``types``: of the columns by name, ``key``: the records' key."""
    known = {one.lower() for one in types}
    return [
        *(
            f"there is no column {name!r}, which {what} names"
            for what, name in _named(rules, tags)
            if name.lower() not in known
        ),
        *_omitted(rules, tags, key),
        *_renamed(rules, known),
        *unfit_keys(rules, key),
        *_untruncatable(rules, types),
        *_filter_fault(rules, types),
    ]


def _named(rules: Rules, tags: Iterable[Tag]) -> list[tuple[str, str]]:
    named = [("columns", one) for one in rules.columns]
    named += [("key", one) for one in rules.key]
    named += [("partition_by", one) for one in rules.partition_by]
    named += [(f"its action {one.action}", one.column) for one in rules.column_actions]
    return named + [(f"the tag {one.name}", one.column) for one in tags if one.column]


def _omitted(rules: Rules, tags: Iterable[Tag], key: Iterable[str]) -> list[str]:
    published = {one.lower() for one in rules.columns}
    if not published:
        return []
    needed = [(name, "of the records' key") for name in key]
    needed += [(one.column, f"of the tag {one.name}") for one in tags if one.column]
    return [
        f"columns omits {name!r} {what}; add it"
        for name, what in needed
        if name.lower() not in published
    ]


def _renamed(rules: Rules, known: set[str]) -> list[str]:
    """Renames onto another column that is published too."""
    renames = {
        one.column.lower(): one.argument for one in rules.column_actions if one.action == "rename"
    }
    published = {one.lower() for one in rules.columns} or known
    kept = published - set(renames)
    return [
        f"{old} is renamed to {new}, which is another column's name"
        for old, new in sorted(renames.items())
        if new.lower() in kept
    ]


def _untruncatable(rules: Rules, types: Mapping[str, str]) -> list[str]:
    """Columns that are to be truncated and hold no text: a part of another value may not be one of its type."""
    lengths = {one.column.lower() for one in rules.column_actions if one.action == "truncate"}
    return [
        f"{name} is {kind}, and truncate is for texts; use hmac or redact"
        for name, kind in types.items()
        if name.lower() in lengths and family_of(kind) is not Family.TEXT
    ]


def _filter_fault(rules: Rules, types: Mapping[str, str]) -> list[str]:
    try:
        if rules.row_filter:
            predicate(rules.row_filter, types)
    except ValueError as error:
        return [f"row_filter: {error}"]
    return []
