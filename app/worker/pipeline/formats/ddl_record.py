"""The effect of a statement in its DDL record: its tables before and after it, and its impact on subscribers.

Without a schema history no effect is reported, since it might be wrong. The steps of an online schema change
tool are reported as the one change that they amount to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from app.worker.pipeline.rules import PublishingRules
from connectors.mysql.ddl.definition import DatabaseChange, Table, TableChange, TableName
from connectors.mysql.ddl.online import OnlineAlter
from connectors.mysql.schema.table_map_key import row_key
from tables.history.impact.impact import RouteOf, ddl_effects, rows_changed, rows_kept, truncated
from tables.history.resolved_statement import ResolvedStatement


def effect_fields(
    resolved: ResolvedStatement | None,
    rules: PublishingRules,
    versions: Mapping[TableName, int],
    *,
    parks: Collection[TableName] = (),
) -> dict[str, Any]:
    """Return the fields of a statement's effect in a DDL record; none without a history or an effect.

    ``versions`` has the versions, from the statement on, of published tables that it altered or renamed;
    ``parks``, the quarantined tables that it concerns.
    """
    if resolved is None or (resolved.record is not None and resolved.record.is_of_views):
        return {}
    changes = list(resolved.logical_changes())
    fields: dict[str, Any] = {
        "statement_type": resolved.type,
        "outcome": "resolved" if resolved.reason is None else "unresolved",
        "reason": resolved.reason,
        "unresolved": [_name(name) for name in resolved.unresolved],
        "tables": [
            _table(change, versions) for change in changes if isinstance(change, TableChange)
        ],
        "databases": [
            _database(change) for change in changes if isinstance(change, DatabaseChange)
        ],
        "effects": list(_effects(resolved, rules.routes.of, parks)),
    }
    online = [one for one in resolved.logical if isinstance(one, OnlineAlter)]
    if online:
        fields["online"] = [{**_named(one.name), "tool": one.tool} for one in online]
    return fields


def _effects(
    resolved: ResolvedStatement, route_of: RouteOf, parks: Collection[TableName]
) -> Iterator[dict[str, Any]]:
    yield from ddl_effects(resolved.logical, route_of, renames=resolved.renames)
    for change in resolved.departed():
        if change.name in parks:
            yield from (one.to_json() for one in rows_kept(change.name, route_of))
    for name in resolved.emptied:
        yield from (one.to_json() for one in truncated(name, route_of))
    for name, what in resolved.unlogged:
        yield from (one.to_json() for one in rows_changed(name, what, route_of))


def _table(change: TableChange, versions: Mapping[TableName, int]) -> dict[str, Any]:
    kind = "altered"
    if change.renamed_to or change.renamed_from:
        kind = "renamed"
    elif change.old is None:
        kind = "created"
    elif change.new is None:
        kind = "dropped"
    number = versions.get(change.name) if change.new is not None else None
    return {
        **_named(change.name),
        "change": kind,
        **({} if number is None else {"version": number}),
        "renamed_to": _name(change.renamed_to),
        "renamed_from": _name(change.renamed_from),
        "old": _definition(change.old),
        "new": _definition(change.new),
    }


def _name(name: TableName | None) -> dict[str, str] | None:
    return None if name is None else _named(name)


def _named(name: TableName) -> dict[str, str]:
    return {"database": name[0], "table": name[1]}


def _database(change: DatabaseChange) -> dict[str, Any]:
    return {
        "database": change.name,
        "old": change.old and {"charset": change.old.charset, "collation": change.old.collation},
        "new": change.new and {"charset": change.new.charset, "collation": change.new.collation},
    }


def _definition(table: Table | None) -> dict[str, Any] | None:
    # As the schemas topic describes a table, with the other facts of its history.
    if table is None:
        return None
    return {
        "columns": [column.to_json() for column in table.columns],
        "primary_key": list(row_key(table)),
        "charset": table.charset,
        "collation": table.collation,
    }
