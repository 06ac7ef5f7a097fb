"""All tables and databases of a server, from a few large queries of ``information_schema``.

Invariant: only the few tables whose row key depends on the order of their keys are queried one by one, so
that ten thousand tables take seconds. Equal columns are one object. Tables that exist but cannot be
described are reported by name. No query makes a server open each table; for older servers and MariaDB, the
kind of a key is derived from the types of its columns. Everything a statement needs to create the same
column again is in its ``definition``, in MySQL's or MariaDB's own syntax; expressions are the server's text.
An estimate of rows is labelled as such wherever it is shown.

Source: MySQL's manual, "The INFORMATION_SCHEMA COLUMNS Table" and "The INFORMATION_SCHEMA STATISTICS Table";
MariaDB's, "Information Schema COLUMNS Table".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from connectors.mysql.ddl.definition import (
    SPECIAL_KINDS,
    Column,
    Database,
    Index,
    Server,
    Table,
    TableName,
)
from connectors.mysql.schema.table_map_key import depends_on_order
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.database_filters import SYSTEM

ColumnRow = tuple[
    str, str | None, str, str | None, str | None, str, str, str, str | None, int | None
]
"""Name, default, nullable, character set, collation, type, extra, comment, expression, spatial reference."""

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ON_UPDATE = re.compile(r"on update (\S+)", re.IGNORECASE)
_NOW = re.compile(r"CURRENT_TIMESTAMP(\(\d*\))?", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(['\\])")
_HEX_DEFAULTS = (8, 0)
"""Since this version the default of binary columns is shown in hexadecimal digits."""


def column_of(row: ColumnRow, server: Server) -> Column:
    """The column of one row."""
    name, _, nullable, charset, collation, kind, extra, *_ = row
    words = extra.upper()
    is_text = charset is not None and charset != "binary"
    return Column(
        name=name,
        type=kind,
        nullable=nullable == "YES",
        charset=charset if is_text else None,
        collation=collation if is_text else None,
        generated=_generated(words),
        invisible="INVISIBLE" in words,
        definition=" ".join(_definition(row, server)),
    )


def _generated(words: str) -> Literal["virtual", "stored"] | None:
    if "STORED GENERATED" in words or "PERSISTENT" in words:
        return "stored"
    # DEFAULT_GENERATED means that a default is an expression.
    return "virtual" if "VIRTUAL" in words else None


def quoted(text: str) -> str:
    """A string literal, valid in any sql_mode except NO_BACKSLASH_ESCAPES."""
    return f"'{text.translate(_ESCAPES)}'"


def _definition(row: ColumnRow, server: Server) -> list[str]:
    _, default, _, _, _, kind, extra, comment, expression, srid = row
    words, parts = extra.upper(), list[str]()
    if kept := _generated(words):
        parts += _expression(expression or "", kept, server)
    elif default is not None:
        parts += _default(default, kind.lower(), words, server)
    if on_update := _ON_UPDATE.search(extra):
        parts.append(f"ON UPDATE {on_update[1].upper()}")
    if "AUTO_INCREMENT" in words:
        parts.append("AUTO_INCREMENT")
    if "WITHOUT SYSTEM VERSIONING" in words:
        parts.append("WITHOUT SYSTEM VERSIONING")
    if comment:
        parts.append(f"COMMENT {quoted(comment)}")
    if srid is not None:
        parts.append(f"SRID {srid}")
    return parts


def _expression(text: str, kept: str, server: Server) -> list[str]:
    if text in ("ROW START", "ROW END"):
        # MariaDB's columns for the start and the end of a row's validity.
        return [f"GENERATED ALWAYS AS {text}"]
    return [f"GENERATED ALWAYS AS ({plain_expression(text, server)}) {kept.upper()}"]


def _default(text: str, kind: str, words: str, server: Server) -> list[str]:
    if server.mariadb:
        # MariaDB shows the default as a statement has it.
        return [] if text == "NULL" else [f"DEFAULT {text}"]
    if _NOW.fullmatch(text) and kind.startswith(("timestamp", "datetime")):
        return [f"DEFAULT {text}"]
    if "DEFAULT_GENERATED" in words:
        return [f"DEFAULT ({plain_expression(text, server)})"]
    is_hex = server.version >= _HEX_DEFAULTS and kind.startswith(("binary", "varbinary"))
    if kind.startswith("bit") or (is_hex and text.startswith("0x")):
        return [f"DEFAULT {text}"]
    return [f"DEFAULT {quoted(text)}"]


def plain_expression(expression: str, server: Server) -> str:
    """An expression in its original form; MySQL 8.0 and later show quotes and backslashes escaped."""
    if server.mariadb or server.version < _HEX_DEFAULTS:
        return expression
    return _ESCAPED.sub(r"\1", expression)


_SKIPPED_ERRORS = {1684, ER.LOCK_WAIT_TIMEOUT}
"""Warnings that a table was omitted because a statement was just changing it."""
_TABLES = (
    "SELECT table_schema, table_name, table_type, engine, {options}, table_collation, table_comment"
    " FROM information_schema.tables WHERE table_type NOT LIKE '%%VIEW' AND {condition}"
)
_COLUMNS = (
    "SELECT table_schema, table_name, ordinal_position, column_name, column_default, is_nullable,"
    " character_set_name, collation_name, column_type, extra, column_comment, {more}"
    " FROM information_schema.columns WHERE {condition}"
)
_MORE = ("generation_expression, srs_id", "generation_expression, NULL", "'', NULL")
"""Additional column properties, from the newest servers' to the oldest servers'."""
_KEYS = (
    "SELECT table_schema, table_name, index_name, seq_in_index, non_unique, column_name, sub_part, {more}"
    " FROM information_schema.statistics WHERE {condition}"
)
_KEYS_MORE = ("collation, index_type, expression", "collation, index_type, NULL")
"""Additional key properties of a server with a data dictionary; another server would open each table."""
_DICTIONARY = (8, 0)
_DATABASES = (
    "SELECT schema_name, default_character_set_name, default_collation_name"
    " FROM information_schema.schemata"
)
_COLLATIONS = "SELECT * FROM information_schema.collation_character_set_applicability"


_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The result of a query."""

    tables: dict[TableName, Table]
    databases: dict[str, Database]
    undescribed: frozenset[TableName]
    """Tables that exist, but whose columns are not all listed."""
    is_whole: bool
    """Whether the server omitted no table."""


