"""Selection of the source to read among a destination's sources, over all its runs.

Invariant: the present source is stored in the journal, so that a restart stays with it. Another source
is read if the present one does not answer or an operator requests it, and only if that source is fit.
A return to an earlier source happens only if the settings enable it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from app import metrics
from app.worker.destination.failover.cursor_translation import CursorTranslation, TranslatedCursor
from app.worker.destination.plan import Failover, Plan, Signals, Source
from connectors.errors import (
    AqueductError,
    LostInReplication,
    NoAlignment,
    NoSourceFits,
    RunRestarts,
    SourceLost,
    SourceSilent,
    StandbyLags,
)
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.server.replication import HeartbeatCheck, clock_ms
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Current, SourceChoice, source_note

log = logging.getLogger(__name__)

_TIMEOUT, _TIMEOUT_ON_REQUEST = 5.0, 30.0
"""Seconds to wait for a standby that lags."""
_PAUSE = 0.2
_QUICK = 1.0
_MOST_LOST = 1000
"""The maximum number of lost transactions in the journal; the log has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedSource:
    """The selected source of a run."""

    source: Source
    address: SourceAddress
    facts: ServerFacts
    moved: TranslatedCursor | None
    """The position to resume from, if the server is not the cursor's; else None."""
    notes: list[Entry] = field(default_factory=list)


Judge = Callable[[Source], tuple[SourceAddress, ServerFacts]]
"""Queries a server; raises if it cannot be captured at all."""


def _unchecked(source: Source) -> tuple[SourceAddress, ServerFacts]:
    raise SourceLost("no source was checked yet", source=source.address)


