"""What is published at once: finished record batches, and the place in the source behind them.

The law: the records of a piece, its table versions and the place after it belong together; pieces are joined
only in their order, and the cursor moves only behind a piece that is whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.errors import AqueductError
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint
from connectors.mysql.lookup.fingerprint.recent import KEPT, Recent
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.prepared_xa import PreparedAt
from tables.cursor import Resume
from tables.cursor_proof import FileHead
from tables.schema_history.position import HistoryPlace
from tables.schema_history.record import SchemaRecord
from tables.table_version import TableVersion

Run = tuple[str, int, int]
"""GTIDs that follow one another: what they begin with, and the first and last number."""
Decision = tuple[str, PreparedAt | None]
"""An XA transaction that was prepared, and where; or that was committed or rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A table that is set aside from here on, and why."""

    name: tuple[str, str]
    why: str
    since: HistoryPlace


class DeadLetter(NamedTuple):
    """A row that cannot be decoded, as it is told beside its record."""

    table: str
    gtid: str | None
    coordinates: str
    row: int
    """Its ordinal in its transaction."""
    reason: str


@dataclass(slots=True, kw_only=True)
class Piece:
    """What became of a chunk, or of several in a row."""

    batches: list[FinishedBatch] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    """Of each topic of rows among those: over how many partitions its keys are spread."""
    records: int = 0
    size: int = 0
    """Bytes of keys and values, before compression."""
    versions: list[TableVersion] = field(default_factory=list)
    history: list[SchemaRecord] = field(default_factory=list)
    """What statements did to tables, in the order of the binlog."""
    set_aside: list[Aside] = field(default_factory=list)
    """Tables that can be read no longer."""
    notes: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Records of the journal beside those: keys and values."""
    parked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events of tables that are set aside, by table."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Rows that cannot be decoded, in their order."""
    oversize: Counter[str] = field(default_factory=Counter)
    """Records that were too large for their topics, by what was done with them."""
    gtids: list[Run] = field(default_factory=list)
    """Of the transactions that end here, filtered ones too, in the order of the binlog."""
    decisions: list[Decision] = field(default_factory=list)
    """Of XA transactions, in the order of the binlog."""
    fingerprints: list[Fingerprint] = field(default_factory=list)
    """Of the transactions that end here and change a captured table, where such are kept."""
    landmark: Landmark | None = None
    """The last transaction that ends here, where one does."""
    head: FileHead | None = None
    """Of the last file that begins here, where one does."""
    recent: list[Recent] = field(default_factory=list)
    """The last of those that have GTIDs and change a captured table."""
    coordinates: Coordinates
    """Where reading goes on: after the last whole transaction."""
    resume: Resume | None = None
    whole: bool = True
    """Whether it may be committed: it ends between transactions, or says where within one."""
    seq: int
    version_count: int
    rows: Counter[str] = field(default_factory=Counter)
    """Published changes by kind: ``c``, ``u``, ``d``, ``t``."""
    events: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Events by type and by what was done with them: ``decoded``, ``filtered``, ``given up``, ``passed``."""
    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Statements that were passed by, by each table that they changed."""
    committed_ms: int = 0
    error: AqueductError | None = None
    """What stopped the decoder right behind this piece."""

    @property
    def topics(self) -> dict[str, int]:
        """The topics that it is written to, each with the partitions over which its keys are spread."""
        noted = {one.topic: one.partitions for one in self.versions if one.partitions}
        return {batch.topic: 1 for batch in self.batches} | noted | self.partitions

    @property
    def only_moves(self) -> bool:
        """Whether it has nothing that anybody waits for: a thousand filtered transactions are one step.

        The head of a file counts, since the file before may be purged.
        """
        return not (self.batches or self.versions or self.history or self.notes or self.head)

    def absorb(self, later: Piece) -> None:
        """Add the piece that comes right after this one."""
        self.batches += later.batches
        self.partitions.update(later.partitions)
        self.records += later.records
        self.size += later.size
        self.versions += later.versions
        self.history += later.history
        self.set_aside += later.set_aside
        self.notes += later.notes
        self.parked.update(later.parked)
        self.dead_letters += later.dead_letters
        self.oversize.update(later.oversize)
        for run in later.gtids:
            add_run(self.gtids, run)
        self.decisions += later.decisions
        self.fingerprints += later.fingerprints
        self.landmark = later.landmark or self.landmark
        self.head = later.head or self.head
        self.recent = [*self.recent, *later.recent][-KEPT:]
        self.coordinates, self.resume, self.whole = later.coordinates, later.resume, later.whole
        self.seq, self.version_count = later.seq, later.version_count
        self.rows.update(later.rows)
        self.events.update(later.events)
        self.statements.update(later.statements)
        self.committed_ms = later.committed_ms or self.committed_ms
        self.error = later.error


def add_run(runs: list[Run], run: Run) -> None:
    """Add a run; one that directly follows the last lengthens it."""
    source, first, last = run
    if runs and runs[-1][0] == source and runs[-1][2] + 1 == first:
        runs[-1] = (source, runs[-1][1], last)
    else:
        runs.append(run)
