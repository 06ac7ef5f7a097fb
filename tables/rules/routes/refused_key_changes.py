"""Topics with records whose keys a mapping would change.

Invariant: all records of a row in a topic have one key, unless the settings accept a change. Otherwise the
row's earlier records would stay in compacted topics, folds and warehouses forever, beside its newer records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.rules import CONNECT
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion

_MOST_FAULTS = 20


KeyOf = Callable[[TableName], tuple[str, ...] | None]
"""Returns a table's primary key, in lower case; None if it is not known."""


def changed_keys(
    routes: Routes,
    versions: Iterable[TableVersion],
    primary_key: KeyOf = lambda _: None,
) -> list[str]:
    """Return the key changes by the routes, by table; ``versions``: the latest of each table in each topic."""
    found = []
    for version in versions:
        name = version.database, version.table
        route = routes.of(name)
        if route is None or route.topic != version.topic:
            continue
        changes = (
            list(_changes(version, route.stated, primary_key(name)))
            if version.stated is not None
            else []
        )
        formats = {version.format, route.format}
        if len(formats) > 1 and CONNECT in formats and version.definition.primary_key:
            changes.append(
                f"they have the form of {route.format}, and had that of {version.format}"
            )
        if changes:
            found.append(f"{'.'.join(name)} in {version.topic}: {'; '.join(changes)}")
    return found


def returning(
    routes: Routes, versions: Sequence[TableVersion]
) -> list[tuple[TableVersion, TableVersion]]:
    """Return tables that a mapping brings back to an earlier topic: their last version there, and the latest.

    ``versions``: as for ``changed_keys``, the oldest first.

    The topic lacks all changes since that version, so it still has rows that were deleted meanwhile.
    """
    latest = {(one.database, one.table): one for one in versions}
    found = []
    for version in versions:
        name = version.database, version.table
        route, last = routes.of(name), latest[name]
        if route is not None and route.topic == version.topic != last.topic:
            found.append((version, last))
    return found


def changes_refused(changes: list[str]) -> MappingError:
    """The error that states what would change."""
    return MappingError.listed(
        [
            f"keys of published rows would change: {one}. Name a new topic; or state accept: "
            "[changed_keys] in the destination's settings"
            for one in changes[:_MOST_FAULTS]
        ]
    )


def _changes(
    version: TableVersion, now: Mapping[str, Any], primary_key: tuple[str, ...] | None
) -> Iterator[str]:
    before = version.stated or {}
    if bool(before.get("shard")) != bool(now.get("shard")):
        verb = "begin" if now.get("shard") else "no longer begin"
        yield f"they {verb} with the real table (shard_in_key)"
    old_names = {new.lower(): old for old, new in before.get("renamed", {}).items()}
    published = [one.lower() for one in version.definition.primary_key]
    key = [old_names.get(one, one) for one in published]
    had, gets = (one.get("key") for one in (before, now))
    # A rule may state the primary key's own columns; without an earlier rule, the version has these.
    if had != gets and list((primary_key or ()) if gets is None else gets) != key:
        columns = ", ".join(gets) if gets else "those of the primary key"
        yield f"their columns are {columns}, and were {', '.join(key) or 'none'}"
    if before.get("partition_by") != now.get("partition_by"):
        yield "other columns choose their partitions (partition_by)"
    for column, name in zip(key, published, strict=True):
        had, gets = (one.get("masked", {}).get(column) for one in (before, now))
        if had != gets:
            yield f"{column} of the key is " + (
                "masked otherwise" if had and gets else "masked" if gets else "no longer masked"
            )
        if (new := now.get("renamed", {}).get(column, column)).lower() != name:
            yield f"{column} of the key has the name {new}, and had {name}"
