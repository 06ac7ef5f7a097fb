"""Whether a table's columns and key fit its route: the rules of the mapping, and the deletes that it
needs.

Invariant: a table that does not fit is refused before its first row, for the same faults that are predicted for
a statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tables.rules.mapping.row_filter import Family, family_of, predicate
from tables.rules.mapping.rules import CONNECT, NAMING_FORMATS, Rules, Tag, unfit_keys
from tables.rules.routes.routes import Route
from wire.records import KEY_SHARD


def table_faults(route: Route, types: Mapping[str, str], key: tuple[str, ...]) -> list[str]:
    """All faults; ``types``: the source columns' types by name, ``key``: the columns of the records' key."""
    faults: list[str] = []
    if route.mapped is not None:
        faults += version_faults(route.mapped.rules, route.mapped.tags, types, key)
        if route.shard is not None and KEY_SHARD in key:
            faults.append(f"its key has a column {KEY_SHARD}, the name of the real table in keys")
        if route.partition_by and not key:
            faults.append(
                "partition_by needs a key, and the table has none; choose one by the rule key"
            )
    renames = _renames(route)
    deletes = _deletes_fault(route, tuple(renames.get(name.lower(), name) for name in key))
    return faults if deletes is None else [*faults, deletes]


def place_columns(route: Route, key: Iterable[str]) -> list[str] | None:
    """Return the columns that choose a row's partition, by their names in a key; None if the key lacks one.

    ``key``: the names of the key's columns, as published.
    """
    published = {name.lower(): name for name in key}
    renames = _renames(route)
    found = [published.get(renames.get(name.lower(), name).lower()) for name in route.partition_by]
    return None if None in found else [name for name in found if name is not None]


def _renames(route: Route) -> dict[str, str]:
    return route.mapped.rules.renames if route.mapped is not None else {}


def _deletes_fault(route: Route, key: tuple[str, ...]) -> str | None:
    """Why the rows that a TRUNCATE removes cannot be deleted by key; None if they can, or need not be."""
    if not route.deletes_rows:
        return None
    rules = route.mapped.rules if route.mapped is not None else None
    if not key:
        why = "the table has no key"
    elif place_columns(route, key) is None:
        why = "partition_by has columns that are not in its key"
    elif route.format == CONNECT:
        why = f"its records are in the format {CONNECT}, whose keys cannot be read back"
    elif rules and rules.shard_in_key == "never" and route.format not in NAMING_FORMATS:
        why = f"neither keys (shard_in_key: never) nor records ({route.format}) name the real table"
    else:
        return None
    return f"truncates is deletes, and {why}; set truncates to record or omit for it"


# The check of a table's rules against the columns of one version.
#
# Invariant: a rule that a version makes impossible is reported before any row of that version is
# published.


def version_faults(
    rules: Rules, tags: Collection[Tag], types: Mapping[str, str], key: Iterable[str]
) -> list[str]:
    """All faults of rules and tags; ``types``: the columns' types by name, ``key``: the records' key."""
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
        *_no_texts(rules, types),
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
    """Columns that are renamed to the name of another published column."""
    renames = rules.renames
    published = {one.lower() for one in rules.columns} or known
    kept = published - set(renames)
    return [
        f"{old} is renamed to {new}, which is another column's name"
        for old, new in sorted(renames.items())
        if new.lower() in kept
    ]


def _no_texts(rules: Rules, types: Mapping[str, str]) -> list[str]:
    """Columns without texts that have an action for texts: a part of their value may not be of their type."""
    actions = {
        one.column.lower(): one.action for one in rules.column_actions if not one.kind.any_type
    }
    return [
        f"{name} is {kind}, and {actions[name.lower()]} is for texts; use hmac or redact"
        for name, kind in types.items()
        if name.lower() in actions and family_of(kind) is not Family.TEXT
    ]


def _filter_fault(rules: Rules, types: Mapping[str, str]) -> list[str]:
    try:
        if rules.row_filter:
            predicate(rules.row_filter, types)
    except ValueError as error:
        return [f"row_filter: {error}"]
    return []
