"""Canal's column filters as rules of a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.migrate.canal.keys import Keys
from app.migrate.draft import Draft
from app.migrate.findings import Entry

_ALLOWED = "canal.instance.filter.field"
_BLACK = "canal.instance.filter.black.field"
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


def _tables(draft: Draft, entry: Entry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tables with their columns, as ``database.table:column/column``."""
    for item in filter(str.strip, entry.value.split(",")):
        if match := _FIELD.fullmatch(item):
            columns = tuple(one.strip() for one in match[3].split("/") if one.strip())
            yield f"{match[1]}.{match[2]}", columns
        else:
            text = f"{item.strip()} is not database.table:column/column, so Canal ignores it"
            draft.by_hand(entry, text)
