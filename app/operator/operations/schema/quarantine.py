"""Quarantined tables, with the number of events that wait for each, and those given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from app.operator.operations.journal_access import Journal
from app.worker.pipeline.gather.parked_event import key_of
from connectors.kafka.reading.partition_reader import StoredRecord, read_each
from connectors.mysql.ddl.definition import TableName
from tables.state.quarantine import Entry
from wire.topics import quarantine_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineStatus:
    """A quarantined table, and the number of its waiting events."""

    entry: Entry
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineList:
    """All quarantined tables of a destination, by name."""

    quarantined: tuple[QuarantineStatus, ...]
    given_up: tuple[Entry, ...]


async def list_quarantined(journal: Journal) -> QuarantineList:
    """Return the tables; raise StateUnknown if the destination has never run."""
    quarantine = (await journal.state(whole_history=False)).quarantine
    entries = quarantine.quarantined
    waiting = await _waiting_counts(journal, entries) if entries else {}
    return QuarantineList(
        quarantined=tuple(
            QuarantineStatus(entry=entry, waiting=waiting[name])
            for name, entry in sorted(entries.items())
        ),
        given_up=tuple(entry for _, entry in sorted(quarantine.given_up.items())),
    )


async def _waiting_counts(
    journal: Journal, entries: Mapping[TableName, Entry]
) -> Mapping[TableName, int]:
    """Return the number of waiting events of each."""
    keys = {key_of(name): name for name in entries}
    found: Counter[TableName] = Counter()

    def count(record: StoredRecord) -> None:
        name = keys.get(record.key)
        if name is not None and record.offset >= entries[name].offset:
            found[name] += 1

    topic = quarantine_topic(journal.settings.prefix, journal.plan.name)
    start = min(entry.offset for entry in entries.values())
    await read_each(journal.options, topic, 0, start=start, take=count)
    return found
