"""MariaDB's columns that tell since when and until when a row holds, where nobody asked for them by name.

The law: WITH SYSTEM VERSIONING alone makes them behind all others, and there they stay; a definition may have
them or not, for ``information_schema`` does not tell them.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column

_ROW = "GENERATED ALWAYS AS ROW "
_NAMES = ("row_start", "row_end")


def is_of_period(column: Column) -> bool:
    """Whether it tells since when or until when a row holds."""
    return column.definition.startswith(_ROW)


def is_hidden(column: Column) -> bool:
    """Whether the server made it by itself."""
    return is_of_period(column) and column.invisible and column.name in _NAMES


def with_hidden_last(columns: list[Column], *, versioned: bool | None) -> list[Column]:
    """The columns with those at their end, or without them where the table keeps no past any more."""
    hidden = [column for column in columns if is_hidden(column)]
    if not hidden:
        return columns
    shown = [column for column in columns if not is_hidden(column)]
    return shown if versioned is False else [*shown, *hidden]
