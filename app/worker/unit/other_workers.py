"""Check, without coordination, whether another live worker already leads a unit of work.

Invariant: a leader is not replaced while it is a member of the workers' group; a leader that has left
the group is replaced. Kafka's fencing ensures a single leader; this check keeps a second worker,
started by mistake, from fencing the first. If Kafka does not return the group's members, the takeover
proceeds, unless this worker has led before and may have been replaced since.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.worker.unit.process_identity import is_gone, is_here, this_process
from connectors.errors import AnotherWorkerLeads, AqueductError, Fenced
from connectors.kafka.group_positions import members
from tables.state.journal.records import Leader
from tables.state.journal.state import JournalPartition

log = logging.getLogger(__name__)

_CLIENT = "aqueduct"


def group_of(prefix: str) -> str:
    """The group of all workers of an installation.

    The group folds the journal into its Faust table; another table requires another group.
    """
    return f"{prefix}.__workers"


def client_id(worker: str) -> str:
    """This worker's client id in the group."""
    return f"{_CLIENT}.{worker}.{this_process()}"


LastLeader = Callable[[], Awaitable[Leader | None]]
"""Reads the last leader from the journal; None if no other worker can have claimed the unit since this one."""


@dataclass(frozen=True, slots=True)
class OtherWorkers:
    """The check for the runs of one unit of work, a destination or another one."""

    journal: JournalPartition
    """The unit's partition of the journal."""
    worker: str
    """This worker's id."""

    async def check(self, last: LastLeader, *, had_led: bool) -> None:
        """Raise AnotherWorkerLeads if another live worker leads the unit.

        Raise Fenced if this worker ``had_led`` the unit, and another that may be alive has led it since.
        Otherwise a suspended worker, which resumes with a connection error, would take the id back.
        """
        journal = self.journal
        living = await living_workers(
            journal.options, journal.prefix, self.worker, journal.destination
        )
        if not had_led and not living:
            return
        leader = await last()
        if leader is not None:
            refuse_living(leader, living, had_led=had_led)


def refuse_living(leader: Leader, living: frozenset[str] | None, *, had_led: bool) -> None:
    """Raise AnotherWorkerLeads if a leader is alive, Fenced if it may be and this worker ``had_led`` before."""
    if leader.process == this_process():
        return
    if living is None and had_led and not is_gone(leader.process):
        raise Fenced(f"worker {leader.worker} leads in epoch {leader.epoch}")
    if leader.process in (living or ()):
        raise AnotherWorkerLeads(
            f"worker {leader.worker!r}{_at(leader)}, in epoch {leader.epoch}",
            destination=leader.destination,
        )
    if had_led:
        log.info("%s: worker %s, which led it, is gone", leader.destination, leader.worker)


async def living_workers(
    options: Mapping[str, Any], prefix: str, worker: str, name: str
) -> frozenset[str] | None:
    """The processes of other workers in the group; None if unknown, which is logged for the unit ``name``."""
    try:
        found = await members(options, group_of(prefix))
    except AqueductError as error:
        log.info("%s: other workers are not known: %s", name, error)
        return None
    return frozenset(living(found, worker))


def living(clients: Iterable[str], worker: str) -> Iterable[str]:
    """The processes of other workers, from client ids.

    A process with this worker's id on another machine is this worker before its restart.
    """
    for client in clients:
        name, _, rest = client.partition(".")
        worker_of_client, _, process = rest.rpartition(".")
        if name != _CLIENT or process == this_process() or is_gone(process):
            continue
        if worker_of_client != worker or is_here(process):
            yield process


def _at(leader: Leader) -> str:
    return f" at {leader.address}" if leader.address else ""
