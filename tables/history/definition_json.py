"""Tables, databases and servers as JSON and back; equal tables are read as one object.

Invariant: every later version can read what is written. A column is an array in a fixed order, with
default values omitted at the end; new fields are appended. A change contains both definitions. The
later definition refers to columns and indexes that it shares with the earlier one by their index
there. The earlier definition is a text, named by its digest: it is parsed only if no definition of
that name was read before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import orjson

from connectors.mysql.ddl.definition import (
    Change,
    Column,
    Database,
    DatabaseChange,
    Index,
    Server,
    Session,
    Table,
    TableChange,
    TableName,
)

PACK_BYTES = 256 * 1024
"""The size limit of a record with many tables; one table alone may exceed it."""


def _order(kind: type[Column | Index], first: tuple[str, ...]) -> tuple[str, ...]:
    """The order of fields in an array: the most frequent first, new ones last."""
    return (*first, *(field.name for field in fields(kind) if field.name not in first))


_COLUMN = _order(Column, ("name", "type", "nullable", "definition", "charset", "collation"))
_INDEX = _order(Index, ("name", "columns", "unique"))
_USUAL_COLUMN = {field.name: field.default for field in fields(Column)}
_USUAL_INDEX = {field.name: field.default for field in fields(Index)}
_DIGEST_BYTES = 12


def _array(value: Column | Index, names: tuple[str, ...], usual: dict[str, Any]) -> list[Any]:
    found = [getattr(value, name) for name in names]
    while found[-1] == usual[names[len(found) - 1]]:
        found.pop()
    return found


def table_json(table: Table, old: Table | None = None) -> dict[str, Any]:
    """A table; columns and indexes that it shares with an older definition are given by their index there."""
    columns: list[Any] = [_array(column, _COLUMN, _USUAL_COLUMN) for column in table.columns]
    indexes: list[Any] = [_array(index, _INDEX, _USUAL_INDEX) for index in table.indexes]
    if old is not None:
        # Arrays are compared: a column that was dropped and added again is equal, but its array differs.
        before = [_array(column, _COLUMN, _USUAL_COLUMN) for column in old.columns]
        columns = _counted(list(map(tuple, columns)), columns, tuple(map(tuple, before)))
        indexes = _counted(table.indexes, indexes, old.indexes)
    return {
        "columns": columns,
        "indexes": indexes,
        "charset": table.charset,
        "collation": table.collation,
        "options": table.options,
    }


def _counted(values: Iterable[Any], arrays: list[Any], old: tuple[Any, ...]) -> list[Any]:
    indexes = {value: index for index, value in enumerate(old)}
    return [indexes.get(value, array) for value, array in zip(values, arrays, strict=True)]


def named(table: Table) -> tuple[str, str]:
    """A table as text, and the name of the definition, which only equal tables share."""
    text = orjson.dumps(table_json(table))
    return text.decode(), _digest(text)


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def change_json(change: Change) -> dict[str, Any]:
    """A change of a table or of a database."""
    if isinstance(change, DatabaseChange):
        old, new = (value and _database_json(value) for value in (change.old, change.new))
        return {"database": change.name, "old": old, "new": new}
    found: dict[str, Any] = {"table": change.name, "old": None, "new": None}
    if change.old is not None:
        found["old"], found["old_is"] = named(change.old)
    if change.new is not None:
        found["new"] = table_json(change.new, change.old)
        found["new_is"] = named(change.new)[1]
    if change.renamed_to is not None:
        found["renamed_to"] = change.renamed_to
    if change.renamed_from is not None:
        found["renamed_from"] = change.renamed_from
    return found


def _database_json(database: Database) -> list[str]:
    return [database.charset, database.collation]


def server_json(server: Server) -> dict[str, Any]:
    """The server properties on which a statement's meaning depends."""
    return {
        "version": server.version,
        "mariadb": server.mariadb,
        "lower_case_table_names": server.lower_case_table_names,
    }


def server_from(value: dict[str, Any]) -> Server:
    """Read what ``server_json`` wrote."""
    major, minor, patch = value["version"]
    return Server(
        version=(major, minor, patch),
        mariadb=value["mariadb"],
        lower_case_table_names=value["lower_case_table_names"],
    )


_USUAL_SESSION = Session()


