"""Copies the schema histories of all destinations to a MySQL that workers share, for operators and tools.

Invariant: the journal is authoritative and this is a copy: only committed records are written here,
and no error here reaches capture. No queue can overflow: the history itself is the queue. Each run
begins with a comparison, which writes any missing records.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from app import metrics
from app.worker.status import StoreStatus
from connectors.backoff import Backoff
from connectors.errors import AqueductError, Retry
from connectors.mysql.schema_store import (
    HISTORY,
    SNAPSHOT,
    HistoryRow,
    Mark,
    MetaSession,
    MetaStore,
    RowKey,
)
from tables.history.history import SchemaHistory
from tables.history.record import CheckpointHead, SchemaRecord
from tables.history.schema_store_rows import key_of, record_rows, snapshot_key, snapshot_rows

log = logging.getLogger(__name__)

_PERSON_PAUSE = 10.0
"""Seconds between two checks of an error that an operator must correct."""
_GATHER_SECONDS = 0.2
"""Seconds between two connections, so that many statements share one connection."""
_STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """The position up to which the store is to have a history."""

    run: int
    history: SchemaHistory
    count: int
    """The number of committed records."""
    checkpoint: int
    """The number of the last committed checkpoint."""


@dataclass(slots=True)
class _Done:
    """The position up to which the store has a history."""

    run: int = 0
    """The run that was last compared with the store; 0 if none was since an error."""
    count: int = 0
    checkpoint: int = 0


class Mirror:
    """The side of one destination: its run reports commits here, without waiting."""

    def __init__(self, destination: str, wake: Callable[[], None]) -> None:
        self.destination = destination
        self.status = StoreStatus()
        self.goal: _Goal | None = None
        self.done = _Done()
        self._wake = wake
        self._lock = threading.Lock()
        self._export: Callable[[float], object] = float
        """Exports the lag as a metric of the present leadership, which may end before the store catches up."""

    def begin(self, history: SchemaHistory, count: int) -> None:
        """Report that a run has begun with this history, of which ``count`` records are committed."""
        run = self.goal.run + 1 if self.goal else 1
        newest = history.checkpoints[-1].number
        self._export = metrics.SCHEMA_STORE_LAG.labels(self.destination).set
        self.goal = _Goal(run=run, history=history, count=count, checkpoint=newest)
        self.show_lag()
        self._wake()

    def committed(self, count: int) -> None:
        """Report that ``count`` records are committed now, and all checkpoints made so far."""
        if self.goal is None:
            return
        newest = self.goal.history.checkpoints[-1].number
        if (count, newest) != (self.goal.count, self.goal.checkpoint):
            self.goal = replace(self.goal, count=count, checkpoint=newest)
            self.show_lag()
            self._wake()

    def lags(self, goal: _Goal) -> bool:
        """Return whether the store lacks anything of the goal."""
        done = self.done
        return (done.run, done.count, done.checkpoint) != (goal.run, goal.count, goal.checkpoint)

    def show_lag(self) -> None:
        """Show how many committed records the store lacks; both threads call it."""
        with self._lock:
            lag = max(0, self.goal.count - self.done.count) if self.goal else 0
            self.status.lag_records = lag
            self._export(lag)


class CentralStore:
    """The thread that writes to the store, for all destinations of a worker."""

    def __init__(self, store: MetaStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._mirrors: dict[str, Mirror] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schema-store", daemon=True)
        self._backoff = Backoff(0.5, 30.0)
        self._reported = ""

    def mirror(self, destination: str) -> Mirror:
        """Return the mirror of a destination; to be called before the thread is started."""
        mirror = Mirror(destination, self._wake.set)
        self._mirrors[destination] = mirror
        return mirror

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is committed, unless that takes long; the next start writes the rest."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            is_last = self._stopping.is_set()
            pause = self._try()
            if is_last:
                return
            if pause:
                self._wake.set()
            self._stopping.wait(pause or _GATHER_SECONDS)

    def _try(self) -> float | None:
        """Bring the store up to all goals; return the seconds until the next try after an error."""
        try:
            self.follow()
        except AqueductError as error:
            return self._failed(error)
        except Exception as error:  # on any error capture continues, and the status shows it
            log.exception("central schema store: it cannot be written")
            return self._failed(AqueductError(f"{type(error).__name__}: {error}"))
        if self._reported:
            log.info("central schema store: it is written again")
        self._backoff.reset()
        self._reported = ""
        return None

    def _failed(self, error: AqueductError) -> float:
        is_passing = error.retry is Retry.TIMED
        for mirror in self._mirrors.values():
            # The store may have been changed meanwhile.
            mirror.done.run = 0
            mirror.status.state = "retrying" if is_passing else "failed"
            mirror.status.error = f"{error.name}: {error}"
        if error.name != self._reported:
            log.error("central schema store: %s: %s", error.name, error)
        self._reported = error.name
        if not is_passing:
            return _PERSON_PAUSE
        return self._backoff.pause()

    def follow(self) -> None:
        """Bring the store up to all goals, once."""
        waiting = [
            (mirror, goal)
            for mirror in self._mirrors.values()
            if (goal := mirror.goal) is not None and mirror.lags(goal)
        ]
        if not waiting:
            return
        with self._store.session() as session:
            for mirror, goal in waiting:
                self._follow(session, mirror, goal)

    def _follow(self, session: MetaSession, mirror: Mirror, goal: _Goal) -> None:
        done, base = mirror.done, goal.history.checkpoints[0]
        if done.run != goal.run or done.count < base.count:
            mirror.status.state = "catching up"
            Comparison(session, mirror.destination, goal.history, goal.count).settle(self._journal)
            done.run, done.count, done.checkpoint = goal.run, base.count, base.number
        missing = [one for one in goal.history.records if one.number > done.count]
        for batch in batches(missing, goal.count):
            write_records(session, batch)
            done.count = batch[-1].number
            mirror.show_lag()
        for head in goal.history.checkpoints:
            if done.checkpoint < head.number <= goal.checkpoint:
                _write_snapshot(session, goal.history, head)
        done.count, done.checkpoint = goal.count, goal.checkpoint
        mirror.status.state, mirror.status.error = "following", None
        mirror.show_lag()


def _write_snapshot(session: MetaSession, history: SchemaHistory, head: CheckpointHead) -> None:
    session.write(snapshot_rows(history.content(head)))
    session.expire(head.destination, head.position.ts_ms - history.policy.expire_ms)


Journal = Callable[[str], SchemaHistory]
"""Reads a destination's whole history from the journal."""

