"""Comparison of a schema history with a server's definitions at the same position.

Invariant: each table that either of them has is compared, by what rows depend on; a table that is
not visible on the server is no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Database, Server, Table, TableName
from tables.history.diff import Difference, witnessed
from tables.history.view import SchemaView


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference between the server and the history."""

    table: str
    """``database.table``; a database alone if it is what differs."""
    difference: Difference
    """From the history's to the server's."""


def deviations(
    view: SchemaView,
    tables: Mapping[TableName, Table],
    databases: Mapping[str, Database],
    *,
    server: Server,
    unseen: Collection[TableName] = (),
) -> list[Deviation]:
    """All deviations, by name; tables that are not visible on the server are omitted."""
    names = _Names(server)
    theirs = {names.table(name): table for name, table in tables.items()}
    ours = {names.table(name): table for name, table in view.tables().items()}
    unknown = {names.table(name): state.reason for name, state in view.unresolved().items()}
    hidden = set(map(names.table, unseen))
    found = list(_databases(view, databases, names))
    for name in sorted({*ours, *theirs, *unknown} - hidden):
        title = ".".join(name)
        if name in unknown:
            found.append(Deviation(table=title, difference=_unresolved(unknown[name])))
            continue
        found += [
            Deviation(table=title, difference=one)
            for one in witnessed(ours.get(name), theirs.get(name))
        ]
    return found


def _unresolved(reason: str) -> Difference:
    return Difference(what="table", old=f"not resolved: {reason}", new=None)


def _databases(
    view: SchemaView, databases: Mapping[str, Database], names: _Names
) -> Iterator[Deviation]:
    ours = {names.database(name): value for name, value in view.databases().items()}
    theirs = {names.database(name): value for name, value in databases.items()}
    for name in sorted({*ours, *theirs}):
        old, new = (_text(one.get(name)) for one in (ours, theirs))
        if old != new:
            yield Deviation(
                table=name, difference=Difference(what="character set", old=old, new=new)
            )


def _text(database: Database | None) -> str | None:
    return None if database is None else f"{database.charset} COLLATE {database.collation}"


class _Names:
    """Names as a server compares them."""

    def __init__(self, server: Server) -> None:
        self._lower = bool(server.lower_case_table_names)

    def table(self, name: TableName) -> TableName:
        return (self.database(name[0]), self.database(name[1]))

    def database(self, name: str) -> str:
        return lowered(name) if self._lower else name
