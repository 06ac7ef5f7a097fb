"""Plan of a merge, and its state for the status page.

Invariant: a plan never changes; only the run writes the state, anything may read it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app import metrics
from app.worker.pipeline.publish.publisher import BLIND_SECONDS, TopicPlans
from app.worker.status import State, StateLog
from tables.state.journal.state import JournalPartition

log = logging.getLogger(__name__)

UNIT = "merge."
"""The prefix of a merge's name as a unit of work; no destination's name contains a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge's configuration, from the settings."""

    name: str
    destinations: tuple[str, ...]
    """The shards; records with equal times keep this order."""
    all_destinations: frozenset[str]
    """All destinations of the settings, also those of no merge."""
    prefix: str
    wait: float
    """Seconds that a record waits for earlier records of other shards."""
    passes: bool
    """Whether the merge continues without a shard that stalls."""
    stalled_after: float
    """The lag in seconds above which a shard counts as stalled."""
    accepts_gone: bool
    """Whether records that were deleted before they were merged are omitted."""
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    max_bytes: int
    """Maximum bytes of keys and values in one Kafka transaction."""
    max_batch_bytes: int
    """Maximum bytes of a record batch, before compression."""

    @property
    def unit(self) -> str:
        """The name of the merge as a unit of work, in the journal too."""
        return f"{UNIT}{self.name}"

    @property
    def journal(self) -> JournalPartition:
        """The partition of the journal with its cursors."""
        return JournalPartition.of(self.unit, self.topics.journal(), self.kafka_options)


@dataclass(slots=True)
class ShardStatus:
    """One shard of a merge."""

    reached_ms: int | None = None
    """The commit time up to which the shard is published to its topics; None if not known yet."""
    is_stalled: bool = False
    trouble: str | None = None
    """Why its marks cannot be read, if it stalls for that; its destination may be healthy then."""
    records: int = 0
    """Count of records merged by this worker."""
    held: int = 0
    """Count of records read and not yet merged."""
    unread: int | None = None
    """Offsets of its topics that were not read at the last look; None before the first look of a run, and if
    not all of its topics can be read."""


class RefusedTopic(NamedTuple):
    """A merged topic whose broker refused records."""

    why: str
    settings: str | None
    """The digest of its settings then; None if the account may not read them."""
    at: float
    """When, by the monotonic clock."""

    def refuses(self, settings: str | None, now: float) -> bool:
        """Whether it is not tried again yet, at the time ``now``; ``settings``: their digest as of now.

        If they may not be read, it is tried again at intervals, since the reason may be gone.
        """
        return settings == self.settings if settings is not None else now - self.at < BLIND_SECONDS


@dataclass(slots=True)
class MergeStatus:
    """The state of a merge now."""

    plan: MergePlan
    state: State = State.STANDBY
    error: str | None = None
    shards: dict[str, ShardStatus] = field(init=False)
    waiting: dict[str, str] = field(default_factory=dict)
    """The merged topics that wait, and why: they cannot be written to, or a shard's topic cannot be read. Their
    records stay in the shards' topics."""
    late: int = 0
    """Count of records published after another shard's record with a later commit time."""
    _log: StateLog = field(init=False)

    def __post_init__(self) -> None:
        self.shards = {name: ShardStatus() for name in self.plan.destinations}
        self._log = StateLog(self.plan.unit)

    def begin(self) -> None:
        """Record that a run begins; it has read nothing yet."""
        for one in self.shards.values():
            one.held, one.unread = 0, None

    refused: dict[str, RefusedTopic] = field(default_factory=dict)
    """The merged topics whose brokers refused records."""

    def wait_only_for(self, why: Mapping[str, str]) -> None:
        """Show that exactly these merged topics wait, and why."""
        for topic in sorted({*self.waiting, *why}):
            self.wait_for(topic, why.get(topic))

    def wait_for(self, topic: str, why: str | None) -> None:
        """Show why a merged topic waits, or with None that it does not; log each change."""
        before = self.waiting.pop(topic, None)
        if why is not None:
            self.waiting[topic] = why
        metrics.MERGE_TOPICS_WAITING.labels(self.plan.name).set(len(self.waiting))
        if why is not None and why != before:
            log.error("%s: topic %s waits, the others are merged: %s", self.plan.unit, topic, why)
        elif why is None and before is not None:
            log.info("%s: topic %s is merged again", self.plan.unit, topic)

    def show(self, state: State, error: str | None = None) -> None:
        """Set the state and its reason."""
        self.state, self.error = state, error
        if not self._log.shown(state, error):
            # Only the worker that leads the merge knows what waits, and how far the shards are published.
            self.waiting = {}
            for one in self.shards.values():
                one.reached_ms = None
        if state is State.PAUSED:
            # The next run reads again what the last run held.
            self.begin()
        if state is not State.RUNNING:
            metrics.remove_merge(self.plan.name)

    def is_news(self, error: str) -> bool:
        """See UnitStatus."""
        return self._log.is_news(self.state, error)

    def measure(self) -> None:
        """Set the metric of each shard's lag, where known; called while there is no run."""
        now = time.time()
        for shard, one in self.shards.items():
            if one.reached_ms is not None:
                lag = metrics.MERGE_LAG.labels(self.plan.name, shard)
                lag.set(max(0.0, now - one.reached_ms / 1000))

    def stall(self, shard: str, *, is_stalled: bool, why: str | None = None) -> None:
        """Show whether a shard stalls, and why, if that is known; each change is logged."""
        status, why = self.shards[shard], why if is_stalled else None
        metrics.MERGE_STALLED.labels(self.plan.name, shard).set(is_stalled)
        if (is_stalled, why) == (status.is_stalled, status.trouble):
            return
        status.is_stalled, status.trouble = is_stalled, why
        if not is_stalled:
            log.info("%s: %s is up to date again", self.plan.unit, shard)
            return
        what = "is not waited for" if self.plan.passes else "the other shards wait for it"
        log.warning(
            "%s: %s lags by more than %g s; %s. %s",
            self.plan.unit, shard, self.plan.stalled_after, what,
            f"How far it is published cannot be read: {why}" if why is not None
            else "See why: python -m app destination list",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the state for the status page."""
        now = time.time()
        return {
            "state": self.state.value,
            "error": self.error,
            "wait_seconds": self.plan.wait if self.plan.passes else None,
            "late": self.late,
            "waiting": dict(sorted(self.waiting.items())),
            "shards": {
                name: {
                    "lag_seconds": None
                    if one.reached_ms is None
                    else round(max(0.0, now - one.reached_ms / 1000), 1),
                    "stalled": one.is_stalled,
                    "trouble": one.trouble,
                    "unread": one.unread,
                    "held": one.held,
                    "records": one.records,
                }
                for name, one in self.shards.items()
            },
        }
