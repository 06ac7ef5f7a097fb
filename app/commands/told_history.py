"""A destination's schema history as the journal has it now, for commands that only read.

The law: it is read from the journal itself, committed records only, and nothing is written; a worker that runs
meanwhile does not notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from app.commands.arguments import GivenPlace
from app.settings import Settings, load
from connectors.errors import HistoryTooShort, SettingsError
from connectors.mysql.ddl.definition import TableName
from tables.cursor import Cursor
from tables.history import SchemaHistory
from tables.journal import DestinationState
from tables.place import Asked
from tables.schema_view import SchemaView


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldHistory:
    """The history, and how far its destination is."""

    history: SchemaHistory
    cursor: Cursor

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


_BEGIN = "Run a worker with this destination; its first run begins the history."

Tell = Callable[[str], ToldHistory]
"""From a destination's name to its history."""


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
    return ToldHistory(history=history, cursor=state.cursor)


def check_destination(settings: Settings, destination: str) -> None:
    """Raise SettingsError where the settings have no such destination."""
    if destination not in settings.destinations:
        known = ", ".join(sorted(settings.destinations))
        raise SettingsError(f"there is no destination {destination!r}, only: {known}")


async def _state(settings: Settings, destination: str) -> DestinationState:
    # Only here is Kafka's client needed, and it is slow to import.
    # What it complains of meanwhile is an error at the end, which is told once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    from app.plans import kafka_client, topic_plans
    from app.recovery import folded
    from connectors.errors import JournalDamaged
    from connectors.kafka.reading import read_each
    from connectors.kafka.topics import Topics
    from tables.checkpoint import MemoryCheckpoint
    from tables.journal import partition_of

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
