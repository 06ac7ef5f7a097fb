"""A key definition from rows of ``information_schema.statistics``.

Invariant: no query makes a server open each table; for older servers and MariaDB the kind of key is
derived from the types of its columns. Source: MySQL's manual, "The INFORMATION_SCHEMA STATISTICS
Table".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from connectors.mysql.ddl.definition import Column, Index, Server
from connectors.mysql.schema.information_schema_columns import plain_expression

Row = tuple[int, int, str | None, int | None, str | None, str | None, str | None]
"""Position in the key, whether it is not unique, column, length, order, kind, expression."""

_KINDS = {"FULLTEXT", "SPATIAL", "VECTOR"}
_GEOMETRY = re.compile(r"(multi)?(point|linestring|polygon)|geom(etry|collection|etrycollection)")
_TEXTS = re.compile(r"(tiny|medium|long)?text")


def keys(
    listed: Mapping[str, Iterable[Row]], columns: Iterable[Column], server: Server
) -> tuple[Index, ...]:
    """The keys of a table: the primary key, then unique ones, each by name."""
    types = {column.name: column.type.lower() for column in columns}
    found = (_key(name, sorted(rows), types, server) for name, rows in listed.items())
    return tuple(sorted(found, key=lambda one: (one.name != "PRIMARY", not one.unique, one.name)))


def _key(name: str, rows: list[Row], types: Mapping[str, str], server: Server) -> Index:
    rows = [_without_whole_length(row, types, server) for row in rows]
    unique = not rows[0][1]
    kind = rows[0][5] or ("" if unique else _kind(rows, types))
    special = kind if kind in _KINDS else ""
    # The length shown for a spatial key means nothing.
    parts = tuple("" if special == "SPATIAL" else _part(row, server) for row in rows)
    return Index(
        name=name,
        columns=tuple(column or "" for _, _, column, *_ in rows),
        unique=unique,
        prefixed=special != "SPATIAL" and any(row[3] is not None for row in rows),
        parts=parts if any(parts) else (),
        kind=special,
    )


def _without_whole_length(row: Row, types: Mapping[str, str], server: Server) -> Row:
    """A part without the length that MySQL shows for a POINT if it covers the whole column."""
    if server.mariadb or types.get(row[2] or "") != "point":
        return row
    return (*row[:3], None, *row[4:])


def _part(row: Row, server: Server) -> str:
    _, _, _, length, order, _, expression = row
    text = "" if expression is None else f"({plain_expression(expression, server)})"
    text += "" if length is None else f"({length})"
    return f"{text} DESC" if order == "D" else text


def _kind(rows: list[Row], types: Mapping[str, str]) -> str:
    """The only kind of key that these columns allow."""
    for _, _, column, length, *_ in rows:
        kind = types.get(column or "", "")
        if _GEOMETRY.fullmatch(kind):
            return "SPATIAL"
        if length is None and _TEXTS.match(kind):
            return "FULLTEXT"
        if kind.startswith("vector"):
            return "VECTOR"
    return ""
