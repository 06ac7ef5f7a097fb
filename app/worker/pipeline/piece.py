"""A piece, which is published at once: finished record batches, and the source position after them.

Invariant: the records of a piece, its table versions and the position after it belong together; pieces are
joined only in order, and the cursor moves only after a whole piece.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.worker.pipeline.piece_parts import Counts, DeadLetter, SourceTrace, TableChanges
from app.worker.pipeline.portions import Entered
from connectors.errors import AqueductError
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.position import Coordinates
from tables.state.cursor import Resume


@dataclass(slots=True, kw_only=True)
class Piece:
    """The output of a portion, or of several consecutive ones."""

    batches: list[FinishedBatch] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    """The partition count of the keys of each row topic among those."""
    records: int = 0
    size: int = 0
    """Bytes of keys and values, before compression."""
    tables: TableChanges = field(default_factory=TableChanges)
    notes: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Journal records other than those of tables: keys and values."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Undecodable rows, in order."""
    trace: SourceTrace = field(default_factory=SourceTrace)
    counts: Counts = field(default_factory=Counts)
    signals: list[str] = field(default_factory=list)
    """Rows inserted into the signal table, as JSON objects, in order."""
    entered: list[Entered] = field(default_factory=list)
    """Portions from outside the source whose owner waits for this, in order."""
    coordinates: Coordinates
    """The position after the last whole transaction, from which reading resumes."""
    resume: Resume | None = None
    whole: bool = True
    """Whether it may be committed: it ends between transactions, or has its position within one."""
    seq: int
    version_count: int
    committed_ms: int = 0
    error: AqueductError | None = None
    """The error that stopped the decoder right after this piece."""

    @property
    def topics(self) -> dict[str, int]:
        """Return the topics that it is written to, each with the partition count of its keys."""
        noted = {one.topic: one.partitions for one in self.tables.versions if one.partitions}
        return {batch.topic: 1 for batch in self.batches} | noted | self.partitions

    @property
    def only_moves(self) -> bool:
        """Whether it only moves the position, as after a thousand filtered transactions.

        The head of a file counts as content, since the previous file may be purged.
        """
        tables = self.tables
        return not (
            self.batches
            or tables.versions
            or tables.history
            or tables.unlogged
            or self.notes
            or self.trace.head
            or self.entered
            or self.signals
        )

    def absorb(self, later: Piece) -> None:
        """Add the next piece."""
        self.batches += later.batches
        self.partitions.update(later.partitions)
        self.records += later.records
        self.size += later.size
        self.tables.absorb(later.tables)
        self.notes += later.notes
        self.dead_letters += later.dead_letters
        self.trace.absorb(later.trace)
        self.counts.absorb(later.counts)
        self.entered += later.entered
        self.signals += later.signals
        self.coordinates, self.resume, self.whole = later.coordinates, later.resume, later.whole
        self.seq, self.version_count = later.seq, later.version_count
        self.committed_ms = later.committed_ms or self.committed_ms
        self.error = later.error
