"""Plan of the publication of logical schemas, and its state for the status page.

Invariant: a plan never changes; only the run writes the state, anything may read it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app import metrics
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.status import State, StateLog
from connectors.errors import RecordTooLarge
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import UNIT
from tables.history.logical_schemas.logical_schema import State as Agreement
from tables.history.logical_schemas.published import PublishedSchema
from tables.rules.routes.routes import Routes
from tables.state.journal.state import JournalPartition

log = logging.getLogger(__name__)

WAITING = "waiting"
"""The state, in counts, of a logical table whose schema is not published now."""
_MOST_NAMES = 20
"""Names of logical tables in one line of the log."""
_MOST_SKIPPED = 100
"""Skipped records that the status page lists."""
CurrentRoutes = Callable[[], Mapping[str, Routes] | None]
"""Returns the routes of each destination now; None while the mapping is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSchemasPlan:
    """What the publication needs, from the settings."""

    worker: str
    """This worker's id."""
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    routes: CurrentRoutes

    @property
    def journal(self) -> JournalPartition:
        """The partition of the journal with the decisions."""
        return JournalPartition.of(UNIT, self.topics.journal(), self.kafka_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The wait of a logical table whose schema is not published now."""

    why: str
    since: float
    """In seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSchema:
    """A schema whose record its topic refused as too large."""

    size: int
    """The bytes of a record batch with it alone, as sent."""
    limit: int | None
    """The most bytes of a batch that the topic accepts; None if that cannot be asked."""
    settings: str | None
    """The digest of the topic's settings then; None if the account may not read them."""
    at: float
    """When, by the monotonic clock."""
    error: RecordTooLarge

    def refuses(self, size: int) -> bool:
        """Whether a batch of this size would be refused as well, with the same settings of the topic."""
        return size >= self.size or (self.limit is not None and size > self.limit)


@dataclass(slots=True)
class LogicalSchemasStatus:
    """The state of the publication now."""

    state: State = State.STANDBY
    error: str | None = None
    published: dict[TableName, PublishedSchema] = field(default_factory=dict)
    """Each logical table as it was last published."""
    waiting: dict[TableName, Wait] = field(default_factory=dict)
    """The logical tables whose schemas are not published now."""
    refused: dict[TableName, RefusedSchema] = field(default_factory=dict)
    """The logical tables whose schemas the topic refused, over all runs."""
    skipped: dict[tuple[str, int], str] = field(default_factory=dict)
    """The first records that the present run did not take, by topic and offset, and why."""
    _reported: dict[str, int] = field(default_factory=dict)
    """By topic, the offset of the last skipped record in the log."""
    _delay: str | None = None
    """Why decisions are not read now; None if they are."""
    _log: StateLog = field(default_factory=lambda: StateLog(UNIT))

    def begin(self) -> None:
        """Record that a run begins, which reads all records again."""
        self.skipped = {}

    def show(self, state: State, error: str | None = None) -> None:
        """Set the state and its reason."""
        self.state, self.error = state, error
        if not self._log.shown(state, error):
            # Only the worker that leads the publication knows what waits.
            self.waiting, self.skipped, self._delay = {}, {}, None
        if state not in (State.RUNNING, State.PAUSED):
            self.published = {}
            metrics.show_logical_tables({})
            if self.waiting:
                # The next run most likely finds them waiting again.
                metrics.show_logical_tables({WAITING: self._shown()[WAITING]})

    def show_running(self, delay: str | None) -> None:
        """Show that schemas are published; ``delay``: why decisions are not read meanwhile, if they are not."""
        if delay is not None and delay != self._delay:
            log.error("%s: decisions on shards wait, and schemas are published: %s", UNIT, delay)
        elif delay is None and self._delay is not None:
            log.info("%s: decisions on shards are read again", UNIT)
        self._delay = delay
        self.show(State.RUNNING, delay)

    def wait_only_for(self, why: Mapping[TableName, str]) -> None:
        """Show that exactly these logical tables wait, and why; log each change once."""
        before, now = self.waiting, time.time()
        self.waiting = {
            name: Wait(why=text, since=before[name].since if name in before else now)
            for name, text in sorted(why.items())
        }
        by_reason: dict[str, list[TableName]] = {}
        for name, one in self.waiting.items():
            if name not in before or before[name].why != one.why:
                by_reason.setdefault(one.why, []).append(name)
        for text, names in by_reason.items():
            log.error(
                "%s: %s: its schema waits, the others are published: %s", UNIT, _listed(names), text
            )
        if over := sorted(before.keys() - why.keys()):
            log.info("%s: %s: its schema is published again", UNIT, _listed(over))

    def skip(self, topic: str, offset: int, why: str) -> None:
        """Show a record that is not taken; it is logged once, though each run reads it again."""
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped[topic, offset] = why
        if offset > self._reported.get(topic, -1):
            self._reported[topic] = offset
            log.warning("%s: offset %d of %s is skipped: %s", UNIT, offset, topic, why)

    def is_news(self, error: str) -> bool:
        """See UnitStatus."""
        return self._log.is_news(self.state, error)

    def measure(self) -> None:
        """Set the metrics: for each state, the number of tables and the oldest table's age in seconds."""
        if self.state is not State.RUNNING and not self.published:
            return
        metrics.show_logical_tables(self._shown())

    def _shown(self) -> dict[str, tuple[int, float]]:
        """By state, the number of tables and the oldest table's age in seconds."""
        now = time.time()
        return {
            state: (len(times), max(0.0, now - min(times, default=now)))
            for state, times in self._since().items()
        }

    def _since(self) -> dict[str, list[float]]:
        """By state, the time since which each table has been in it, in seconds since 1970."""
        found: dict[str, list[float]] = {one.value: [] for one in Agreement}
        for name, each in self.published.items():
            if name not in self.waiting:
                found[each.state.value].append(each.since_ms / 1000)
        return {**found, WAITING: [one.since for one in self.waiting.values()]}

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page.

        It has the number of tables in each state, and all tables that wait or are not equal.
        """
        return {
            "state": self.state.value,
            "error": self.error,
            "tables": {state: len(times) for state, times in self._since().items()},
            "waiting": {".".join(name): one.why for name, one in self.waiting.items()},
            "not_equal": {
                ".".join(name): {
                    "state": one.state.value,
                    "since_ms": one.since_ms,
                    "changes": one.open_changes,
                }
                for name, one in sorted(self.published.items())
                if one.state is not Agreement.EQUAL
            },
            "skipped": [
                {"topic": topic, "offset": offset, "why": why}
                for (topic, offset), why in sorted(self.skipped.items())
            ],
        }


def _listed(names: Iterable[TableName]) -> str:
    """The names of logical tables, as the log has them."""
    texts = [".".join(name) for name in names]
    more = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
