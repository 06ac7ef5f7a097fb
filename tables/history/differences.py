"""The differences between two definitions of a table, item by item, and between a history and a server.

Invariant: equal definitions have no difference, unequal definitions have at least one; unchanged
items are not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Database, Index, Server, Table, TableName
from tables.history.view import SchemaView


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One item that differs between two definitions."""

    what: str
    """``table``, ``column``, ``order``, ``primary key``, ``key``, ``character set``, ``options``."""
    name: str = ""
    """The column's or key's name."""
    old: str | None
    """None if the first definition lacks the item; likewise ``new`` and the second."""
    new: str | None

    def __str__(self) -> str:
        head = f"{self.what} {self.name}".rstrip()
        if self.old is None:
            return f"+ {head}: {self.new}"
        if self.new is None:
            return f"- {head}: {self.old}"
        return f"~ {head}: {self.old} -> {self.new}"


def differences(old: Table | None, new: Table | None) -> list[Difference]:
    """All differences, columns first; if only one side has the table, its presence."""
    if old is None or new is None:
        return list(_presence(old, new))
    found = [*_columns(old, new, whole=True), *_order(old, new), *_keys(old, new)]
    found += _item("character set", _text_of(old), _text_of(new))
    found += _item("options", old.options, new.options)
    return found


def witnessed(old: Table | None, new: Table | None) -> list[Difference]:
    """Differences that rows depend on: columns without their default values, their order, the primary
    key, and the table's character set, which added columns take."""
    if old is None or new is None:
        return list(_presence(old, new))
    found = [*_columns(old, new, whole=False), *_order(old, new)]
    found += _item("primary key", _listed(old.primary_key), _listed(new.primary_key))
    found += _item("character set", _text_of(old), _text_of(new))
    return found


def column_text(column: Column, *, whole: bool = True) -> str:
    """A column's definition in SQL; unless ``whole``, without its default value and similar attributes."""
    words = [column.type]
    if column.charset is not None:
        words.append(f"CHARACTER SET {column.charset} COLLATE {column.collation}")
    words += [] if column.nullable else ["NOT NULL"]
    more = column.definition if whole else ""
    if column.generated is not None and not more.startswith("GENERATED"):
        words.append(column.generated.upper())
    words += [more] if more else []
    words += ["INVISIBLE"] if column.invisible else []
    return " ".join(words)


def key_text(index: Index) -> str:
    """A key's parts and kind."""
    parts = index.parts or ("",) * len(index.columns)
    inside = ", ".join(column + part for column, part in zip(index.columns, parts, strict=True))
    kind = index.kind or ("UNIQUE" if index.unique and index.name != "PRIMARY" else "")
    return " ".join(filter(None, (kind, f"({inside})", index.options)))


def _presence(old: Table | None, new: Table | None) -> Iterator[Difference]:
    if old is not new:
        yield Difference(what="table", old=_counted(old), new=_counted(new))


def _counted(table: Table | None) -> str | None:
    return None if table is None else f"{len(table.columns)} column(s)"


def _columns(old: Table, new: Table, *, whole: bool) -> Iterator[Difference]:
    before = {column.name: column_text(column, whole=whole) for column in old.columns}
    after = {column.name: column_text(column, whole=whole) for column in new.columns}
    for name in dict.fromkeys([*before, *after]):
        yield from _item("column", before.get(name), after.get(name), name=name)


def _order(old: Table, new: Table) -> list[Difference]:
    """The order of the columns that both tables have: other columns are listed already."""
    names = {column.name for column in new.columns} & {column.name for column in old.columns}
    before, after = (
        _listed(column.name for column in table.columns if column.name in names)
        for table in (old, new)
    )
    return _item("order", before, after)


def _keys(old: Table, new: Table) -> Iterator[Difference]:
    before, after = (
        {index.name: key_text(index) for index in table.indexes} for table in (old, new)
    )
    for name in dict.fromkeys([*before, *after]):
        what, shown = ("primary key", "") if name == "PRIMARY" else ("key", name)
        yield from _item(what, before.get(name), after.get(name), name=shown)


def _item(what: str, old: str | None, new: str | None, *, name: str = "") -> list[Difference]:
    return [] if old == new else [Difference(what=what, name=name, old=old, new=new)]


def _listed(names: Iterator[str] | tuple[str, ...]) -> str:
    return f"({', '.join(names)})"


def _text_of(table: Table) -> str:
    return f"{table.charset} COLLATE {table.collation}"


# Comparison of a schema history with a server's definitions at the same position.
#
# Invariant: each table of the history or of the server is compared, by what rows depend on; a table
# that is not visible on the server is not a difference.


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference between the server and the history."""

    table: str
    """``database.table``; the database alone if the database itself differs."""
    difference: Difference
    """From the history's definition to the server's."""


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
