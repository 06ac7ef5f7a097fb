"""Table map check: whether a table's rows match its definition, as far as the binlog shows.

Invariant: a table map and a definition of the same table never differ, at any level of metadata, and
whatever columns a server hides from its own list. A property that a table map does not contain is not
a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.errors import DefinitionMismatch, UnsupportedEvent
from connectors.mysql.binlog.table_map import LABELLED, MARIADB_CHARACTER, TableMap
from connectors.mysql.charsets import BINARY, Charsets, lowered
from connectors.mysql.ddl.definition import Column, Server, Table
from connectors.mysql.schema.hidden_columns import (
    hidden_column,
    hidden_columns,
    is_row_end,
    names_of_expressions,
)
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.schema.table_map_completion import (
    completed,
    described,
    faults,
    labels_in,
    plain_type,
)
from connectors.mysql.schema.table_map_key import key_differences, row_key
from connectors.mysql.types.geometries import GEOMETRIES
from connectors.mysql.types.labels import labels_of
from connectors.mysql.types.registry import FieldType, MappedColumn

_WITH_COLLATION = (MARIADB_CHARACTER | LABELLED) - {FieldType.GEOMETRY}
_COMPARED = ("unsigned", "collation", "labels", "geometry_type", "dimensions", "visible")


def differences(
    table_map: TableMap, table: Table, charsets: Charsets, *, server: Server
) -> list[str]:
    """Return the contradictions between a table map and a definition, as text; empty if they agree.

    Another collation of the same character set is not a contradiction, because it changes no value.
    """
    definitions = column_definitions(table_map, table, charsets, server=server)
    if definitions is None:
        return [_counts(table_map, table)]
    table_map = _with_nullability(table_map, definitions)
    found: list[str] = []
    for number, (mapped, definition) in enumerate(
        zip(table_map.columns, definitions, strict=True), 1
    ):
        found += _column_differences(number, mapped, definition, charsets)
    if all(column.name is not None for column in table_map.columns):
        found += key_differences(table_map, table, charsets)
    return found


def completed_map(
    table_map: TableMap, table: Table, charsets: Charsets, *, server: Server
) -> TableMap:
    """The table map with the definition's names, signs, collations, labels, key and NOT NULL.

    Raise DefinitionMismatch if the two differ.
    """
    definitions = column_definitions(table_map, table, charsets, server=server)
    if definitions is None:
        name = f"{table_map.database}.{table_map.table}"
        raise DefinitionMismatch(_counts(table_map, table), table=name)
    table_map = _with_nullability(table_map, definitions)
    return described(table_map, definitions, charsets)


def with_nullability(
    table_map: TableMap, table: Table, charsets: Charsets, *, server: Server
) -> TableMap:
    """Return the table map with the definition's NOT NULL columns; unchanged if the columns do not match."""
    definitions = column_definitions(table_map, table, charsets, server=server)
    return table_map if definitions is None else _with_nullability(table_map, definitions)


def _with_nullability(table_map: TableMap, definitions: Sequence[ColumnDefinition]) -> TableMap:
    """Return the table map with the definition's NOT NULL columns, if an outer join may have hidden them."""
    if not table_map.may_hide_not_null:
        return table_map
    columns = (
        column if definition.nullable else replace(column, nullable=False)
        for column, definition in zip(table_map.columns, definitions, strict=True)
    )
    return replace(table_map, columns=tuple(columns))


def column_definitions(
    table_map: TableMap, table: Table, charsets: Charsets, *, server: Server
) -> tuple[ColumnDefinition, ...] | None:
    """Return the definitions of all columns in the rows, including columns that the server hides.

    None if the definition, with hidden columns, does not have as many columns as the rows.
    """
    count = len(table.columns)
    if len(table_map.columns) < count:
        return None
    shown = tuple(column_definition(column, charsets) for column in table.columns)
    extra = table_map.columns[count:]
    found: tuple[ColumnDefinition, ...] | None
    if not extra:
        found = shown
    elif server.mariadb:
        hides = table_map.may_hide_not_null
        hidden = hidden_columns(extra, table, charsets, hides_not_null=hides)
        found = None if hidden is None else (*shown, *hidden)
    else:
        found = _with_expressions(table_map, table, shown, charsets)
    if found is None:
        return None
    key = row_key(table, charsets)
    positions = {lowered(name): number for number, name in enumerate(key, 1)}
    if key and server.mariadb:
        end = next((one.name for one in found if is_row_end(one.name, table)), None)
        if end is not None:
            positions.setdefault(lowered(end), len(key) + 1)
    return tuple(
        each
        if (at := positions.get(lowered(each.name))) is None
        else replace(each, key_position=at)
        for each in found
    )


def _with_expressions(
    table_map: TableMap, table: Table, shown: tuple[ColumnDefinition, ...], charsets: Charsets
) -> tuple[ColumnDefinition, ...] | None:
    """Return the definitions, with the columns that MySQL adds for indexes on expressions at their positions.

    None if the positions of these columns are not certain.
    """
    names, columns = names_of_expressions(table), table_map.columns
    if len(shown) + len(names) != len(columns):
        return None
    if all(column.name is not None for column in columns):
        places = [at for at, column in enumerate(columns) if column.name in names]
    else:
        places = _only_places(columns, shown, charsets)
    if len(places) != len(names):
        return None
    own = iter(shown)
    hidden = iter(names)
    return tuple(
        hidden_column(column, column.name or next(hidden), charsets) if at in places else next(own)
        for at, column in enumerate(columns)
    )


