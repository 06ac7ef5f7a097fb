"""The comments of a table and its columns.

Invariant: a comment is read from the definition that is kept of it; what is not in its form has none.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column, Table
from connectors.mysql.ddl.resolve.columns import attributes_in
from connectors.mysql.ddl.resolve.options import option


def column_comment(column: Column) -> str | None:
    """A column's comment; None without one."""
    if "COMMENT" not in column.definition:
        return None
    attributes = attributes_in(column.definition)
    return (attributes.comment if attributes is not None else None) or None


def table_comment(table: Table) -> str | None:
    """A table's comment; None without one."""
    return option(table, "COMMENT") or None
