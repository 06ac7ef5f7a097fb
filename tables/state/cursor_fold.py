"""A destination's cursor in the journal.

Invariant: neither epoch nor sequence number decreases.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import decoded
from tables.journal_kind import Kind, StatePart
from tables.state.cursor import Claimed, Cursor


@dataclass(slots=True)
class CursorFold:
    """The last cursor of one destination."""

    destination: str
    last: Cursor | None = None
    _offset: int = -1

    def take(self, _kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a record in; an older one changes nothing. Raises JournalDamaged if the cursor goes back."""
        cursor, old = Cursor.from_json(decoded(record)), self.last
        if record.offset <= self._offset:
            # A checkpoint already had a later one; its missing records make us read from before
            # that.
            return
        if old is not None and (cursor.epoch < old.epoch or cursor.seq < old.seq):
            raise JournalDamaged(
                f"the cursor goes back, from epoch {old.epoch} seq {old.seq} "
                f"to epoch {cursor.epoch} seq {cursor.seq}",
                destination=self.destination,
                offset=record.offset,
            )
        self.last, self._offset = cursor, record.offset


def _claimed_in(record: StoredRecord) -> Claimed:
    return Claimed.from_json(decoded(record))


CURSOR_PART = StatePart(CursorFold)
CURSOR = Kind(name="cursor", part=CURSOR_PART, notice=_claimed_in, is_plain=True)


def cursor_key(destination: str) -> bytes:
    """The key of a destination's cursor: ``cursor/<destination>``."""
    return CURSOR.key(destination)
