"""Completion of a table map with partial metadata, from another definition of its table.

Invariant: the result is the table map that ``binlog_row_metadata=FULL`` would have produced. A
definition that contradicts the bytes of the table map is refused with the differences, so that no
row is read by another version of its table. Two versions that differ only in names have the same
bytes; the caller must choose the right version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from connectors.errors import DefinitionMismatch, UnsupportedEvent
from connectors.mysql.binlog.table_map import LABELLED, MARIADB_CHARACTER, NUMERIC, TableMap
from connectors.mysql.charsets import BINARY, Charsets, text_encoder
from connectors.mysql.ddl.definition import Column, Database, Index, Table
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.types.geometries import GEOMETRIES
from connectors.mysql.types.labels import label_bytes
from connectors.mysql.types.registry import FieldType, MappedColumn, column_charset, column_type
from connectors.mysql.types.strings import ADDRESSES

_T = FieldType
BINARY_COLLATION = 63
_TEXTUAL = MARIADB_CHARACTER - {_T.GEOMETRY}


def has_full_metadata(table_map: TableMap) -> bool:
    """Whether the table map alone suffices to read rows."""
    return all(
        column.name is not None
        and (column.unsigned is not None or column.type not in NUMERIC or column.type == _T.YEAR)
        for column in table_map.columns
    )


def described(
    table_map: TableMap, definitions: Sequence[ColumnDefinition], charsets: Charsets
) -> TableMap:
    """The table map with the definitions' names, signs, collations, labels and key.

    Raise DefinitionMismatch if they do not match the table map's columns, and UnsupportedEvent if
    labels are not exact.
    """
    name = f"{table_map.database}.{table_map.table}"
    if len(definitions) != len(table_map.columns):
        raise DefinitionMismatch(
            f"its rows have {len(table_map.columns)} columns, its definition has {len(definitions)}",
            table=name,
        )
    columns: list[MappedColumn] = []
    found: list[str] = []
    for mapped, definition in zip(table_map.columns, definitions, strict=True):
        try:
            column = completed(mapped, definition)
            found += faults(column, definition, charsets)
        except UnsupportedEvent as error:
            raise UnsupportedEvent(error.detail, table=name, remedy=error.advice) from None
        columns.append(column)
    if found:
        raise DefinitionMismatch("; ".join(found), table=name)
    return replace(table_map, columns=tuple(columns), primary_key=_primary_key(definitions))


def completed(column: MappedColumn, definition: ColumnDefinition) -> MappedColumn:
    """Return the column with the definition's properties; raise UnsupportedEvent if labels are not exact."""
    kind, text = column.type, definition.column_type.lower()
    more: dict[str, object] = {}
    if kind in NUMERIC:
        more["unsigned"] = kind == _T.YEAR or " unsigned" in text
    elif kind in _TEXTUAL or kind in LABELLED:
        known = definition.collation
        more["collation"] = BINARY_COLLATION if known is None else known
    if kind in LABELLED and _base(text) in ("enum", "set"):
        more["labels"] = tuple(_labels(definition))
    elif kind == _T.GEOMETRY:
        geometry = plain_type(definition, kind)
        more["geometry_type"] = GEOMETRIES.index(geometry) if geometry in GEOMETRIES else None
    elif kind == _T.VECTOR and (size := re.search(r"\((\d+)\)", text)):
        more["dimensions"] = int(size[1])
    return replace(column, name=definition.name, visible=definition.visible, **more)  # type: ignore[arg-type]


def faults(column: MappedColumn, definition: ColumnDefinition, charsets: Charsets) -> Iterator[str]:
    """Contradictions between the bytes and the definition of a completed column."""
    wanted = plain_type(definition, column.type)
    if column.type in LABELLED:
        if column.labels is None or _base(wanted) != _kind(column):
            yield f"column {definition.name!r} is {_kind(column)} in its rows, {_base(wanted)} defined"
        elif column.metadata != _label_bytes(column):
            yield (
                f"column {definition.name!r} has {column.metadata} bytes in its rows, "
                f"its {len(column.labels)} labels take {_label_bytes(column)}"
            )
    elif column.type == _T.GEOMETRY:
        if column.geometry_type is None:
            yield f"column {definition.name!r} is geometry in its rows, {wanted} defined"
    elif (found := column_type(column, charsets)) != wanted:
        yield f"column {definition.name!r} is {found} in its rows, {wanted} defined"
    if column.nullable != definition.nullable:
        words = ("NOT NULL", "nullable")
        yield (
            f"column {definition.name!r} is {words[column.nullable]} in its rows, "
            f"{words[definition.nullable]} defined"
        )


