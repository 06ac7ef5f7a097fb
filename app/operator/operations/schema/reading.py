"""The schema history of a destination, read from the journal or from the central store.

Invariant: from the journal itself, committed records only, and nothing is written; a running worker
is not affected. The store is a copy, and is read only on request.
"""

from __future__ import annotations

from functools import partial

from app.operator.operations.destination_check import check_destination
from app.operator.operations.schema.destination_history import BEGIN, DestinationHistory
from app.settings.model import Settings
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.committed_state import whole_state
from app.worker.wiring import kafka_client, topic_plans
from connectors.errors import HistoryTooShort
from connectors.kafka.topics.topics import Topics
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema_store.store import MetaStore
from tables.history.history import SchemaHistory
from tables.history.schema_store_rows import history_of
from tables.state.cursor import Cursor
from tables.state.journal.state import JournalPartition


async def read_journal_history(settings: Settings, destination: str) -> DestinationHistory:
    """Return the journal's history; raise HistoryTooShort if none was begun."""
    check_destination(settings, destination)
    plan, options = topic_plans(settings).journal(), kafka_client(settings).options()
    if not await Topics(options).has(plan):
        raise HistoryTooShort("the journal topic does not exist", topic=plan.name, remedy=BEGIN)
    journal = JournalPartition.of(destination, plan, options)
    return DestinationHistory.of(await whole_state(journal))


async def read_store_history(store: MetaStore, destination: str) -> DestinationHistory:
    """Return the central store's history; raise HistoryTooShort if it has none."""
    history = history_of(await in_its_own_thread(partial(store.read, destination)))
    if history is None:
        remedy = "A worker writes it to the store once it leads the destination; check the destination's name."
        raise HistoryTooShort(
            "the central store has no schema history of the destination",
            destination=destination,
            remedy=remedy,
        )
    cursor = Cursor(
        destination=destination,
        installation="",
        epoch=0,
        seq=0,
        versions=0,
        offset=_end_of(history),
        history=history.count,
    )
    return DestinationHistory(history=history, cursor=cursor)


def _end_of(history: SchemaHistory) -> SourceOffset:
    newest = history.checkpoints[-1]
    last = history.records[-1].position if history.count > newest.count else newest.position
    return SourceOffset(server_uuid=last.server_uuid, coordinates=last.end)
