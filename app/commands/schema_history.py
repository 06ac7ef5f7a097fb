"""A destination's schema history as the journal has it now, or the central store, for commands that only read.

The law: it is read from the journal itself, committed records only, and nothing is written; a worker that runs
meanwhile does not notice. The store is a copy, and read only where somebody asks for it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.commands.arguments import GivenPlace
from app.settings.model import Settings, load
from connectors.errors import HistoryTooShort, UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import SourceOffset
from tables.cursor import Cursor
from tables.journal.state import DestinationState
from tables.quarantine import Entry, Outcome
from tables.schema_history.history import SchemaHistory
from tables.schema_history.position import Asked, reached
from tables.schema_history.view import SchemaView
from tables.schema_store.rows import history_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldHistory:
    """The history, and how far its destination is."""

    history: SchemaHistory
    cursor: Cursor
    quarantine: Mapping[TableName, Entry] = field(default_factory=dict)
    """Tables that are or were set aside; the central store knows of none."""

    def key(self, name: TableName) -> TableName:
        """A table's name as the server compares it."""
        server = self.history.checkpoints[-1].server
        return (name[0].lower(), name[1].lower()) if server.lower_case_table_names else name

    def asked(self, place: GivenPlace, server: str | None = None) -> Asked:
        """A place that was given, for this history."""
        offset = self.cursor.offset
        return place.asked(server or offset.server_uuid, offset.coordinates)

    def at(self, place: GivenPlace | None, server: str | None = None) -> SchemaView:
        """All schemas as of a place, or now; raise HistoryTooShort or PlaceUnknown."""
        if place is None:
            return self.history.now()
        return self.history.at(self.asked(place, server))

    def quarantined(self, name: TableName, place: GivenPlace | None = None) -> Entry | None:
        """What is to be known of a table that was set aside before a place and is not back."""
        for other, entry in self.quarantine.items():
            if self.key(other) == self.key(name) and entry.outcome is not Outcome.RELEASED:
                is_before = place is None or reached(entry.since, self.asked(place)) is not False
                return entry if is_before else None
        return None


_BEGIN = "Run a worker with this destination; its first run begins the history."

Tell = Callable[[str], ToldHistory]
"""From a destination's name to its history."""


def source_of(options: argparse.Namespace, tell: Tell) -> Tell:
    """Where a command reads: from ``tell``, or from the central store where its options say so."""
    return stored if options.from_store else tell


def stored(destination: str) -> ToldHistory:
    """Read the settings, then the central store."""
    from app.wiring import central_store

    settings = load()
    store = central_store(settings)
    if store is None:
        raise UsageError(
            "--from-store needs schema_history.store: mysql, and mysql.host and mysql.user"
        )
    history = history_of(store.read(destination))
    if history is None:
        remedy = (
            "The store gets it once a worker has led the destination; check the destination's name."
        )
        raise HistoryTooShort("the central store has none", destination=destination, remedy=remedy)
    newest = history.checkpoints[-1]
    last = history.records[-1].place if history.count > newest.count else newest.place
    offset = SourceOffset(server_uuid=last.server_uuid, coordinates=last.end)
    cursor = Cursor(
        destination=destination,
        installation="",
        epoch=0,
        seq=0,
        versions=0,
        offset=offset,
        history=history.count,
    )
    return ToldHistory(history=history, cursor=cursor)


def told(destination: str) -> ToldHistory:
    """Read the settings, then the journal."""
    settings = load()
    check_destination(settings, destination)
    return of_state(asyncio.run(_state(settings, destination)))


def of_state(state: DestinationState) -> ToldHistory:
    """The history that a destination's records fold into; raise HistoryTooShort where none was begun."""
    history = state.history()
    if history is None or state.cursor is None:
        raise HistoryTooShort(
            "none has been begun",
            destination=state.destination,
            remedy=_BEGIN,
        )
    return ToldHistory(history=history, cursor=state.cursor, quarantine=state.quarantine.entries)


def check_destination(settings: Settings, destination: str) -> None:
    """Raise UsageError where the settings have no such destination."""
    if destination not in settings.destinations:
        known = ", ".join(sorted(settings.destinations))
        raise UsageError(f"there is no destination {destination!r}, only: {known}")


async def _state(settings: Settings, destination: str) -> DestinationState:
    # Only here is Kafka's client needed, and it is slow to import.
    # What it complains of meanwhile is an error at the end, which is told once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    from app.destination.takeover.recovery import folded
    from app.wiring import kafka_client, topic_plans
    from connectors.errors import JournalDamaged
    from connectors.kafka.reading.partition_reader import read_each
    from connectors.kafka.topics.topics import Topics
    from tables.journal.checkpoint import MemoryCheckpoint
    from tables.journal.state import partition_of

    plan, options = topic_plans(settings).journal(), kafka_client(settings).options()
    partition = partition_of(destination, plan.partitions)
    if not await Topics(options).has(plan):
        raise HistoryTooShort("there is no journal", topic=plan.name, remedy=_BEGIN)

    async def read(state: DestinationState, start: int) -> None:
        await read_each(options, plan.name, partition, start=start, take=state.apply)

    state = await folded(destination, MemoryCheckpoint(), read, whole_history=True)
    if not state.is_whole():
        raise JournalDamaged(state.lack(), destination=destination, topic=plan.name)
    return state
