"""Debezium's lists of databases and tables as a filter.

Both programs match whole names without regard to case. Debezium wants both lists to match, separates by
commas that have no backslash before them, and matches databases by name alone.
"""

from __future__ import annotations

import re

from app.migrate.debezium.column_lists import filtered_tables
from app.migrate.debezium.connector import Connector, separated
from app.migrate.draft import Draft, dotted
from app.migrate.findings import Entry
from app.migrate.table_expressions import NOTHING, fault_of, literal_name
from app.migrate.yaml_text import Path

_HIDDEN = "has tables whose hidden columns no executed rule of the mapping hides"
_DATABASES = ("database.include.list", "database.whitelist")
_NO_DATABASES = ("database.exclude.list", "database.blacklist")
_TABLES = ("table.include.list", "table.whitelist")
_NO_TABLES = ("table.exclude.list", "table.blacklist")


def convert_tables(draft: Draft, path: Path, connector: Connector) -> None:
    """Put the filter; nothing is captured while a list cannot be used."""
    lists = [connector.get(*names) for names in (_DATABASES, _NO_DATABASES, _TABLES, _NO_TABLES)]
    faults = [(entry, _fault(entry.value)) for entry in lists if entry]
    for entry, fault in faults:
        if fault:
            draft.lose(entry, f"{fault}. Nothing is captured until then")
            reason = "captures nothing until the filter is written"
            draft.choose((*path, "include"), NOTHING, reason)
    usable = [entry if entry and not _fault(entry.value) else None for entry in lists]
    _include(draft, (*path, "include"), usable[0], usable[2])
    _black(draft, (*path, "black"), connector, [entry for entry in (usable[1], usable[3]) if entry])


def _fault(text: str) -> str:
    """Why a list cannot be used; a comma with a backslash is one within an expression."""
    found = (fault_of(part) for part in separated(text))
    if any(r"\," in part for part in separated(text)):
        return "an expression has a comma; write its alternatives as a list"
    return next(filter(None, found), "")


def _include(draft: Draft, path: Path, databases: Entry | None, tables: Entry | None) -> None:
    if draft.settings.has(path):
        return
    if tables:
        within = _within(databases.value, tables.value) if databases else ""
        parts = [f"{within}(?:{one})" if within else one for one in separated(tables.value)]
        for entry in filter(None, (tables, databases)):
            draft.take(entry, path, ",".join(parts))
    elif databases:
        draft.take(databases, path, ",".join(map(_all_tables_of, separated(databases.value))))


def _within(databases: str, tables: str) -> str:
    """A condition on the database, before a table's expression; none if each spells out a listed one."""
    listed = {literal_name(part).lower() for part in separated(databases)}
    named = {literal_name(part).partition(".")[0].lower() for part in separated(tables)}
    if "" not in named and named <= listed:
        return ""
    return rf"(?=(?:{'|'.join(separated(databases))})\.)"


def _all_tables_of(database: str) -> str:
    name = literal_name(database)
    return rf"{re.escape(name)}\..*" if name else rf"(?:{database})\..*"


def _black(draft: Draft, path: Path, connector: Connector, lists: list[Entry]) -> None:
    """The tables that are not captured, those with hidden columns among them."""
    filtered = filtered_tables(connector)
    parts: list[str] = []
    for entry in lists:
        is_databases = entry.key in _NO_DATABASES
        parts += map(_all_tables_of if is_databases else str, separated(entry.value))
    whole = ",".join(dict.fromkeys([*parts, *filtered]))
    for entry in lists:
        draft.take(entry, path, whole)
    if filtered:
        draft.settings.put(path, whole, "column lists; see the report")
        draft.note(dotted(path), f"{_HIDDEN}: {', '.join(filtered)}")
