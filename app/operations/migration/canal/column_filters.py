"""Canal's column filters as rules of a mapping.

Invariant: a table with a filter that the worker does not execute yet is not captured, since its hidden columns
would be published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.operations.migration.canal.keys import Keys
from app.operations.migration.draft import Draft
from app.operations.migration.findings import Entry
from app.settings.mapping import NOT_YET

_ALLOWED = "canal.instance.filter.field"
_BLACK = "canal.instance.filter.black.field"
_RULES = {_ALLOWED: "columns", _BLACK: "column_actions"}
_FIELD = re.compile(r"\s*([^.:\s]+)\.([^.:\s]+?)\s*:\s*([^:]*[^:/\s])\s*")


def convert_columns(draft: Draft, keys: Keys) -> None:
    """Put the columns to publish, and those to drop, of each table."""
    if allowed := keys.get(_ALLOWED):
        for table, columns in _tables(draft, allowed):
            draft.take_rule(allowed, ("tables", table, "columns"), columns)
    if black := keys.get(_BLACK):
        for table, columns in _tables(draft, black):
            for column in columns:
                draft.take_rule(black, ("tables", table, "column_actions", column), "drop")


def filtered_tables(keys: Keys) -> list[str]:
    """Return expressions for the tables with a column filter that is not executed yet."""
    waiting = [name for name, rule in _RULES.items() if rule in NOT_YET]
    found = (_FIELD.fullmatch(item) for name in waiting for item in _items(keys, name))
    tables = {(match[1], match[2]) for match in found if match}
    return [rf"{re.escape(database)}\.{re.escape(table)}" for database, table in sorted(tables)]


def _items(keys: Keys, name: str) -> list[str]:
    return [item for item in keys.text(name).split(",") if item.strip()]


def _tables(draft: Draft, entry: Entry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tables with their columns, as ``database.table:column/column``."""
    for item in filter(str.strip, entry.value.split(",")):
        if match := _FIELD.fullmatch(item):
            columns = tuple(one.strip() for one in match[3].split("/") if one.strip())
            yield f"{match[1]}.{match[2]}", columns
        else:
            text = f"{item.strip()} is not database.table:column/column, so Canal ignores it"
            draft.by_hand(entry, text)
