"""A portion of the stream of changes, as decoders get it.

Invariant: a portion can be decoded by itself; portions are numbered in the order in which they are put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.worker.pipeline.changed_keys import Name
from app.worker.pipeline.gather.delete_records import RemovedRow
from app.worker.pipeline.gather.inserted_events import RowsEvent
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from tables.history.resolved_statement import ResolvedStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWatch:
    """The tables whose changed keys are recorded from here on; it replaces the previous watch.

    Invariant: it enters between two transactions. Keys that change after it are recorded before a later portion
    of selected rows is numbered.
    """

    start: Coordinates
    tables: frozenset[Name]
    id: int
    """Identifies the report to the owner that the stream is published up to here."""
    notes: tuple[tuple[bytes, bytes], ...] = ()
    """Records for the journal, keys and values, of states that begin here."""

    @property
    def size(self) -> int:
        """Zero: its records are few."""
        return 0

    @property
    def effect(self) -> KeyWatch:
        """The watch itself, which all decoders must know."""
        return self


Effect = ResolvedStatement | KeyWatch
"""The effect of a portion on later portions: a statement's on tables, or tables to watch."""


class Portion(Protocol):
    """A part of the stream that can be decoded by itself.

    It is a captured chunk, rows from outside the binlog, or news for decoders.
    """

    @property
    def start(self) -> Coordinates:
        """Its position in the stream, for errors."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def effect(self) -> Effect | None:
        """The effect that all decoders must know before they decode a later portion."""


@dataclass(frozen=True, slots=True)
class CapturedChunk:
    """A portion of the stream that comes from the binlog.

    Invariant: the effect is determined once, in binlog order, before the chunk goes to a decoder.
    """

    chunk: Chunk
    effect: ResolvedStatement | None = None
    """The effect of the statement at the end of the chunk."""

    @property
    def start(self) -> Coordinates:
        """The start of its first event."""
        return self.chunk.start

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.chunk.size


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertedRows:
    """Whole transactions that fit into one Kafka transaction together.

    Invariant: they are numbered with the stream, and move neither its position nor its GTIDs.
    """

    start: Coordinates
    """The position between transactions at which they enter."""
    events: tuple[RowsEvent, ...]
    effect: None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(len(event.body) + len(event.table_map) for event in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """Rows to delete, as many as fit into one Kafka transaction; without any, it only reports its commit.

    Invariant: they enter between two transactions, before the statement that removed the rows, and move
    neither the position nor the GTIDs. So until that statement is published, a new run can find the rows that
    are still to be deleted.
    """

    start: Coordinates
    """The position between transactions at which they enter."""
    id: int
    """Identifies the report to the owner that the stream is published up to here."""
    name: str = ""
    """The id of the transaction that all deletes of one table form together."""
    removed_ms: int = 0
    """The time of the statement, milliseconds since 1970."""
    server_id: int = 0
    table_map: bytes = b""
    rows: tuple[RemovedRow, ...] = ()
    ordinal: int = 0
    """Count of the transaction's rows that were deleted before these."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRows:
    """Rows of one read, as many as fit into one Kafka transaction.

    Invariant: they enter between two transactions, at a position that is not before any change that the
    SELECT saw. A row whose key changed since the generation ``since`` began is dropped there, and gets no
    number. They move neither the position nor the GTIDs.
    """

    start: Coordinates
    """The position between transactions at which they enter."""
    table: Name
    read: str
    """The name of the read, which is unique in the destination: the rows' ids begin with it."""
    id: int
    """Identifies the report of the outcome to the owner."""
    read_ms: int
    """When the SELECT began, milliseconds since 1970."""
    server_id: int
    attempt: int = 0
    """The number of the attempt. Once a read is refused, later reads of its attempt are refused too."""
    since: int
    """The generation of the table's keys that began before the SELECT."""
    begins: int
    """The generation that begins after these rows."""
    kept: int
    """The oldest generation that another read still needs."""
    table_map: bytes
    blocks: tuple[bytes, ...]
    """Packets, each block of whole rows, as ``connectors.mysql.select.prepared_select`` returns them."""
    note: tuple[bytes, bytes]
    """The journal's record of this read, key and value; not written if the rows are refused."""
    empties: bool = False
    """Whether subscribers are informed, before these rows, that all earlier rows of the table are gone."""
    is_read: bool = True
    """Whether a SELECT returned the rows, which may have changed since; if not, no keys are checked."""
    is_last: bool = True
    """Whether no more rows of this read follow, so that its owner is informed of the outcome."""
    replaced: bool = False
    """Whether subscribers are informed, after these rows, that all rows of a replacement have come."""
    removes: tuple[str, ...] = ()
    """Keys of records for which the SELECT searched. A key for which it returned no row that is published is
    deleted."""
    effect: None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.table_map) + sum(map(len, self.blocks))
