"""A change of a destination's cursor from outside, made as a leader would: with an epoch of its
own.

Invariant: the transactional id is taken over first, so that a running worker is fenced before
anything is read or written; the cursor, its further records and the operator's name are in one
Kafka transaction. The cursor records that a command set it, so that workers resume from there and
none stays fenced.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from app.operator.operations.journal_access import Journal
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.published_check import Published
from app.worker.destination.takeover.recovery import installation_of, recover
from connectors.errors import Fenced
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.partition_reader import source_of
from connectors.kafka.topics.topics import Topics
from tables.journal_format import Entry as Note
from tables.state.cursor import Cursor, next_epoch
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState, cursor_key, encoded, version_key
from tables.state.operator_requests import Intervention, intervention_note

_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The records to write to the journal."""

    cursor: Cursor
    """Its epoch and author are filled in."""
    what: str
    after: str
    effect: str
    notes: list[Note] = field(default_factory=list)


Make = Callable[[DestinationState, str], Change]
"""Makes the change from the state that is valid once no other process can write, and the
installation's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReason:
    """The author of a cursor change, and the reason; kept with the change."""

    by: str
    why: str


async def commit_change(
    journal: Journal, make: Make, *, reason: ChangeReason, sets: bool = False
) -> Intervention:
    """Make a change; raise Fenced if workers repeatedly take the destination over meanwhile.

    A change that ``sets`` the cursor does so in a journal that is older than what was published,
    too: numbers continue after those in the topics, and table versions are taken from there.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _commit_once(journal, make, reason, sets=sets)
        except Fenced:
            # A worker resumed in between; its claim is committed, and nothing of ours is.
            if not tries_left:
                raise
    raise AssertionError


async def _commit_once(
    journal: Journal, make: Make, reason: ChangeReason, *, sets: bool
) -> Intervention:
    plan = journal.plan
    topics = Topics(journal.options)
    await topics.ensure(plan.topics.journal())
    installation = await installation_of(journal.topic, options=journal.options, worker=plan.worker)
    producer = TransactionalProducer(
        f"{installation}.{plan.name}", options=journal.options, compression=None, has_spare=True
    )
    try:
        await producer.init_transactions()
        verification = Verification(
            installation=installation,
            # As a leader does: earlier published records show whether the journal has lost its
            # cursor.
            confirm=partial(plan.topics.ready, topics, plan.name),
            is_published=not sets,
        )
        state = await recover(plan.journal, MemoryCheckpoint(), verification, whole_history=True)
        lacking_versions = await _add_published(state, plan) if sets else []
        change = await asyncio.to_thread(make, state, installation)
        intervention = _intervention(plan.name, state, change, reason)
        cursor = replace(
            change.cursor,
            epoch=intervention.epoch,
            by=intervention.id,
            written_ms=intervention.ts_ms,
        )
        notes = [
            *lacking_versions,
            *change.notes,
            intervention_note(intervention),
            (cursor_key(plan.name), encoded(cursor.to_json())),
        ]
        async with producer.transaction() as kafka:
            sent = []
            for key, value in notes:
                future = await kafka.send(
                    journal.topic, key=key, value=value, partition=journal.partition
                )
                # If a later one is refused at once, the outcome of this one is no longer read.
                future.add_done_callback(_retrieve_exception)
                sent.append(future)
            await asyncio.gather(*sent)
        return intervention
    finally:
        await producer.discard()


async def _add_published(state: DestinationState, plan: Plan) -> list[Note]:
    """Add to a state what the topics have beyond it; return the table versions that the journal lacks."""
    if state.cursor is None:
        return []
    published = Published(
        destination=plan.name, prefix=plan.topics.prefix, options=plan.kafka_options
    )
    lacking = []
    for version in await published.all_versions():
        known = state.versions.get((version.database, version.table))
        if known is None or known.version < version.version:
            state.versions[version.database, version.table] = version
            lacking.append((version_key(version), encoded(version.to_json())))
    numbers = [source_of(one.record) for one in await published.newest(state)]
    state.cursor = replace(
        state.cursor,
        epoch=max([state.cursor.epoch, *(one["epoch"] for one in numbers)]),
        seq=max([state.cursor.seq, *(one["seq"] for one in numbers)]),
        versions=state.version_count,
    )
    return lacking


def _retrieve_exception(sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled():
        sent.exception()


def _intervention(
    name: str, state: DestinationState, change: Change, reason: ChangeReason
) -> Intervention:
    old = state.cursor
    return Intervention(
        destination=name,
        id=uuid.uuid4().hex[:12],
        what=change.what,
        by=reason.by,
        why=reason.why,
        ts_ms=time.time_ns() // 1_000_000,
        epoch=max(
            change.cursor.epoch, next_epoch(old.epoch if old is not None else 0, now=time.time())
        ),
        before=None if old is None else str(old.offset),
        after=change.after,
        effect=change.effect,
    )
