"""The expiry of a schema history in the journal.

Invariant: every position of the last ``expire_ms`` stays within reach, and so do the cursor's
position and all other needed positions. So one checkpoint is the new beginning: the newest
checkpoint of that age at or before the cursor and the needed positions. Removed are

- the records that this checkpoint includes, with a number up to its count;
- the checkpoints before it, and incomplete checkpoints before the newest complete one.

If no checkpoint is old enough, only incomplete checkpoints are removed. Age is measured by the source's
clock, back from the newest statement or checkpoint: an idle source loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from tables.history.codec import CHECKPOINT, HEAD, NUMBERED, removes_stray
from tables.journal_format import Entry, damaged, decoded, is_tombstone, quoted, tombstone
from tables.state.cursor import CURSOR, Cursor

_RECORDS = frozenset(kind.name for kind in NUMBERED)


@dataclass(frozen=True, slots=True)
class _Head:
    count: int
    parts: int
    ts_ms: int
    begins: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The expired records, and the new beginning of the history."""

    checkpoint: int | None
    """The number of the checkpoint that is the new beginning; None if it stays as it is."""
    entries: list[Entry]


class Retention:
    """The facts of one destination's history that expiry needs: keys, numbers and times."""

    def __init__(self, destination: str) -> None:
        self._destination = destination
        self._cursor: Cursor | None = None
        self._records: dict[bytes, tuple[int, int]] = {}
        """The number and time of each record."""
        self._heads: dict[int, _Head] = {}
        self._parts: dict[int, dict[str, bytes]] = {}
        """The present keys of each checkpoint, by part."""
        self._unreadable: dict[bytes, JournalUnreadable | JournalTooNew] = {}
        """Errors by key; a later record of the key clears each."""

    def take(self, record: StoredRecord) -> None:
        """Add a record of the journal; records of other destinations are ignored."""
        kind, _, rest = record.key.decode("utf-8", "replace").partition("/")
        if kind == CURSOR.name and rest == self._destination:
            self._cursor = Cursor.from_json(decoded(record))
        destination, *names = rest.split("/")
        if destination != quoted(self._destination):
            return
        self._unreadable.pop(record.key, None)
        try:
            if kind == CHECKPOINT.name and removes_stray(names, record):
                return
            if kind == CHECKPOINT.name:
                self._checkpoint(int(names[0]), names[1], record)
            elif kind in _RECORDS:
                self._record(record)
        except (JournalUnreadable, JournalTooNew) as error:
            self._unreadable[record.key] = error
        except (KeyError, TypeError, ValueError, IndexError) as error:
            found = damaged("a record of the schema history", record, error)
            self._unreadable[record.key] = found

    def _record(self, record: StoredRecord) -> None:
        if is_tombstone(record):
            self._records.pop(record.key, None)
        else:
            value = decoded(record)
            self._records[record.key] = value["number"], value["ts_ms"]

    def _checkpoint(self, number: int, part: str, record: StoredRecord) -> None:
        parts = self._parts.setdefault(number, {})
        if is_tombstone(record):
            parts.pop(part, None)
            if part == HEAD:
                self._heads.pop(number, None)
            return
        parts[part] = record.key
        if part == HEAD:
            value = decoded(record)
            self._heads[number] = _Head(
                value["count"], value["parts"], value["ts_ms"], value["begins"]
            )

    def expired(self, expire_ms: int, *, needed: int | None = None) -> Expired:
        """The expired records; ``needed`` is the least count of records that must stay within reach.

        Raise JournalUnreadable or JournalTooNew if the last record of a key cannot be read.
        """
        for error in self._unreadable.values():
            raise error
        count = self._cursor.history if self._cursor else None
        if count is None:
            return Expired(checkpoint=None, entries=[])
        heads = self._heads_for(count)
        oldest = self._newest_ms(count, heads) - expire_ms
        within = count if needed is None else min(count, needed)
        base = max(
            (
                number
                for number, head in heads.items()
                if head.ts_ms <= oldest and head.count <= within
            ),
            default=None,
        )
        keys = self._incomplete(heads)
        if base is not None:
            keys += self._before(base)
        return Expired(checkpoint=base, entries=[tombstone(key) for key in keys])

    def _heads_for(self, count: int) -> dict[int, _Head]:
        """Complete checkpoints that are not past the cursor, from the last baseline on."""
        heads = {
            number: head
            for number, head in sorted(self._heads.items())
            if head.count <= count and self._is_complete(number, head)
        }
        begins = max((number for number, head in heads.items() if head.begins), default=0)
        return {number: head for number, head in heads.items() if number >= begins}

    def _is_complete(self, number: int, head: _Head) -> bool:
        return all(str(part) in self._parts[number] for part in range(head.parts))

    def _newest_ms(self, count: int, heads: dict[int, _Head]) -> int:
        times = [ts_ms for number, ts_ms in self._records.values() if number <= count]
        return max([*times, *(head.ts_ms for head in heads.values())], default=0)

    def _incomplete(self, heads: dict[int, _Head]) -> list[bytes]:
        newest = max(heads, default=0)
        return [
            key
            for number, parts in self._parts.items()
            if number < newest and number not in self._heads
            for key in parts.values()
        ]

    def _before(self, base: int) -> list[bytes]:
        count = self._heads[base].count
        keys = [key for key, (number, _) in self._records.items() if number <= count]
        for number, parts in self._parts.items():
            if number < base and number in self._heads:
                keys += parts.values()
        return keys
