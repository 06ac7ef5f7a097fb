"""A request to the workers: written to the journal, waited for, and its outcome as text.

Invariant: success is a worker's report after it applied the request; the request in the journal
alone is none. What ZooKeeper states of workers is only reported: if it does not answer, that is stated.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.operator.journal_access import Journal, wait_for_record
from app.settings.model import Settings
from app.worker.coordination.cluster_view import View, read_views
from app.worker.coordination.znodes import Nodes
from app.worker.wiring import coordination_plan
from connectors.errors import AqueductError, NotApplied, RequestReplaced
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.zookeeper.kazoo_session import opens
from tables.state.operator.control import Control, DesiredState, control_in, note_of
from tables.state.operator.request_outcome import OUTCOME, Applied, applied_in

TIMEOUT = 60.0
UNCONFIRMED = "recorded; no worker has confirmed it yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a request."""

    applied: Applied
    seconds: float

    @property
    def is_reached(self) -> bool:
        """Return whether the destination is in the requested state."""
        return self.applied.state in ("RUNNING", "PAUSED", "STOPPED")


async def send_request(journal: Journal, control: Control, *, wait: float | None) -> Outcome | None:
    """Write a request and wait until a worker has applied it; ``wait``: seconds; None: do not.

    Raises NotApplied if none did in time, RequestReplaced if another request came first.
    """
    began = time.monotonic()
    offset = await journal.write(note_of(control))
    if wait is None:
        return None
    applied: Applied | None = None

    def take(record: StoredRecord) -> Applied | None:
        nonlocal applied
        applied = _applied(record, control, offset) or applied
        return applied if applied is not None and applied.is_final else None

    with suppress(TimeoutError):
        await wait_for_record(journal.plan.journal, offset, take, wait - (time.monotonic() - began))
    if applied is None:
        raise await _not_applied(journal, control, wait)
    return Outcome(applied=applied, seconds=time.monotonic() - began)


def _applied(record: StoredRecord, control: Control, offset: int) -> Applied | None:
    """Return what a worker has made of a request; raise RequestReplaced for a request that came later."""
    if record.key == note_of(control)[0]:
        other = control_in(record)
        raise RequestReplaced(
            f"{other.desired.value}, requested by {other.by or 'an operator'}",
            destination=other.destination,
        )
    if not record.key.startswith(OUTCOME.key(control.destination) + b"/"):
        return None
    applied = applied_in(record)
    return applied if applied.request == offset else None


async def not_tried_error(journal: Journal, what: str, seconds: float) -> NotApplied:
    """Return the error that no worker has tried the request in time."""
    desired = (await journal.latest_state()).control
    why = (
        f"the desired state is {desired.desired.value}, requested by {desired.by or 'an operator'}"
        if desired is not None and desired.desired is not DesiredState.RUN
        else await why_not_applied(journal.settings, journal.plan.name)
    )
    return NotApplied(
        f"{what} was recorded, but not applied within {seconds:g} s: {why}",
        destination=journal.plan.name,
    )


async def _not_applied(journal: Journal, control: Control, seconds: float) -> NotApplied:
    return NotApplied(
        f"{control.desired.value} was recorded, but not applied within {seconds:g} s: "
        f"{await why_not_applied(journal.settings, journal.plan.name)}",
        destination=control.destination,
    )


async def why_not_applied(settings: Settings, name: str) -> str:
    """Return as text why no worker may have applied a request to a destination or another unit of work."""
    coordination = coordination_plan(settings)
    if coordination is None:
        return "no worker with these settings seems to be running"
    client, root, _ = coordination
    nodes = Nodes(root)
    try:
        async with opens(client)(lambda: None) as session:
            workers = sorted(await session.children(nodes.workers))
            view = (await read_views(session, nodes, [name]))[name]
    except AqueductError as error:
        return f"the leader is unknown: {error.name}: {error.detail}"
    return _text(workers, view)


def _text(workers: list[str], view: View) -> str:
    if not workers:
        return "no worker runs"
    running = f"worker(s) {', '.join(workers)} running"
    if not view.exists:
        return f"{running}, none leads it"
    return f"{running}, {view.leader or 'an unknown worker'} leads it"


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add how long to wait for the outcome."""
    parser.add_argument(
        "--timeout", "--wait", type=_seconds, default=TIMEOUT, metavar="SECONDS",
        help="how long to wait for a worker to apply it (default: %(default).0f)",
    )  # fmt: skip


def add_waiting(parser: argparse.ArgumentParser) -> None:
    """Add whether to wait for the outcome, and how long."""
    add_timeout(parser)
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not wait for a worker; exit once the request is in the journal",
    )


def seconds_of(options: argparse.Namespace) -> float | None:
    """Return the seconds to wait; None: do not."""
    return None if options.no_wait else options.timeout


def outcome_text(outcome: Outcome) -> str:
    """Return the outcome of a request as text."""
    one = outcome.applied
    address_text = f" ({one.address})" if one.address else ""
    text = (
        f"{one.state}, applied by worker {one.worker}{address_text} after {outcome.seconds:.1f} s"
    )
    return text if one.error is None or outcome.is_reached else f"{text}: {one.error}"


def outcome_value(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a request as JSON."""
    one = outcome.applied
    return {
        "worker": one.worker,
        "address": one.address or None,
        "state": one.state,
        "error": None if outcome.is_reached else one.error,
        "epoch": one.epoch or None,
        "seconds": round(outcome.seconds, 3),
    }


def done_text(worker: str | None, seconds: float) -> str:
    """Return as text which worker applied a request, and the time taken."""
    by = f" by worker {worker}" if worker is not None else ""
    return f"; done{by} after {seconds:.1f} s"


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(
            f"{text} is not a number of seconds to wait; use --no-wait to not wait"
        )
    return seconds
