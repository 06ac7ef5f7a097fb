"""The rules of a route as values; executing them is not part of this package."""

from __future__ import annotations

from dataclasses import dataclass

ACTIONS = {"hmac": True, "truncate": True, "redact": None, "drop": False, "rename": True}
"""Column actions, and whether they take an argument: a key id, a length, a new name; a fixed text
may be given or not."""
OPERATIONS = ("insert", "update", "delete")
DDL_TYPES = ("create", "alter", "drop", "rename", "truncate")
FORMATS = ("debezium", "canal", "maxwell", "avro")
SHARD_IN_KEY = ("auto", "always", "never")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColumnAction:
    """What is done to a column's values."""

    column: str
    action: str
    argument: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Filters and formats of a logical table; an empty tuple or text leaves the default."""

    include: str = ""
    """Canal's expressions over real ``database.table``, with commas; empty: all."""
    black: str = ""
    columns: tuple[str, ...] = ()
    row_filter: str = ""
    """An expression in MySQL's syntax, normalized."""
    operations: tuple[str, ...] = ()
    ddl: tuple[str, ...] = ()
    column_actions: tuple[ColumnAction, ...] = ()
    format: str = "debezium"
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    partitions: int = 0
    shard_in_key: str = "auto"
