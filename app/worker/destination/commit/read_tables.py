"""The tables of one run whose existing rows are or may be read, for the parts that make requests from pieces.

Invariant: a view of the snapshot's own state; nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from connectors.mysql.ddl.definition import TableName
from tables.state.snapshots.table_snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTables:
    """The tables of a destination."""

    destination: str
    captured: Callable[[], Iterable[TableName]]
    """The captured tables that exist now."""
    snapshots: Mapping[TableName, TableSnapshot]
    """The states of their snapshots, updated as they change."""
