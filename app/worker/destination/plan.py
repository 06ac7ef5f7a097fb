"""Plan of a destination's runs, and signals to a run from outside.

Invariant: a plan never changes; signals are set by any part of the worker, and read by the run
alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.settings.model import Accept
from app.worker.coordination.write_permit import WritePermit
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.pipeline.rules import PublishingRules
from app.worker.unit.requests import Requests
from connectors.errors import AqueductError, Fenced, RunRestarts
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.lookup.start import Start
from connectors.mysql.select.load_limits import LoadLimits
from connectors.mysql.select.spool import Spools
from connectors.mysql.server.connection import SourceAddress
from tables.history.record import CheckpointPolicy
from tables.journal_kind import Kind, T
from tables.state.journal.state import JournalPartition
from tables.state.operator_requests import SOURCE
from tables.state.quarantine import Resolution
from tables.state.snapshots.request import SnapshotRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One server of a destination's list."""

    address: SourceAddress
    start: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """The conditions of a failover, and the checks of a standby."""

    automatic: bool = True
    heartbeat: str | None = None
    """The heartbeat statement; None sends none."""
    interval: float = 3.0
    """Seconds between two heartbeats."""
    retries: int = 3
    back: bool = False
    back_after: float = 60.0
    """Seconds for which an earlier source must have been fit before the return to it."""
    accept_errant: bool = False
    fingerprints: bool = False
    fallback_ms: int = 60_000
    report_lost: bool = False
    accept_filters: bool = False
    """Whether a standby with a replication filter on captured tables is read."""
    accept_unproven: bool = False
    """Whether a standby is read without proof that it has the published transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """The handling of existing rows."""

    is_initial: bool = False
    """Whether the first start publishes existing rows."""
    is_only: bool = False
    """Whether the destination stops once existing rows are published."""
    replaces_gaps: bool = False
    """Whether existing rows are published again if the source no longer has the changes since the cursor."""
    recovers: bool = False
    """Whether the schema history begins again at the cursor, once."""
    includes_new: bool = False
    """Whether a run publishes existing rows of captured tables of which nothing was published yet."""
    signals: TableName | None = None
    """The table in which rows are requests for snapshots."""
    limits: LoadLimits = field(default_factory=LoadLimits)
    spools: Spools = field(default_factory=Spools)
    """The folder for rows of tables without a key, until they enter the stream, and its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A destination's configuration, from the settings."""

    name: str
    worker: str
    reached_at: str
    """The worker's advertised address; may be empty."""
    address: SourceAddress
    start: Start
    rules: PublishingRules
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    interval: float
    """Minimum seconds between two Kafka transactions."""
    decoders: int
    """Number of decoder processes; 0 decodes in the worker's process."""
    history: CheckpointPolicy | None
    """The policy of the schema history; None keeps none."""
    sources: tuple[Source, ...]
    """All sources in order; the first has ``address`` and ``start``."""
    failover: Failover
    accepted: frozenset[Accept]
    snapshot: SnapshotPlan
    all_destinations: frozenset[str]
    """The names of all destinations of the settings."""
    merges: frozenset[str]
    """The units of all merges of the settings."""

    @property
    def journal(self) -> JournalPartition:
        """The partition of the journal with the destination's records."""
        return JournalPartition.of(self.name, self.topics.journal(), self.kafka_options)

    def accepts(self, what: Accept) -> bool:
        """Whether the settings accept a condition."""
        return what in self.accepted


Following = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Return at once: nothing has to be followed."""


@dataclass(slots=True)
class Signals:
    """Signals to a run from outside, through the journal."""

    epoch: int = 0
    """The epoch in which this worker leads; 0 before it leads."""
    claimed: int = 0
    """The last epoch that this worker tried to claim; 0 after a request to lead again."""
    superseded_by: int = 0
    led: int = 0
    """The last epoch in which this worker led."""
    set_in: int = 0
    """The epoch in which an operator's command last set the cursor."""
    permit: WritePermit = field(default_factory=WritePermit)
    """This worker's write permit."""
    requests: Requests = field(default_factory=Requests)
    """The destination's desired state."""
    tried_ms: int = 0
    """The time of the newest request for another source that this worker's runs have tried."""
    installation: str | None = None
    """The installation id in the journal when last read."""
    kafka_lost: AqueductError | None = None
    """The reason why Kafka does not answer, found beside the run; None while it does."""
    leave: AqueductError | None = None
    """The reason to leave the source of this run."""
    following: Following = field(default=at_once)
    """Waits until this worker receives all new records of the journal; raises if it cannot."""

    resolutions: dict[TableName, Resolution] = field(default_factory=dict)
    """The last resolution that this worker received for each table; several may arrive before the run
    sees the first."""
    snapshot_requests: dict[TableName, SnapshotRequest] = field(default_factory=dict)
    """The last snapshot request that this worker received for each table."""

    _notices: dict[Kind[Any], Any] = field(default_factory=dict)

    def notify(self, kind: Kind[T], notice: T) -> None:
        """Store for the run the last notice of each kind; of notices on tables, the last of each table."""
        self._notices[kind] = notice
        if isinstance(notice, Resolution):
            self.resolutions[notice.name] = notice
        elif isinstance(notice, SnapshotRequest):
            self.snapshot_requests[notice.name] = notice

    def latest(self, kind: Kind[T]) -> T | None:
        """The last notice of a kind that this worker received; None before the first."""
        latest: T | None = self._notices.get(kind)
        return latest

    def check(self) -> None:
        """Raise Fenced if another worker leads, or the error of any other reason for the run to end."""
        self.permit.check()
        if self.superseded_by:
            raise Fenced(f"epoch {self.superseded_by} is in the journal, this is {self.epoch}")
        if self.leave is not None:
            raise self.leave
        request = self.latest(SOURCE)
        if request is not None and request.ts_ms > self.tried_ms:
            raise RunRestarts(f"to resume at {request.address}, as {request.by} requested")
