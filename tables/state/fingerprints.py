"""The fingerprints of the last transactions of a destination whose sources have no GTIDs.

Invariant: fingerprints are written in the Kafka transaction of the rows they describe, in the
binlog's order. They are in a ring of records, so that the journal holds only the last of them. A run
that does not write them removes them: a sequence with a gap would align at the wrong position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.fingerprint import Fingerprint
from connectors.mysql.position import SourceOffset
from tables.journal_format import Entry, damaged, decoded, encoded, is_tombstone, tombstone
from tables.journal_kind import Kind, StatePart

SLOTS, PER_SLOT = 64, 256
"""Records of the ring, and fingerprints in each."""


@dataclass(slots=True)
class _Slot:
    number: int
    """Counted from 0; modulo the number of slots it gives the slot in the ring."""
    server_uuid: str
    prints: list[Fingerprint]


@dataclass(slots=True)
class Fingerprints:
    """The ring in the journal."""

    destination: str = ""
    _slots: dict[int, _Slot] = field(default_factory=dict)

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:  # noqa: ARG002
        """Fold a record in, whose key ends with the slot in the ring."""
        try:
            if is_tombstone(record):
                self._slots.pop(int(names[0]), None)
                return
            value = decoded(record)
            prints = [Fingerprint.from_json(one) for one in value["prints"]]
            slot = _Slot(value["number"], value["server_uuid"], prints)
            self._slots[int(names[0])] = slot
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise damaged("fingerprints", record, error) from error

    def last(self, offset: SourceOffset) -> list[Fingerprint]:
        """The fingerprints up to a cursor, the oldest first.

        Later fingerprints come from a run whose cursor was set back.
        """
        return [
            one
            for slot in sorted(self._slots.values(), key=lambda slot: slot.number)
            for one in slot.prints
            if slot.server_uuid != offset.server_uuid or one.end.order <= offset.coordinates.order
        ]

    def add(self, prints: Iterable[Fingerprint], server_uuid: str) -> list[Entry]:
        """Add later fingerprints; return the journal records."""
        changed: dict[int, _Slot] = {}
        newest = max(self._slots.values(), key=lambda slot: slot.number, default=None)
        for one in prints:
            if (
                newest is None
                or newest.server_uuid != server_uuid
                or len(newest.prints) >= PER_SLOT
            ):
                number = 0 if newest is None else newest.number + 1
                newest = self._slots[number % SLOTS] = _Slot(number, server_uuid, [])
            newest.prints.append(one)
            changed[newest.number % SLOTS] = newest
        return [(self._key(at), _value(slot)) for at, slot in changed.items()]

    def cut(self, offset: SourceOffset) -> list[Entry]:
        """Remove the fingerprints after a cursor that was set back: their transactions will be read again."""
        changed = []
        for at, slot in self._slots.items():
            if slot.server_uuid != offset.server_uuid:
                continue
            kept = [one for one in slot.prints if one.end.order <= offset.coordinates.order]
            if len(kept) < len(slot.prints):
                slot.prints = kept
                changed.append((self._key(at), _value(slot)))
        return changed

    def clear(self) -> list[Entry]:
        """Remove all fingerprints; return the journal records."""
        keys = [self._key(at) for at in self._slots]
        self._slots.clear()
        return [tombstone(key) for key in keys]

    def _key(self, at: int) -> bytes:
        return FINGERPRINTS.key(self.destination, str(at))


def _value(slot: _Slot) -> bytes:
    prints = [one.to_json() for one in slot.prints]
    return encoded({"number": slot.number, "server_uuid": slot.server_uuid, "prints": prints})


FINGERPRINTS_PART = StatePart(Fingerprints)
FINGERPRINTS: Kind[Any] = Kind(name="fp", part=FINGERPRINTS_PART)
