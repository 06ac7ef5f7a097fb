"""Verification of a destination's state in the journal, before a run uses it.

Invariant: the installation is confirmed first. Until then no topic but the journal is accessed, since
many brokers create a topic on first access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import orjson

from app.worker.destination.takeover.published_check import Published
from connectors.errors import ForeignInstallation, JournalDamaged
from connectors.kafka.reading import StoredRecord, end_of, read_first
from tables.state.cursor import Cursor
from tables.state.journal.checkpoint import Checkpoint
from tables.state.journal.records import installation_key
from tables.state.journal.state import DestinationState, JournalPartition
from wire.topics import ddl_topic, schemas_topic, transactions_topic

_BEGIN_AGAIN = (
    "Restore the journal from a backup of the topic; or set snapshot.mode to recovery and restart the worker, "
    "so that the schema history begins again at the cursor."
)
_RESTORE = "Restore it from a backup of the topic; or begin in new topics, with another prefix."


class Confirm(Protocol):
    """Returns once the installation is confirmed and all topics exist, or raises."""

    async def __call__(self, *, is_new: bool) -> None:
        """See the class; ``is_new`` if the journal holds nothing of the destination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The checks of a state."""

    installation: str
    confirm: Confirm | None = None
    is_published: bool = True
    """Whether the cursor is compared with the records in the topics."""

    async def check(
        self, state: DestinationState, journal: JournalPartition, checkpoint: Checkpoint
    ) -> None:
        """Raise JournalDamaged or ForeignInstallation if the state cannot be trusted."""
        if not state.is_whole():
            raise JournalDamaged(
                state.lack(),
                destination=state.destination,
                topic=journal.topic,
                remedy=_BEGIN_AGAIN if state.lacks_history else "",
            )
        if self.confirm is not None:
            await self.confirm(is_new=state.cursor is None)
        if state.cursor is None:
            await _refuse_lost(journal)
        else:
            _refuse_foreign(state.cursor, self.installation, journal.topic, checkpoint)
        if self.is_published:
            published = Published(
                destination=state.destination, prefix=journal.prefix, options=journal.options
            )
            await published.check(state)


def _refuse_foreign(cursor: Cursor, installation: str, topic: str, checkpoint: Checkpoint) -> None:
    """Raise ForeignInstallation if a cursor is of another installation.

    Raise JournalDamaged if Faust's tables show that the journal was of that installation before it lost its
    first records.
    """
    destination, other = cursor.destination, cursor.installation
    if other == installation:
        return
    if installation_key(other).decode() in checkpoint.rows:
        raise JournalDamaged(
            f"the cursor is of installation {other}, as the journal was once, and the journal is of "
            f"{installation} now: it was deleted, truncated, or recreated",
            destination=destination,
            topic=topic,
            remedy=_RESTORE,
        )
    raise ForeignInstallation(f"it is of {other}, this is {installation}", destination=destination)


async def _refuse_lost(journal: JournalPartition) -> None:
    """Raise JournalDamaged if something was published although there is no cursor.

    A cursor precedes anything published, so the journal was truncated or recreated; a new start would
    repeat everything.
    """
    published = await _published(journal)
    if published is not None:
        raise JournalDamaged(
            f"it holds no cursor of this destination, but {published} holds what was published: the journal "
            "was deleted, truncated, or recreated",
            destination=journal.destination,
            topic=journal.topic,
            remedy=_RESTORE,
        )


async def _published(journal: JournalPartition) -> str | None:
    """A topic with records that a destination published; a table version precedes its first row."""
    destination, prefix, options = journal.destination, journal.prefix, journal.options
    for written in (transactions_topic(prefix, destination), ddl_topic(prefix, destination)):
        if await end_of(options, written, 0):
            return written

    def is_of_it(record: StoredRecord) -> bool:
        return bool(orjson.loads(record.key)["destination"] == destination)

    schemas = schemas_topic(prefix)
    return schemas if await read_first(options, schemas, 0, wanted=is_of_it) else None
