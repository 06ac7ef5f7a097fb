"""Whether a row can be deleted by the key of its records alone, in the partition that its records are in.

Invariant: a table whose rows cannot be is refused before its first row, if its rules need it.
"""

from __future__ import annotations

from collections.abc import Iterable

from connectors.errors import RuleImpossible
from tables.mapping.rules import CONNECT, UNNAMED_FORMATS
from tables.routes.routes import Route


def place_columns(route: Route, key: Iterable[str]) -> list[str] | None:
    """Return the columns that choose a row's partition, by their names in a key; None if the key lacks one.

    ``key``: the names of the key's columns, as published.
    """
    published = {name.lower(): name for name in key}
    actions = route.mapped.rules.column_actions if route.mapped is not None else ()
    renamed = {one.column.lower(): one.argument for one in actions if one.action == "rename"}
    found = [published.get(renamed.get(name.lower(), name).lower()) for name in route.partition_by]
    return None if None in found else [name for name in found if name is not None]


def check_deletes(route: Route, key: tuple[str, ...]) -> None:
    """Raise RuleImpossible if a TRUNCATE is to be the deletes of its rows, and these cannot be deleted."""
    if not route.deletes_rows:
        return
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
        return
    raise RuleImpossible.of(
        route.table, f"truncates is deletes, and {why}; set truncates to record or omit for it"
    )
