"""The keys of changed rows, of tables whose existing rows are being read.

A row that a SELECT returned is published only if no row with its key has changed since; otherwise the stream
has published a newer image of it.

Invariant: keys pass between decoders as news, in the order of the portions, so that each decoder has the same
record when it numbers a portion. They are recorded in generations, so that keys that no read needs any more
can be dropped. The record is bounded, even while a table cannot be read and so begins no generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from sys import getsizeof
from typing import NamedTuple

MOST_BYTES = 128 * 1024 * 1024
"""Bytes of keys in the record, a million keys of a number; of more, the largest table's are forgotten."""
_PLACE_BYTES = 64
"""The most bytes of a set for each of its members, when it has just grown."""
Name = tuple[str, str]
"""Database and table."""
Keys = Mapping[Name, list[str] | None]
"""Keys of rows by table, as JSON; None: any row of the table may have changed."""
NOT_PUBLISHED = "it is not published"
"""Why the rows of a table that no route captures are refused, for good."""
QUARANTINED = "it is quarantined"
"""Why the rows of a table are refused until an operator has resolved it, which begins a new run."""


class Watched(NamedTuple):
    """The tables whose keys are recorded from here on; the keys of other tables are dropped."""

    tables: frozenset[Name]


class Changed(NamedTuple):
    """Rows that changed, of watched tables."""

    keys: Keys


class GenerationBegun(NamedTuple):
    """A new generation of a table's keys begins; generations before ``kept`` are dropped."""

    table: Name
    generation: int
    kept: int


class Refused(NamedTuple):
    """The rows of a read were refused, so later reads of the same attempt are too: they would leave a gap."""

    table: Name
    attempt: int


KeyNews = Watched | Changed | GenerationBegun | Refused


class Everything:
    """All keys of a table."""

    def __contains__(self, _key: object) -> bool:
        return True


class ChangedKeys:
    """The record of one run; a table's first generation is 0."""

    def __init__(self) -> None:
        self._tables: dict[Name, dict[int, set[str] | None]] = {}
        self._bytes: dict[Name, Counter[int]] = {}
        """Bytes of the keys, by table and generation."""
        self._refused: dict[Name, int] = {}
        self._most = 0
        """An upper bound of the bytes of all keys."""

    def learn(self, news: KeyNews) -> None:
        """Record what a portion announced."""
        if isinstance(news, Changed):
            self._add(news.keys)
        elif isinstance(news, GenerationBegun):
            known = self._tables.get(news.table)
            if known is not None:
                for old in [one for one in known if one < news.kept]:
                    del known[old]
                    del self._bytes[news.table][old]
                known[news.generation] = set()
                self._bytes[news.table][news.generation] = 0
        elif isinstance(news, Refused):
            self._refused[news.table] = news.attempt
        else:
            self._tables = {name: self._tables.get(name) or {0: set()} for name in news.tables}
            self._bytes = {name: self._bytes.get(name) or Counter() for name in news.tables}

    def _add(self, keys: Keys) -> None:
        for name, changed in keys.items():
            known = self._tables.get(name)
            if known is None:
                continue
            newest = max(known)
            own = known[newest]
            if changed is None:
                known[newest] = None
                del self._bytes[name][newest]
            elif own is not None:
                new = set(changed) - own
                own |= new
                size = _PLACE_BYTES * len(new) + sum(map(getsizeof, new))
                self._bytes[name][newest] += size
                self._most += size
        while self._most > MOST_BYTES and self._count() > MOST_BYTES:
            largest = max(sorted(self._bytes), key=lambda name: self._bytes[name].total())
            # A read under way is refused, and the next one begins a generation.
            self._tables[largest] = {max(self._tables[largest]): None}
            self._bytes[largest].clear()

    def _count(self) -> int:
        self._most = sum(one.total() for one in self._bytes.values())
        return self._most

    def is_refused(self, table: Name, attempt: int) -> bool:
        """Whether an earlier read of this attempt was refused."""
        return attempt <= self._refused.get(table, -1)

    def since(self, table: Name, generation: int) -> set[str] | Everything:
        """Return the keys that changed since a generation began; Everything if they are not known."""
        known = self._tables.get(table)
        if known is None:
            return Everything()
        found = set[str]()
        for one, keys in known.items():
            if one >= generation:
                if keys is None:
                    return Everything()
                found |= keys
        return found


def added(keys: dict[Name, list[str] | None], table: Name, more: Iterable[str] | None) -> None:
    """Add ``more`` keys of a table; None: any of its keys may have changed."""
    known = keys.setdefault(table, [])
    if more is None:
        keys[table] = None
    elif known is not None:
        known += more
