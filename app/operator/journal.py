"""`journal`: rewrite unreadable records as they were before, and abort another producer's open transaction.

Invariant: if all records are readable, nothing is done. Otherwise the leader is fenced first, so that nothing
newer is replaced. A record is rewritten only as an earlier record of its key that the journal still has, and
the operator's name is recorded in the same transaction. Without an earlier record, only a decision on shards or
its outcome is removed, since a decision can be made again. Only the named transaction is ended, and only if it
is open in that partition.
"""

from __future__ import annotations

import argparse
import shlex
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from app.operator.arguments import add_destination, add_format
from app.operator.journal_access import journal_of
from app.operator.terminal import operator, print_answer, run_operation
from app.settings.model import load
from app.worker.destination.takeover.recovery import installation_of
from connectors.errors import JournalUnreadable, StateUnknown, UsageError
from connectors.kafka.open_transactions import OpenTransaction, open_transactions
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord
from tables.history.codec import OLDEST
from tables.history.logical_schemas.decisions import DECIDED, DECISION
from tables.journal_format import tombstone
from tables.state.journal.state import DestinationState, JournalPartition, cursor_key
from tables.state.operator_requests import Intervention, intervention_note

Pair = tuple[StoredRecord, StoredRecord | None]
"""An unreadable record, and the record of its key that is written again; None if the key is removed."""


async def repair(journal: JournalPartition, *, worker: str, by: str, why: str) -> list[Pair]:
    """Repair all unreadable records and return them; empty if every record can be read."""
    if not (await _read_records(journal)).bad:
        return []
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
            async with producer.transaction() as kafka:
                await journal.send(kafka, [intervention_note(intervention), *notes])
    finally:
        await producer.discard()
    return pairs


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
        """Return each unreadable record with the last readable record of its key; the cursor comes last.

        Raise JournalUnreadable if a key has no readable record, except for decisions on shards and their
        outcomes.
        """
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


def configure_repair(parser: argparse.ArgumentParser) -> None:
    """Take a destination and a reason."""
    parser.epilog = "DEST may be a merge, as merge.NAME, or logical.schemas."
    add_destination(parser)
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    add_format(parser)


def run_repair(options: argparse.Namespace) -> int:
    """Repair the records; return 0, also if there is nothing to repair."""
    settings, name = load(), options.destination
    repairing = repair(
        journal_of(settings, name), worker=settings.worker.id, by=operator(), why=options.why
    )
    found = [_rewritten_value(*pair) for pair in run_operation(repairing)]
    lines = [f"offset {one['offset']}, key {one['key']}: {_done(one['as_at'])}" for one in found]
    if not found:
        last = "all records are readable"
    elif name in settings.destinations:
        last = f"next, run: python -m app destination restart {name}"
    else:
        last = "it continues by itself"
    print_answer(
        options.format, {"destination": name, "repaired": found}, [*lines, f"{name}: {last}"]
    )
    return 0


def _done(as_at: int | None) -> str:
    if as_at is None:
        return "removed, as there is no earlier record; see `python -m app shards show`, and decide again"
    return f"rewritten as at offset {as_at}"


def _rewritten_value(bad: StoredRecord, good: StoredRecord | None) -> dict[str, Any]:
    key = bad.key.decode("utf-8", "replace")
    return {"offset": bad.offset, "key": key, "as_at": None if good is None else good.offset}


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"--topic {shlex.quote(self.topic)} --partition {self.partition}"


async def list_open(
    journal: JournalPartition, partition: TopicPartition
) -> tuple[OpenTransaction, ...]:
    """Return the transactions that are open in a partition."""
    return tuple(await open_transactions(journal.options, partition.topic, partition.partition))


async def end_transaction(
    journal: JournalPartition, partition: TopicPartition, transactional_id: str
) -> None:
    """Make the broker abort the transaction of a transactional id; raise StateUnknown if none is open."""
    if transactional_id not in {
        one.transactional_id for one in await list_open(journal, partition)
    }:
        raise StateUnknown(
            "no transaction of this transactional id is open in the partition",
            destination=journal.destination,
            topic=partition.topic,
            partition=partition.partition,
            remedy="It may have ended meanwhile. To list the open ones, run python -m app journal abort DEST "
            f"{partition}.",
        )
    producer = TransactionalProducer(transactional_id, options=journal.options, compression=None)
    try:
        # Taking the transactional id over ends the transaction that is open under it.
        await producer.init_transactions()
    finally:
        await producer.discard()


def configure_abort(parser: argparse.ArgumentParser) -> None:
    """Add a destination, a partition and a transactional id."""
    parser.epilog = "DEST may be a merge, as merge.NAME, or logical.schemas."
    add_destination(parser)
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="abort this one's transaction, which fences its producer; without it, all are listed",
    )
    parser.add_argument("--topic", help="a topic other than the journal")
    parser.add_argument(
        "--partition",
        type=int,
        metavar="N",
        help="partition of that topic; default: the destination's partition of the journal",
    )
    add_format(parser)


def run_abort(options: argparse.Namespace) -> int:
    """Abort a transaction, or list the open ones; return 0 once it is aborted, or if none is open."""
    journal = journal_of(load(), options.destination)
    partition, name = _partition_of(journal, options), journal.destination
    if options.transactional_id is None:
        return _listed(
            name, partition, run_operation(list_open(journal, partition)), options.format
        )
    run_operation(end_transaction(journal, partition, options.transactional_id))
    print_answer(
        options.format,
        {"destination": name, "aborted": options.transactional_id},
        [f"{name}: the transaction of {options.transactional_id!r} is aborted"],
    )
    return 0


def _partition_of(journal: JournalPartition, options: argparse.Namespace) -> TopicPartition:
    if (options.topic is None) != (options.partition is None):
        raise UsageError("give --topic and --partition together, or neither for the journal")
    if options.topic is None:
        return TopicPartition(journal.topic, journal.number)
    return TopicPartition(options.topic, options.partition)


def _listed(
    name: str, partition: TopicPartition, found: Sequence[OpenTransaction], form: str
) -> int:
    lines = []
    for one in found:
        command = one.ending(*partition).replace("DEST", name)
        lines += [str(one), f"  to abort it: {command}"]
    if not found:
        lines.append(
            f"no transaction is open in partition {partition.partition} of {partition.topic}"
        )
    value = {
        "destination": name,
        "topic": partition.topic,
        "partition": partition.partition,
        "open": [asdict(one) for one in found],
    }
    print_answer(form, value, lines)
    return 1 if found else 0