class InventoryReader:
    """Queries one server over one connection."""

    def __init__(self, cursor: Cursor, server: Server, leave_out: Collection[str] = SYSTEM) -> None:
        self._cursor = cursor
        self._server = server
        self._leave_out = tuple(leave_out)
        self._charsets: dict[str, str] = {}
        self._columns: dict[ColumnRow, Column] = {}
        self._of_columns = list(_MORE)
        has_dictionary = not server.mariadb and server.version >= _DICTIONARY
        self._of_keys = list(_KEYS_MORE) if has_dictionary else ["NULL, NULL, NULL"]
        self._is_whole = True

    def all(self) -> Inventory:
        """Every table of every database."""
        names = ", ".join(["%s"] * len(self._leave_out))
        return self._read(f"table_schema NOT IN ({names})", [self._leave_out])

    def some(self, names: Iterable[TableName]) -> Inventory:
        """Return these tables, as far as they exist, and every database."""
        return self._read("table_schema = %s AND table_name = %s", names)

    def names(self) -> set[TableName]:
        """The names of all tables."""
        names = ", ".join(["%s"] * len(self._leave_out))
        condition = f"table_schema NOT IN ({names}) AND table_type NOT LIKE '%%VIEW'"
        sql = f"SELECT table_schema, table_name FROM information_schema.tables WHERE {condition}"  # noqa: S608
        return set(self._rows(sql, self._leave_out))

    def described(self, databases: Collection[str]) -> set[TableName]:
        """Return the names of the tables in these databases for which the server shows columns."""
        names = ", ".join(["%s"] * len(databases))
        condition = f"table_schema IN ({names})"
        sql = f"SELECT DISTINCT table_schema, table_name FROM information_schema.columns WHERE {condition}"  # noqa: S608
        return set(self._rows(sql, tuple(databases)))

    def views(self) -> set[TableName]:
        """The names of all views."""
        names = ", ".join(["%s"] * len(self._leave_out))
        condition = f"table_schema NOT IN ({names}) AND table_type LIKE '%%VIEW'"
        sql = f"SELECT table_schema, table_name FROM information_schema.tables WHERE {condition}"  # noqa: S608
        return set(self._rows(sql, self._leave_out))

    def _read(self, condition: str, questions: Iterable[Iterable[str]]) -> Inventory:
        """The tables that the questions select."""
        self._is_whole = True
        found: dict[TableName, Table] = {}
        undescribed: set[TableName] = set()
        for question in map(tuple, questions):
            columns = self._read_columns(condition, question)
            keys = self._read_keys(condition, question)
            # MariaDB would open each table for these, as older MySQL would for some key properties.
            options = "''" if self._server.mariadb else "create_options"
            for row in self._rows(_TABLES.format(options=options, condition=condition), question):
                name: TableName = (row[0], row[1])
                table = self._table(row[2:], columns.get(name, []), keys.get(name, {}))
                if table is None:
                    undescribed.add(name)
                else:
                    found[name] = self._ordered(name, table) if depends_on_order(table) else table
        databases = {
            name: Database(charset=charset, collation=collation)
            for name, charset, collation in self._rows(_DATABASES)
            if name not in self._leave_out
        }
        return Inventory(
            tables=found,
            databases=databases,
            undescribed=frozenset(undescribed),
            is_whole=self._is_whole,
        )

    def _read_columns(
        self, condition: str, question: tuple[str, ...]
    ) -> dict[TableName, list[tuple[int, Column]]]:
        """Each table's columns with their ordinal positions."""
        found: dict[TableName, list[tuple[int, Column]]] = defaultdict(list)
        known, server = self._columns, self._server
        for database, table, ordinal, *rest in self._rows_with(
            _COLUMNS, self._of_columns, condition, question
        ):
            row: ColumnRow = tuple(rest)
            column = known.get(row)
            if column is None:
                column = known[row] = column_of(row, server)
            found[database, table].append((ordinal, column))
        return found

    def _read_keys(
        self, condition: str, question: tuple[str, ...]
    ) -> dict[TableName, dict[str, list[KeyRow]]]:
        """The parts of each key of each table."""
        found: dict[TableName, dict[str, list[KeyRow]]] = defaultdict(dict)
        for database, table, key, *rest in self._rows_with(
            _KEYS, self._of_keys, condition, question
        ):
            found[database, table].setdefault(key, []).append(tuple(rest))
        return found

    def _rows_with(
        self, sql: str, more: list[str], condition: str, question: tuple[str, ...]
    ) -> list[_Row]:
        """Return rows with all properties that the server has; other properties are not queried again."""
        while True:
            try:
                return self._rows(sql.format(more=more[0], condition=condition), question)
            except pymysql.MySQLError as error:
                if error.args[0] != ER.BAD_FIELD_ERROR or len(more) == 1:
                    raise
            del more[0]

    def _table(
        self,
        row: _Row,
        columns: list[tuple[int, Column]],
        keys: dict[str, list[KeyRow]],
    ) -> Table | None:
        """Return the table; None if it is broken, or if the account may not see all its columns."""
        kind, engine, options, collation, comment = row
        columns.sort(key=itemgetter(0))
        # MySQL does not list its columns for expressions, but counts them in the ordinals of later columns.
        hidden = sum(part[2] is None for parts in keys.values() for part in parts)
        if not columns or not 0 <= columns[-1][0] - len(columns) <= hidden or collation is None:
            return None
        found = [column for _, column in columns]
        indexes = key_rows(keys, found, self._server)
        words = [f"ENGINE={engine}", *_options(options or "", kind)]
        if comment:
            words.append(f"COMMENT={quoted(comment)}")
        if kind == "SYSTEM VERSIONED" and not any(_is_period_end(column) for column in found):
            found += _HIDDEN_PERIOD
            indexes = tuple(map(_with_end, indexes))
        return Table(
            columns=tuple(found),
            indexes=indexes,
            charset=self._charset_of(collation),
            collation=collation,
            options=" ".join(words),
        )

    def _ordered(self, name: TableName, table: Table) -> Table:
        """Return the table with its keys in the order of SHOW INDEX; unchanged if it no longer exists."""
        database, own = (part.replace("`", "``") for part in name)
        try:
            order = [row[2] for row in self._rows(f"SHOW INDEX FROM `{database}`.`{own}`")]
        except pymysql.ProgrammingError:
            return table
        known = [one for one in table.indexes if one.name in order]
        known.sort(key=lambda one: order.index(one.name))
        return replace(table, indexes=tuple(known)) if len(known) == len(table.indexes) else table

    def _charset_of(self, collation: str) -> str:
        if not self._charsets:
            self._cursor.execute(_COLLATIONS)
            names = [column[0].lower() for column in self._cursor.description or ()]
            for row in self._cursor.fetchall():
                collation_row = dict(zip(names, row, strict=True))
                # Some MariaDB collations have several character sets; a name that includes the set
                # belongs to it alone.
                name = collation_row.get("full_collation_name") or collation_row["collation_name"]
                self._charsets[name] = collation_row["character_set_name"]
        return self._charsets.get(collation) or collation.partition("_")[0]

    def _rows(self, sql: str, question: tuple[str, ...] = ()) -> list[_Row]:
        self._cursor.execute(sql, question or None)
        rows = [tuple(map(_text, row)) for row in self._cursor.fetchall()]
        if self._cursor.warning_count:
            self._cursor.execute("SHOW WARNINGS")
            if any(code in _SKIPPED_ERRORS for _, code, _ in self._cursor.fetchall()):
                self._is_whole = False
        return rows


