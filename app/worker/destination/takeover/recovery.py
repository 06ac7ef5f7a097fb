"""Recovery of a destination's state from the journal, for the start of a run.

Invariant, in this order: the transactional id is taken over first, which ends the old owner's open
transaction; then the journal is read to its present end; only then is the state used. A checkpoint
shortens the reading of the journal and never replaces it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app.worker.destination.takeover.journal_verification import Verification
from connectors.errors import (
    JournalDamaged,
    JournalTooNew,
    JournalUnreadable,
)
from connectors.kafka.producer import TransactionalProducer, send_all
from connectors.kafka.reading import StoredRecord, read_each, read_first
from tables.history.codec import OLDEST
from tables.history.history import SchemaHistory
from tables.journal_format import decoded, encoded
from tables.state.cursor import Cursor
from tables.state.journal.checkpoint import (
    Checkpoint,
    MemoryCheckpoint,
    records_of,
    records_of_kind,
    resume_from,
)
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
from tables.state.journal.state import DestinationState, JournalPartition, cursor_key, partition_of
from tables.state.operator_requests import (
    CONTROL,
    SOURCE,
    Control,
    DesiredState,
    SourceChoice,
    control_in,
)

# The requests from before a worker's start.
#
# Invariant: a destination stays at rest only if the journal, read up to the position at which the
# worker's tail began, holds no later request. Rows in Faust's tables may be older than the
# journal, and a destination at rest begins no run that would read the journal.


ReadPartition = Callable[[int, int, Callable[[StoredRecord], object]], Awaitable[object]]
"""Passes on the committed records of a partition of the journal, from an offset to its end."""


def reads_journal(topic: str, options: Mapping[str, Any]) -> ReadPartition:
    """Return the reader of a journal.

    Records after an open transaction are left to the tail, which began at the transaction's first offset or
    before it.
    """

    async def read(partition: int, start: int, take: Callable[[StoredRecord], object]) -> None:
        await read_each(options, topic, partition, start=start, take=take, waits_for_open=False)

    return read


async def earlier_requests(
    checkpoint: Checkpoint, *, partitions: int, read: ReadPartition
) -> list[Control]:
    """The last request of each destination; call it once the journal's tail has its position.

    Raise the error that prevents reading, or JournalDamaged.
    """
    known = {one.destination: one for one in map(control_in, records_of_kind(CONTROL, checkpoint))}
    # All other destinations run, and a run reads the journal itself.
    at_rest = [one for one in known.values() if one.desired is not DesiredState.RUN]
    for partition, controls in _by_partition(at_rest, partitions).items():
        names = {one.destination for one in controls}

        def take(record: StoredRecord, names: Collection[str] = names) -> None:
            if CONTROL.is_of(record.key):
                control = control_in(record)
                if control.destination in names:
                    log.info("%s: %s", control.destination, control.to_text())
                    known[control.destination] = control

        # From after the first of these requests on, as rows of later records may be missing.
        await read(partition, min(one.offset for one in controls) + 1, take)
    return list(known.values())


def _by_partition(controls: Collection[Control], partitions: int) -> dict[int, list[Control]]:
    found: dict[int, list[Control]] = {}
    for control in controls:
        found.setdefault(partition_of(control.destination, partitions), []).append(control)
    return found


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


# The committed state of a destination in the journal, read without a checkpoint and beside any
# run.
#
# Invariant: committed records only; nothing is written or kept, and leaders are not affected.
#
# A run may expire records of the schema history while they are read: records that one pass over
# the journal found to be needed may be gone in the next pass. So an incomplete state is read
# again before it counts as damaged.

_READS = 5
_PAUSE_SECONDS = 0.2


async def committed_state(
    journal: JournalPartition, *, whole_history: bool = False
) -> DestinationState:
    """The present state; with ``whole_history``, its schema history begins with the oldest checkpoint.

    It is incomplete only if records are missing in the journal; see ``DestinationState.is_whole``.
    """
    state = await _read(journal, whole_history=whole_history)
    for _ in range(_READS - 1):
        if state.is_whole():
            break
        await asyncio.sleep(_PAUSE_SECONDS)
        state = await _read(journal, whole_history=whole_history)
    return state


async def _read(journal: JournalPartition, *, whole_history: bool) -> DestinationState:
    try:
        return await folded(
            journal.destination, MemoryCheckpoint(), journal.fold_into, whole_history=whole_history
        )
    except (JournalUnreadable, JournalTooNew) as error:
        error.context = {**of_partition(journal), **error.context}
        raise


async def whole_state(journal: JournalPartition) -> DestinationState:
    """The present state with the whole schema history; raise JournalDamaged if records are missing."""
    state = await committed_state(journal, whole_history=True)
    if not state.is_whole():
        raise JournalDamaged(state.lack(), destination=journal.destination, topic=journal.topic)
    return state


async def committed_history(journal: JournalPartition) -> SchemaHistory:
    """The whole schema history; raise JournalDamaged if there is none."""
    state = await whole_state(journal)
    history = state.history()
    if history is None:
        raise JournalDamaged(state.lack(), destination=journal.destination, topic=journal.topic)
    return history
