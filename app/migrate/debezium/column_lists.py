"""Debezium's lists of columns, masks and keys as rules of a mapping.

Invariant: a table with hidden columns is not captured if no rule can hide them.
"""

from __future__ import annotations

import re

from app.migrate.debezium.connector import Connector, separated
from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.foreign_values import literal_name
from app.migrate.yaml_text import Value

_INCLUDE = ("column.include.list", "column.whitelist")
_EXCLUDE = ("column.exclude.list", "column.blacklist")
_HASH = re.compile(r"column\.mask\.hash(?:\.v2)?\.[^.]+\.with\.salt\..*")
_CHARACTERS = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_EVERYTHING = ".*"
_KEY_ID = "debezium"
_MOST_STARS = 255
_BY_PATTERN = "{} is a pattern, and has no rule: write one for each table in the mapping"
_NOT_CAPTURED = (
    "{} is a pattern, and its tables are not captured: write a rule for each in the mapping"
)


def convert_columns(draft: Draft, connector: Connector) -> None:
    """Put the rules of columns and keys that name their tables."""
    for entry in connector.entries:
        if not entry.value:
            continue
        if entry.key in _INCLUDE:
            _included(draft, entry)
        elif entry.key == "message.key.columns":
            _keys(draft, entry)
        elif (action := _action(entry.key)) is not None:
            _actions(draft, entry, *action)


def filtered_tables(connector: Connector) -> list[str]:
    """Return expressions for the tables with hidden or changed columns that no rule hides."""
    found: dict[str, None] = {}
    for entry in connector.entries:
        if entry.key in _INCLUDE and entry.value:
            found[_tables_without_columns(entry)] = None
        elif _action(entry.key) is not None:
            found |= dict.fromkeys(filter(None, map(_table_expression, separated(entry.value))))
    return [_EVERYTHING] if _EVERYTHING in found else list(found)


def _tables_without_columns(entry: Entry) -> str:
    """The tables that a list of columns does not name: it leaves them no column."""
    names = [_split(literal_name(part))[0] for part in separated(entry.value)]
    named = [re.escape(name) for name in dict.fromkeys(names) if name]
    if not named:
        return _EVERYTHING
    return rf"(?!(?:{'|'.join(named)})$).*"


def _action(key: str) -> tuple[str, Value] | None:
    """The action of a key, with its argument; None if the key changes no column."""
    if key in _EXCLUDE:
        return "drop", None
    if _HASH.fullmatch(key):
        return "hmac", _KEY_ID
    if match := _CHARACTERS.fullmatch(key):
        return "redact", "*" * min(int(match[1]), _MOST_STARS) or None
    if match := _TRUNCATE.fullmatch(key):
        return "truncate", int(match[1])
    return None


def _actions(draft: Draft, entry: Entry, action: str, argument: Value) -> None:
    for part in separated(entry.value):
        table, column = _split(literal_name(part))
        if not table:
            draft.lose(entry, _NOT_CAPTURED.format(part))
        elif argument is None:
            draft.take_rule(entry, ("tables", table, "column_actions", column), action)
        else:
            draft.take_rule(entry, ("tables", table, "column_actions", column, action), argument)
    if action == "hmac":
        draft.lose(entry, f"hashes get a key of their own, {_KEY_ID}, and differ from Debezium's")


def _included(draft: Draft, entry: Entry) -> None:
    columns: dict[str, list[str]] = {}
    for part in separated(entry.value):
        table, column = _split(literal_name(part))
        if table:
            columns.setdefault(table, []).append(column)
        else:
            draft.lose(entry, _NOT_CAPTURED.format(part))
    for table, names in columns.items():
        draft.take_rule(entry, ("tables", table, "columns"), tuple(names))


def _keys(draft: Draft, entry: Entry) -> None:
    """Keys of tables, as ``database.table:column,column;…``."""
    for item in filter(str.strip, entry.value.split(";")):
        pattern, _, columns = item.rpartition(":")
        name = literal_name(pattern)
        if name.count(".") == 1:
            names = tuple(one.strip() for one in columns.split(",") if one.strip())
            draft.take_rule(entry, ("tables", name, "key"), names)
        else:
            draft.lose(entry, _BY_PATTERN.format(item.strip()) + "; keys are primary keys")


def _split(name: str) -> tuple[str, str]:
    """Table and column of ``database.table.column``; empty for another name."""
    table, _, column = name.rpartition(".")
    return (table, column) if table.count(".") == 1 else ("", "")


def _table_expression(part: str) -> str:
    """The tables of an expression over columns, all if it cannot be split; empty if a rule hides them."""
    table, _ = _split(literal_name(part))
    if table:
        return ""
    head, dot, column = part.rpartition(r"\.")
    is_plain = dot and re.fullmatch(r"\w+", column) and r"\." in head and "|" not in head
    return head if is_plain and "," not in head else _EVERYTHING