def _text(value: Any) -> Any:
    """Decode bytes, which some versions return for some texts."""
    return value.decode() if isinstance(value, bytes) else value


def _options(text: str, kind: str) -> list[str]:
    """The options of a table as in CREATE TABLE; partitioning is not among them."""
    words = [word for word in text.split() if word != "partitioned"]
    if kind == "SEQUENCE":
        words.append("SEQUENCE=1")
    if kind == "SYSTEM VERSIONED":
        words.append("WITH SYSTEM VERSIONING")
    return words


# MariaDB does not list the columns of an implicit WITH SYSTEM VERSIONING; they are in the rows.
_HIDDEN_PERIOD = [
    Column(
        name=name,
        type="timestamp(6)",
        nullable=False,
        generated="stored",
        invisible=True,
        definition=f"GENERATED ALWAYS AS {words}",
    )
    for name, words in (("row_start", "ROW START"), ("row_end", "ROW END"))
]


def _is_period_end(column: Column) -> bool:
    return column.definition.startswith("GENERATED ALWAYS AS ROW END")


def _with_end(index: Index) -> Index:
    """Return a unique key with the row-end column, which permits past versions of a row."""
    if not index.unique:
        return index
    parts = (*index.parts, "") if index.parts else ()
    return replace(index, columns=(*index.columns, "row_end"), parts=parts)


