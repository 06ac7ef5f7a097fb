"""A decision on the shards of a logical table, sent to the worker that publishes its schema.

Invariant: only the journal is changed here. The worker applies the decision or refuses it; the decision in the
journal alone is no success.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field, replace

from app.operator.operations.journal_access import write_note
from app.operator.operations.not_applied_reason import why_not_applied
from app.operator.operations.shards.view import published_table
from app.settings.model import Settings
from app.worker.wiring import kafka_client, topic_plans
from connectors.errors import AqueductError, NotApplied, RequestReplaced, UsageError
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.tail import Tail
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import (
    UNIT,
    Decided,
    Decision,
    Verb,
    decided_in,
    decision_in,
    note_of_decision,
    outcome_key,
)
from tables.history.logical_schemas.published import PublishedSchema
from tables.state.journal.state import JournalPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDecision:
    """A decision as an operator gives it."""

    table: TableName
    verb: Verb
    name: str = ""
    """A real table, with its destination or without; or a column."""
    value: str = ""
    """The type to take."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """What a worker made of a decision, and the time taken."""

    decided: Decided
    seconds: float


async def resolve(
    settings: Settings, wanted: WantedDecision, *, by: str, wait: float
) -> DecisionOutcome:
    """Send a decision, and wait at most so many seconds for a worker to apply or refuse it.

    Raises UsageError if it names what the logical table does not have, NotApplied if no worker answered in
    time, RequestReplaced if another decision on the same subject came first.
    """
    published = await published_table(settings, wanted.table)
    decision = Decision(
        table=wanted.table,
        id=uuid.uuid4().hex[:12],
        verb=wanted.verb,
        name=_name(published, wanted),
        value=published.content["difference"] if wanted.verb is Verb.ACCEPT else wanted.value,
        by=by,
        why=wanted.why,
        ts_ms=time.time_ns() // 1_000_000,
    )
    options = kafka_client(settings).options()
    journal = JournalPartition.of(UNIT, topic_plans(settings).journal(), options)
    began = time.monotonic()
    offset = await write_note(journal, note_of_decision(decision))
    waiting = _Waiting(replace(decision, offset=offset))
    try:
        decided = await waiting.wait(journal, wait)
    except TimeoutError:
        raise NotApplied(
            f"{decision} was recorded, but not applied within {wait:g} s: "
            f"{await why_not_applied(settings, UNIT)}",
            table=".".join(wanted.table),
        ) from None
    return DecisionOutcome(decided=decided, seconds=time.monotonic() - began)


def _name(published: PublishedSchema, wanted: WantedDecision) -> str:
    """The shard or column as decisions name it; raise UsageError if it is not one of the table's."""
    if wanted.verb is Verb.TAKE_TYPE:
        return wanted.name.lower()
    if wanted.verb not in (Verb.EXCLUDE, Verb.INCLUDE):
        return ""
    found = [
        one["name"]
        for one in published.content["shards"]
        if wanted.name in (one["name"], f"{one['database']}.{one['table']}")
    ]
    if len(found) == 1:
        return str(found[0])
    known = ", ".join(one["name"] for one in published.content["shards"])
    what = "is in several destinations; name one" if found else "is no real table of it"
    raise UsageError(f"{wanted.name} {what}. {'.'.join(wanted.table)} has {known}")


@dataclass(slots=True)
class _Waiting:
    """A decision in the journal, and the records that follow it."""

    decision: Decision
    decided: Decided | None = None
    fault: AqueductError | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, journal: JournalPartition, seconds: float) -> Decided:
        """Return the outcome once it is committed; raise TimeoutError."""
        tail = Tail(
            options=journal.options,
            topic=journal.topic,
            partitions=(journal.number,),
            take=self._take,
            start={journal.number: self.decision.offset + 1},
        )
        reading = asyncio.create_task(tail.run())
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        if self.fault is not None:
            raise self.fault
        assert self.decided is not None
        return self.decided

    def _take(self, _: int, record: StoredRecord) -> None:
        try:
            if record.key == note_of_decision(self.decision)[0] and not self._ended.is_set():
                other = decision_in(record)
                self.fault = RequestReplaced(
                    f"{other}, requested by {other.by}", table=".".join(other.table)
                )
                self._ended.set()
            elif record.key == outcome_key(self.decision.table, self.decision.subject):
                decided = decided_in(record)
                if decided.id == self.decision.id and not self._ended.is_set():
                    self.decided = decided
                    self._ended.set()
        except AqueductError as error:
            self.fault = error
            self._ended.set()
