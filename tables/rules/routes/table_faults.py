"""Whether a table's columns and key fit its route: the rules of the mapping, and the deletes that it needs.

Invariant: a table that does not fit is refused before its first row, by the same faults that are foretold of a
statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tables.rules.mapping.rules import CONNECT, UNNAMED_FORMATS
from tables.rules.mapping.version_check import version_faults
from tables.rules.routes.routes import Route
from wire.records import KEY_SHARD


def table_faults(route: Route, types: Mapping[str, str], key: tuple[str, ...]) -> list[str]:
    """All faults; ``types``: of the source's columns by name, ``key``: those of the records' key."""
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
    actions = route.mapped.rules.column_actions if route.mapped is not None else ()
    return {one.column.lower(): one.argument for one in actions if one.action == "rename"}


def _deletes_fault(route: Route, key: tuple[str, ...]) -> str | None:
    """Why the rows that a TRUNCATE removes cannot be deleted by their keys, if they are to be."""
    if not route.deletes_rows:
        return None
    rules = route.mapped.rules if route.mapped is not None else None
    if not key:
        why = "the table has no key"
    elif place_columns(route, key) is None:
        why = "partition_by has columns that are not in its key"
    elif route.format == CONNECT:
        why = f"its records are in the format {CONNECT}, whose keys cannot be read back"
    elif rules and rules.shard_in_key == "never" and route.format in UNNAMED_FORMATS:
        why = f"neither keys (shard_in_key: never) nor records ({route.format}) name the real table"
    else:
        return None
    return f"truncates is deletes, and {why}; set truncates to record or omit for it"
