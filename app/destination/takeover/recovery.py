"""Taking over a destination: from the journal to the state a run begins with.

The law, in this order: the transactional id is taken over first, which ends the old owner's open transaction;
then the journal is read to the end it has now; only then is anything believed. A checkpoint shortens this and
never replaces it.
"""

from __future__ import annotations

import gc
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import orjson

from app.destination.takeover.published_check import Published
from connectors.errors import (
    ForeignInstallation,
    JournalDamaged,
    JournalTooNew,
    JournalUnreadable,
)
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.partition_reader import StoredRecord, end_of, read_each, read_first
from connectors.wire import ddl_topic, journal_topic, schemas_topic, transactions_topic
from tables.cursor import Cursor
from tables.journal import state as journal
from tables.journal.checkpoint import Checkpoint, records_of, records_of_kind, resume_from
from tables.journal.installation import (
    INSTALLATION,
    INSTALLATION_PARTITION,
    installation_in,
    installation_key,
    is_installation,
)
from tables.journal.leader import Leader, leader_in, leader_key
from tables.journal.state import DestinationState
from tables.operator.control import CONTROL, Control, control_in
from tables.operator.source_choice import SOURCE, SourceChoice
from tables.schema_history.codec.fold import OLDEST

log = logging.getLogger(__name__)

_RESTORE = "Restore it from a backup of the topic; or begin in new topics, with another prefix."


class Confirm(Protocol):
    """See ``recover``; of a destination that ``is_new`` the journal holds nothing."""

    async def __call__(self, *, is_new: bool) -> None:
        """See the class."""


Read = Callable[[DestinationState, int], Awaitable[None]]
"""Folds the journal's records from an offset on into a state."""


async def installation_of(topic: str, *, options: Mapping[str, Any], worker: str) -> str:
    """This installation's id: the first one in the journal, or a new one written there."""
    for _ in range(2):
        first = await read_first(options, topic, INSTALLATION_PARTITION, wanted=is_installation)
        if first is not None:
            return installation_in(first)
        await _found(uuid.uuid4().hex[:12], topic, options=options, worker=worker)
    raise JournalDamaged("it holds no installation although one was just written", topic=topic)


def known_installation(checkpoint: Checkpoint) -> str | None:
    """The same as the tables have it, which may be of another journal; for who looks it up afterwards."""
    known = records_of_kind(INSTALLATION, checkpoint)
    return installation_in(known[0]) if known else None


def known_choice(destination: str, checkpoint: Checkpoint) -> SourceChoice | None:
    """Which source is read and which is wished for, as the tables have it; None where they know too little."""
    rows = checkpoint.rows
    if journal.cursor_key(destination).decode() not in rows:
        return None
    state = DestinationState(destination)
    for record in records_of(destination, checkpoint):
        if SOURCE.is_of(record.key):
            state.apply(record)
    return state.source_choice


def known_controls(checkpoint: Checkpoint) -> list[Control]:
    """The last request of each destination, as the tables have them."""
    return list(map(control_in, records_of_kind(CONTROL, checkpoint)))


