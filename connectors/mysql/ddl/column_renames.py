"""The columns that a statement renames, which its effect alone does not show.

Invariant: only what the statement states is used; one that is not understood renames nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.parsed_statement import ParsedStatement
from connectors.mysql.ddl.statement.alter_actions import ChangeColumn, RenameColumn
from connectors.mysql.ddl.statement.statement import AlterTable


def renamed_columns(statement: ParsedStatement) -> dict[TableName, dict[str, str]]:
    """For each table that the statement alters, its columns' old names with their new ones, as written."""
    tree = statement.tree
    if not isinstance(tree, AlterTable):
        return {}
    database, table = tree.name
    name = (database or statement.session.database or "", table)
    if statement.server.lower_case_table_names == 1:
        name = (lowered(name[0]), lowered(name[1]))
    return {name: dict(_names(tree))}


def _names(statement: AlterTable) -> Iterator[tuple[str, str]]:
    for action in statement.actions:
        if isinstance(action, RenameColumn):
            yield action.name, action.to
        elif isinstance(action, ChangeColumn) and action.name != action.spec.name:
            yield action.name, action.spec.name
