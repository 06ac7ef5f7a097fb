"""The state of a destination or another unit of work, for the status page, the log and the metrics.

Invariant: only the run writes it, anything may read it, and it never decides anything.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from app import metrics
from app.worker.pipeline.piece import DeadLetter
from tables.state.cursor import Cursor
from tables.state.quarantine import Entry
from tables.state.snapshots.snapshot_progress import TableSnapshot

log = logging.getLogger(__name__)


class State(Enum):
    """The states of a destination, or of another unit of work."""

    STANDBY = "STANDBY"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RETRYING = "RETRYING"
    FAILED = "FAILED"
    FENCED = "FENCED"
    STOPPED = "STOPPED"


_AT_REST = (State.STANDBY, State.PAUSED, State.STOPPED)


TO_PUBLISH = {State.RUNNING, State.RETRYING, State.FAILED, State.STARTING, State.PAUSED}
"""States in which the source's changes are to be published by this worker, now or later."""
_STATES = tuple(state.value for state in State)


@dataclass(slots=True)
class StateLog:
    """The states of one unit of work, as reported in the log and in the metrics."""

    unit: str
    """The unit's name in the journal: a destination, a merge, or the logical schemas."""
    _reported: tuple[State, str] | None = None
    """State and error last logged."""
    _trouble_since: float | None = None
    """By the monotonic clock: the time since which an error prevents publishing."""

    def shown(self, state: State, error: str | None) -> bool:
        """Record a state; return whether a unit in that state is led here."""
        if state is State.RUNNING:
            if self._trouble_since is not None:
                seconds = time.monotonic() - self._trouble_since
                log.info("%s: RUNNING again after %.0f s", self.unit, seconds)
            self._trouble_since, self._reported = None, None
        elif error is not None and state is State.RETRYING and self._trouble_since is None:
            self._trouble_since = time.monotonic()
        elif state in _AT_REST:
            self._trouble_since = None
        is_led = state in TO_PUBLISH
        metrics.show_state(self.unit, state.value, states=_STATES, is_led=is_led)
        return is_led

    def is_news(self, state: State, error: str) -> bool:
        """Return whether an error was not yet reported in this state since the unit last ran."""
        before, self._reported = self._reported, (state, error)
        return before != self._reported


