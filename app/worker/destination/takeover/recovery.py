"""Recovery of a destination's state from the journal, for the start of a run.

Invariant, in this order: the transactional id is taken over first, which ends the old owner's open
transaction; then the journal is read to its present end; only then is the state used. A checkpoint
shortens the reading of the journal and never replaces it.
"""

from __future__ import annotations

import gc
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app.worker.destination.takeover.journal_verification import Verification
from connectors.errors import (
    JournalDamaged,
    JournalTooNew,
    JournalUnreadable,
)
from connectors.kafka.producer import TransactionalProducer, send_all
from connectors.kafka.reading import StoredRecord, read_first
from tables.history.codec import OLDEST
from tables.journal_format import decoded, encoded
from tables.state.cursor import Cursor
from tables.state.journal.checkpoint import Checkpoint, records_of, records_of_kind, resume_from
from tables.state.journal.records import (
    INSTALLATION,
    INSTALLATION_PARTITION,
    Leader,
    installation_in,
    installation_key,
    is_installation,
    leader_in,
    leader_key,
)
from tables.state.journal.state import DestinationState, JournalPartition, cursor_key
from tables.state.operator_requests import SOURCE, SourceChoice

log = logging.getLogger(__name__)

Read = Callable[[DestinationState, int], Awaitable[None]]
"""Applies the journal's records from an offset on to a state."""


async def installation_of(topic: str, *, options: Mapping[str, Any], worker: str) -> str:
    """This installation's id: the first one in the journal, or a new one written there."""
    for _ in range(2):
        first = await read_first(options, topic, INSTALLATION_PARTITION, wanted=is_installation)
        if first is not None:
            return installation_in(first)
        await _found(uuid.uuid4().hex[:12], topic, options=options, worker=worker)
    raise JournalDamaged("it holds no installation although one was just written", topic=topic)


def known_installation(checkpoint: Checkpoint) -> str | None:
    """The id in Faust's tables, which may be of another journal; callers confirm it afterwards."""
    known = records_of_kind(INSTALLATION, checkpoint)
    return installation_in(known[0]) if known else None


def known_choice(destination: str, checkpoint: Checkpoint) -> SourceChoice | None:
    """The current and the requested source in Faust's tables; None if they have no cursor."""
    rows = checkpoint.rows
    if cursor_key(destination).decode() not in rows:
        return None
    state = DestinationState(destination)
    for record in records_of(destination, rows):
        if SOURCE.is_of(record.key):
            state.apply(record)
    return state.source_choice


async def _found(installation: str, topic: str, *, options: Mapping[str, Any], worker: str) -> None:
    """Propose an installation; the first record in the partition wins, also between two workers."""
    producer = TransactionalProducer(f"{installation}.founding", options=options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            note = encoded({"installation": installation, "worker": worker})
            record = installation_key(installation), note
            await send_all(kafka, topic, INSTALLATION_PARTITION, [record])
    finally:
        await producer.discard()


async def recover(
    journal: JournalPartition,
    checkpoint: Checkpoint,
    verification: Verification,
    *,
    whole_history: bool = False,
    without_history: bool = False,
) -> DestinationState:
    """The verified state of a destination; call it after its producer's ``init_transactions``.

    Its schema history begins with the newest checkpoint; with ``whole_history``, with the oldest one kept.
    With ``without_history``, it has not begun, whatever the journal has of it.
    """
    destination = journal.destination

    async def read(state: DestinationState, start: int) -> None:
        with kept_alive():
            count = await journal.read(state.apply, start=start)
        log.info("%s: journal read from offset %d, %d record(s)", destination, start, count)

    try:
        if without_history:
            state = await folded_without_history(destination, read)
        else:
            state = await folded(destination, checkpoint, read, whole_history=whole_history)
    except (JournalUnreadable, JournalTooNew) as error:
        error.context = {**of_partition(journal), **error.context}
        raise
    await verification.check(state, journal, checkpoint)
    return state


def of_partition(journal: JournalPartition) -> dict[str, object]:
    """The context of an error of a journal record: its destination, topic and partition."""
    return {
        "destination": journal.destination,
        "topic": journal.topic,
        "partition": journal.number,
    }


async def last_claim(
    journal: JournalPartition, checkpoint: Checkpoint
) -> tuple[Cursor | None, Leader | None]:
    """The cursor and its leader, as far as the journal can be read without waiting.

    For use before the transactional id is taken over.
    """
    keys = (cursor_key(journal.destination), leader_key(journal.destination))
    held = checkpoint.rows
    rows = {key: held.get(key.decode()) for key in keys}
    found = {
        key: StoredRecord(key, row["value"].encode(), row["offset"])
        for key, row in rows.items()
        if row is not None
    }

    def take(record: StoredRecord) -> None:
        if record.key in keys:
            found[record.key] = record

    start = min(one.offset for one in found.values()) if len(found) == len(keys) else 0
    await journal.read(take, start=start, waits_for_open=False)
    cursor, leader = map(found.get, keys)
    return (
        Cursor.from_json(decoded(cursor)) if cursor else None,
        leader_in(leader) if leader else None,
    )


@contextmanager
def kept_alive() -> Iterator[None]:
    """Disable garbage collection within the block: the objects read are many, and all are kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def folded(
    destination: str, checkpoint: Checkpoint, read: Read, *, whole_history: bool = False
) -> DestinationState:
    """The state of a destination in the journal; ``read`` applies the records from an offset on."""
    state, start = resume_from(destination, checkpoint)
    if whole_history:
        state, start = DestinationState.with_history_from(destination, OLDEST), 0
    await read(state, start)
    if start and not state.is_whole():
        # The checkpoint lacks records that the cursor counts; the journal has them all.
        state = DestinationState(destination)
        await read(state, 0)
    base = state.other_base()
    if base is not None:
        # The schema history begins with a different checkpoint from the one that was kept.
        state = DestinationState.with_history_from(destination, base)
        await read(state, 0)
    state.check_readable()
    return state


async def folded_without_history(destination: str, read: Read) -> DestinationState:
    """The state of a destination in the journal, whose schema history is to begin again.

    The whole journal is read, since each record of the history that cannot be read is to be removed.
    """
    state = DestinationState.with_history_from(destination, OLDEST)
    await read(state, 0)
    state.begin_history_again()
    state.check_readable()
    return state
