"""`destination`: list destinations and other units of work, request a desired state, accept recreated topics.

Invariant: a list reads the journal and ZooKeeper, asks the leaders, and changes nothing; a part that does not
answer is named, and the rest is shown. A desired state is written whole, with its author, and based on the last
request; it is kept while no worker runs. The command succeeds only after a worker reports that it applied the
state. A topic is accepted only after the cost is confirmed, by the id that it had when it was found: a topic
that is recreated afterwards is not accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from app.operator.arguments import add_destination, add_format
from app.operator.journal_access import (
    UnitJournal,
    check_destination,
    journal_of,
    other_units,
    wait_for_record,
    write_notes,
)
from app.operator.terminal import (
    add_reason,
    aligned_table,
    ask_for_name,
    confirm,
    operator,
    print_answer,
    run_operation,
)
from app.operator.worker_answer import UNCONFIRMED, add_waiting, seconds_of, why_not_applied
from app.settings.model import Settings, load
from app.worker.coordination.cluster_view import Nodes, View, read_views
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.published_check import Published
from app.worker.destination.takeover.recovery import committed_state
from app.worker.merge.plan import UNIT as MERGE
from app.worker.wiring import coordination_plan, topic_plans
from connectors.errors import (
    AqueductError,
    MergeUnfinished,
    NotApplied,
    RequestReplaced,
    TopicGone,
    UsageError,
)
from connectors.kafka.reading import StoredRecord
from connectors.kafka.topics import Topics
from connectors.zookeeper.kazoo_session import opens
from tables.history.logical_schemas.decisions import UNIT as LOGICAL_SCHEMAS
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.known_topics import TOPIC_PART, KnownTopic, note_of
from tables.state.operator_requests import (
    OUTCOME,
    Applied,
    Control,
    DesiredState,
    applied_in,
    control_in,
    control_note,
)
from tables.state.quarantine import note_of as quarantine_note
from wire.topics import quarantine_topic, schemas_topic

_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True, order=True)
class WorkerAt:
    """A worker and the address of its HTTP server."""

    worker: str
    address: str


async def read_statuses(workers: Iterable[WorkerAt]) -> dict[WorkerAt, dict[str, Any] | str]:
    """Return each worker's report of its destinations, or the reason why there is no report."""
    wanted = sorted(set(workers))
    answers = await asyncio.gather(
        *(in_its_own_thread(partial(_read_status, worker)) for worker in wanted)
    )
    return dict(zip(wanted, answers, strict=True))