async def _found(installation: str, topic: str, *, options: Mapping[str, Any], worker: str) -> None:
    """Propose an installation; whose record comes first in the partition wins, also between two workers."""
    producer = TransactionalProducer(f"{installation}.founding", options=options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            sent = await kafka.send(
                topic,
                key=installation_key(installation),
                value=journal.encoded({"installation": installation, "worker": worker}),
                partition=INSTALLATION_PARTITION,
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
    whole_history: bool = False,
    confirm: Confirm | None = None,
    is_published: bool = True,
) -> DestinationState:
    """The state of a destination; call it after its producer's ``init_transactions``.

    Its schema history begins with the newest checkpoint; ``whole_history``: with the oldest that is kept.
    ``confirm`` returns once the installation is known for certain and all topics are there, or raises: nothing
    is judged before, and no topic asked for but the journal, as many a broker makes one that somebody asks for.
    Without ``is_published`` the cursor is not held against what the topics show.
    """
    partition = journal.partition_of(destination, partitions)

    async def read(state: DestinationState, start: int) -> None:
        with kept_alive():
            count = await read_each(options, topic, partition, start=start, take=state.apply)
        log.info("%s: journal read from offset %d, %d record(s)", destination, start, count)

    try:
        state = await folded(destination, checkpoint, read, whole_history=whole_history)
    except (JournalUnreadable, JournalTooNew) as error:
        where = {"destination": destination, "topic": topic, "partition": partition}
        error.where = {**where, **error.where}
        raise
    if not state.is_whole():
        raise JournalDamaged(state.lack(), destination=destination, topic=topic)
    if confirm is not None:
        await confirm(is_new=state.cursor is None)
    if state.cursor is None:
        await _refuse_lost(destination, topic, options)
    if state.cursor is not None:
        refuse_foreign(state.cursor, installation, topic=topic, checkpoint=checkpoint)
    if is_published:
        prefix = topic.removesuffix(journal_topic(""))
        await Published(destination=destination, prefix=prefix, options=options).check(state)
    return state


def refuse_foreign(
    cursor: Cursor, installation: str, *, topic: str, checkpoint: Checkpoint
) -> None:
    """Raise ForeignInstallation where a cursor is not of this installation; JournalDamaged where it was until
    the journal's first records were lost: the tables still have them, and the journal has others by now."""
    destination, other = cursor.destination, cursor.installation
    if other == installation:
        return
    if installation_key(other).decode() in checkpoint.rows:
        raise JournalDamaged(
            f"the cursor is of installation {other}, as the journal was once, and the journal is of "
            f"{installation} now: it was deleted, cut, or made anew",
            destination=destination,
            topic=topic,
            remedy=_RESTORE,
        )
    raise ForeignInstallation(f"it is of {other}, this is {installation}", destination=destination)


async def last_claim(
    destination: str,
    *,
    topic: str,
    partitions: int,
    options: Mapping[str, Any],
    checkpoint: Checkpoint,
) -> tuple[Cursor | None, Leader | None]:
    """The cursor and who claimed it, as far as the journal can be read at once; for who has not taken over the
    transactional id."""
    keys = (journal.cursor_key(destination), leader_key(destination))
    rows = {key: checkpoint.rows.get(key.decode()) for key in keys}
    found = {
        key: StoredRecord(key, row["value"].encode(), row["offset"])
        for key, row in rows.items()
        if row is not None
    }

    def take(record: StoredRecord) -> None:
        if record.key in keys:
            found[record.key] = record

    await read_each(
        options,
        topic,
        journal.partition_of(destination, partitions),
        start=min(one.offset for one in found.values()) if len(found) == len(keys) else 0,
        take=take,
        is_patient=False,
    )
    cursor, leader = map(found.get, keys)
    return (
        Cursor.from_json(journal.decoded(cursor)) if cursor else None,
        leader_in(leader) if leader else None,
    )


async def _refuse_lost(destination: str, topic: str, options: Mapping[str, Any]) -> None:
    """Raise JournalDamaged where there is no cursor although something was published, which a cursor always
    stands before: the journal was cut or made anew, and to begin again would repeat all of it."""
    published = await _published(destination, topic.removesuffix(journal_topic("")), options)
    if published is not None:
        raise JournalDamaged(
            f"it holds no cursor of this destination, but {published} holds what was published: the journal "
            "was deleted, truncated, or recreated",
            destination=destination,
            topic=topic,
            remedy=_RESTORE,
        )


async def _published(destination: str, prefix: str, options: Mapping[str, Any]) -> str | None:
    """A topic that shows that a destination has published something; a version comes before its first row."""
    for written in (transactions_topic(prefix, destination), ddl_topic(prefix, destination)):
        if await end_of(options, written, 0):
            return written

    def is_of_it(record: StoredRecord) -> bool:
        return bool(orjson.loads(record.key)["destination"] == destination)

    schemas = schemas_topic(prefix)
    return schemas if await read_first(options, schemas, 0, wanted=is_of_it) else None


@contextmanager
def kept_alive() -> Iterator[None]:
    """Do not look for garbage meanwhile: what is read is all kept, and is much to look through."""
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
    """The state of a destination, as far as the journal has it; ``read`` folds in what is from an offset on."""
    state, start = resume_from(destination, checkpoint)
    if whole_history:
        state, start = DestinationState.with_history_from(destination, OLDEST), 0
    await read(state, start)
    if start and not state.is_whole():
        # The checkpoint lacked something that the cursor counts; the journal has it all.
        state = DestinationState(destination)
        await read(state, 0)
    base = state.other_base()
    if base is not None:
        # The schema history begins with another checkpoint than the one whose content was kept.
        state = DestinationState.with_history_from(destination, base)
        await read(state, 0)
    state.check_readable()
    return state