def session_json(session: Session) -> dict[str, Any]:
    """A session, without default values."""
    found = {
        field.name: getattr(session, field.name)
        for field in fields(Session)
        if getattr(session, field.name) != getattr(_USUAL_SESSION, field.name)
    }
    if session.sql_mode:
        found["sql_mode"] = sorted(session.sql_mode)
    return found


def packs(changes: Iterable[Change], *, limit: int = PACK_BYTES) -> list[list[Change]]:
    """Changes in groups that each fit into one record."""
    found: list[list[Change]] = []
    room = 0
    for change in changes:
        size = len(orjson.dumps(change_json(change)))
        if size > room or not found:
            found.append([])
            room = limit
        found[-1].append(change)
        room -= size
    return found


class Definitions:
    """Reads definitions; equal tables are one object, and versions share their equal columns and
    indexes, so that a long history is small."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[Any, ...], Index] = {}
        self._tables: dict[str, Table] = {}
        self._texts: dict[Any, Any] = {}
        self._sessions: dict[bytes, Session] = {}
        self._names: dict[tuple[str, str], TableName] = {}

    def table(
        self, value: dict[str, Any], name: str | None = None, old: Table | None = None
    ) -> Table:
        """Read what ``table_json`` wrote; ``name`` is the definition's, and is needed only with ``old``."""
        name = name or _digest(orjson.dumps(value))
        table = self._tables.get(name)
        if table is None:
            columns = [
                self._column(one) if type(one) is list else _old(old).columns[one]
                for one in value["columns"]
            ]
            indexes = [
                self._index(one) if type(one) is list else _old(old).indexes[one]
                for one in value["indexes"]
            ]
            table = self._tables[name] = Table(
                columns=tuple(columns),
                indexes=tuple(indexes),
                charset=self._one(value["charset"]),
                collation=self._one(value["collation"]),
                options=self._one(value["options"]),
            )
        return table

    def _text(self, text: str, name: str) -> Table:
        """Read what ``named`` wrote."""
        table = self._tables.get(name)
        return self.table(orjson.loads(text), name) if table is None else table

    def _column(self, array: list[Any]) -> Column:
        """Make a new column; values that most columns have are one object.

        A search for equal columns would cost more memory than it saves: a table's versions share theirs anyway.
        """
        name, *others = array
        return Column(**dict(zip(_COLUMN, [name, *map(self._one, others)], strict=False)))

    def _index(self, array: list[Any]) -> Index:
        key = tuple([tuple(one) if type(one) is list else one for one in array])
        index = self._indexes.get(key)
        if index is None:
            fields_: dict[str, Any] = dict(zip(_INDEX, key, strict=False))
            index = self._indexes[key] = Index(**fields_)
        return index

    def _one(self, value: Any) -> Any:
        """One object for all equal texts; most columns have the same values."""
        return self._texts.setdefault(value, value) if type(value) is str else value

    def change(self, value: dict[str, Any]) -> Change:
        """Read what ``change_json`` wrote."""
        old, new = value["old"], value["new"]
        if "database" in value:
            before, after = (
                one and Database(charset=one[0], collation=one[1]) for one in (old, new)
            )
            return DatabaseChange(name=value["database"], old=before, new=after)
        table = None if old is None else self._text(old, value["old_is"])
        return TableChange(
            name=self.name(value["table"]),
            old=table,
            new=None if new is None else self.table(new, value["new_is"], table),
            renamed_to=self.name(value["renamed_to"]) if "renamed_to" in value else None,
            renamed_from=self.name(value["renamed_from"]) if "renamed_from" in value else None,
        )

    def name(self, value: list[str]) -> TableName:
        """A table's name."""
        name = (value[0], value[1])
        return self._names.setdefault(name, name)

    def session(self, value: dict[str, Any]) -> Session:
        """Read what ``session_json`` wrote."""
        key = orjson.dumps(value)
        session = self._sessions.get(key)
        if session is None:
            fields = {**value, "sql_mode": frozenset(value.get("sql_mode", ()))}
            if "charset_collations" in value:
                fields["charset_collations"] = tuple(
                    [(charset, collation) for charset, collation in value["charset_collations"]]
                )
            session = self._sessions[key] = Session(**fields)
        return session


def _old(table: Table | None) -> Table:
    if table is None:
        raise ValueError("a definition refers to an older one, which is missing")
    return table
