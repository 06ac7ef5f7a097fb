"""Repair of the unreadable records of a destination, a merge, or logical schemas: earlier readable ones are
written again.

Invariant: where all records are readable nothing is done. Otherwise the leader is fenced first, so that nothing
newer is replaced; a record is only written again as the journal itself still has it, and the operator's name is
recorded in the same transaction. Only a decision on shards, or its outcome, is removed if there is no earlier
record: it can be made again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field

from app.worker.destination.takeover.recovery import installation_of
from connectors.errors import JournalUnreadable
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.history.codec.fold import OLDEST
from tables.history.logical_schemas.decisions import DECIDED, DECISION
from tables.journal_format import tombstone
from tables.state.journal.state import DestinationState, JournalPartition, cursor_key
from tables.state.operator_requests import Intervention, intervention_note

Pair = tuple[StoredRecord, StoredRecord | None]
"""A record that cannot be read, and the one of its key that is written again; None if the key is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenRecord:
    """A record that could not be read, and the offset of the one that was written again."""

    offset: int
    key: bytes
    as_at: int | None
    """None if it was removed."""


async def repair(
    journal: JournalPartition, *, worker: str, by: str, why: str
) -> tuple[RewrittenRecord, ...]:
    """Repair them all; return nothing if every record can be read."""
    if not (await _read_records(journal)).bad:
        return ()
    installation = await installation_of(journal.topic, options=journal.options, worker=worker)
    producer = TransactionalProducer(
        f"{installation}.{journal.destination}",
        options=journal.options,
        compression=None,
        has_spare=True,
    )
    try:
        await producer.init_transactions()
        found = await _read_records(journal)
        pairs = found.pairs()
        if pairs:
            notes = [
                tombstone(bad.key) if good is None else (good.key, good.value)
                for bad, good in pairs
            ]
            intervention = _intervention(found.state, pairs, by=by, why=why)
            await _write(journal, producer, [intervention_note(intervention), *notes])
    finally:
        await producer.discard()
    return tuple(
        RewrittenRecord(
            offset=record.offset, key=record.key, as_at=None if good is None else good.offset
        )
        for record, good in pairs
    )


@dataclass(slots=True)
class _Records:
    """The records of a destination, separated by whether they can be read."""

    state: DestinationState
    good: dict[bytes, StoredRecord] = field(default_factory=dict)
    bad: dict[bytes, StoredRecord] = field(default_factory=dict)

    def take(self, record: StoredRecord) -> None:
        self.state.apply(record)
        if record.key in self.state.unreadable:
            self.bad[record.key] = record
        else:
            self.bad.pop(record.key, None)
            self.good[record.key] = record

    def pairs(self) -> list[Pair]:
        """Return each unreadable record with the last readable one, the cursor's last; raise if
        there is none."""
        cursor = cursor_key(self.state.destination)
        for key, record in self.bad.items():
            if key not in self.good and not (DECISION.is_of(key) or DECIDED.is_of(key)):
                raise JournalUnreadable(
                    "the journal has no earlier record of the key",
                    destination=self.state.destination,
                    offset=record.offset,
                    key=key.decode("utf-8", "replace"),
                    remedy="Write the record again as it was, or restore the topic from a backup. If it is one "
                    "of the schema history, snapshot.mode: recovery does without it.",
                )
        keys = sorted(self.bad, key=lambda key: key == cursor)
        return [(self.bad[key], self.good.get(key)) for key in keys]


async def _read_records(journal: JournalPartition) -> _Records:
    found = _Records(DestinationState.with_history_from(journal.destination, OLDEST))
    await journal.read(found.take)
    return found


async def _write(
    journal: JournalPartition, producer: TransactionalProducer, notes: list[tuple[bytes, bytes]]
) -> None:
    async with producer.transaction() as kafka:
        sent = [
            await kafka.send(journal.topic, key=key, value=value, partition=journal.number)
            for key, value in notes
        ]
        await asyncio.gather(*sent)


def _intervention(state: DestinationState, pairs: list[Pair], *, by: str, why: str) -> Intervention:
    offset = str(state.cursor.offset) if state.cursor is not None else ""
    return Intervention(
        destination=state.destination,
        id=uuid.uuid4().hex[:12],
        what="repair",
        by=by,
        why=why,
        ts_ms=time.time_ns() // 1_000_000,
        epoch=state.cursor.epoch if state.cursor is not None else 0,
        before=offset,
        after=offset,
        effect="journal records rewritten: "
        + ", ".join(f"offset {record.offset}" for record, _ in pairs),
    )
