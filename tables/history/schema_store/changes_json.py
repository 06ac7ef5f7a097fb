"""Changes of tables as JSON in a central schema store, for operators and other programs, and back.

Invariant: every definition is whole and each value is named; default values are omitted. Every
later version can read what is written.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

from connectors.mysql.ddl.definition import (
    Change,
    Column,
    Database,
    DatabaseChange,
    Index,
    Table,
    TableChange,
    TableName,
)

Part = TypeVar("Part", Column, Index)


def change_json(change: Change) -> dict[str, Any]:
    """A change of a table or of a database."""
    if isinstance(change, DatabaseChange):
        pair = {name: _database_json(getattr(change, name)) for name in ("old", "new")}
        return {"database": change.name, **pair}
    found: dict[str, Any] = {"table": change.name}
    found |= {name: _table_json(getattr(change, name)) for name in ("old", "new")}
    for name in ("renamed_to", "renamed_from"):
        if getattr(change, name) is not None:
            found[name] = getattr(change, name)
    return found


def _database_json(database: Database | None) -> dict[str, str] | None:
    if database is None:
        return None
    return {"charset": database.charset, "collation": database.collation}


def _table_json(table: Table | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {
        "columns": [_part_json(column) for column in table.columns],
        "indexes": [_part_json(index) for index in table.indexes],
        "charset": table.charset,
        "collation": table.collation,
        "options": table.options,
    }


def _part_json(part: Column | Index) -> dict[str, Any]:
    values = {field.name: (getattr(part, field.name), field.default) for field in fields(part)}
    return {name: value for name, (value, usual) in values.items() if _differs(value, usual)}


def _differs(value: object, usual: object) -> bool:
    return usual is MISSING or value != usual


class Changes:
    """Reads changes; equal columns and tables are one object, so that a long history is small."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def change(self, value: dict[str, Any]) -> Change:
        """Read what ``change_json`` wrote; raise KeyError or TypeError if it is not that."""
        old, new = value["old"], value["new"]
        if "database" in value:
            return DatabaseChange(
                name=value["database"],
                old=old and Database(**old),
                new=new and Database(**new),
            )
        return TableChange(
            name=_name(value["table"]),
            old=self._table(old),
            new=self._table(new),
            renamed_to=_name(value["renamed_to"]) if "renamed_to" in value else None,
            renamed_from=_name(value["renamed_from"]) if "renamed_from" in value else None,
        )

    def _table(self, value: dict[str, Any] | None) -> Table | None:
        if value is None:
            return None
        columns = tuple([self._part(Column, one) for one in value["columns"]])
        indexes = tuple([self._part(Index, one) for one in value["indexes"]])
        rest = {name: value[name] for name in ("charset", "collation", "options")}
        # Equal columns and keys are one object, so identity is equality.
        key = (tuple(map(id, columns)), tuple(map(id, indexes)), *rest.values())
        if key not in self._kept:
            self._kept[key] = Table(columns=columns, indexes=indexes, **rest)
        return cast(Table, self._kept[key])

    def _part(self, kind: type[Part], value: dict[str, Any]) -> Part:
        fields: dict[str, Any] = {
            name: tuple(one) if type(one) is list else one for name, one in value.items()
        }
        key = (kind, *fields.items())
        if key not in self._kept:
            self._kept[key] = kind(**fields)
        return cast(Part, self._kept[key])


def _name(value: list[str]) -> TableName:
    return value[0], value[1]
