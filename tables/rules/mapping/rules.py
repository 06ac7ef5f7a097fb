"""The rules of a route as values; executing them is not part of this package."""

from __future__ import annotations

from dataclasses import dataclass

ACTIONS = {"hmac": True, "truncate": True, "redact": None, "drop": False, "rename": True}
"""Column actions, and whether they take an argument: a key id, a length, a new name; a fixed text
may be given or not."""
OPERATIONS = ("insert", "update", "delete")
DDL_TYPES = ("create", "alter", "drop", "rename", "truncate")
DEBEZIUM = "debezium"
"""The record format of the envelope."""
AVRO = "avro"
CONNECT = "connect"
"""A Debezium connector's records, whose keys have another form than the envelope's."""
FORMATS = (DEBEZIUM, "canal", CONNECT, "maxwell", AVRO)
UNNAMED_FORMATS = ("canal", "maxwell")
"""Formats whose records name the real table in their key alone."""
SHARD_IN_KEY = ("auto", "always", "never")
ON_DROP = ("auto", "delete", "keep")
RECORD, OMIT, DELETES = "record", "omit", "deletes"
TRUNCATES = (RECORD, OMIT, DELETES)
"""What is published of a TRUNCATE: its record, nothing, or the deletes of the rows that its topic has."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColumnAction:
    """What is done to a column's values."""

    column: str
    action: str
    argument: str = ""
    domain: str = ""
    """Of an HMAC: what separates it from the same value's in other domains; empty: nothing does."""


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
    format: str = ""
    """The records' format; empty: that of the logical database, else the envelope."""
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    partitions: int = 0
    repartition_from: int = 0
    """The partition count of the topic before, if it is to change; 0: it is not."""
    shard_in_key: str = "auto"
    on_drop: str = "auto"
    """Whether a dropped real table's rows are deleted for subscribers; ``auto``: if keys name it."""
    truncates: str = ""
    """What is published of a TRUNCATE; empty: what the destination's settings say."""
    tag_topics: tuple[str, ...] = ()
    """The tags whose records are published again on a topic of their own."""