def _kind(column: MappedColumn) -> str:
    return "enum" if column.type == _T.ENUM else "set"


def _label_bytes(column: MappedColumn) -> int:
    return label_bytes(column.type, len(column.labels or ()))


_WIDTH = re.compile(r"^(tinyint|smallint|mediumint|int|bigint|year|float|double)\([\d,]+\)")
_OLD_NAMES = {"geometrycollection": "geomcollection"}
_VECTOR = re.compile(r"^vector\((\d+)\)$")


def _base(text: str) -> str:
    """A type's name, without the parentheses after it."""
    return text.partition("(")[0]


def plain_type(definition: ColumnDefinition, kind: int) -> str:
    """Return the type without display width, ZEROFILL, COMPRESSED and format notes, which change no value.

    Types whose values are bytes in the binlog (MariaDB's addresses and vectors) become byte types.
    """
    text = definition.column_type
    if _base(text.lower()) in ("enum", "set"):
        return text
    text = text.lower().partition(" /*")[0].replace(" zerofill", "")
    text = _WIDTH.sub(r"\1", text)
    if kind in (_T.VARCHAR, _T.STRING):
        text = _VECTOR.sub(lambda m: f"varbinary({4 * int(m[1])})", text)
        text = f"binary({ADDRESSES[text]})" if text in ADDRESSES else text
    return _OLD_NAMES.get(text, text)


def _labels(definition: ColumnDefinition) -> Iterator[bytes]:
    """The labels in the column's character set, from a type such as ``enum('a','it''s')``."""
    charset = definition.charset or BINARY
    encode = text_encoder("utf8mb4" if charset == BINARY else charset)
    if encode is None:
        raise UnsupportedEvent(
            f"column {definition.name!r} has character set {charset}, which has no exact encoder yet",
            remedy="Convert the column to utf8mb4, or leave the table out with a filter.",
        )
    for label in labels_in(definition.column_type):
        if "?" in label and not definition.has_exact_labels and charset in BEYOND_UTF8MB3:
            raise UnsupportedEvent(
                f"the server prints a label of column {definition.name!r} as {label!r}, as it does with "
                "characters that it cannot print",
                remedy="Give its CREATE TABLE by `python -m app schema resolve DEST TABLE --definition FILE`, "
                "or leave the table out with a filter; rows that are written with binlog_row_metadata=FULL "
                "have their labels.",
            )
        yield encode(label)


BEYOND_UTF8MB3 = {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}
"""Character sets with characters that ``information_schema``, itself in utf8mb3, prints as ``?``."""

_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED: Mapping[str | None, str] = {None: "'", "0": "\0", "n": "\n", "r": "\r", "\\": "\\"}


def labels_in(text: str) -> list[str]:
    """The labels of an ENUM's or SET's type as the server prints it. Source: sql/unireg, append_unescaped."""
    return [
        _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), found) for found in _LABEL.findall(text)
    ]


def _primary_key(definitions: Sequence[ColumnDefinition]) -> tuple[int, ...] | None:
    key = [
        (column.key_position, index)
        for index, column in enumerate(definitions)
        if column.key_position is not None
    ]
    return tuple(index for _, index in sorted(key)) or None


def adopted(
    table_map: TableMap,
    charsets: Charsets,
    *,
    database: Database,
    nullable: Mapping[str, bool] | None = None,
) -> Table:
    """Return a definition from a table map; ``database`` has the charset of columns added later without one.

    ``nullable``, by column, is used if the table map does not show which columns are NOT NULL.

    Invariant: a property that a table map does not contain is omitted, not guessed: defaults, generated
    columns, secondary keys.
    """
    known = dict(nullable or {}) if table_map.hides_not_null else {}
    if table_map.hides_not_null:
        known |= {table_map.columns[n].name or "": False for n in table_map.primary_key or ()}
    columns = tuple(
        _column(column, charsets, nullable=known.get(column.name or "", column.nullable))
        for column in table_map.columns
    )
    key = tuple(columns[index].name for index in table_map.primary_key or ())
    return Table(
        columns=columns,
        indexes=(Index(name="PRIMARY", columns=key, unique=True),) if key else (),
        charset=database.charset,
        collation=database.collation,
    )


def _column(column: MappedColumn, charsets: Charsets, *, nullable: bool) -> Column:
    charset = column_charset(column, charsets)
    number = column.collation
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=nullable,
        charset=charset,
        collation=charsets.collation(number) if charset and number is not None else None,
        invisible=column.visible is False,
        by_rows=True,
    )