def _read_status(worker: WorkerAt) -> dict[str, Any] | str:
    if not worker.address:
        return f"worker {worker.worker} has no worker.advertised_address, so its /status cannot be read"
    url = f"http://{worker.address}/status"
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        answers: dict[str, Any] = found["destinations"] | _of_other_units(found)
        answering = found["worker"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return f"worker {worker.worker} does not answer at {worker.address}: {reason}"
    if answering != worker.worker:
        return f"{worker.address} is worker {answering}, not {worker.worker}"
    return answers


def _of_other_units(found: Mapping[str, Any]) -> dict[str, Any]:
    """The merges and the logical schemas of a worker's report, by their names in the journal."""
    answers = {}
    for name, one in found.get("merges", {}).items():
        lags = [shard["lag_seconds"] for shard in one["shards"].values()]
        known = [lag for lag in lags if lag is not None]
        answers[f"{MERGE}{name}"] = {**one, "lag_seconds": max(known, default=None)}
    if (logical := found.get("logical_tables")) is not None:
        answers[LOGICAL_SCHEMAS] = {**logical, "lag_seconds": None}
    return answers


NOT_LED = "NOT LED"
"""The state of a unit of work that should run, but that no worker leads."""
_WITHOUT_LEADER = (DesiredState.STOP, DesiredState.DELETE)


async def list_destinations(
    settings: Settings,
) -> tuple[list[dict[str, Any]], AqueductError | None]:
    """Return the destinations by name, including deleted ones, then merges and logical schemas, as JSON.

    The second value is the reason why ZooKeeper did not answer; None if it answered, or is not used.
    """
    names = [*sorted(settings.destinations), *other_units(settings)]
    views, fault = await _views(settings, names)
    states = {name: await UnitJournal.of(settings, name).latest_state() for name in names}
    leaders = {name: _leader(settings, one, views.get(name)) for name, one in states.items()}
    answers = await read_statuses(one for one in leaders.values() if one is not None)
    listed = [
        {
            **_listed(name, state, views.get(name)),
            **_run_status(name, state, leaders[name], answers, fault),
        }
        for name, state in states.items()
    ]
    return listed, fault


def _leader(settings: Settings, state: DestinationState, view: View | None) -> WorkerAt | None:
    """Return the leader and its address: from ZooKeeper, or without ZooKeeper from the journal."""
    if coordination_plan(settings) is not None:
        found = (view.leader, view.address) if view is not None else (None, None)
    else:
        found = (state.leader.worker, state.leader.address) if state.leader else (None, None)
    worker, address = found
    if worker is None:
        return None
    if not address and worker == settings.worker.id and settings.http.port:
        # These are the worker's own settings, on its own machine.
        address = f"{settings.http.bind}:{settings.http.port}"
    return WorkerAt(worker, address or "")


def _run_status(
    name: str,
    state: DestinationState,
    leader: WorkerAt | None,
    answers: Mapping[WorkerAt, dict[str, Any] | str],
    fault: AqueductError | None,
) -> dict[str, Any]:
    """Return the run as the leader reports it; ``fault`` is the reason why ZooKeeper names no leader.

    The state is None if it is not known; the error is then the reason.
    """
    is_led = (state.control.desired if state.control else DesiredState.RUN) not in _WITHOUT_LEADER
    unknown = {"state": None, "error": None, "lag_seconds": None}
    if fault is not None:
        return {**unknown, "error": f"the leader is unknown: {fault.name}"}
    if leader is None:
        if not is_led:
            return {**unknown, "state": "STOPPED"}
        return {**unknown, "state": NOT_LED, "error": "no worker leads it"}
    answer = answers[leader]
    if isinstance(answer, str):
        return {**unknown, "error": answer}
    if (one := answer.get(name)) is not None:
        return {field: one[field] for field in unknown}
    found = {**unknown, "error": f"worker {leader.worker} does not run it"}
    return found if is_led else {**found, "state": "STOPPED"}


def _listed(name: str, state: DestinationState, view: View | None) -> dict[str, Any]:
    control, leader, cursor = state.control, state.leader, state.cursor
    if view is not None:
        worker, address = view.leader, view.address
    else:
        worker, address = (leader.worker, leader.address) if leader else (None, None)
    return {
        "destination": name,
        "wish": (control.desired if control else DesiredState.RUN).value,
        "said_by": control.by if control else None,
        "leader": worker,
        "address": address or None,
        "candidates": sorted(view.candidates) if view else [],
        "epoch": cursor.epoch if cursor else None,
        "seq": cursor.seq if cursor else None,
        "position": str(cursor.offset.coordinates) if cursor else None,
        "gtid_set": str(cursor.offset.gtid_set) if cursor and cursor.offset.gtid_set else None,
    }


async def _views(
    settings: Settings, names: Iterable[str]
) -> tuple[dict[str, View], AqueductError | None]:
    coordination = coordination_plan(settings)
    if coordination is None:
        return {}, None
    client, root, _ = coordination
    try:
        async with opens(client)(lambda: None) as session:
            return await read_views(session, Nodes(root), names), None
    except AqueductError as error:
        return {}, error


_HEAD = (
    "destination",
    "state",
    "wish",
    "leader",
    "epoch",
    "lag",
    "position",
    "candidates",
    "error",
)
_UNWELL = (None, NOT_LED, "FAILED")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Add the output format."""
    parser.add_argument("--all", action="store_true", help="include deleted ones")
    add_format(parser)


def run_list(options: argparse.Namespace) -> int:
    """Print the list. Return 1 if a unit is FAILED or NOT LED, or if a leader or ZooKeeper does not answer."""
    found, fault = run_operation(list_destinations(load()))
    shown = [one for one in found if options.all or one["wish"] != DesiredState.DELETE.value]
    print_answer(
        options.format, shown, aligned_table(list(_HEAD), [_listed_row(each) for each in shown])
    )
    if fault is not None:
        sys.stderr.write(f"aqueduct: {fault.name}: {fault}\n")
    is_well = all(each["state"] not in _UNWELL for each in shown)
    return 0 if fault is None and is_well else 1


def _listed_row(value: dict[str, Any]) -> list[str]:
    lag = value["lag_seconds"]
    shown = {**value, "lag": None if lag is None else f"{lag:.1f} s"}
    return [_cell(shown[column]) for column in _HEAD]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value) or "-"
    return "-" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a request."""

    applied: Applied
    seconds: float

    @property
    def is_reached(self) -> bool:
        """Return whether the destination is in the requested state."""
        return self.applied.state in ("RUNNING", "PAUSED", "STOPPED")


async def send_request(
    journal: UnitJournal, control: Control, *, wait: float | None
) -> Outcome | None:
    """Write a request and wait until a worker has applied it.

    ``wait`` is in seconds; with None, return None without waiting. Raise NotApplied if no worker applied the
    request in time, RequestReplaced if another request came first.
    """
    began = time.monotonic()
    offset = await journal.write(control_note(control))
    if wait is None:
        return None
    applied: Applied | None = None

    def take(record: StoredRecord) -> Applied | None:
        nonlocal applied
        applied = _applied(record, control, offset) or applied
        return applied if applied is not None and applied.is_final else None

    with suppress(TimeoutError):
        await wait_for_record(journal.partition, offset, take, wait - (time.monotonic() - began))
    if applied is None:
        raise NotApplied(
            f"{control.desired.value} was recorded, but not applied within {wait:g} s: "
            f"{await why_not_applied(journal.settings, journal.name)}",
            destination=control.destination,
        )
    return Outcome(applied=applied, seconds=time.monotonic() - began)


def _applied(record: StoredRecord, control: Control, offset: int) -> Applied | None:
    """Return a worker's answer to a request; raise RequestReplaced if the record is a later request."""
    if record.key == control_note(control)[0]:
        other = control_in(record)
        raise RequestReplaced(
            f"{other.desired.value}, requested by {other.by or 'an operator'}",
            destination=other.destination,
        )
    if not record.key.startswith(OUTCOME.key(control.destination) + b"/"):
        return None
    applied = applied_in(record)
    return applied if applied.request == offset else None


async def request_state(
    journal: UnitJournal, desired: DesiredState | None, *, by: str, wait: float | None
) -> tuple[Control, Outcome | None]:
    """Request a state; None keeps the present state, and begins a new run.

    ``wait`` is in seconds; with None, do not wait. Return the written request and its outcome, or None in place
    of the outcome without waiting. Raise NotApplied if no worker applied the request in time, RequestReplaced
    if another request came first.
    """
    last = (await journal.latest_state()).control
    if desired is None:
        desired, restart = (last.desired if last else DesiredState.RUN), uuid.uuid4().hex[:12]
    else:
        restart = last.restart if last else ""
    control = Control(
        destination=journal.name,
        desired=desired,
        restart=restart,
        by=by,
        ts_ms=time.time_ns() // 1_000_000,
        has_ended=last is not None and last.has_ended,
    )
    return control, await send_request(journal, control, wait=wait)


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


def _configure(parser: argparse.ArgumentParser) -> None:
    """Add a unit of work, and how long to wait."""
    parser.add_argument(
        "destination",
        metavar="NAME",
        help="name of a destination in the settings; or merge.NAME, or logical.schemas",
    )
    add_waiting(parser)
    add_format(parser)


def _configure_of_destinations(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and how long to wait."""
    parser.add_argument("destination", metavar="NAME", help="name of a destination in the settings")
    add_waiting(parser)
    add_format(parser)


def _request(options: argparse.Namespace, desired: DesiredState | None, text: str) -> int:
    """Request a state; None keeps the present state, and begins a new run.

    Return 0 once a worker has reached the state, or without waiting; 1 if the destination failed instead. Raise
    NotApplied if no worker applied the request.
    """
    name, journal = options.destination, UnitJournal.of(load(), options.destination)
    requesting = request_state(journal, desired, by=operator(), wait=seconds_of(options))
    control, outcome = run_operation(requesting)
    value = control.to_json()
    if outcome is None:
        print_answer(options.format, {**value, "applied": None}, [f"{name}: {text}; {UNCONFIRMED}"])
        return 0
    applied = outcome_value(outcome)
    print_answer(
        options.format, {**value, "applied": applied}, [f"{name}: {outcome_text(outcome)}"]
    )
    return 0 if outcome.is_reached else 1


configure_pause = configure_resume = configure_restart = configure_stop = _configure
configure_add = _configure_of_destinations


def configure_delete(parser: argparse.ArgumentParser) -> None:
    """Add a destination, how long to wait, and the confirmation that records may be lost."""
    _configure_of_destinations(parser)
    parser.add_argument(
        "--yes-lose-changes",
        action="store_true",
        help="delete it even if its merge has not published all of its records",
    )


run_pause = partial(
    _request,
    desired=DesiredState.PAUSE,
    text="pause requested; the leader ends its transaction and stops reading",
)
run_resume = partial(_request, desired=DesiredState.RUN, text="resume requested")
run_restart = partial(_request, desired=None, text="restart requested")
run_stop = partial(
    _request,
    desired=DesiredState.STOP,
    text="stop requested; no worker runs it until it is resumed",
)


def run_add(options: argparse.Namespace) -> int:
    """Run a destination that is new in the settings, or was deleted."""
    check_destination(load(), options.destination)
    text = "requested to run; workers that do not know it reload their settings"
    return _request(options, DesiredState.RUN, text)


def run_delete(options: argparse.Namespace) -> int:
    """Stop running a destination; its cursor is kept.

    Raise NotConfirmed if a merged topic lacks records of it and the operator does not agree to that.
    """
    settings, name = load(), options.destination
    check_destination(settings, name)
    if not options.yes_lose_changes:
        try:
            run_operation(_check_merged(settings, name))
        except MergeUnfinished as error:
            ask_for_name(
                name,
                f"{error.detail}, and never gets them once the destination is removed from the settings",
                remedy="First pause it, and wait until /status shows unread 0 and held 0 for it in its merge. "
                "Or type its name where it asks, or add --yes-lose-changes.",
                destination=name,
            )
    text = (
        "delete requested; its cursor stays in the journal, and `destination add` resumes from it"
    )
    return _request(options, DesiredState.DELETE, text)


async def _check_merged(settings: Settings, name: str) -> None:
    """Raise MergeUnfinished if a merge has not published all records of a destination."""
    journal = UnitJournal.of(settings, name)
    published = Published(
        destination=name, prefix=settings.prefix, options=journal.partition.options
    )
    partitions = topic_plans(settings).journal().partitions
    await published.check_merged(await journal.latest_state(), partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Topics to accept, and the loss that this causes."""

    journal: JournalPartition
    topics: tuple[KnownTopic, ...]
    notes: tuple[Note, ...]
    """Further journal records, in addition to those of the topics."""
    effect: str

    async def write(self, *, by: str, why: str) -> None:
        """Record the acceptance in the journal."""
        notes = [note_of(replace(one, by=by, why=why)) for one in self.topics]
        await write_notes(self.journal, [*notes, *self.notes])


async def plan_acceptance(journal: JournalPartition, names: Collection[str]) -> Acceptance | None:
    """Return the acceptance of these topics, or of all topics; None if no topic was recreated.

    Raise UsageError for a topic that the destination or merge never wrote to, TopicGone for a topic that does
    not exist.
    """
    state = await committed_state(journal)
    known = state.parts[TOPIC_PART].by_name
    if unknown := sorted(set(names) - known.keys()):
        raise UsageError(f"{journal.destination} has not written to {', '.join(unknown)}")
    ids = await Topics(journal.options).ids([*(names or known)])
    if gone := sorted(set(names) - ids.keys()):
        raise TopicGone("create it first, as the worker's error states", topic=gone[0], remedy="")
    now_ms, schemas = time.time_ns() // 1_000_000, schemas_topic(journal.prefix)
    found = tuple(
        KnownTopic(
            destination=journal.destination,
            topic=name,
            id=one,
            ts_ms=now_ms,
            lacks_versions=name == schemas,
        )
        for name, one in sorted(ids.items())
        if known[name].id != one
    )
    if not found:
        return None
    return Acceptance(
        journal=journal,
        topics=found,
        notes=tuple(_of_quarantine(journal, state, found)),
        effect=_loss(journal, state, found),
    )


def _has_quarantine(journal: JournalPartition, found: Collection[KnownTopic]) -> bool:
    name = quarantine_topic(journal.prefix, journal.destination)
    return name in {one.topic for one in found}


def _of_quarantine(
    journal: JournalPartition, state: DestinationState, found: Collection[KnownTopic]
) -> list[Note]:
    """Records by which quarantined events are read from the beginning of a recreated quarantine topic."""
    if not _has_quarantine(journal, found):
        return []
    return [quarantine_note(replace(one, offset=0)) for one in state.quarantine.entries.values()]


def _loss(journal: JournalPartition, state: DestinationState, found: Collection[KnownTopic]) -> str:
    names = ", ".join(one.topic for one in found)
    text = f"what {names} held before is never published again, unless a copy of it was restored"
    waiting = sorted(".".join(name) for name in state.quarantine.quarantined)
    if waiting and _has_quarantine(journal, found):
        text += (
            f"; waiting events of {', '.join(waiting)} are lost: publish their existing rows once they are "
            "published again"
        )
    return text


def configure_accept_topic(parser: argparse.ArgumentParser) -> None:
    """Take topics and a reason."""
    parser.epilog = (
        "DEST may be a merge, as merge.NAME. A destination is then restarted. Its table versions are published "
        "again if their topic was made again; rows are not: see `snapshot start`. The journal itself is not "
        "accepted: restore it from a copy."
    )
    add_destination(parser)
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="full name of a topic")
    parser.add_argument("--all", action="store_true", help="all topics that were made again")
    add_reason(parser)
    add_waiting(parser)
    add_format(parser)


def run_accept_topic(options: argparse.Namespace) -> int:
    """Record the acceptance, and restart the destination; a merge continues by itself."""
    if bool(options.topics) == options.all:
        raise UsageError("name the topics, or give --all")
    settings, name = load(), options.destination
    is_merge = name.startswith(MERGE)
    planned = run_operation(plan_acceptance(journal_of(settings, name), options.topics))
    if planned is None:
        sys.stderr.write(f"{name}: each topic is the one that was written to; nothing to accept\n")
    else:
        confirm(options, f"{name}: {planned.effect}")
        run_operation(planned.write(by=operator(), why=options.why))
    if not is_merge:
        return _request(options, None, "restart requested")
    print_answer(
        options.format, {"accepted": planned is not None}, [f"{name}: it continues by itself"]
    )
    return 0
