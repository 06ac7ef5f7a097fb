"""A validation: the source's rows compared with the folded topics, while the worker runs.

Invariant: nothing is written, to the source or to Kafka. Rows are locked only where nothing else shows what a
SELECT sees, and no lock is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app.operator.journal_access import Journal
from app.operator.operations.validation.definitions import Definitions, definitions_now
from app.operator.operations.validation.topic_pass import TopicPass
from app.operator.source_connection import ReportUnreachable, reachable_source
from app.operator.validation.rows.errors import NotComparable, SourceMoved
from app.operator.validation.rows.published_position import PublishedPosition
from app.operator.validation.rows.table_result import TableResult
from app.settings.model import Settings
from app.worker.destination.background import in_its_own_thread
from connectors.errors import UsageError
from connectors.kafka.reading.follower import Follower
from connectors.kafka.reading.partition_reader import end_of
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.unseen_tables import unseen_tables
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from connectors.mysql.select.read_views import FIRST_COUNTED, shows_what_is_visible
from connectors.mysql.server.facts import ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRequest:
    """The parameters of a validation."""

    destination: str
    tables: tuple[TableName, ...] = ()
    """Real or logical names; none: all captured tables."""
    samples: int | None = None
    """The number of chunks at random of each table; None: all rows are compared."""
    limits: LoadLimits = field(default_factory=LoadLimits)
    """Those of the source's load, above which reading waits."""
    most_listed: int = 20
    """The number of differences of a table that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result of a validation."""

    destination: str
    tables: tuple[TableResult, ...]

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return sum(one.differences for one in self.tables)

    @property
    def is_complete(self) -> bool:
        """Whether all was judged."""
        return all(one.is_complete for one in self.tables)

    def lines(self) -> list[str]:
        """The result as text: each table, and all in one line."""
        found = [line for one in self.tables for line in one.lines()]
        not_compared = sum(one.not_compared is not None for one in self.tables)
        rows = sum(one.rows for one in self.tables)
        found.append(
            f"validation of {self.destination}: tables={len(self.tables)} not_compared={not_compared} "
            f"rows={rows} differences={self.differences}"
        )
        return found

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "destination": self.destination,
            "equal": not self.differences and self.is_complete,
            "differences": self.differences,
            "complete": self.is_complete,
            "tables": [one.to_json() for one in self.tables],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is reported while a validation runs."""

    unreachable: ReportUnreachable
    progress: Callable[[TableResult], object]
    busy: Callable[[str | None], None]
    """Why reading waits for the source; None once it does not. Called by any thread."""


async def validate(settings: Settings, request: ValidationRequest, report: Report) -> Validation:
    """Compare all tables that are wanted, once.

    Raises UsageError for a table that is not captured, NotComparable if no table can be compared,
    PublishingStalled if the worker does not run, and the errors of the source and of Kafka.
    """
    journal = Journal.of(settings, request.destination)
    start = await end_of(journal.options, journal.topic, journal.partition)
    state = await journal.state()
    assert state.cursor is not None
    server = state.cursor.offset.server_uuid
    source = await reachable_source(journal, state, report.unreachable, server_uuid=server)
    _check(source.facts, server, request.destination)
    definitions = await definitions_now(journal, source.facts)
    unseen = await in_its_own_thread(
        partial(
            unseen_tables,
            source.address,
            source.facts,
            definitions.tables.keys(),
            [one.name for one in state.snapshots.pending],
        )
    )
    names = wanted_tables(definitions, request.tables, unseen)
    async with AsyncExitStack() as stack:
        follower = await stack.enter_async_context(Follower.opened(journal.options))
        await follower.follow({(journal.topic, journal.partition): start})
        published = PublishedPosition(
            follower, journal.plan.journal, state.cursor, server_uuid=server
        )
        one_pass = TopicPass(
            journal=journal,
            source=source,
            definitions=definitions,
            follower=follower,
            published=published,
            gate=LoadGate(request.limits, report.busy),
            show=report.progress,
            samples=request.samples,
            most_listed=request.most_listed,
        )
        results = [
            TableResult(
                name=name, topic=definitions.rules.routes.topic(name), not_compared=unseen[name]
            )
            for name in names
            if name in unseen
        ]
        for topic, own in _by_topic(definitions, [name for name in names if name not in unseen]):
            results += await one_pass.compare(topic, own)
    results.sort(key=lambda one: one.name)
    return Validation(destination=request.destination, tables=tuple(results))


def _check(facts: ServerFacts, server_uuid: str, destination: str) -> None:
    """Raise the error of a server whose rows cannot be compared."""
    if not shows_what_is_visible(server_of(facts), has_gtids=facts.has_gtids):
        oldest = ".".join(map(str, FIRST_COUNTED))
        raise NotComparable(
            f"MySQL before {oldest} without GTIDs does not show what a SELECT sees",
            destination=destination,
            remedy="Set gtid_mode to ON, or audit the destination by its binlog.",
        )
    if facts.server_uuid != server_uuid:
        raise SourceMoved(
            f"it reads the server {server_uuid}, which does not answer", destination=destination
        )


def wanted_tables(
    definitions: Definitions, given: Iterable[TableName], unseen: Iterable[TableName] = ()
) -> list[TableName]:
    """Return the captured real tables that are meant, all if none is given; raise UsageError for others.

    ``unseen``: tables that exist, and are not in the schema history.
    """
    captured = {
        name: definitions.rules.routes.of(name)
        for name in sorted({*definitions.tables, *unseen})
        if definitions.expected.captures(name)
    }
    wanted = set[TableName]()
    for one in given:
        own = [
            name
            for name, route in captured.items()
            if route is not None and one in (name, route.logical)
        ]
        if not own:
            raise UsageError(f"{'.'.join(one)} is no table that the destination captures")
        wanted |= set(own)
    return [name for name in captured if name in wanted or not wanted]


def _by_topic(
    definitions: Definitions, names: Iterable[TableName]
) -> list[tuple[str, list[TableName]]]:
    found: dict[str, list[TableName]] = {}
    for name in names:
        found.setdefault(definitions.rules.routes.topic(name), []).append(name)
    return sorted(found.items())
