"""Transactions that a person has said to leave out, one by one, and whether that was done.

The law: a word stands until the cursor is behind its transaction, and then says where that stood; it is written
in the Kafka transaction that moves the cursor there, so that it is done once and never half.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry as Note
from tables.journal_format import decoded, encoded
from tables.journal_kind import Kind, StatePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """One transaction that is not to be published."""

    destination: str
    transaction: str
    """Its GTID; without GTIDs ``server_uuid:file:pos`` of its first event."""
    id: str
    by: str
    why: str
    ts_ms: int
    done: str | None = None
    """Where it stood, ``file:pos``, once it was left out."""
    events: int = 0
    """How many of its events nobody read."""


@dataclass(slots=True)
class Skips:
    """What the journal says of one destination."""

    all: dict[str, Skip] = field(default_factory=dict)
    """By transaction."""
    _offsets: dict[bytes, int] = field(default_factory=dict, compare=False)

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal's record in; one that was folded before changes nothing."""
        if record.offset <= self._offsets.get(record.key, -1):
            return
        self._offsets[record.key] = record.offset
        value: dict[str, Any] = decoded(record)
        try:
            skip = Skip(**value)
        except TypeError as error:
            raise JournalDamaged(f"a skip cannot be read: {error!r}") from error
        self.all[skip.transaction] = skip

    @property
    def pending(self) -> dict[str, Skip]:
        """Those that were not met yet, by transaction."""
        return {name: one for name, one in self.all.items() if one.done is None}


SKIP_PART = StatePart(lambda _: Skips())
SKIP: Kind[Any] = Kind(name="skip", part=SKIP_PART)


def note_of(skip: Skip) -> Note:
    """A record for the journal: ``skip/<destination>/<transaction>``."""
    return SKIP.key(skip.destination, skip.transaction), encoded(asdict(skip))
