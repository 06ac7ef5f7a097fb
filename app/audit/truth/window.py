"""The window of an audit in the source, and the side of it that a transaction is on.

Invariant: transactions are compared by GTID set if they have GTIDs, otherwise by file and offset of one server,
and on request by commit time; never by two of these at once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import Enum

from app.audit.errors import NotAuditable
from app.audit.truth.printed_events import Before, FileBegins, TransactionBegins
from app.audit.truth.witness import Witness
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates

Bound = GtidSet | Coordinates | str | int
"""A set of GTIDs; coordinates; one transaction by its name; a time in milliseconds since 1970."""


class Side(Enum):
    """The side of a window that a transaction is on."""

    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of the published part, from the journal's cursor."""

    server_uuid: str
    coordinates: Coordinates
    gtids: GtidSet | None
    partial: tuple[str, int] | None = None
    """A transaction that is published in part, and the number of its published rows."""


@dataclass(slots=True, kw_only=True)
class Window:
    """Finds the side of each transaction in the binlog's order: a bound that is a name is passed only once."""

    begin: Bound | None
    """Transactions in this set, or before this position, are not audited; None: from the first file on."""
    until: Bound | None
    """Transactions after this bound are not audited; None: the window ends at the cursor."""
    end: End
    server_uuid: str
    """The server of the binlog."""
    last_of_set: Coordinates | None = None
    """The last transaction of the GTID set ``begin``, if found. Transactions without GTIDs are before the
    window up to this position, and within the window after it."""
    has_begun: bool = False
    """Whether the transaction that ``begin`` names was met."""
    _is_over: bool = False

    def side(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> Side:
        """Return the side of a transaction that begins at these coordinates."""
        if not self._begins(name, gtid, at, ts_ms):
            return Side.BEFORE
        if self._is_after(name, gtid, at, ts_ms):
            return Side.AFTER
        return Side.WITHIN

    def may_stop(self, at: Coordinates) -> bool:
        """Return whether no transaction after these coordinates can be within the window."""
        end = self.end
        return (
            end.server_uuid == self.server_uuid
            and at.order >= end.coordinates.order
            and not end.partial
        )

    def _begins(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> bool:
        match self.begin:
            case GtidSet():
                if gtid is None:
                    return self.last_of_set is None or at.order > self.last_of_set.order
                return gtid not in self.begin
            case Coordinates():
                return at.order >= self.begin.order
            case str():
                self.has_begun = self.has_begun or name == self.begin
                return self.has_begun
            case int():
                return ts_ms >= self.begin
        return True

    def _is_after(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> bool:
        is_after = False
        match self.until:
            case GtidSet():
                is_after = gtid is not None and gtid not in self.until
            case Coordinates():
                is_after = at.order >= self.until.order
            case str():
                is_after = self._is_over
                self._is_over = self._is_over or name == self.until
            case int():
                is_after = ts_ms > self.until
        return is_after or not self._is_published(name, gtid, at)

    def _is_published(self, name: str, gtid: str | None, at: Coordinates) -> bool:
        end = self.end
        if end.partial is not None and end.partial[0] == name:
            return True
        if gtid is not None and end.gtids is not None:
            return gtid in end.gtids
        if end.server_uuid != self.server_uuid:
            return True  # a server without GTIDs that is no longer read: all that was requested is published
        return at.order < end.coordinates.order


# The binlog file from which an audit reads, and the position in it at which a window after a GTID set begins.
#
# The head of a file lists the GTIDs of all earlier files. A transaction without a GTID is in no head, so
# several files after the last transaction of a set may have that same set in their heads.
#
# Invariant: reading begins at or before the window; heads are read by the witness, not by the
# worker's code.


def first_file(binlog: Witness, begin: Bound | None) -> str:
    """Return the last file before which the window has nothing, found by bisecting the heads of the files."""
    files = list(binlog.files())
    if not files:
        raise NotAuditable(
            "there are no binlog files",
            remedy="Start the server with log_bin; or name copies of its files with --binlogs.",
        )
    low, high = 0, len(files) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _is_before(binlog, files[middle], begin):
            low = middle
        else:
            high = middle - 1
    if isinstance(begin, int):
        # Commit times need not grow, for example if the server's clock was set back.
        while low > 0 and _reaches(binlog, files[low - 1], begin):
            low -= 1
    return files[low]


def may_contain(server_uuid: str, transaction: str) -> bool:
    """Return whether a server's binlog may have a transaction of this name: without a GTID, only its own."""
    coordinates = _coordinates(transaction)
    return coordinates is None or transaction == f"{server_uuid}:{coordinates}"


def is_purged(binlog: Witness, transaction: str) -> bool:
    """Return whether a transaction is from before the oldest file."""
    oldest = next(iter(binlog.files()), None)
    if oldest is None:
        return False
    coordinates = _coordinates(transaction)
    if coordinates is None:
        return transaction in _previous(binlog, oldest)
    return coordinates.order < Coordinates(oldest, 4).order


def _coordinates(transaction: str) -> Coordinates | None:
    """The position of which a transaction without a GTID has its name; None for a GTID."""
    source, _, number = transaction.rpartition(":")
    if number.isdigit() and "." not in source:
        return None
    return Coordinates.parse(transaction.partition(":")[2])


def file_of_last(binlog: Witness, first: str, begin: GtidSet) -> str:
    """Return the file, ``first`` or earlier, with a set's last transaction; the oldest if there is none."""
    files = list(binlog.files())
    at = files.index(first)
    while at > 0 and not _begins_within(binlog, files[at], begin):
        at -= 1
    return files[at]


def last_of(binlog: Witness, first: str, begin: GtidSet) -> Coordinates | None:
    """Return where a set's last transaction begins, reading from a file on; None if it was not found.

    The search ends at the first transaction that the set lacks.
    """
    found, file = None, first
    with closing(binlog.events(first)) as events:
        for event in events:
            if isinstance(event, FileBegins):
                file = event.file
            elif isinstance(event, TransactionBegins) and event.gtid is not None:
                if event.gtid not in begin:
                    break
                found = Coordinates(file, event.pos)
    return found


def _begins_within(binlog: Witness, file: str, begin: GtidSet) -> bool:
    """Whether the first transaction with a GTID in a file is of a set."""
    with closing(binlog.events(file)) as events:
        for event in events:
            if isinstance(event, FileBegins) and event.file != file:
                break
            if isinstance(event, TransactionBegins) and event.gtid is not None:
                return event.gtid in begin
    return False


def _is_before(binlog: Witness, file: str, begin: Bound | None) -> bool:
    """Whether a window begins in this file or after it."""
    match begin:
        case Coordinates():
            return Coordinates(file, 4).order <= begin.order
        case GtidSet():
            return _previous(binlog, file).issubset(begin)
        case str():
            coordinates = _coordinates(begin)
            if coordinates is None:
                return begin not in _previous(binlog, file)
            return Coordinates(file, 4).order <= coordinates.order
        case int():
            with closing(binlog.events(file)) as events:
                first = next(
                    (event for event in events if isinstance(event, TransactionBegins)), None
                )
            return first is not None and first.ts_ms < begin
    return False


def _previous(binlog: Witness, file: str) -> GtidSet:
    with closing(binlog.events(file)) as events:
        for event in events:
            if isinstance(event, Before):
                return GtidSet.parse(event.gtids)
            if not isinstance(event, FileBegins):
                break
    return GtidSet()


def _reaches(binlog: Witness, file: str, ts_ms: int) -> bool:
    """Whether a file has a transaction of this time or later."""
    with closing(binlog.events(file)) as events:
        for event in events:
            if isinstance(event, FileBegins) and event.file != file:
                break
            if isinstance(event, TransactionBegins) and event.ts_ms >= ts_ms:
                return True
    return False
