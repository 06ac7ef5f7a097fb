"""The answers of a destination's sources: what a server is, and whether it can be captured at all.

Invariant: a server is asked once for each decision on it, and the first server while the journal is read.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field, replace

from app.worker.destination.background import in_its_own_thread
from app.worker.destination.failover.source_selection import SelectedSource, Sources
from app.worker.destination.plan import Plan, Signals, Source
from app.worker.destination.takeover.recovery import known_choice
from app.worker.status import DestinationStatus, State
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server import preflight
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts, facts_of
from connectors.mysql.server.replication import with_excluded_databases
from tables.rules.table_filter import named_databases
from tables.state.journal.checkpoint import Checkpoint
from tables.state.journal.state import DestinationState

Answer = tuple[SourceAddress, ServerFacts]
_REPLICAS = uuid.UUID("5b1c2a52-6d0e-4a5c-8f2e-3f1f0c7d9a11")
"""The namespace of our destinations' replica UUIDs."""


EarlyAnswer = tuple[Source | None, asyncio.Task[Answer | None]]
"""A source and its answer, requested while the journal is read; None if it is not known which to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswers:
    """Asks the sources of one destination."""

    plan: Plan
    installation: str
    sources: Sources
    signals: Signals
    status: DestinationStatus
    names: dict[str, frozenset[TableName]] = field(default_factory=dict)
    """The tables of the servers that were asked, by address."""

    def first(self, checkpoint: Checkpoint) -> Source | None:
        """The source to ask first according to Faust's tables, so that it can be asked early."""
        if not self.sources.can_switch:
            return self.sources.current
        choice = known_choice(self.plan.name, checkpoint)
        return self.sources.first(choice) if choice is not None else None

    async def answer(self, source: Source | None) -> Answer | None:
        """A server's answer, from a thread of its own; None if there is no server to ask."""
        if source is None:
            return None
        return await in_its_own_thread(lambda: self.query(source))

    def query(self, source: Source) -> Answer:
        """Ask a server; raise if it cannot be captured at all."""
        replica = str(uuid.uuid5(_REPLICAS, f"{self.installation}.{self.plan.name}"))
        address = replace(source.address, replica_uuid=replica)
        has_history = self.plan.history is not None
        with connected(address) as cursor:
            facts, routes = facts_of(cursor), self.plan.rules.routes
            if not self.plan.accepts("binlog_filters"):
                facts = with_excluded_databases(facts, cursor, routes.include, routes.captures)
            preflight.check(
                facts,
                address,
                history=has_history,
                databases=named_databases(routes.include),
                permissive=self.plan.accepts("anonymous_transactions"),
            )
            names = InventoryReader(cursor, server_of(facts)).names()
            self.names[str(address)] = frozenset(names)
        # Later queries must not reach another server, for which these facts do not hold.
        return replace(address, server=facts.server_uuid), facts

    async def selected(self, state: DestinationState, early: EarlyAnswer) -> SelectedSource:
        """The first source that fits; waits for a source. The first in order may have been asked already."""
        status = self.status
        answers: dict[str, asyncio.Task[Answer | None]] = {}
        asked, answer_of_asked = early
        if asked is not None and self.sources.first(state.source_choice) is asked:
            await asyncio.wait([answer_of_asked])
            answers[str(asked.address)] = answer_of_asked

        def judge(source: Source) -> Answer:
            # An answer is used once; a second request asks the server again.
            task = answers.pop(str(source.address), None)
            answer = task.result() if task is not None else None
            return answer or self.query(source)

        def show_wait(why: str) -> None:
            status.show(State.RETRYING, why)

        last_request = state.source_choice.request
        self.signals.tried_ms = last_request.ts_ms if last_request is not None else 0
        self.signals.leave = None
        try:
            selected = await in_its_own_thread(lambda: self.sources.select(state, judge, show_wait))
        finally:
            status.sources = self.sources.to_json()
        if selected.facts.has_gtids or not self.plan.failover.fingerprints:
            selected.notes.extend(state.fingerprints.clear())
        elif state.cursor is not None:
            selected.notes.extend(state.fingerprints.cut(state.cursor.offset))
        return selected
