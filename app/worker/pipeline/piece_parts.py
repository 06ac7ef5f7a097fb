"""The parts of a piece: changes of tables, the trace of the source, and counts.

Invariant: a part absorbs the same part of the next piece.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import KEPT, Fingerprint, Recent
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.rules.table_version import TableVersion
from tables.state.cursor import FileHead

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
    """A table of which a statement changed rows that no row event names."""

    name: tuple[str, str]
    what: str
    """The statement's part, such as ``EXCHANGE PARTITION``."""
    gtid: str | None
    coordinates: str


@dataclass(slots=True, kw_only=True)
class TableChanges:
    """Changes of tables."""

    versions: list[TableVersion] = field(default_factory=list)
    history: list[SchemaRecord] = field(default_factory=list)
    """The effects of statements on tables, in binlog order."""
    quarantined: list[QuarantinedTable] = field(default_factory=list)
    """Tables that can no longer be read."""
    unlogged: list[UnloggedChange] = field(default_factory=list)

    def absorb(self, later: TableChanges) -> None:
        """Add what comes right after."""
        self.versions += later.versions
        self.history += later.history
        self.quarantined += later.quarantined
        self.unlogged += later.unlogged


@dataclass(slots=True, kw_only=True)
class SourceTrace:
    """The cursor's data on the source other than the position: its transactions, filtered ones too."""

    gtids: list[GtidInterval] = field(default_factory=list)
    """GTIDs of the transactions that end here, in binlog order."""
    decisions: list[Decision] = field(default_factory=list)
    """Decisions on XA transactions, in binlog order."""
    fingerprints: list[Fingerprint] = field(default_factory=list)
    """Of the transactions that end here and change a captured table, if fingerprints are kept."""
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
        self.rows.update(later.rows)
        self.events.update(later.events)
        self.statements.update(later.statements)
        self.parked.update(later.parked)
        self.oversize.update(later.oversize)


def add_run(runs: list[GtidInterval], run: GtidInterval) -> None:
    """Add a run; one that directly follows the last extends it."""
    source, first, last = run
    if runs and runs[-1][0] == source and runs[-1][2] + 1 == first:
        runs[-1] = (source, runs[-1][1], last)
    else:
        runs.append(run)