class Sources:
    """The sources of one destination; selects one for each run."""

    def __init__(self, plan: Plan) -> None:
        self._name = plan.name
        self.sources = plan.sources or (Source(address=plan.address, start=plan.start),)
        self.failover = plan.failover
        self._rules = plan.rules
        self._judge: Judge = _unchecked
        self._failures = 0
        self._clocks: dict[str, int] = {}
        self._compared: set[str] = set()
        """Servers whose binlog was found to match the published transactions."""
        self.prefers_first = False
        """Whether the next run returns to the first source that is fit."""
        self.current = self.sources[0]
        self.refusals: dict[str, str] = {}
        """By address, the reason why a source was refused when last asked."""

    @property
    def can_switch(self) -> bool:
        """Whether there is more than one source."""
        return len(self.sources) > 1

    def silent(self) -> None:
        """Record that the heartbeat reported the present source as lost."""
        self._failures = max(self._failures, self.failover.retries)

    def go_back(self) -> None:
        """Record that an earlier source has been fit for long enough."""
        self.prefers_first = True

    def select(
        self, state: DestinationState, judge: Judge, report_wait: Callable[[str], None]
    ) -> SelectedSource:
        """Select the source for a run, and its position there. Blocks while it queries and waits.

        ``report_wait`` shows the reason of a wait. Raise the error of the present source, or NoSourceFits
        if other sources were asked too.
        """
        self._judge = judge
        choice = state.source_choice
        current = self.read_last(choice)
        request = choice.pending_request
        faults: list[tuple[Source, AqueductError]] = []
        wanted = self._find(request.address) if request is not None else None
        for source in self._order(current, wanted):
            timeout = _TIMEOUT_ON_REQUEST if source is wanted else _TIMEOUT
            try:
                selected = self._select_waiting(
                    source, current, state, judge, report_wait=report_wait, timeout=timeout
                )
            except AqueductError as error:
                faults.append((source, error))
                self.refusals[str(source.address)] = f"{error.name}: {error.detail}"
                if source is current:
                    self._failures += isinstance(error, SourceLost)
                log.warning("%s: source %s: %s", self._name, source.address, error)
                continue
            break
        else:
            raise self._fault(faults)
        self.refusals.pop(str(source.address), None)
        why = self._why(
            source, current, faults, request.by if source is wanted and request else None
        )
        self._failures, self.prefers_first, self.current = 0, False, source
        if self.failover.fingerprints and not selected.facts.has_gtids:
            # Once the server is dead, its clock cannot be read.
            self._clocks[selected.facts.server_uuid] = clock_ms(selected.address)
        was_moved = selected.moved is not None
        if selected.moved is not None:
            selected.moved.log(self._name, selected.address)
        if request is not None or source is not current or was_moved:
            refused = None
            if request is not None and source is not wanted:
                refused = str(dict_of(faults).get(request.address, "it is not among the sources"))
            current_record = Current(
                destination=self._name,
                address=str(source.address),
                server_uuid=selected.facts.server_uuid,
                why=why,
                ts_ms=time.time_ns() // 1_000_000,
                answers=request.id if request is not None else None,
                refused=refused,
                lost=[str(one) for one in selected.moved.lost[:_MOST_LOST]]
                if selected.moved
                else [],
            )
            selected.notes.append(source_note(current_record))
        if source is not current or was_moved:
            metrics.SWITCHES.labels(self._name).inc()
            log.warning("%s: resumes at %s: %s", self._name, source.address, why)
        return selected

    def to_json(self) -> list[dict[str, object]]:
        """Return the sources for the status page."""
        return [
            {
                "address": str(source.address),
                "is_read": source is self.current,
                "refused": self.refusals.get(str(source.address)),
            }
            for source in self.sources
        ]

    def fits(self, source: Source, state: DestinationState, cursor: Cursor | None) -> bool:
        """Whether a source could be resumed from a cursor now; changes nothing."""
        quick = replace(source, address=_with_short_timeout(source.address))
        try:
            self._judged(quick, self.current, cursor, state.fingerprints, self._judge, is_look=True)
        except AqueductError as error:
            self.refusals[str(source.address)] = f"{error.name}: {error.detail}"
            return False
        self.refusals.pop(str(source.address), None)
        return True

    def heartbeat(
        self,
        address: SourceAddress,
        state: DestinationState,
        signals: Signals,
        reached: Callable[[], Cursor],
    ) -> Heartbeat:
        """The heartbeat of a run at the present source, started if there is another source.

        ``reached`` returns the present cursor.
        """
        earlier = self.sources[: self.sources.index(self.current)]
        mark = reached()

        def is_back() -> bool:
            # By the cursor at the previous check: a replica always lags a little, and a replica that
            # lags by more than a check's interval is not worth waiting for.
            nonlocal mark
            before, mark = mark, reached()
            return any(self.fits(one, state, before) for one in earlier)

        made = Heartbeat(
            self._name,
            address,
            self.failover,
            signals,
            silent=self.silent,
            is_back=is_back if self.failover.back and earlier else None,
            go_back=self.go_back,
        )
        if self.can_switch and self.failover.automatic:
            made.start()
        else:
            # With earlier settings there may have been a heartbeat.
            metrics.HEARTBEAT_FAILURES.remove(self._name)
        return made

    def first(self, choice: SourceChoice) -> Source:
        """The source to ask first, by the journal and this worker's state."""
        request = choice.pending_request
        wanted = self._find(request.address) if request is not None else None
        return next(self._order(self.read_last(choice), wanted))

    def read_last(self, choice: SourceChoice) -> Source:
        """The source that was read last, by the journal."""
        return self._find(choice.current.address if choice.current else None) or self.sources[0]

    def _find(self, address: str | None) -> Source | None:
        return next((one for one in self.sources if str(one.address) == address), None)

    def _order(self, current: Source, wanted: Source | None) -> Iterator[Source]:
        """The sources in the order to ask them, until one is fit."""
        at = self.sources.index(current)
        others = [*self.sources[at + 1 :], *self.sources[:at]]
        tried = [wanted] if wanted is not None else []
        if self.prefers_first:
            tried += self.sources[:at]
        if self.failover.automatic and self._failures >= self.failover.retries:
            tried += others
        tried.append(current)
        # By address, as a start is not always hashable.
        yield from {str(one.address): one for one in tried}.values()
        if current is not tried[0] or not self.failover.automatic:
            return
        if self._failures >= self.failover.retries:
            # The present source has just failed once more.
            yield from others

    def _select_waiting(
        self,
        source: Source,
        current: Source,
        state: DestinationState,
        judge: Judge,
        *,
        report_wait: Callable[[str], None],
        timeout: float,
    ) -> SelectedSource:
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._judged(source, current, state.cursor, state.fingerprints, judge)
            except StandbyLags as error:
                report_wait(f"{error.name}: {error}")
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    def _judged(
        self,
        source: Source,
        current: Source,
        cursor: Cursor | None,
        kept: Fingerprints,
        judge: Judge,
        *,
        is_look: bool = False,
    ) -> SelectedSource:
        address, facts = judge(source)
        moved = None
        if cursor is not None and facts.server_uuid != cursor.offset.server_uuid:
            switch = CursorTranslation(
                cursor=cursor,
                facts=facts,
                address=address,
                failover=self.failover,
                rules=self._rules,
                other=_with_short_timeout(current.address) if current is not source else None,
                clocks=self._clocks,
                compares=not is_look or facts.server_uuid not in self._compared,
            )
            moved = switch.moved(kept)
            self._compared.add(facts.server_uuid)
        return SelectedSource(source=source, address=address, facts=facts, moved=moved)

    def _why(
        self,
        source: Source,
        current: Source,
        faults: list[tuple[Source, AqueductError]],
        by: str | None,
    ) -> str:
        if by is not None:
            return f"asked for by {by}"
        if source is current:
            return "another server answers at its address" if not faults else "stays with it"
        fault = dict_of(faults).get(str(current.address))
        if self.prefers_first and fault is None:
            return f"it is fit again, and comes before {current.address}"
        return f"{current.address} was given up: {fault or 'its heartbeat failed'}"

    def _fault(self, faults: list[tuple[Source, AqueductError]]) -> AqueductError:
        if len(faults) == 1:
            return faults[0][1]
        for _, error in faults:
            if isinstance(error, LostInReplication | NoAlignment):
                return error
        details = "; ".join(
            f"{source.address}: {error.name}: {error.detail}" for source, error in faults
        )
        return NoSourceFits(details)