KeyRow = tuple[int, int, str | None, int | None, str | None, str | None, str | None]
"""Position in the key, whether it is not unique, column, length, order, kind, expression."""

_GEOMETRY = re.compile(r"(multi)?(point|linestring|polygon)|geom(etry|collection|etrycollection)")
_TEXTS = re.compile(r"(tiny|medium|long)?text")


def key_rows(
    listed: Mapping[str, Iterable[KeyRow]], columns: Iterable[Column], server: Server
) -> tuple[Index, ...]:
    """Return a table's keys: the primary key, then unique keys, then others, each group sorted by name."""
    types = {column.name: column.type.lower() for column in columns}
    found = (_key(name, sorted(rows), types, server) for name, rows in listed.items())
    return tuple(sorted(found, key=lambda one: (one.name != "PRIMARY", not one.unique, one.name)))


def _key(name: str, rows: list[KeyRow], types: Mapping[str, str], server: Server) -> Index:
    rows = [_without_whole_length(row, types, server) for row in rows]
    unique = not rows[0][1]
    kind = rows[0][5] or ("" if unique else _kind(rows, types))
    special = SPECIAL_KINDS.get(kind, "")
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


def _without_whole_length(row: KeyRow, types: Mapping[str, str], server: Server) -> KeyRow:
    """A part without the length that MySQL shows for a POINT if it covers the whole column."""
    if server.mariadb or types.get(row[2] or "") != "point":
        return row
    return (*row[:3], None, *row[4:])


def _part(row: KeyRow, server: Server) -> str:
    _, _, _, length, order, _, expression = row
    text = "" if expression is None else f"({plain_expression(expression, server)})"
    text += "" if length is None else f"({length})"
    return f"{text} DESC" if order == "D" else text


def _kind(rows: list[KeyRow], types: Mapping[str, str]) -> str:
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


_MOST_NAMED = 10
_QUERY = (
    "SELECT table_schema, table_name, COALESCE(table_rows, 0), COALESCE(UNIX_TIMESTAMP(create_time), 0)"
    " FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A table that has rows."""

    table: str
    rows: int
    created: int
    """Seconds since 1970, from the server's dictionary; a rebuilt table counts as new."""


def estimates(captures: Callable[[str, str], bool], address: SourceAddress) -> list[Estimate]:
    """All captured tables with rows that the account may see, the largest first."""
    with connected(address) as cursor:
        cursor.execute(_QUERY)
        rows = cursor.fetchall()
    found = [
        Estimate(f"{database}.{table}", int(count), int(created))
        for database, table, count, created in rows
        if int(count) and database not in SYSTEM and captures(database, table)
    ]
    return sorted(found, key=lambda one: (-one.rows, one.table))


def shown(found: list[Estimate]) -> str:
    """Format estimates for a log line or an error."""
    if not found:
        return "no rows (by the estimates of information_schema)"
    named = ", ".join(f"{one.table} {one.rows}" for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    total = sum(one.rows for one in found)
    return f"about {total} row(s) of {len(found)} table(s) (estimates of information_schema: {named}{more})"