@dataclass(slots=True)
class StoreStatus:
    """The central schema store's lag for a destination; written by the store's thread alone."""

    state: Literal["catching up", "following", "retrying", "failed"] = "catching up"
    """``failed`` waits for an operator."""
    error: str | None = None
    lag_records: int = 0
    """Records of the history that the store is not known to have."""

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page."""
        return {"state": self.state, "error": self.error, "lag_records": self.lag_records}


@dataclass(frozen=True, slots=True)
class Purge:
    """How long the source keeps the unread part of its binlog; infinite without a limit."""

    seconds_stopped: float
    """If nothing more were read."""
    seconds: float
    """At the rate of the last minutes."""

    def to_json(self) -> dict[str, float | None]:
        """Return it for the status page: hours, or null without a limit."""
        seconds_by_name = {"hours": self.seconds, "hours_if_stopped": self.seconds_stopped}
        return {
            name: round(one / 3600, 2) if math.isfinite(one) else None
            for name, one in seconds_by_name.items()
        }


@dataclass(slots=True)
class DestinationStatus:
    """The state of one destination now."""

    name: str
    state: State = State.STANDBY
    error: str | None = None
    cursor: Cursor | None = None
    rows: int = 0
    lag_seconds: float | None = None
    unread_seconds: float | None = None
    """The age in seconds of the source's oldest unpublished change; None while it is not known."""
    committed_ms: int = 0
    """The commit time of the last published transaction; 0 before the first."""
    purge: Purge | None = None
    """None while it is not known."""
    quarantined: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """Quarantined tables, whose events wait for an operator."""
    given_up: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """Tables whose events are dropped, because an operator requested it."""
    snapshots: Mapping[tuple[str, str], TableSnapshot] = field(default_factory=dict)
    """Tables whose existing rows are or were read."""
    parked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events that this worker has quarantined, by table."""
    sources: list[dict[str, object]] = field(default_factory=list)
    """Each source's address, whether it is read, and why it was last refused."""
    dead_letters: Counter[str] = field(default_factory=Counter)
    """Rows that this worker has sent to the dead letters, by table."""
    last_dead_letter: DeadLetter | None = None
    statements_passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Changes written as statements that this worker skipped, by table; only for the first tables."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Warnings about conditions that stop nothing, by the part that reports them."""
    mapping: dict[str, object] | None = None
    """The mapping's version in force, and a waiting or refused version; None if it is read from a file."""
    schema_store: StoreStatus | None = None
    """None where there is no central store."""
    _log: StateLog = field(init=False)
    _since: tuple[float, int] = field(default_factory=lambda: (time.monotonic(), 0))
    _rate: float = 0.0

    def __post_init__(self) -> None:
        self._log = StateLog(self.name)

    def show(self, state: State, error: str | None = None) -> None:
        """Set the state and its reason."""
        self.state, self.error = state, error
        if not self._log.shown(state, error):
            self.unread_seconds = None

    def is_news(self, error: str) -> bool:
        """See UnitStatus."""
        return self._log.is_news(self.state, error)

    def measure_rate(self) -> float:
        """Return the rows per second since the last call."""
        then, rows = self._since
        now = time.monotonic()
        self._since = (now, self.rows)
        self._rate = (self.rows - rows) / max(now - then, 1e-9)
        return self._rate

    def to_json(self) -> dict[str, Any]:
        """Return it for the status page."""
        cursor = self.cursor
        return {
            "state": self.state.value,
            "error": self.error,
            "warnings": [one for part in self.warnings.values() for one in part],
            "lag_seconds": self.lag_seconds,
            "unread_seconds": self.unread_seconds,
            "until_purged": self.purge and self.purge.to_json(),
            "rows_per_second": round(self._rate, 1),
            "rows": self.rows,
            "set_aside": [
                {
                    "table": ".".join(name),
                    "why": entry.why,
                    "action": entry.action,
                    "since": str(entry.since),
                    "state": entry.outcome.value,
                    "refused": entry.reason or None,
                    "parked_here": self.parked[name],
                }
                for name, entry in sorted(self.quarantined.items())
            ],
            "given_up": [
                {
                    "table": ".".join(name),
                    "why": entry.why,
                    "since": str(entry.since),
                    "by": entry.given and entry.given.by,
                    "lost": entry.lost,
                }
                for name, entry in sorted(self.given_up.items())
            ],
            "snapshot": {
                ".".join(name): one.to_json() for name, one in sorted(self.snapshots.items())
            },
            "snapshot_waits": [
                *self.warnings.get("snapshot", ()),
                *self.warnings.get("snapshot grants", ()),
                *self.warnings.get("snapshot end", ()),
            ],
            "mapping": self.mapping,
            "sources": self.sources,
            "dead_letters": {
                "here": dict(sorted(self.dead_letters.items())),
                "last": self.last_dead_letter and self.last_dead_letter._asdict(),
            },
            "statements_passed": {
                ".".join(name): count for name, count in sorted(self.statements_passed.items())
            },
            "schema_store": self.schema_store and self.schema_store.to_json(),
            "cursor": None
            if cursor is None
            else {
                "gtid_set": None if cursor.offset.gtid_set is None else str(cursor.offset.gtid_set),
                "file": cursor.offset.coordinates.file,
                "pos": cursor.offset.coordinates.pos,
                "seq": cursor.seq,
                "epoch": cursor.epoch,
            },
        }

    def line(self) -> str:
        """Return one line for the log: position, lag, rows per second."""
        position = "no cursor yet" if self.cursor is None else str(self.cursor.offset.coordinates)
        seq = 0 if self.cursor is None else self.cursor.seq
        lag = "-" if self.lag_seconds is None else f"{self.lag_seconds:.1f} s"
        text = f"{self.name}: {self.state.value} at {position}, seq {seq}, lag {lag}"
        text += f", {self.measure_rate():.0f} rows/s"
        pending = sum(one.is_pending for one in self.snapshots.values())
        if pending:
            text += f", existing rows of {pending} table(s) to read"
        if self.quarantined:
            text += f", {len(self.quarantined)} table(s) quarantined"
        if self.dead_letters:
            text += f", {self.dead_letters.total()} dead letter(s)"
        if not self.error:
            return text
        # The whole error of a retry was logged when it first occurred.
        is_retried = self.state is State.RETRYING
        return f"{text} ({self.error.partition(': ')[0] if is_retried else self.error})"
