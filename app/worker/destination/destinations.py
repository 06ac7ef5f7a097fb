"""Registry of a worker's destinations and other units of work: their settings, requests and status.

Invariant: destinations and units do not affect each other; leadership is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mode import Service

from app import metrics
from app.failpoints import point
from app.settings.model import Settings
from app.worker.coordination.leadership import Leadership
from app.worker.coordination.zookeeper_lease import Lease
from app.worker.destination.background import beside
from app.worker.destination.destination import Destination
from app.worker.destination.plan import Plan
from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from app.worker.process.library_logs import SERVICES
from app.worker.schemas.store_mirror import CentralStore
from app.worker.status import State
from app.worker.unit.run_loop import Unit
from connectors.errors import AqueductError, Unforeseen
from connectors.kafka.reading import Tail
from tables.journal_format import Entry
from tables.journal_kind import Addressed, Audience, Kind
from tables.rules.routes.routes import Routes
from tables.state.operator_requests import (
    CONTROL,
    OUTCOME,
    Applied,
    Control,
    DesiredState,
    outcome_note,
)

# Outcomes of operators' requests, which this worker writes to the journal once applied.
#
# Invariant: an outcome is written only once the request is in effect: by the destination's leader
# or, if the destination is to have no leader, by a worker that sees that it has none. A request
# with a final outcome from another worker is not answered again. An outcome that Kafka does not
# accept is written again; nothing else waits for it.


_GLANCE_SECONDS = 0.1
_OTHERS_SECONDS = 1.0
"""The time for the leader to answer before another worker does."""
_PAUSE_SECONDS = 2.0
"""The pause after an outcome that Kafka did not accept."""

Append = Callable[[str, Entry], Awaitable[object]]
"""Writes a record to the journal; takes the name of a destination or other unit, and the record."""


class RespondingUnit(Protocol):
    """The part of a destination, or of another unit of work, that concerns requests."""

    @property
    def request(self) -> Control | None:
        """The last request that this worker has received."""
        ...

    def outcome(self, *, here: bool, alone: bool) -> tuple[str, str | None, int] | None:
        """State, error and epoch after this worker applied the request; None if it has not.

        ``here``: whether this worker leads the unit. ``alone``: whether it runs without coordination.
        """
        ...


@dataclass(slots=True)
class _Known:
    """The outcomes of one unit's requests."""

    offset: int = -1
    """The offset of the last request with a final outcome."""
    last: Applied | None = None
    """The last outcome that this worker wrote."""
    since: tuple[int, float] = (-1, 0.0)
    """The offset of a request that this worker could answer without leading, and since when."""
    led: int = -1
    """The offset of the last request that this worker received as the leader."""


