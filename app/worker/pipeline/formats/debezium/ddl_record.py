"""The effect of a statement and its impact on subscribers, as fields of a DDL record.

Invariant: without a schema history no effect is reported, rather than one that may be wrong. The steps of an
online schema change tool are reported as the change that they amount to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.worker.pipeline.rules import Rules
from app.worker.pipeline.statement_effect import Applied
from connectors.mysql.ddl.definition import DatabaseChange, Table, TableChange, TableName
from connectors.mysql.ddl.online.cut_over import OnlineAlter
from connectors.mysql.schema.row_key import row_key
from tables.history.impact.impact import RouteOf, ddl_effects, rows_changed, truncated


def effect_fields(
    applied: Applied | None, rules: Rules, versions: Mapping[TableName, int]
) -> dict[str, Any]:
    """Return fields of a DDL record; none without a history, or if the statement affects nothing in it.

    ``versions``: those of the published tables that it altered or renamed, from it on.
    """
    if applied is None or (applied.record is not None and applied.record.is_of_views):
        return {}
    record, changes = applied.record, list(applied.changes())
    fields: dict[str, Any] = {
        "statement_type": applied.type,
        "outcome": record.outcome if record else "resolved",
        "reason": record.reason if record else None,
        "unresolved": [_name(name) for name in record.unresolved] if record else [],
        "tables": [
            _table(change, versions) for change in changes if isinstance(change, TableChange)
        ],
        "databases": [
            _database(change) for change in changes if isinstance(change, DatabaseChange)
        ],
        "effects": list(_effects(applied, rules.routes.of)),
    }
    online = [one for one in applied.meaning if isinstance(one, OnlineAlter)]
    if online:
        fields["online"] = [{**_named(one.name), "tool": one.tool} for one in online]
    return fields


def _effects(applied: Applied, route_of: RouteOf) -> Iterator[dict[str, Any]]:
    yield from ddl_effects(applied.meaning, route_of, renames=applied.renames)
    for name in applied.emptied:
        yield from (one.to_json() for one in truncated(name, route_of))
    for name, what in applied.unlogged:
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
        "old": definition_of(change.old),
        "new": definition_of(change.new),
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


def definition_of(table: Table | None) -> dict[str, Any] | None:
    """Return a table as the schemas topic describes it, with the other facts of its history."""
    if table is None:
        return None
    return {
        "columns": [column.to_json() for column in table.columns],
        "primary_key": list(row_key(table)),
        "charset": table.charset,
        "collation": table.collation,
    }