_BATCH = 200
"""Records in one transaction."""


class Comparison:
    """A store and a history, and the operations that make them equal.

    Invariant: records missing in the store are written, from the journal if the run no longer holds them.
    If the destination returned to an earlier position, records after it are invalid until they occur again.
    """

    def __init__(
        self, session: MetaSession, destination: str, history: SchemaHistory, count: int
    ) -> None:
        self._session = session
        self._destination = destination
        self._history = history
        self._records = [one for one in history.records if one.number <= count]
        self._base = history.checkpoints[0]
        self._stored = session.marks(HISTORY, destination)
        self._snapshots = session.marks(SNAPSHOT, destination)

    def settle(self, journal: Journal) -> None:
        """Write what the store lacks up to the base, and mark records that the history no longer has."""
        if self._lacks_older():
            self._write_older(journal(self._destination))
        if self._is_new(self._base):
            self._session.write(snapshot_rows(self._history.content(self._base)))
        self._forget()

    def _lacks_older(self) -> bool:
        """Return whether a record before the base is missing that the journal may still have."""
        if self._base.begins:
            return False
        if not self._snapshots:
            return True
        numbers = {mark.number for mark in self._stored}
        oldest = min(mark.count for mark in self._snapshots)
        return any(number not in numbers for number in range(oldest + 1, self._base.count + 1))

    def _write_older(self, whole: SchemaHistory) -> None:
        there = {mark.number for mark in self._stored}
        older = [record for record in whole.records if record.number not in there]
        for batch in batches(older, self._base.count):
            write_records(self._session, batch)
        for head in whole.checkpoints:
            if head.number < self._base.number and self._is_new(head):
                self._session.write(snapshot_rows(whole.content(head)))

    def _is_new(self, head: CheckpointHead) -> bool:
        key = snapshot_key(head)
        return all((mark.number, mark.key) != (head.number, key) for mark in self._snapshots)

    def _forget(self) -> None:
        """Invalidate stored records after the base that the history lacks.

        A destination that returned to an earlier position reads them again, or never.
        """
        records = {key_of(record) for record in self._records}
        heads = {snapshot_key(head) for head in self._history.checkpoints}
        self._forget_all(HISTORY, self._stored, self._base.count, records)
        self._forget_all(SNAPSHOT, self._snapshots, self._base.number, heads)

    def _forget_all(self, table: str, there: list[Mark], base: int, kept: set[RowKey]) -> None:
        surplus = [mark.key for mark in there if mark.number > base and mark.key not in kept]
        if surplus:
            self._session.forget(table, self._destination, surplus)


def batches(records: Iterable[SchemaRecord], count: int) -> Iterator[list[SchemaRecord]]:
    """Yield the records up to the number ``count``, in batches of one transaction."""
    wanted = [record for record in records if record.number <= count]
    for begin in range(0, len(wanted), _BATCH):
        yield wanted[begin : begin + _BATCH]


def write_records(session: MetaSession, records: Iterable[SchemaRecord]) -> None:
    """Write records in one transaction."""
    rows: list[HistoryRow] = [row for record in records for row in record_rows(record)]
    session.write(rows)
