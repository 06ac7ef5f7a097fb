"""The parts of a piece: what it changes of tables, what it leaves of the source, and what is counted of it.

Invariant: a part absorbs the same part of the piece that comes right after.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint
from connectors.mysql.lookup.fingerprint.recent import KEPT, Recent
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.cursor_proof import FileHead
from tables.schema_history.position import HistoryPosition
from tables.schema_history.record import SchemaRecord
from tables.table_version import TableVersion

GtidInterval = tuple[str, int, int]
"""GTIDs that follow one another: what they begin with, and the first and last number."""
Decision = tuple[str, PreparedPosition | None]
"""An XA transaction that was prepared, and where; or that was committed or rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedTable:
    """A table that is set aside from here on, and why."""

    name: tuple[str, str]
    why: str
    since: HistoryPosition


class DeadLetter(NamedTuple):
    """A row that cannot be decoded, as it is told beside its record."""

    table: str
    gtid: str | None
    coordinates: str
    row: int
    """Its ordinal in its transaction."""
    reason: str


@dataclass(slots=True, kw_only=True)
class TableChanges:
    """What changes of tables."""

    versions: list[TableVersion] = field(default_factory=list)
    history: list[SchemaRecord] = field(default_factory=list)
    """What statements did to tables, in the order of the binlog."""
    set_aside: list[QuarantinedTable] = field(default_factory=list)
    """Tables that can be read no longer."""

    def absorb(self, later: TableChanges) -> None:
        """Add what comes right after."""
        self.versions += later.versions
        self.history += later.history
        self.set_aside += later.set_aside


@dataclass(slots=True, kw_only=True)
class SourceTrace:
    """What the cursor keeps of the source beside the position: its transactions, filtered ones too."""

    gtids: list[GtidInterval] = field(default_factory=list)
    """Of the transactions that end here, in the order of the binlog."""
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
    """What is shown of a piece once it is committed."""

    rows: Counter[str] = field(default_factory=Counter)
    """Published changes by kind: ``c``, ``u``, ``d``, ``t``."""
    events: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Events by type and by what was done with them: ``decoded``, ``filtered``, ``given up``, ``passed``."""
    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Statements that were passed by, by each table that they changed."""
    parked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events of tables that are set aside, by table."""
    oversize: Counter[str] = field(default_factory=Counter)
    """Records that were too large for their topics, by what was done with them."""

    def absorb(self, later: Counts) -> None:
        """Add what comes right after."""
        self.rows.update(later.rows)
        self.events.update(later.events)
        self.statements.update(later.statements)
        self.parked.update(later.parked)
        self.oversize.update(later.oversize)


def add_run(runs: list[GtidInterval], run: GtidInterval) -> None:
    """Add a run; one that directly follows the last lengthens it."""
    source, first, last = run
    if runs and runs[-1][0] == source and runs[-1][2] + 1 == first:
        runs[-1] = (source, runs[-1][1], last)
    else:
        runs.append(run)
