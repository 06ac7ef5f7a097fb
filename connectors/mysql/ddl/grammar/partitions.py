"""ALTER TABLE's work on partitions and tablespaces.

Invariant: it changes no column; but it may touch another table, which is returned, like a table
that MariaDB makes of a partition.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.alter_actions import (
    Action,
    NoColumnWork,
    PartitionToTable,
    TableToPartition,
)

_VERBS = frozenset(
    {
        "ADD",
        "ANALYZE",
        "CHECK",
        "COALESCE",
        "DROP",
        "OPTIMIZE",
        "REBUILD",
        "REORGANIZE",
        "REPAIR",
        "TRUNCATE",
    }
)
_TABLESPACE = frozenset({"DISCARD", "IMPORT"})
_SECONDARY = frozenset({"SECONDARY_LOAD", "SECONDARY_UNLOAD"})


def partition_work(reader: Reader) -> Action | None:
    """Work on partitions; None if something else follows."""
    key, following = reader.key, reader.keys[reader.at + 1]
    if key in _VERBS and following == "PARTITION":
        return _to_its_end(reader, f"{key} PARTITION")
    if key in _TABLESPACE and following in ("PARTITION", "TABLESPACE"):
        return _to_its_end(reader, f"{key} TABLESPACE")
    if key in _SECONDARY and following == "PARTITION":
        return _to_its_end(reader, key)
    if reader.take("REMOVE", "PARTITIONING"):
        return NoColumnWork(kind="REMOVE PARTITIONING")
    if reader.take("EXCHANGE", "PARTITION"):
        return _exchange(reader)
    if reader.take("CONVERT", "PARTITION"):
        reader.name()
        reader.need("TO", "TABLE")
        return PartitionToTable(table=reader.table())
    if reader.take("CONVERT", "TABLE"):
        table = reader.table()
        _to_its_end(reader, "")
        return TableToPartition(table=table)
    return None


def _to_its_end(reader: Reader, kind: str) -> Action:
    """Skip the whole rest: nothing else can follow work on partitions."""
    while reader.key not in (lexer.END, ";"):
        reader.at += 1
    return NoColumnWork(kind=kind)


def _exchange(reader: Reader) -> Action:
    reader.name()
    reader.need("WITH", "TABLE")
    table = reader.table()
    _ = reader.take("WITH", "VALIDATION") or reader.take("WITHOUT", "VALIDATION")
    return NoColumnWork(kind="EXCHANGE PARTITION", tables=(table,))