@dataclass(slots=True)
class Acknowledge:
    """The outcomes written by one worker."""

    worker: str
    address: str
    append: Append
    units: Callable[[], Mapping[str, RespondingUnit]]
    leadership: Callable[[], Leadership]
    _known: dict[str, _Known] = field(default_factory=dict)
    _unforeseen: str = ""
    """The last unforeseen error that was logged."""

    async def run(self) -> None:
        """Write outcomes, until cancelled."""
        while True:
            try:
                for name, one in list(self.units().items()):
                    await self._answer(name, one)
            except AqueductError as error:
                log.warning(
                    "the outcome of a command is not written yet: %s: %s", error.name, error
                )
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception as error:
                what = "the outcome of a command is not written yet"
                self._unforeseen = _report(error, what, last=self._unforeseen)
                await asyncio.sleep(_PAUSE_SECONDS)
            await asyncio.sleep(_GLANCE_SECONDS)

    def record_applied(self, applied: Applied) -> None:
        """Record an outcome that was committed in the journal."""
        known = self._known.setdefault(applied.destination, _Known())
        if applied.is_final:
            known.offset = max(known.offset, applied.request)

    async def _answer(self, name: str, one: RespondingUnit) -> None:
        request, known = one.request, self._known.setdefault(name, _Known())
        if request is None or request.offset <= known.offset:
            return
        applied = self._applied(name, one, request, known)
        if applied is None or _is_same(applied, known.last):
            return
        await self.append(name, outcome_note(applied))
        known.last = applied
        if applied.is_final:
            known.offset = max(known.offset, request.offset)
            log.info("%s: %s, as %s asks", name, applied.state, request.by or "somebody")

    def _applied(
        self, name: str, one: RespondingUnit, request: Control, known: _Known
    ) -> Applied | None:
        seen = self.leadership().why(name)
        here = bool(seen["here"])
        if here:
            known.led = request.offset
        if not here and not (seen["vacant"] and not request.has_leader):
            return None
        outcome = one.outcome(here=here, alone=self.leadership().to_json() is None)
        if outcome is None or not self._may_answer(known, request):
            return None
        state, error, epoch = outcome
        return Applied(
            destination=name,
            worker=self.worker,
            address=self.address,
            request=request.offset,
            state=state,
            error=error,
            epoch=epoch,
            ts_ms=time.time_ns() // 1_000_000,
        )

    def _may_answer(self, known: _Known, request: Control) -> bool:
        """Whether this worker led it, or the leader has had time to answer."""
        if known.led == request.offset:
            return True
        now = time.monotonic()
        if known.since[0] != request.offset:
            known.since = (request.offset, now)
        return now - known.since[1] > _OTHERS_SECONDS


def _is_same(new: Applied, last: Applied | None) -> bool:
    """Whether an outcome equals the last one; of an error, only the name counts."""
    return last is not None and _content(new) == _content(last)


def _content(applied: Applied) -> tuple[object, ...]:
    return applied.request, applied.state, (applied.error or "").partition(":")[0]


def _report(error: Exception, what: str, *, last: str = "") -> str:
    """Log an unforeseen error, with where it occurred, unless it is the last one logged; return its text.

    Nothing waits for these tasks of the worker, and an exception that left one would end the process.
    """
    found = Unforeseen(
        f"{type(error).__name__}: {error}",
        remedy="Aqueduct tries again by itself, and everything else continues. It is a bug: report it with the "
        "log, which has where it occurred.",
    )
    if found.detail != last:
        log.error("%s: %s: %s", what, found.name, found, exc_info=error)
    return found.detail


log = logging.getLogger(__name__)

STATUS_LINE_SECONDS = 10.0
_PREPARE_SECONDS = 5.0
"""The time after which this worker offers to lead, ready or not."""

_AGAIN_SECONDS = 1.0

Make = Callable[[Settings, str], Destination]
PlanOf = Callable[[Settings, str], Plan]


