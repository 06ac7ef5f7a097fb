"""A piece, which is published at once: finished record batches, and the source position after them.

Invariant: the records of a piece, its table versions and the position after it belong together; pieces are
joined only in order, and the cursor moves only after a whole piece.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.errors import AqueductError
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import KEPT, Fingerprint, Recent
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.rules.table_version import TableVersion
from tables.state.cursor import FileHead, Resume

GtidInterval = tuple[str, int, int]
"""Consecutive GTIDs: their source, and the first and last number."""
Decision = tuple[str, PreparedPosition | None]
"""An XA transaction with its prepared position; None if it was committed or rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedTable:
    """A table quarantined from here on, and why."""

    name: tuple[str, str]
    why: str
    since: HistoryPosition


class DeadLetter(NamedTuple):
    """An undecodable row, as reported in addition to its record."""

    table: str
    gtid: str | None
    coordinates: str
    row: int
    """Its ordinal in its transaction."""
    reason: str


class UnloggedChange(NamedTuple):
    """A table whose rows a statement changed without row events."""

    name: tuple[str, str]
    what: str
    """The statement's part, such as ``EXCHANGE PARTITION``."""
    gtid: str | None
    coordinates: Coordinates
    """The position after it."""


class SignalRow(NamedTuple):
    """A row that was inserted into the signal table."""

    row: str
    """As a JSON object."""
    statements: int = 0
    """The number of records of the piece's schema history that are of statements before the row."""


@dataclass(slots=True, kw_only=True)
class TableChanges:
    """Changes of tables."""

    versions: list[TableVersion] = field(default_factory=list)
    history: list[SchemaRecord] = field(default_factory=list)
    """The effects of statements on tables, in binlog order."""
    quarantined: list[QuarantinedTable] = field(default_factory=list)
    """Tables that can no longer be read."""
    unlogged: list[UnloggedChange] = field(default_factory=list)

    def last_record(self, before: int | None) -> int | None:
        """The number of the last record of the schema history; ``before``: of the last one before these."""
        return max((record.number for record in self.history), default=before)

    def absorb(self, later: TableChanges) -> None:
        """Add what comes right after."""
        self.versions += later.versions
        self.history += later.history
        self.quarantined += later.quarantined
        self.unlogged += later.unlogged


@dataclass(slots=True, kw_only=True)
class SourceTrace:
    """The cursor's data on the source besides the position: its transactions, filtered transactions too."""

    gtids: list[GtidInterval] = field(default_factory=list)
    """GTIDs of the transactions that end here, in binlog order."""
    decisions: list[Decision] = field(default_factory=list)
    """Decisions on XA transactions, in binlog order."""
    fingerprints: list[Fingerprint] = field(default_factory=list)
    """Fingerprints of the transactions that end here and change a captured table, if they are kept."""
    landmark: Landmark | None = None
    """The last transaction that ends here, if any."""
    head: FileHead | None = None
    """The head of the last file that begins here, if any."""
    recent: list[Recent] = field(default_factory=list)
    """The last transactions with GTIDs that change a captured table."""

    def absorb(self, later: SourceTrace) -> None:
        """Add what comes right after."""
        for run in later.gtids:
            add_run(self.gtids, run)
        self.decisions += later.decisions
        self.fingerprints += later.fingerprints
        self.landmark = later.landmark or self.landmark
        self.head = later.head or self.head
        self.recent = [*self.recent, *later.recent][-KEPT:]


@dataclass(slots=True, kw_only=True)
class Counts:
    """The metrics of a piece, reported once it is committed."""

    rows: Counter[str] = field(default_factory=Counter)
    """Published changes by kind: ``c``, ``u``, ``d``, ``t``."""
    events: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Events by type and outcome: ``decoded``, ``filtered``, ``given up``, ``passed``."""
    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Skipped statements, by each table that they changed."""
    parked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events of quarantined tables, by table."""
    oversize: Counter[str] = field(default_factory=Counter)
    """Oversize records, by outcome."""

    def absorb(self, later: Counts) -> None:
        """Add what comes right after."""
        for name in Counts.__slots__:
            # Most counters are empty, and an update with an empty counter takes microseconds.
            if found := getattr(later, name):
                getattr(self, name).update(found)


class Entered(NamedTuple):
    """The outcome of a portion with an owner, once it is numbered."""

    id: int
    rows: int = 0
    """Count of rows published."""
    dropped: int = 0
    """Count of rows of which the stream has published newer images."""
    refused: str | None = None
    """Why no row is published, so that all have to be read again."""
    unreadable: str | None = None
    """Why the rows cannot be read at all."""
    removed: int = 0
    """Count of published deletes of rows that the SELECT did not return."""
    is_last: bool = True
    """Whether no more portions with this id follow."""


@dataclass(slots=True, kw_only=True)
class Piece:
    """The output of one portion, or of several consecutive portions."""

    batches: list[FinishedBatch] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    """By row topic of ``batches``: the number of partitions over which keys are spread."""
    records: int = 0
    size: int = 0
    """Bytes of keys and values, before compression."""
    tables: TableChanges = field(default_factory=TableChanges)
    notes: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Journal records other than those of ``tables``: keys and values."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Undecodable rows, in order."""
    trace: SourceTrace = field(default_factory=SourceTrace)
    counts: Counts = field(default_factory=Counts)
    signals: list[SignalRow] = field(default_factory=list)
    """Rows that were inserted into the signal table, in order."""
    entered: list[Entered] = field(default_factory=list)
    """The outcomes of portions from outside the source, for the owners that wait, in order."""
    coordinates: Coordinates
    """The position after the last whole transaction, from which reading resumes."""
    resume: Resume | None = None
    whole: bool = True
    """Whether it may be committed: it ends between transactions, or ``resume`` is its position within one."""
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
        before = len(self.tables.history)
        self.signals += [one._replace(statements=before + one.statements) for one in later.signals]
        self.tables.absorb(later.tables)
        self.notes += later.notes
        self.dead_letters += later.dead_letters
        self.trace.absorb(later.trace)
        self.counts.absorb(later.counts)
        self.entered += later.entered
        self.coordinates, self.resume, self.whole = later.coordinates, later.resume, later.whole
        self.seq, self.version_count = later.seq, later.version_count
        self.committed_ms = later.committed_ms or self.committed_ms
        self.error = later.error


def add_run(runs: list[GtidInterval], run: GtidInterval) -> None:
    """Add a run; if it directly follows the last run, extend that."""
    source, first, last = run
    if runs and runs[-1][0] == source and runs[-1][2] + 1 == first:
        runs[-1] = (source, runs[-1][1], last)
    else:
        runs.append(run)
