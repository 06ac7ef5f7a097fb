"""The differences between two definitions of a table, item by item.

Invariant: equal definitions have no difference, and others have at least one; unchanged items are
not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.mysql.ddl.definition import Column, Index, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One item that differs between two definitions."""

    what: str
    """``table``, ``column``, ``order``, ``primary key``, ``key``, ``character set``, ``options``."""
    name: str = ""
    """The column's or key's name."""
    old: str | None
    """None if the first has none."""
    new: str | None

    def __str__(self) -> str:
        head = f"{self.what} {self.name}".rstrip()
        if self.old is None:
            return f"+ {head}: {self.new}"
        if self.new is None:
            return f"- {head}: {self.old}"
        return f"~ {head}: {self.old} -> {self.new}"


def differences(old: Table | None, new: Table | None) -> list[Difference]:
    """All differences, columns first; for a table that is only in one of them, its presence."""
    if old is None or new is None:
        return list(_presence(old, new))
    found = [*_columns(old, new, whole=True), *_order(old, new), *_keys(old, new)]
    found += _item("character set", _text_of(old), _text_of(new))
    found += _item("options", old.options, new.options)
    return found


def witnessed(old: Table | None, new: Table | None) -> list[Difference]:
    """Differences that rows depend on: columns without their defaults, their order, the primary
    key, and the defaults of added columns."""
    if old is None or new is None:
        return list(_presence(old, new))
    found = [*_columns(old, new, whole=False), *_order(old, new)]
    found += _item("primary key", _listed(old.primary_key), _listed(new.primary_key))
    found += _item("character set", _text_of(old), _text_of(new))
    return found


def column_text(column: Column, *, whole: bool = True) -> str:
    """A column's definition in SQL; not ``whole``: without its default and the like."""
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
    """Only of the columns that both have: others are listed already."""
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
