"""Plan of the publication of logical schemas, and its state for the status page.

Invariant: a plan never changes; only the run writes the state, anything may read it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app import metrics
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.status import State, StateLog
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import UNIT
from tables.history.logical_schemas.logical_schema import State as Agreement
from tables.history.logical_schemas.published import PublishedSchema
from tables.rules.routes.routes import Routes
from tables.state.journal.state import JournalPartition

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


@dataclass(slots=True)
class LogicalSchemasStatus:
    """The state of the publication now."""

    state: State = State.STANDBY
    error: str | None = None
    published: dict[TableName, PublishedSchema] = field(default_factory=dict)
    """Each logical table as it was last published."""
    _log: StateLog = field(default_factory=lambda: StateLog(UNIT))

    def show(self, state: State, error: str | None = None) -> None:
        """Set the state and its reason."""
        self.state, self.error = state, error
        self._log.shown(state, error)
        if state not in (State.RUNNING, State.PAUSED):
            self.published = {}
            metrics.show_logical_tables({})

    def is_news(self, error: str) -> bool:
        """See UnitStatus."""
        return self._log.is_news(self.state, error)

    def measure(self) -> None:
        """Set the metrics: for each state, the number of tables and the oldest table's age in seconds."""
        if self.state is not State.RUNNING and not self.published:
            return
        now = time.time()
        counts = Counter(one.state for one in self.published.values())
        oldest = {
            one.value: max(
                (
                    now - each.since_ms / 1000
                    for each in self.published.values()
                    if each.state is one
                ),
                default=0.0,
            )
            for one in Agreement
        }
        metrics.show_logical_tables(
            {one.value: (counts[one], max(0.0, oldest[one.value])) for one in Agreement}
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page: the number of tables in each state, and all unequal tables."""
        counts = Counter(one.state for one in self.published.values())
        return {
            "state": self.state.value,
            "error": self.error,
            "tables": {one.value: counts[one] for one in Agreement},
            "not_equal": {
                ".".join(name): {
                    "state": one.state.value,
                    "since_ms": one.since_ms,
                    "changes": one.open_changes,
                }
                for name, one in sorted(self.published.items())
                if one.state is not Agreement.EQUAL
            },
        }
