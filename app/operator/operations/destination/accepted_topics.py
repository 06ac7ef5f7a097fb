"""Topics that were deleted and made again, accepted as they are: found, so that an operator can confirm the
cost, and recorded.

Invariant: each is accepted by the id that it had when it was found. One that is made again afterwards is not.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from app.operator.operations.journal_access import write_notes
from app.worker.destination.takeover.committed_state import committed_state
from connectors.errors import TopicGone, UsageError
from connectors.kafka.topics.topics import Topics
from connectors.wire import quarantine_topic, schemas_topic
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.known_topics import KnownTopic, note_of
from tables.state.quarantine import note_of as quarantine_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Topics to accept, and what that loses."""

    journal: JournalPartition
    topics: tuple[KnownTopic, ...]
    notes: tuple[Note, ...]
    """Beside the topics' own."""
    effect: str

    async def write(self, *, by: str, why: str) -> None:
        """Record it in the journal."""
        notes = [note_of(replace(one, by=by, why=why)) for one in self.topics]
        await write_notes(self.journal, [*notes, *self.notes])


async def plan_acceptance(journal: JournalPartition, names: Collection[str]) -> Acceptance | None:
    """Return what is to be accepted of these topics, or of all; None if all are those that were written to.

    Raises UsageError for a topic that the destination or merge never wrote to, TopicGone for one that does not
    exist.
    """
    state = await committed_state(journal)
    known = state.topics.by_name
    if unknown := sorted(set(names) - known.keys()):
        raise UsageError(f"{journal.destination} has not written to {', '.join(unknown)}")
    ids = await Topics(journal.options).ids([*(names or known)])
    if gone := sorted(set(names) - ids.keys()):
        raise TopicGone("create it first, as the worker's error states", topic=gone[0], remedy="")
    now_ms, schemas = time.time_ns() // 1_000_000, schemas_topic(journal.prefix)
    found = tuple(
        KnownTopic(
            destination=journal.destination,
            topic=name,
            id=one,
            ts_ms=now_ms,
            lacks_versions=name == schemas,
        )
        for name, one in sorted(ids.items())
        if known[name].id != one
    )
    if not found:
        return None
    return Acceptance(
        journal=journal,
        topics=found,
        notes=tuple(_of_quarantine(journal, state, found)),
        effect=_effect(journal, state, found),
    )


def _has_quarantine(journal: JournalPartition, found: Collection[KnownTopic]) -> bool:
    name = quarantine_topic(journal.prefix, journal.destination)
    return name in {one.topic for one in found}


def _of_quarantine(
    journal: JournalPartition, state: DestinationState, found: Collection[KnownTopic]
) -> list[Note]:
    """Events of quarantined tables are read from the beginning of a new topic of theirs."""
    if not _has_quarantine(journal, found):
        return []
    return [quarantine_note(replace(one, offset=0)) for one in state.quarantine.entries.values()]


def _effect(
    journal: JournalPartition, state: DestinationState, found: Collection[KnownTopic]
) -> str:
    names = ", ".join(one.topic for one in found)
    text = f"what {names} held before is never published again, unless a copy of it was restored"
    waiting = sorted(".".join(name) for name in state.quarantine.quarantined)
    if waiting and _has_quarantine(journal, found):
        text += (
            f"; waiting events of {', '.join(waiting)} are lost: publish their existing rows once they are "
            "published again"
        )
    return text