def _with_short_timeout(address: SourceAddress) -> SourceAddress:
    """The same address with a short timeout, as the server may be dead."""
    return replace(address, heartbeat=min(address.heartbeat, _QUICK))


def dict_of(faults: list[tuple[Source, AqueductError]]) -> dict[str, str]:
    """The errors as texts, by address."""
    return {str(source.address): f"{error.name}: {error.detail}" for source, error in faults}


_RETURN_CHECK_SECONDS = 10.0
"""Seconds between two checks of earlier sources, if a return to them is enabled."""


class Heartbeat:
    """The heartbeat of one source for one run, until closed.

    Invariant: it has its own connections, to distinguish a silent stream from a dead server; it never ends
    a run itself, but sets the reason to leave the source, and the run ends where that is safe.
    """

    def __init__(
        self,
        destination: str,
        address: SourceAddress,
        failover: Failover,
        signals: Signals,
        *,
        silent: Callable[[], None],
        is_back: Callable[[], bool] | None = None,
        go_back: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._failover, self._signals = destination, failover, signals
        # If a response takes longer than three intervals, the heartbeat counts as failed.
        timeout = max(1.0, 3 * failover.interval)
        self._address = replace(address, heartbeat=timeout / 3)
        self._silent, self._is_back, self._go_back = silent, is_back, go_back
        self._beat = HeartbeatCheck(failover.heartbeat) if failover.heartbeat is not None else None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop, without waiting for a pending query."""
        self._over.set()

    def _run(self) -> None:
        failures, limit = 0, self._failover.retries
        gauge = metrics.HEARTBEAT_FAILURES.labels(self._name)
        gauge.set(0)
        returned = self._returned()
        while not self._over.is_set():
            error = self._checked()
            failures = 0 if error is None else failures + 1
            gauge.set(failures)
            if error is not None:
                log.warning("%s: heartbeat %d of %d: %s", self._name, failures, limit, error)
                if failures >= limit and not self._over.is_set():
                    detail = f"{failures} times one after the other: {error.detail}"
                    self._leave(SourceSilent(detail, source=self._address))
                    return
            # The check of an earlier source takes seconds, in which this run may have ended.
            if next(returned) and not self._over.is_set():
                if self._go_back is not None:
                    self._go_back()
                self._signals.leave = RunRestarts("to go back to an earlier source")
                return
            self._over.wait(self._failover.interval)

    def _checked(self) -> AqueductError | None:
        """The error of the source; None if it answers.

        A server that refuses a statement which it never accepted is alive: the statement or the
        privileges need correction, and the next source would refuse it too.
        """
        if self._beat is None:
            return None
        try:
            never_done = self._beat.ask(self._address)
        except AqueductError as error:
            return error
        if never_done is not None:
            log.warning("%s: the heartbeat never worked; correct it: %s", self._name, never_done)
        return None

    def _leave(self, error: SourceSilent) -> None:
        self._silent()
        self._signals.leave = error

    def _returned(self) -> Iterator[bool]:
        """Yield whether an earlier source has been fit long enough to return to it."""
        after, looked = self._failover.back_after, time.monotonic()
        since: float | None = None
        while self._is_back is not None:
            now = time.monotonic()
            if now - looked < min(_RETURN_CHECK_SECONDS, after / 3):
                yield False
                continue
            looked = now
            since = (since or now) if self._is_back() else None
            yield since is not None and now - since >= after
        yield from itertools.repeat(False)
