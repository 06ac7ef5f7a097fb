"""MariaDB's implicit columns for the start and end of a row's validity.

Invariant: WITH SYSTEM VERSIONING alone adds these columns after all others, and they stay last. A
definition may lack them, because ``information_schema`` does not list them.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column

_ROW = "GENERATED ALWAYS AS ROW "
_NAMES = ("row_start", "row_end")


def is_of_period(column: Column) -> bool:
    """Whether a column is the start or the end of a row's validity."""
    return column.definition.startswith(_ROW)


def is_hidden(column: Column) -> bool:
    """Whether the server added a column implicitly."""
    return is_of_period(column) and column.invisible and column.name in _NAMES


def with_hidden_last(columns: list[Column], *, versioned: bool | None) -> list[Column]:
    """Return the columns with the implicit columns last, or without them if versioning was dropped."""
    hidden = [column for column in columns if is_hidden(column)]
    if not hidden:
        return columns
    shown = [column for column in columns if not is_hidden(column)]
    return shown if versioned is False else [*shown, *hidden]