class Destinations(Service):  # type: ignore[misc]  # mode has no types
    """Runs the destinations that this worker leads, and logs their status every ten seconds."""

    logger = SERVICES

    leadership: Leadership
    tail: Tail
    """This worker's own reader of the journal."""
    units: Mapping[str, Unit]
    """The units of work beside the destinations, by name: merges, and the logical schemas."""

    def __init__(
        self,
        settings: Settings,
        make: Make,
        *,
        load: Callable[[], Settings],
        plan: PlanOf,
        installation: Callable[[], Coroutine[Any, Any, str]],
        append: Append,
        known: Callable[[], Coroutine[Any, Any, list[Control]]],
        store: CentralStore | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._settings, self._make = settings, make
        self._load, self._plan = load, plan
        self._installation, self._store, self._known = installation, store, known
        self._all = {name: make(settings, name) for name in settings.destinations}
        self.units = {}
        self._controls: dict[str, Control] = {}
        """The last request to each unit, including destinations that are not in the settings."""
        self._is_ready, self._has_left = False, False
        self._is_takeover_ready = False
        """Whether a takeover could begin without a wait."""
        self._unforeseen = ""
        """The last unforeseen error of the preparations that was logged."""
        self._has_controls = asyncio.Event()
        self.answers = Acknowledge(
            worker=settings.worker.id,
            address=settings.worker.advertised_address,
            append=append,
            units=self._led,
            leadership=lambda: self.leadership,
        )
        self._reactions: dict[Kind[Any], Callable[[Any], object]] = {
            CONTROL: self.obey,
            OUTCOME: self.answers.record_applied,
        }
        """Handlers of the notices addressed to the worker, by kind."""

    def _led(self) -> dict[str, Destination | Unit]:
        """All destinations and other units that this worker may lead."""
        return {**self._all, **self.units}

    async def on_start(self) -> None:
        """Start to lead."""
        if self._store is not None:
            self._store.start()
        self.add_future(self.tail.run())
        self.add_future(self.answers.run())
        self.add_future(self._load_controls())
        self.add_future(self._prepare())
        self.add_future(self._warm_up())
        self.add_future(self.leadership.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    async def _prepare(self) -> None:
        """Prepare what takes time, before this worker offers to lead."""
        # A part that fails here is tried again at its next use; then the destination reports the error.
        waited = (
            f"the journal, in Kafka at {self._settings.kafka.bootstrap_servers}",
            "see that it answers there",
        )
        try:
            async with asyncio.timeout(_PREPARE_SECONDS), beside(self._decoders()) as decoders:
                known = await self._installation()
                for destination in self._all.values():
                    destination.prepare(known)
                waited = (
                    "the process that decoders are copies of",
                    "see whether this machine lacks memory, processes or time",
                )
                await decoders
        except (OSError, AqueductError) as error:
            log.warning(
                "the first takeover may take longer, as this is not ready: %s: %s: %s. It is tried again then; "
                "%s if destinations stay RETRYING.",
                waited[0], type(error).__name__, str(error) or f"nothing for {_PREPARE_SECONDS:g} s", waited[1],
            )  # fmt: skip
        except Exception as error:
            self._unforeseen = _report(error, f"not ready: {waited[0]}")
        self._is_ready = True
        self.leadership.wake()

    async def _warm_up(self) -> None:
        """Wait until a takeover is immediate; other workers, if any, lead until then."""
        while not await self._could_lead():
            await self.sleep(_AGAIN_SECONDS)
        await self._has_controls.wait()
        self._is_takeover_ready = True
        log.info("ready to lead without delay")
        self.leadership.wake()

    async def _could_lead(self) -> bool:
        try:
            known = await self._installation()
            await self._decoders()
            await self.tail.placed()
        except (OSError, AqueductError) as error:
            log.debug("not ready yet: %s: %s", type(error).__name__, error)
            return False
        except Exception as error:
            self._unforeseen = _report(error, "not ready yet", last=self._unforeseen)
            return False
        for destination in self._all.values():
            destination.prepare(known)
        return True

    def is_ready(self) -> bool:
        return self._is_takeover_ready

    async def _load_controls(self) -> None:
        """Load the requests from before the start, so that a stopped destination is not led."""
        try:
            controls = await self._known()
        except AqueductError as error:
            log.error("%s: %s", error.name, error)
            controls = []
        except Exception as error:
            _report(error, "requests from before this start are not known")
            controls = []
        for control in controls:
            if control.destination not in self._controls:
                self._controls[control.destination] = control
                if (one := self._led().get(control.destination)) is not None:
                    one.learn(control)
                    if not control.has_leader:
                        one.rest()
        self._has_controls.set()
        self.leadership.wake()

    async def _decoders(self) -> None:
        if any(one.decoders for one in self._settings.destinations.values()):
            await asyncio.to_thread(FORK_SERVER.ready)

    @Service.task  # type: ignore[untyped-decorator]
    async def _log_status(self) -> None:
        while not self.should_stop:
            await self.sleep(STATUS_LINE_SECONDS)
            for destination in self._all.values():
                log.info("status %s", destination.status.line())

    async def leave(self) -> None:
        """Stop leading; the first step of a shutdown, so that other workers need not wait."""
        if not self._has_left:
            self._has_left = True
            point("stop.begun")
            await self.leadership.leave()
            for destination in self._all.values():
                destination.status.show(State.STOPPED, None)

    async def on_stop(self) -> None:
        """Send the last commits to the central store, if it answers at once."""
        await self.leave()
        if self._store is not None:
            await asyncio.to_thread(self._store.stop)

    def wanted(self) -> Collection[str]:
        return [name for name, one in self._led().items() if self._is_ready and one.has_leader]

    async def lead(self, name: str, lease: Lease) -> None:
        try:
            await self._led()[name].lead(lease)
        finally:
            if name not in self._led():
                metrics.remove_destination(name)

    def notify(self, kind: Kind[Any], notice: Addressed) -> None:
        """Pass a committed record of the journal to the audience of its kind."""
        if kind.audience is Audience.WORKER:
            self._reactions[kind](notice)
        elif notice.destination in self._all:
            self._all[notice.destination].notify(kind, notice)

    def kafka(self, lost: AqueductError | None) -> None:
        """Pass on that Kafka does not answer, or that it answers again (None)."""
        for destination in self._all.values():
            destination.kafka(lost)

    def mapping_changed(self) -> None:
        """Pass on that a new version of the mapping was read or refused."""
        for destination in self._all.values():
            destination.mapping_changed()

    def obey(self, control: Control) -> None:
        """Pass on a desired state that was committed in the journal."""
        name = control.destination
        known = self._controls.get(name)
        if known is not None and control.offset <= known.offset:
            return
        self._controls[name] = control
        if name not in self._led() and control.desired is DesiredState.RUN:
            self.reload()
        one = self._led().get(name)
        if one is not None and one.obey(control):
            if not control.has_leader:
                one.rest()
            self.leadership.wake()

    def reload(self) -> None:
        """Reload the settings, and apply new, removed and changed destinations."""
        try:
            settings = self._load()
        except AqueductError as error:
            log.error("the settings are not read again: %s: %s", error.name, error)
            return
        before, after = self._settings.destinations, settings.destinations
        others = _others(self._settings, settings)
        if others:
            log.warning("these settings need a restart: %s", ", ".join(others))
        self._settings = self._settings.model_copy(update={"destinations": after})
        for name in before.keys() - after.keys():
            log.info("%s: is in the settings no more", name)
            del self._all[name]
            metrics.remove_destination(name)
        for name in after.keys() - before.keys():
            log.info("%s: is new in the settings", name)
            self._all[name] = self._make(self._settings, name)
            if name in self._controls:
                self._all[name].learn(self._controls[name])
                if not self._controls[name].has_leader:
                    self._all[name].rest()
        for name in before.keys() & after.keys():
            if before[name] != after[name]:
                log.info("%s: has other settings", name)
                self._all[name].replan(self._plan(self._settings, name))
        self.leadership.wake()

    def routes(self) -> dict[str, Routes]:
        """Return the routes of each destination by the settings, except of deleted ones."""
        return {
            name: one.plan.rules.routes
            for name, one in self._all.items()
            if one.desired is not DesiredState.DELETE
        }

    def status(self) -> dict[str, Any]:
        """Return the status page's part on destinations, except deleted ones."""
        return {
            name: {
                **one.status.to_json(),
                "wish": one.desired.value,
                "leader": self.leadership.why(name),
            }
            for name, one in self._all.items()
            if one.desired is not DesiredState.DELETE
        }

    def status_of(self, unit: str) -> dict[str, Any]:
        """Return the status page's part on a unit other than a destination."""
        return {**self.units[unit].to_json(), "leader": self.leadership.why(unit)}


def _others(before: Settings, after: Settings) -> list[str]:
    """Names of changed settings other than destinations."""
    names = [name for name in type(before).model_fields if name != "destinations"]
    return [name for name in names if getattr(before, name) != getattr(after, name)]