def _only_places(
    columns: Sequence[MappedColumn], shown: Sequence[ColumnDefinition], charsets: Charsets
) -> list[int]:
    """Return the indexes of columns without a definition, by the types of all others; empty if ambiguous."""

    def fits(at: int, number: int) -> bool:
        return not any(_column_differences(at, columns[at], shown[number], charsets))

    # The leftmost and the rightmost way in which the definitions fit in order; both exist, or neither.
    first, last = list[int](), list[int]()
    for at in range(len(columns)):
        if len(first) < len(shown) and fits(at, len(first)):
            first.append(at)
    for at in reversed(range(len(columns))):
        if len(last) < len(shown) and fits(at, len(shown) - 1 - len(last)):
            last.append(at)
    if len(first) < len(shown) or first != last[::-1]:
        return []
    return [at for at in range(len(columns)) if at not in first]


def column_definition(column: Column, charsets: Charsets) -> ColumnDefinition:
    """The definition of one column, with the number of its collation."""
    return ColumnDefinition(
        name=column.name,
        column_type=column.exact_type or column.type,
        has_exact_labels=bool(column.exact_type),
        nullable=column.nullable,
        collation=_collation_number(column, charsets),
        charset=column.charset,
        generated=column.generated is not None,
        visible=not column.invisible,
    )


def _collation_number(column: Column, charsets: Charsets) -> int | None:
    """Return the number of a column's collation, or of any in its character set: both decode alike."""
    if column.collation is not None:
        for name in (
            column.collation,
            _present_name(column.collation),
            _old_name(column.collation),
        ):
            if (number := charsets.number(name)) is not None:
                return number
    return None if column.charset is None else charsets.any_number(column.charset)


def _present_name(name: str) -> str:
    return re.sub(r"^utf8(?=_|$)", "utf8mb3", name)


def _old_name(name: str) -> str:
    return re.sub(r"^utf8mb3(?=_|$)", "utf8", name)


def _counts(table_map: TableMap, table: Table) -> str:
    found = [column.name for column in table_map.columns]
    text = f"its rows have {len(found)} columns, its definition has {len(table.columns)}"
    known = {column.name for column in table.columns}
    if None in found and names_of_expressions(table):
        return (
            f"{text}: the server adds columns for indexes on expressions, and which these are is only certain "
            "with binlog_row_metadata=FULL"
        )
    if None in found:
        return text
    more = [name for name in found if name not in known]
    fewer = [column.name for column in table.columns if column.name not in found]
    words = [f"{', '.join(map(repr, more))} not defined"] if more else []
    words += [f"{', '.join(map(repr, fewer))} not in its rows"] if fewer else []
    return f"{text}: {'; '.join(words)}" if words else text


def _column_differences(
    number: int, mapped: MappedColumn, definition: ColumnDefinition, charsets: Charsets
) -> Iterator[str]:
    if mapped.name is not None and mapped.name != definition.name:
        # The column is another column, so further differences would be redundant.
        yield f"column {number} is {mapped.name!r} in its rows, {definition.name!r} defined"
        return
    try:
        column = _completed_with_map(mapped, definition)
        yield from faults(column, definition, charsets)
        yield from _charset_differences(mapped, definition, charsets)
        yield from _optional_differences(mapped, definition, charsets)
    except UnsupportedEvent:
        # The column's rows are refused by name when they are read.
        return


def _completed_with_map(mapped: MappedColumn, definition: ColumnDefinition) -> MappedColumn:
    if mapped.type in LABELLED and mapped.labels is not None:
        # The definition's labels are compared separately: the server may not have been able to print them.
        return replace(mapped, name=definition.name)
    column = completed(mapped, definition)
    found = {
        name: value
        for name in _COMPARED
        if (value := getattr(mapped, name)) is not None and value != getattr(column, name)
    }
    return replace(column, **found) if found else column


def _charset_differences(
    mapped: MappedColumn, definition: ColumnDefinition, charsets: Charsets
) -> Iterator[str]:
    if mapped.type not in _WITH_COLLATION or mapped.collation is None:
        return
    try:
        found = charsets.name(mapped.collation)
    except KeyError:
        return
    known = definition.charset or BINARY
    if _present_name(found) != _present_name(known):
        yield f"column {definition.name!r} has character set {found} in its rows, {known} defined"


def _optional_differences(
    mapped: MappedColumn, definition: ColumnDefinition, charsets: Charsets
) -> Iterator[str]:
    name, wanted = definition.name, plain_type(definition, mapped.type)
    if mapped.visible is not None and mapped.visible != definition.visible:
        words = ("INVISIBLE", "visible")
        yield f"column {name!r} is {words[mapped.visible]} in its rows, {words[definition.visible]} defined"
    if mapped.geometry_type is not None and GEOMETRIES[mapped.geometry_type] != wanted:
        yield f"column {name!r} is {GEOMETRIES[mapped.geometry_type]} in its rows, {wanted} defined"
    if mapped.labels is not None and wanted.lower().startswith(("enum(", "set(")):
        found, known = labels_of(mapped, charsets), labels_in(wanted)
        if not _same_labels(found, known):
            yield f"column {name!r} has labels {list(found)} in its rows, {known} defined"


def _same_labels(found: tuple[str, ...], known: list[str]) -> bool:
    """Whether labels are equal; a ``?`` may be a character that ``information_schema`` cannot print."""
    return len(found) == len(known) and all(
        one == other
        or ("?" in other and re.fullmatch(re.escape(other).replace(r"\?", "."), one, re.DOTALL))
        for one, other in zip(found, known, strict=True)
    )
