"""The worker's answer to a request: writes the request, waits for the answer, and finds why none may come.

Invariant: only a worker's answer, given after it applied the request, counts as success; a request in the
journal does not. What ZooKeeper states about workers is only reported; if ZooKeeper does not answer, this is
reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.operator.journal_access import Journal, UnitJournal
from app.settings.model import Settings
from app.worker.coordination.cluster_view import Nodes, read_views
from app.worker.wiring import coordination_plan
from connectors.errors import AqueductError, NotApplied
from connectors.zookeeper.kazoo_session import opens
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import DesiredState

T = TypeVar("T")

TIMEOUT = 60.0
UNCONFIRMED = "recorded; no worker has confirmed it yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """A worker's answer to a request."""

    value: T
    worker: str | None
    """The destination's leader."""
    seconds: float
    """The time from the request to the answer."""
    offset: int
    """The offset of the request's first record in the journal."""


async def answer_to(
    journal: Journal,
    notes: Sequence[Note],
    answer: Callable[[DestinationState], T | None],
    *,
    what: str,
    wait: float | None,
) -> Answer[T] | None:
    """Write the records of a request; return what ``answer`` reads from the state that later records make.

    ``what`` names the request in errors. ``wait`` is in seconds; with None, return None without waiting. Raise
    NotApplied if no worker answered in time.
    """
    began = time.monotonic()
    offset = await journal.write_all(notes)
    if wait is None:
        return None
    seconds = wait - (time.monotonic() - began)
    value = await journal.wait(answer, after=offset, seconds=seconds)
    if value is None:
        raise await not_applied(journal.unit, what, wait)
    leader = (await journal.latest_state()).leader
    worker = leader.worker if leader is not None else None
    took = time.monotonic() - began
    return Answer(value=value, worker=worker, seconds=took, offset=offset)


async def not_applied(
    journal: UnitJournal, what: str, seconds: float, *, why: str | None = None
) -> NotApplied:
    """Return the error of a request that no worker applied in time, with what prevents it.

    ``why``: what the journal itself shows; None if it shows nothing.
    """
    desired = (await journal.latest_state()).control
    if desired is not None and desired.desired is not DesiredState.RUN:
        by = desired.by or "an operator"
        why = f"the desired state is {desired.desired.value}, requested by {by}"
    elif why is None:
        why = await why_not_applied(journal.settings, journal.name)
    return NotApplied(
        f"{what} was recorded, but not applied within {seconds:g} s: {why}",
        destination=journal.name,
    )


async def why_not_applied(settings: Settings, name: str) -> str:
    """Return as text why no worker may have applied a request to a destination or other unit of work."""
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
    """Return the seconds to wait; None: do not wait."""
    return None if options.no_wait else options.timeout


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
