"""The tables whose rows a statement removes, adds or computes without row events.

Invariant: the tables are determined from the statement and the definitions alone. Only the server knows whether
there were such rows, so every statement that may have changed rows counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Change, Table, TableChange, TableName, TableRef
from connectors.mysql.ddl.parsed_statement import ParsedStatement
from connectors.mysql.ddl.resolve.columns import is_numbered
from connectors.mysql.ddl.statement import (
    AddIndex,
    AlterTable,
    NoColumnWork,
    PartitionToTable,
    TableToPartition,
)

_WORK: Final = {
    "DROP PARTITION",
    "TRUNCATE PARTITION",
    "EXCHANGE PARTITION",
    "DISCARD TABLESPACE",
    "IMPORT TABLESPACE",
    "DROP SYSTEM VERSIONING",
    PartitionToTable.kind,
    TableToPartition.kind,
}
_IGNORE: Final = "ALTER IGNORE"
_BLACKHOLE: Final = re.compile(r"\bENGINE\s*=?\s*['\"`]?BLACKHOLE\b", re.IGNORECASE)


def unlogged_rows(
    statement: ParsedStatement, changes: Sequence[Change] = ()
) -> tuple[tuple[TableName, str], ...]:
    """Return the tables, each with the action; ``changes`` are the statement's changes of definitions."""
    tree = statement.tree
    found = dict(_of_definitions(changes))
    if isinstance(tree, AlterTable):
        for what in (action.kind for action in tree.actions if action.kind in _WORK):
            found |= dict.fromkeys(statement.full([tree.name]), what)
        for ref, what in _others(tree):
            found |= dict.fromkeys(statement.full([ref]), what)
        if tree.ignore and changes:
            found |= dict.fromkeys(_with_fewer_rows(changes), _IGNORE)
        elif tree.ignore and any(isinstance(action, AddIndex) for action in tree.actions):
            found |= dict.fromkeys(statement.full([tree.name]), _IGNORE)
    return tuple(sorted(found.items()))


def _others(tree: AlterTable) -> Iterator[tuple[TableRef, str]]:
    for action in tree.actions:
        if isinstance(action, NoColumnWork) and action.kind in _WORK:
            yield from ((ref, action.kind) for ref in action.tables)
        elif isinstance(action, PartitionToTable):
            yield action.table, action.kind


def _with_fewer_rows(changes: Iterable[Change]) -> Iterator[TableName]:
    """Yield the tables with a unique key of which ALTER IGNORE may have removed duplicates.

    The key, or a column of it, is new or has another definition.
    """
    for change in changes:
        if not isinstance(change, TableChange) or change.new is None:
            continue
        columns, indexes = (
            ((), ()) if change.old is None else (change.old.columns, change.old.indexes)
        )
        others = {one.name for one in change.new.columns if one not in columns}
        if any(
            one.unique and (one not in indexes or others.intersection(one.columns))
            for one in change.new.indexes
        ):
            yield change.name


def _of_definitions(changes: Iterable[Change]) -> Iterator[tuple[TableName, str]]:
    for change in changes:
        if not isinstance(change, TableChange) or change.old is None or change.new is None:
            continue
        if _is_newly_numbered(change.old, change.new):
            yield change.name, "AUTO_INCREMENT"
        if _BLACKHOLE.search(change.new.options) and not _BLACKHOLE.search(change.old.options):
            yield change.name, "ENGINE=BLACKHOLE"


def _is_newly_numbered(old: Table, new: Table) -> bool:
    """Whether the values of a column that the table had become those of an AUTO_INCREMENT."""
    numbered = {one.origin or one.name for one in old.columns if is_numbered(one)}
    names = {lowered(one.name) for one in old.columns}
    origins = {one.origin or one.name for one in old.columns}
    return any(
        is_numbered(one)
        and (one.origin or one.name) not in numbered
        and (lowered(one.name) in names or one.origin in origins)
        for one in new.columns
    )
