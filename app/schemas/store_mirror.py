"""Copies the schema histories of all destinations to a MySQL that many workers share, for people and tools.

The law: the journal is the truth and this a copy: only what is committed there is written here, and nothing
that happens here reaches capture. There is no queue that could overflow: the history itself is what waits.
Each run begins with a comparison, so whatever was missed is written then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from app import metrics
from app.schemas.store_repair import Comparison, Journal, batches, write_records
from app.service.status import StoreStatus
from connectors.errors import AqueductError, Retry
from connectors.mysql.schema_store.session import MetaSession
from connectors.mysql.schema_store.store import MetaStore
from tables.schema_history.checkpoint import CheckpointHead
from tables.schema_history.history import SchemaHistory
from tables.schema_store.rows import snapshot_rows

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PERSON_PAUSE = 10.0
"""Seconds between two looks at what a person must mend."""
_GATHER_SECONDS = 0.2
"""Between two connections, so that many statements go over one."""
_STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """Up to where the store is to have a history."""

    run: int
    history: SchemaHistory
    count: int
    """Records that are committed."""
    checkpoint: int
    """The number of the last checkpoint that is committed."""


@dataclass(slots=True)
class _Done:
    """Up to where the store has a history."""

    run: int = 0
    """The one that was compared with what is there; 0: none since an error."""
    count: int = 0
    checkpoint: int = 0


class Mirror:
    """One destination's side: told by its run what is committed, which never waits."""

    def __init__(self, destination: str, wake: Callable[[], None]) -> None:
        self.destination = destination
        self.status = StoreStatus()
        self.goal: _Goal | None = None
        self.done = _Done()
        self._wake = wake
        self._lock = threading.Lock()

    def begin(self, history: SchemaHistory, count: int) -> None:
        """A run has begun with this history, of which so many records are committed."""
        run = self.goal.run + 1 if self.goal else 1
        newest = history.checkpoints[-1].number
        self.goal = _Goal(run=run, history=history, count=count, checkpoint=newest)
        self.show_lag()
        self._wake()

    def committed(self, count: int) -> None:
        """So many records are committed now, and all checkpoints that were made."""
        if self.goal is None:
            return
        newest = self.goal.history.checkpoints[-1].number
        if (count, newest) != (self.goal.count, self.goal.checkpoint):
            self.goal = replace(self.goal, count=count, checkpoint=newest)
            self.show_lag()
            self._wake()

    def is_behind(self, goal: _Goal) -> bool:
        """Whether something is to be done for it."""
        done = self.done
        return (done.run, done.count, done.checkpoint) != (goal.run, goal.count, goal.checkpoint)

    def show_lag(self) -> None:
        """Show how many records are committed and not there; both threads do."""
        with self._lock:
            lag = max(0, self.goal.count - self.done.count) if self.goal else 0
            self.status.lag_records = lag
            metrics.SCHEMA_STORE_LAG.labels(self.destination).set(lag)


class CentralStore:
    """The thread that writes to the store, for all destinations of a worker."""

    def __init__(self, store: MetaStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._mirrors: dict[str, Mirror] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schema-store", daemon=True)
        self._failures = 0
        self._told = ""

    def mirror(self, destination: str) -> Mirror:
        """The side of a destination; before the thread is started."""
        mirror = Mirror(destination, self._wake.set)
        self._mirrors[destination] = mirror
        return mirror

    def start(self) -> None:
        """Begin to write."""
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
        """Bring the store up to all goals; after an error, the seconds until the next try."""
        try:
            self.follow()
        except AqueductError as error:
            return self._failed(error)
        except Exception as error:  # whatever it is, capture goes on, and the status says so
            log.exception("central schema store: it cannot be written")
            return self._failed(AqueductError(f"{type(error).__name__}: {error}"))
        if self._told:
            log.info("central schema store: it is written again")
        self._failures, self._told = 0, ""
        return None

    def _failed(self, error: AqueductError) -> float:
        is_passing = error.retry is Retry.TIMED
        for mirror in self._mirrors.values():
            # Someone may have changed anything there meanwhile.
            mirror.done.run = 0
            mirror.status.state = "retrying" if is_passing else "failed"
            mirror.status.error = f"{error.name}: {error}"
        if error.name != self._told:
            log.error("central schema store: %s: %s", error.name, error)
        self._told = error.name
        if not is_passing:
            return _PERSON_PAUSE
        pause: float = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 16)
        return pause

    def follow(self) -> None:
        """Bring the store up to all goals, once."""
        waiting = [
            (mirror, goal)
            for mirror in self._mirrors.values()
            if (goal := mirror.goal) is not None and mirror.is_behind(goal)
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
        behind = [one for one in goal.history.records if one.number > done.count]
        for batch in batches(behind, goal.count):
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
    session.expire(head.destination, head.place.ts_ms - history.policy.expire_ms)
