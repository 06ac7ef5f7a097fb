"""What the DDL topic tells of a statement beside its text: what it did, and what that means to subscribers.

The law: without a history of the tables nothing is told of them, rather than something that may be wrong.
"""

from __future__ import annotations

from typing import Any

from connectors.mysql.ddl.online import online_change
from tables.impact import ddl_effects

from connectors.mysql.ddl.definition import DatabaseChange, Table, TableChange
from tables.schema_record import SchemaRecord


def told_of(record: SchemaRecord | None, prefix: str) -> dict[str, Any]:
    """Fields of a DDL record; none where no history is kept, or the statement changed nothing in it."""
    if record is None:
        return {}
    tables = [change for change in record.changes if isinstance(change, TableChange)]
    databases = [change for change in record.changes if isinstance(change, DatabaseChange)]
    online = online_change(tables)
    told: dict[str, Any] = {
        "statement_type": record.type,
        "outcome": record.outcome,
        "reason": record.reason or None,
        "tables": [_table(change) for change in tables],
        "databases": [_database(change) for change in databases],
        "effects": ddl_effects(record.changes, prefix),
    }
    if online is not None:
        told["online"] = {"tool": online.tool, "database": online.name[0], "table": online.name[1]}
    return told


def _table(change: TableChange) -> dict[str, Any]:
    kind = "altered"
    if change.renamed_to or change.renamed_from:
        kind = "renamed"
    elif change.old is None:
        kind = "created"
    elif change.new is None:
        kind = "dropped"
    return {
        "database": change.name[0],
        "table": change.name[1],
        "change": kind,
        "renamed_to": _name(change.renamed_to),
        "renamed_from": _name(change.renamed_from),
        "old": definition_of(change.old),
        "new": definition_of(change.new),
    }


def _name(name: tuple[str, str] | None) -> dict[str, str] | None:
    return None if name is None else {"database": name[0], "table": name[1]}


def _database(change: DatabaseChange) -> dict[str, Any]:
    return {
        "database": change.name,
        "old": change.old and {"charset": change.old.charset, "collation": change.old.collation},
        "new": change.new and {"charset": change.new.charset, "collation": change.new.collation},
    }


def definition_of(table: Table | None) -> dict[str, Any] | None:
    """A table as the schemas topic describes one, and what else its history knows."""
    if table is None:
        return None
    return {
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "nullable": column.nullable,
                "charset": column.charset,
                "collation": column.collation,
                "generated": column.generated,
                "invisible": column.invisible,
            }
            for column in table.columns
        ],
        "primary_key": list(table.primary_key),
        "charset": table.charset,
        "collation": table.collation,
    }
