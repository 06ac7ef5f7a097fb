"""Takeover of a unit by this worker: the transactional id, taken only if no other worker leads, and the claim.

Invariant: as with destinations, the lease is confirmed before the transactional id is taken over and after the
journal was read; without coordination, a live leader is not replaced. Each leader claims the unit in the
journal with its first transaction, so a worker that was fenced finds the new leader there.
"""

from __future__ import annotations

import functools
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.worker.coordination.cluster_view import Identity
from app.worker.coordination.write_permit import WritePermit
from app.worker.unit.requests import Requests
from connectors.errors import AnotherWorkerLeads, AqueductError, Fenced
from connectors.kafka.group_positions import members
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord
from tables.state.cursor import next_epoch
from tables.state.journal.records import Leader, leader_in, leader_key, note_of
from tables.state.journal.state import DestinationState, JournalPartition


@dataclass(slots=True, kw_only=True)
class UnitTakeover:
    """The takeovers of one unit, over all its runs."""

    identity: Identity
    """This worker's identity."""
    journal: JournalPartition
    """The unit's partition of the journal."""
    requests: Requests
    _has_led: bool = False

    async def take_id(self, producer: TransactionalProducer, permit: WritePermit) -> None:
        """Take over the transactional id.

        Raise LeadershipLost if this worker no longer leads; without coordination, AnotherWorkerLeads or Fenced
        if another worker leads.
        """
        await permit.lease.confirm()
        permit.check()
        if not permit.lease.shared:
            others = OtherWorkers(self.journal, self.identity.worker)
            await others.check(self._last_leader, had_led=self._has_led)
        await producer.init_transactions()
        permit.id_is_taken()

    async def claim(
        self, producer: TransactionalProducer, permit: WritePermit, state: DestinationState
    ) -> None:
        """Claim the unit, once its state was read from the journal.

        Raise StopRequested if the state has a request by which the unit is not to run.
        """
        self.requests.check(state.control)
        # If reading took long, the id may have been taken from a later leader.
        await permit.lease.confirm()
        leader = Leader(
            destination=self.journal.destination,
            worker=self.identity.worker,
            address=self.identity.address,
            process=this_process(),
            epoch=next_epoch(
                state.leader.epoch if state.leader is not None else 0,
                term=permit.lease.term,
                now=time.time(),
            ),
            ts_ms=time.time_ns() // 1_000_000,
        )
        async with permit.writing(), producer.transaction() as kafka:
            await self.journal.send(kafka, [note_of(leader)])
            permit.lease.check()
        self._has_led = True

    async def _last_leader(self) -> Leader | None:
        """The last leader, as far as the journal can be read without waiting."""
        key, found = leader_key(self.journal.destination), list[StoredRecord]()

        def take(record: StoredRecord) -> None:
            if record.key == key:
                found[:] = [record]

        await self.journal.read(take, waits_for_open=False)
        return leader_in(found[0]) if found else None


# Identity of this process, by which another process can determine whether it still runs.
#
# Invariant: an id belongs to only one process while its machine runs. Whether a process on
# another machine or in another container is alive is never guessed.

_PROC = Path("/proc")


def _machine() -> str:
    """The machine's boot id and the namespace of its process ids."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    return f"{boot}-{(_PROC / 'self/ns/pid').stat().st_ino:x}"


def _started(pid: int) -> str:
    """The start time of a process in the kernel's ticks; empty for a zombie."""
    state, *rest = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def this_process() -> str:
    """The id of this process; a forked process has its own id."""
    return _id_of(os.getpid())


@functools.cache
def _id_of(pid: int) -> str:
    try:
        return f"{_machine()}-{pid}-{_started(pid)}"
    except (OSError, IndexError):  # without /proc
        return uuid.uuid4().hex


def is_here(process: str) -> bool:
    """Whether an id belongs to a process, running or ended, of this machine and container."""
    this = this_process()
    return process.count("-") == this.count("-") and _split(process)[0] == _split(this)[0]


def _split(process: str) -> tuple[str, str, str]:
    rest, _, started = process.rpartition("-")
    machine, _, pid = rest.rpartition("-")
    return machine, pid, started


def is_gone(process: str) -> bool:
    """Whether the process with an id has certainly ended."""
    if not is_here(process):
        return False
    _, pid, started = _split(process)
    try:
        return _started(int(pid)) != started
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, ValueError, IndexError):
        return False


# Check, without coordination, whether another live worker already leads a unit of work.
#
# Invariant: a leader is not replaced while it is a member of the workers' group; a leader that
# has left the group is replaced. Kafka's fencing ensures a single leader; this check keeps a
# second worker, started by mistake, from fencing the first. If Kafka does not return the group's
# members, the takeover proceeds, unless this worker has led before and may have been replaced
# since.

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
