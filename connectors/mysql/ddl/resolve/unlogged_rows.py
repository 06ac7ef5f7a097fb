"""The tables whose rows a statement removes, adds or computes without row events.

Invariant: the tables are determined from the statement and the definitions alone. Only the server knows whether
there were such rows, so every statement that may have changed rows counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from connectors.mysql.ddl.definition import TableChange, TableName, TableRef
from connectors.mysql.ddl.parsed_statement import ParsedStatement
from connectors.mysql.ddl.statement.alter_actions import (
    AddIndex,
    NoColumnWork,
    PartitionToTable,
    TableToPartition,
)
from connectors.mysql.ddl.statement.statement import AlterTable

_WORK: Final = {
    "DROP PARTITION",
    "TRUNCATE PARTITION",
    "EXCHANGE PARTITION",
    "DISCARD TABLESPACE",
    "IMPORT TABLESPACE",
}
_IGNORE: Final = re.compile(r"\s*ALTER\s+(?:ONLINE\s+)?IGNORE\b", re.IGNORECASE)
_BLACKHOLE: Final = re.compile(r"\bENGINE\s*=?\s*['\"`]?BLACKHOLE\b", re.IGNORECASE)


def unlogged_rows(
    statement: ParsedStatement, changes: Iterable[object] = ()
) -> tuple[tuple[TableName, str], ...]:
    """Return the tables, each with the action; ``changes`` are the statement's changes of definitions."""
    tree = statement.tree
    found = dict(_of_definitions(changes))
    if isinstance(tree, AlterTable):
        for what in _own(tree, statement.text):
            found |= dict.fromkeys(statement.full([tree.name]), what)
        for ref, what in _others(tree):
            found |= dict.fromkeys(statement.full([ref]), what)
    return tuple(sorted(found.items()))


def _own(tree: AlterTable, text: str) -> Iterator[str]:
    for action in tree.actions:
        if isinstance(action, NoColumnWork) and action.kind in _WORK:
            yield action.kind
        if isinstance(action, PartitionToTable | TableToPartition):
            yield action.kind
        if isinstance(action, AddIndex) and _IGNORE.match(text):
            yield "ALTER IGNORE"


def _others(tree: AlterTable) -> Iterator[tuple[TableRef, str]]:
    for action in tree.actions:
        if isinstance(action, NoColumnWork) and action.kind in _WORK:
            yield from ((ref, action.kind) for ref in action.tables)
        elif isinstance(action, PartitionToTable):
            yield action.table, action.kind


def _of_definitions(changes: Iterable[object]) -> Iterator[tuple[TableName, str]]:
    for change in changes:
        if not isinstance(change, TableChange) or change.old is None or change.new is None:
            continue
        if _BLACKHOLE.search(change.new.options) and not _BLACKHOLE.search(change.old.options):
            yield change.name, "ENGINE=BLACKHOLE"
