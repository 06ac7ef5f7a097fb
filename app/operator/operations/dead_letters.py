"""Dead letters of a destination: undecodable rows, and why."""

from __future__ import annotations

from dataclasses import dataclass

from app.operator.journal_access import Journal
from app.worker.pipeline.encode.dead_letter import dead_letter_fields
from connectors.kafka.reading.partition_reader import StoredRecord, read_each
from connectors.kafka.topics.topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLetter:
    """A row, or the rest of a rows event, that could not be decoded."""

    offset: int
    """In the topic of dead letters."""
    database: str
    table: str
    change_id: str
    kind: str
    """``row``, or ``event`` if the event's rows cannot be separated."""
    gtid: str | None
    file: str
    pos: int
    row: int
    """Its number within the transaction."""
    ts_ms: int
    event_type: int
    reason: str
    bytes: str
    """In hexadecimal digits, as in the event, or sealed."""
    sealed: str | None
    """The id of the key that sealed them; None if they are as in the event."""
    table_map: str


async def list_dead_letters(journal: Journal, *, start: int = 0) -> tuple[StoredLetter, ...]:
    """Return the dead letters from an offset on; none if there is no such topic."""
    plan = journal.plan.topics.dead_letters(journal.plan.name)
    if not await Topics(journal.options).has(plan):
        return ()
    found: list[StoredLetter] = []

    def take(record: StoredRecord) -> None:
        headers = dict(record.headers)
        fields = dead_letter_fields(record.key, record.value, headers, record.offset)
        found.append(StoredLetter(**fields))

    await read_each(journal.options, plan.name, 0, start=start, take=take)
    return tuple(found)
