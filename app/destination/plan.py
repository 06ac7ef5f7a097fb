"""What a destination's runs are given, and what reaches one from outside.

The law: a plan never changes; signals are written by whoever learns something, and read by the run alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.coordination.write_permit import Mandate
from app.pipeline.publish.publisher import TopicPlans
from app.pipeline.rules import Rules
from connectors.errors import AqueductError, BeginsAnew, Fenced
from connectors.mysql.lookup.start import Start
from connectors.mysql.server.facts import SourceAddress
from tables.journal.partition import JournalPartition
from tables.journal_kind import Kind, T
from tables.operator.control import Control
from tables.operator.source_choice import SOURCE
from tables.schema_history.checkpoint import CheckpointPolicy


class Accepted(StrEnum):
    """What may lose changes and is refused, unless the settings accept it by this name."""

    UNPROVEN = "unproven"
    """A server of which nothing shows that its binlog is the one that was read."""
    REPLICATION_FILTERS = "replication_filters"
    """A standby that replicates with a filter on captured tables."""
    BINLOG_FILTERS = "binlog_filters"
    """A server whose binlog leaves captured databases out."""
    ANONYMOUS_TRANSACTIONS = "anonymous_transactions"
    """A gtid_mode between ON and OFF, in which transactions without GTIDs can be read."""
    INCOMPLETE_START = "incomplete_start"
    """A start with the earliest change of a server whose binlog does not begin at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One server of a destination's list."""

    address: SourceAddress
    start: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """When another source is read, and how strictly it is judged."""

    automatic: bool = True
    heartbeat: str | None = None
    """The statement; None sends none."""
    interval: float = 3.0
    """Seconds between two of them."""
    retries: int = 3
    back: bool = False
    back_after: float = 60.0
    """Seconds for which an earlier source must have been fit before it is gone back to."""
    accept_errant: bool = False
    fingerprints: bool = False
    fallback_ms: int = 60_000
    report_lost: bool = False
    accept_filters: bool = False
    """Whether a standby with a replication filter on captured tables is read."""
    accept_unproven: bool = False
    """Whether one is read of which nothing shows that it has what was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a destination's run needs to know, from the settings."""

    name: str
    worker: str
    reached_at: str
    """The worker's advertised address; may be empty."""
    address: SourceAddress
    start: Start
    rules: Rules
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    interval: float
    """Seconds between two Kafka transactions, at the least."""
    decoders: int
    """Processes that decode; 0 decodes in the worker's own."""
    history: CheckpointPolicy | None = field(default_factory=CheckpointPolicy)
    """How the schema history is kept; None keeps none."""
    sources: tuple[Source, ...] = ()
    """All of them in their order; the first is that of ``address`` and ``start``."""
    failover: Failover = field(default_factory=Failover)
    accepted: frozenset[Accepted] = frozenset()

    @property
    def journal(self) -> JournalPartition:
        """Where the destination's records of the journal are."""
        return JournalPartition.of(self.name, self.topics.journal(), self.kafka_options)

    def accepts(self, what: Accepted) -> bool:
        """Whether the settings accept this."""
        return what in self.accepted


Following = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Of what follows by itself."""


@dataclass(slots=True)
class Signals:
    """What reaches a run from outside, through the journal."""

    epoch: int = 0
    """The one this worker leads in; 0 before it does."""
    claimed: int = 0
    """The last one that this worker has tried to lead in; 0 once a person wants it to lead again."""
    superseded_by: int = 0
    led: int = 0
    """The last one that this worker has led in."""
    set_in: int = 0
    """The epoch in which a person's command has set the cursor last."""
    mandate: Mandate = field(default_factory=Mandate)
    """Whether this worker may write."""
    control: Control | None = None
    """The last word of a person on the destination."""
    tried_ms: int = 0
    """Of the newest wish for another source that this worker's runs know of."""
    installation: str | None = None
    """As the journal said when it was read last."""
    kafka_lost: AqueductError | None = None
    """Why Kafka does not answer, found out beside the run; None while it does."""
    leave: AqueductError | None = None
    """Why the source of this run is to be left."""
    following: Following = field(default=at_once)
    """Waits until all that is written to the journal from then on reaches this worker; raises why not."""

    _notices: dict[Kind[Any], Any] = field(default_factory=dict)

    def notify(self, kind: Kind[T], notice: T) -> None:
        """Keep the last notice of each kind for the run."""
        self._notices[kind] = notice

    def latest(self, kind: Kind[T]) -> T | None:
        """The last notice of a kind that this worker has had; None before the first."""
        latest: T | None = self._notices.get(kind)
        return latest

    def check(self) -> None:
        """Raise Fenced where another worker leads, or what makes the run end."""
        self.mandate.check()
        if self.superseded_by:
            raise Fenced(f"epoch {self.superseded_by} is in the journal, this is {self.epoch}")
        if self.leave is not None:
            raise self.leave
        wish = self.latest(SOURCE)
        if wish is not None and wish.ts_ms > self.tried_ms:
            raise BeginsAnew(f"to go on at {wish.address}, as {wish.by} asks")
