"""The effect of a mapping's column actions on one version of a table: rules, names and dropped columns.

Invariant: row filters and field tags read the values as in the binlog; all else sees the replacements. A fault
in a masked table's rows is reported without the decoder's text, which may quote values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.rows.compiled import CompiledDecoder, Row
from tables.rules.mapping.row_filter import row_filter
from tables.rules.mapping.rules import RENAME
from tables.rules.masking import MaskingRule
from tables.rules.routes.routes import Route
from wire.table_version import Column, Definition

Decode = Callable[[int, bytes], list[Row]]
"""From the type and body of a rows event to its rows."""


class MaskedRow(tuple[str | None, ...]):
    """A row as published, and in ``raw`` the columns that filters and tags read, as in the binlog."""

    raw: tuple[str | None, str | None]
    """The images before and after; never written."""


@dataclass(frozen=True, slots=True)
class MaskedColumns:
    """The actions for the columns of one table; by default none."""

    rules: Mapping[str, MaskingRule] = field(default_factory=dict)
    """By the columns' own names."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """New names by the columns' own."""
    dropped: frozenset[int] = frozenset()
    """Indexes of columns."""
    merged: frozenset[int] = frozenset()
    """Indexes of columns whose different values may be published as the same value, or not at all."""
    watched: frozenset[int] = frozenset()
    """Columns that a filter or a tag reads; empty if all of them are published as they are."""
    masks: bool = False
    """Whether values are hidden."""

    @classmethod
    def of(cls, table_map: TableMap, route: Route) -> MaskedColumns:
        """Return the actions of a route."""
        if route.mapped is None or not route.mapped.rules.column_actions:
            return _NONE
        names = [column.name or "" for column in table_map.columns]
        stated = route.mapped.rules.column_actions
        actions = {one.column.lower(): one for one in stated}
        merged = {one.column.lower() for one in stated if not one.kind.keeps_apart}
        acting = [actions.get(name.lower()) for name in names]
        read = {name.lower() for name in _read(route)}
        watched = frozenset(at for at, name in enumerate(names) if name.lower() in read)
        by_name = route.column_rules
        return cls(
            rules={name: by_name[name.lower()] for name in names if name.lower() in by_name},
            renames={
                name: one.argument
                for name, one in zip(names, acting, strict=True)
                if one is not None and one.action == RENAME
            },
            dropped=frozenset(
                at for at, one in enumerate(acting) if one is not None and one.kind.removes
            ),
            merged=frozenset(at for at, name in enumerate(names) if name.lower() in merged),
            watched=watched if any(acting[at] is not None for at in watched) else frozenset(),
            masks=route.masks,
        )

    def definition(self, definition: Definition) -> Definition:
        """Return a definition, which lacks dropped columns already, with its columns as published."""
        columns = [self._column(column) for column in definition.columns]
        if self.masks:
            # Stored definitions of masked tables have no text of comments either.
            columns = [replace(column, comment=None) for column in columns]
        return replace(
            definition,
            columns=tuple(columns),
            primary_key=tuple(self.renames.get(name, name) for name in definition.primary_key),
            comment=None if self.masks else definition.comment,
        )

    def _column(self, column: Column) -> Column:
        rule = self.rules.get(column.name)
        if rule is not None:
            hidden = {"unknown": ""} if column.initial is not None else None
            return replace(rule.column(column), initial=hidden)
        new = self.renames.get(column.name)
        # The column stays the same if the source renames it, and the mapping publishes it under the old name.
        return column if new is None else replace(column, name=new, id=column.id or column.name)

    def guarded(self, decode: Decode, table_map: TableMap, charsets: Charsets) -> Decode:
        """Return a decoder that adds what filters and tags read, and whose faults quote no value."""
        if self.watched:
            unread = frozenset(range(len(table_map.columns))) - self.watched
            raw = CompiledDecoder(table_map, charsets, key=(), omitted=unread)
            decode = _watched(decode, raw.rows)
        if self.masks:
            decode = _discreet(decode, f"{table_map.database}.{table_map.table}")
        return decode


_NONE = MaskedColumns()


def _watched(decode: Decode, raw: Decode) -> Decode:
    """Add to each row what filters and tags read."""

    def rows(event_type: int, body: bytes) -> list[Row]:
        published = [MaskedRow(row) for row in decode(event_type, body)]
        for row, read in zip(published, raw(event_type, body), strict=True):
            row.raw = read[0], read[1]
        return cast("list[Row]", published)  # the same tuples, with an attribute

    return rows


def _discreet(decode: Decode, name: str) -> Decode:
    """Report faults of rows without quoting values."""

    def rows(event_type: int, body: bytes) -> list[Row]:
        try:
            return decode(event_type, body)
        except MalformedEvent as error:
            kind = type(error.__cause__ or error).__name__
        raise MalformedEvent(
            f"its rows cannot be read ({kind}; the rest is hidden, since the table has masked columns)",
            table=name,
        )

    return rows


def raw_images(row: Row) -> tuple[str | None, str | None]:
    """Return the images that filters and tags read."""
    return row.raw if isinstance(row, MaskedRow) else (row[0], row[1])


def _read(route: Route) -> Iterable[str]:
    """Yield the columns that the row filter and field tags read."""
    if route.mapped is None:
        return
    if route.mapped.rules.row_filter:
        yield from row_filter(route.mapped.rules.row_filter)[1]
    for tag in route.mapped.tags:
        if tag.column:
            yield tag.column
