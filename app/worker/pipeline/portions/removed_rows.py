"""The deletes of rows that are all gone at once, made of the keys that their topic has.

Invariant: they enter between two transactions, before the statement that removed the rows, and move neither the
position nor the GTIDs. So until that statement is published, a new run finds the rows that are left.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.worker.pipeline.gather.removed_rows import RemovedRow
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """Some of the rows, which fit into one Kafka transaction; none: it only reports that it was committed."""

    start: Coordinates
    """The position between transactions at which they enter."""
    id: int
    """For the report to the owner that the stream was published up to here."""
    name: str = ""
    """The id of the transaction that all deletes of one table make together."""
    removed_ms: int = 0
    """The time of the statement, milliseconds since 1970."""
    server_id: int = 0
    table_map: bytes = b""
    rows: tuple[RemovedRow, ...] = ()
    ordinal: int = 0
    """Rows of the transaction that were deleted before these."""
    part: int = 1
    """The number of this part of the transaction."""
    is_last: bool = True
    """Whether no part follows."""
    effect: None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        rows = sum(len(one.key) + len(one.image or "") for one in self.rows)
        return len(self.table_map) + rows
