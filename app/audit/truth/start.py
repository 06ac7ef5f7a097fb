"""The binlog file from which an audit reads, and the beginning of a window by GTIDs in it.

The heads of files list GTIDs. A transaction without one is in no head, so after the last
transaction of a set there may be files whose heads all list that set and no more.

Invariant: reading begins at or before the window; heads are read by the witness, not by the
worker's code.
"""

from __future__ import annotations

from contextlib import closing

from app.audit.errors import NotAuditable
from app.audit.truth.printed_events import Before, FileBegins, TransactionBegins
from app.audit.truth.witness import Witness
from app.audit.window import Bound
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates


def first_file(binlog: Witness, begin: Bound | None) -> str:
    """The last file before which no GTID, time or position is wanted: found by bisecting the heads."""
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
    return files[low]


def file_of_last(binlog: Witness, first: str, begin: GtidSet) -> str:
    """The file at or before ``first`` that has the last transaction of a set; the oldest one if
    none has."""
    files = list(binlog.files())
    at = files.index(first)
    while at > 0 and not _begins_within(binlog, files[at], begin):
        at -= 1
    return files[at]


def last_of(binlog: Witness, first: str, begin: GtidSet) -> Coordinates | None:
    """The beginning of a set's last transaction, before the first that the set lacks; None if there
    is none from that file on."""
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
        case str() if ":" in begin:
            source, _, number = begin.rpartition(":")
            if number.isdigit() and "." not in source:
                return begin not in _previous(binlog, file)
            coordinates = Coordinates.parse(begin.partition(":")[2])
            return Coordinates(file, 4).order <= coordinates.order
        case int():
            return _begins_before(binlog, file, begin)
    return False


def _previous(binlog: Witness, file: str) -> GtidSet:
    with closing(binlog.events(file)) as events:
        for event in events:
            if isinstance(event, Before):
                return GtidSet.parse(event.gtids)
            if not isinstance(event, FileBegins):
                break
    return GtidSet()


def _begins_before(binlog: Witness, file: str, ts_ms: int) -> bool:
    with closing(binlog.events(file)) as events:
        first = next((event for event in events if isinstance(event, TransactionBegins)), None)
    return first is not None and first.ts_ms < ts_ms
