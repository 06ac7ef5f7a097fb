"""Taking over a destination: from the journal to the state a run begins with.

The law, in this order: the transactional id is taken over first, which ends the old owner's open transaction;
then the journal is read to the end it has now; only then is anything believed. A checkpoint shortens this and
never replaces it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from connectors.errors import ForeignInstallation, JournalDamaged
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import read_to_end
from tables import journal
from tables.checkpoint import Checkpoint, resume_from
from tables.journal import DestinationState

log = logging.getLogger(__name__)


async def installation_of(topic: str, *, options: Mapping[str, Any], worker: str) -> str:
    """This installation's id: the first one in the journal, or a new one written there."""
    for _ in range(2):
        records = await read_to_end(options, topic, journal.INSTALLATION_PARTITION)
        found = journal.first_installation(records)
        if found is not None:
            return found
        await _found(uuid.uuid4().hex[:12], topic, options=options, worker=worker)
    raise JournalDamaged("it holds no installation although one was just written", topic=topic)


async def _found(installation: str, topic: str, *, options: Mapping[str, Any], worker: str) -> None:
    """Propose an installation; whose record comes first in the partition wins, also between two workers."""
    producer = TransactionalProducer(f"{installation}.founding", options=options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            sent = await kafka.send(
                topic,
                key=journal.installation_key(installation),
                value=journal.encoded({"installation": installation, "worker": worker}),
                partition=journal.INSTALLATION_PARTITION,
            )
            await sent
    finally:
        await producer.discard()


async def recover(
    destination: str,
    *,
    topic: str,
    partitions: int,
    options: Mapping[str, Any],
    checkpoint: Checkpoint,
    installation: str,
) -> DestinationState:
    """The state of a destination; call it after its producer's ``init_transactions``."""
    partition = journal.partition_of(destination, partitions)
    state, start = resume_from(destination, checkpoint)
    records = await read_to_end(options, topic, partition, start=start)
    for record in records:
        state.apply(record)
    if start and not state.is_whole():
        # The checkpoint lacked versions that the cursor counts; the journal has them all.
        records = await read_to_end(options, topic, partition)
        state = journal.fold(destination, records)
    if not state.is_whole():
        raise JournalDamaged(
            f"its cursor counts {state.cursor and state.cursor.versions} table versions, "
            f"{state.version_count} are there",
            destination=destination,
            topic=topic,
        )
    if state.cursor is not None and state.cursor.installation != installation:
        raise ForeignInstallation(
            f"it is of {state.cursor.installation}, this is {installation}", destination=destination
        )
    log.info("%s: journal read from offset %d, %d record(s)", destination, start, len(records))
    return state
