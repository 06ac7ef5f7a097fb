"""The binlog position of a moment: the first transaction committed then or later.

Invariant: no transaction of the moment or later is before the position. Where transactions have commit times,
these grow unless the server's clock is set back, so the files are bisected by the time of their first
transaction. Elsewhere, a transaction has only the time of its statement, on a replica even that of another
server, which may be later than the times of many following transactions. Of such a replica, therefore, all
files are read.

A clock that was set back is recognized in two ways. The first event and the first transaction of each earlier
file are compared with the moment; and earlier files are read whole, backwards from the position, up to the
first one without a transaction of the moment or later. Only this remains: a file reaches the moment in its
midst, the clock is set back within that same file, and a whole file between it and the position has no such
transaction. Transactions that cannot be distinguished within
a second are included: an additional transaction is only repeated, a missing transaction is lost. A moment
before the binlog's start is refused by name.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from connectors.errors import (
    BinlogFileMissing,
    EndPositionUnknown,
    PositionGone,
    PositionPurged,
    TimeInFuture,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import mariadb_start as mariadb
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from wire.text import utc

_HAS_COMMIT_TIMES = (8, 0, 1)
"""Since this version a transaction's first event contains its commit time by this server's clock."""
_CLOCKS_DIFFER_MS = 60_000


def offset_at_time(
    ts_ms: int, facts: ServerFacts, address: SourceAddress, *, file: str | None = None
) -> SourceOffset:
    """The position of the first transaction committed at ``ts_ms`` (milliseconds since 1970, UTC) or later.

    If there is none, the position is the end of the binlog. With ``file``, only that file is searched;
    if it has no such transaction, the position is the file's head. On a server with GTIDs, the position
    includes the GTIDs of all transactions before it.

    Raise PositionPurged if the binlog begins later, BinlogFileMissing, TimeInFuture,
    EndPositionUnknown.
    """
    return _Search(ts_ms=ts_ms, facts=facts, address=address).search(file)


@dataclass(slots=True, kw_only=True)
class _Search:
    ts_ms: int
    facts: ServerFacts
    address: SourceAddress
    _heads: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """By file, the first transaction's time, and the second of the file's creation."""
    _missing: set[str] = field(default_factory=set)
    """Files purged during the search."""

    def search(self, file: str | None) -> SourceOffset:
        """Search for the position in one file, or in all files."""
        files = [name for name, _ in self.facts.binlogs]
        if not files:
            raise EndPositionUnknown("it lists no binlog files", source=self.address)
        if self.ts_ms > time.time() * 1000 + _CLOCKS_DIFFER_MS:
            raise TimeInFuture(f"{utc(self.ts_ms)}", source=self.address)
        if file is None:
            return self._found(files[self._file_of(files)])
        if file not in files:
            raise BinlogFileMissing(
                f"{file}; it has {files[0]} to {files[-1]}", source=self.address
            )
        return self._found(file, only=True)

    def _file_of(self, files: list[str]) -> int:
        """Return the index of the last file before which no transaction can be of the moment or later."""
        low, high = -1, len(files)
        if not self._has_commit_times and self._has_replicated:
            high = min(1, len(files))
        while high - low > 1:
            middle = (low + high) // 2
            if self._begins_before(files[middle]):
                low = middle
            else:
                high = middle
        low = self._before_set_back(files, low)
        while low > 0 and self._has_later(files[low - 1]):
            low -= 1
        if low < 0 or files[low] in self._missing:
            low = min(low + 1, len(files) - 1)
            self._refuse_if_purged(files[low])
        return low

    def _before_set_back(self, files: list[str], low: int) -> int:
        """Return the index of the file before the first one that begins at the moment or later.

        It is -1 if the oldest file begins so, and ``low`` if no file up to it does.
        """
        for at in range(low + 1):
            if (head := self._head(files[at])) is None:
                continue
            first, created = head
            # The first event of a replica's file may have the time of an event of its source.
            was_then = created * 1000 >= self.ts_ms and not self._has_replicated
            if was_then or (first is not None and first >= self.ts_ms):
                return at - 1
        return low

    def _begins_before(self, file: str) -> bool:
        """Whether the first transaction after a file's head was certainly committed before the moment."""
        if (head := self._head(file)) is None:
            return True
        first, _ = head
        return first is not None and first < self.ts_ms

    def _head(self, file: str) -> tuple[int | None, int] | None:
        """Return the time of a file's first transaction, and its creation's second; None if it was purged."""
        if file not in self._heads and file not in self._missing:
            spans = Spans(self.address, file)
            try:
                self._heads[file] = spans.first_ms(), spans.created
            except PositionGone:
                self._missing.add(file)
        return self._heads.get(file)

    def _has_later(self, file: str) -> bool:
        """Whether a file contains a transaction of the moment or later."""
        try:
            for one in Spans(self.address, file):
                if one.start.file != file:
                    break
                if one.committed_ms >= self.ts_ms:
                    return True
        except PositionGone:
            self._missing.add(file)
        return False

    def _refuse_if_purged(self, first: str) -> None:
        """Raise PositionPurged if a purged transaction may be of the moment or later."""
        if not (self._missing or was_purged(self.facts)):
            return
        spans = Spans(self.address, first)
        spans.first_ms()
        created = spans.created
        # The first event of a replica's file may have the time of an event of its source.
        if self._has_replicated or (created + 1) * 1000 > self.ts_ms:
            raise PositionPurged(
                f"its oldest binlog file, {first}, begins at {utc(created * 1000)}, "
                f"the start is at {utc(self.ts_ms)}",
                source=self.address,
            )

    def _found(self, file: str, *, only: bool = False) -> SourceOffset:
        head = reached = Coordinates(file, FIRST_EVENT)
        spans, within = Spans(self.address, file), GtidSet()
        for one in spans:
            if only and one.start.file != file:
                return self._offset(head, spans.previous)
            if one.committed_ms >= self.ts_ms:
                return self._offset(one.start, spans.previous, within)
            reached = one.end
            if one.gtid is not None and not self.facts.is_mariadb:
                within.add(one.gtid)
        if only:
            return self._offset(head, spans.previous)
        return self._offset(reached, spans.previous, within)

    def _offset(self, position: Coordinates, *before: GtidSet) -> SourceOffset:
        gtids: Gtids | None = None
        if self.facts.is_mariadb:
            gtids = mariadb.position_at(position, self.address)
        elif self.facts.has_gtids:
            gtids = GtidSet()
            for one in before:
                gtids.merge(one)
        return SourceOffset(
            server_uuid=self.facts.server_uuid, coordinates=position, gtid_set=gtids
        )

    @property
    def _has_replicated(self) -> bool:
        """Whether the server's binlog may contain times of another server."""
        return self.facts.is_replica or self.facts.was_replica

    @property
    def _has_commit_times(self) -> bool:
        numbers = tuple(map(int, re.findall(r"\d+", self.facts.variables.get("version", ""))[:3]))
        return not self.facts.is_mariadb and numbers >= _HAS_COMMIT_TIMES


def was_purged(facts: ServerFacts) -> bool:
    """Whether the server has ever purged a part of its binlog, as far as can be determined."""
    if facts.has_gtids and facts.gtids_at_head:
        return True
    number = facts.binlogs[0][0].rpartition(".")[2]
    return not number.isdigit() or int(number) != 1
