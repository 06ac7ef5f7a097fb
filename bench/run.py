"""One timed run of one peer: from the first visible record to the last.

Invariant: the clock starts at the first poll that finds a record under read_committed and ends at
the last poll that finds more than the previous one; rows found by the first poll are not counted.
This is the same for all peers.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import contents
from bench.errors import RunFailed
from bench.measure import Watch, busy_seconds, wait_until_quiet
from bench.peers.peer import Peer, Task
from bench.stable import StableOffsets
from bench.workloads import Recipe
from devstack.processes import Child, tail

LOOK_SECONDS = 0.05
MEMORY_SECONDS = 0.5
STILL_SECONDS = 2.0
"""The time without new records, with enough of them, after which the run is over."""
LONGEST_STANDSTILL = 90.0
MYSQLD, BROKER = "mysqld", "broker"
SHARED = {MYSQLD, BROKER}
"""Processes that belong to no peer."""


Verify = Callable[[Peer, Task, list[str]], None]
"""Compares a peer's topics with its workload; raises RunFailed."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The measurements of a run."""

    peer: str
    workload: str
    partitions: int
    all_rows: int
    """The rows of the workload."""
    rows: int
    """The rows within the window."""
    seconds: float
    cpu: dict[str, float]
    """CPU seconds in the window, by process."""
    others: float
    """Core-seconds in the window of unrelated processes, this one included."""
    peak_mib: float
    """The peak memory of all the peer's processes together, from its start on."""
    largest_mib: float = 0.0
    """The peak memory of the largest of them."""
    startup_seconds: float
    first_at: float = 0.0
    """The monotonic time at which the window begins."""
    startup_cpu: float = 0.0
    """CPU seconds of the peer until the window begins."""
    quiet: bool
    stored_bytes: int = 0
    curve: list[tuple[float, int, float]] = field(default_factory=list)
    """(second, rows visible, CPU seconds of the peer) of each poll that found more."""

    @property
    def rows_per_second(self) -> float:
        """The throughput."""
        return self.rows / self.seconds

    def per_million(self, name: str) -> float:
        """CPU seconds of one process per million rows."""
        return self.cpu.get(name, 0.0) * 1e6 / self.rows

    @property
    def own_per_million(self) -> float:
        """CPU seconds of all the peer's processes per million rows."""
        return _own(self.cpu) * 1e6 / self.rows

    @property
    def stored_per_row(self) -> float:
        """Bytes on the broker's disk per row event, with its tombstone and after compression."""
        return self.stored_bytes / self.all_rows

    def to_json(self) -> dict[str, Any]:
        """For the file of results."""
        return {**asdict(self), "rows_per_second": self.rows_per_second}


@dataclass(slots=True)
class _Look:
    at: float
    total: int
    cpu: dict[str, float]
    busy: float


def measure(
    peer: Peer,
    task: Task,
    *,
    verified: bool = True,
    verify: Verify | None = None,
    timeout: float = LONGEST_STANDSTILL,
) -> Result:
    """Run a peer on a workload, and verify its output; raise RunFailed if that is not the workload.

    ``verify`` does it instead of the comparison with the recipe, before the topics are deleted.
    """
    shutil.rmtree(task.folder, ignore_errors=True)
    task.folder.mkdir(parents=True)
    row_topics = dict.fromkeys(peer.topics(task), task.partitions)
    program = peer.program(task)
    asyncio.run(_create(task.servers.kafka, peer.needs(task)))
    quiet = wait_until_quiet()
    log = task.folder / f"{peer.name}.log"
    child = task.servers.children.start(program.command, label=peer.name, log=log, env=program.env)
    began = time.monotonic()
    try:
        looks, watch = _watch(child, peer, task, row_topics=row_topics, timeout=timeout)
    except RunFailed as error:
        what = f"{peer.name}, {task.workload.recipe.name}: {error}"
        raise RunFailed(f"{what}; from {log}:\n{tail(log)}") from None
    finally:
        child.kill()
    if verified:
        (verify or _verify)(peer, task, list(row_topics))
    stored = sum(map(task.servers.stored_bytes, row_topics))
    asyncio.run(_delete(task.servers.kafka, [*row_topics, *peer.needs(task)]))
    window = _window(looks)
    return Result(
        peer=peer.name,
        workload=task.workload.recipe.name,
        partitions=task.partitions,
        all_rows=task.workload.recipe.rows,
        rows=round(task.workload.recipe.rows * (1 - looks[0].total / looks[-1].total)),
        seconds=looks[-1].at - looks[0].at,
        cpu=window,
        others=looks[-1].busy - looks[0].busy - sum(window.values()),
        peak_mib=watch.peak_mib,
        largest_mib=watch.largest_mib,
        startup_seconds=looks[0].at - began,
        first_at=looks[0].at,
        startup_cpu=_own(looks[0].cpu),
        quiet=quiet,
        stored_bytes=stored,
        curve=[(look.at - looks[0].at, look.total, _own(look.cpu)) for look in looks],
    )


def published(peer: Peer, task: Task, *, timeout: float = LONGEST_STANDSTILL) -> list[str]:
    """Let a peer publish a workload, and keep its topics; return their names."""
    shutil.rmtree(task.folder, ignore_errors=True)
    task.folder.mkdir(parents=True)
    topics = dict.fromkeys(peer.topics(task), task.partitions)
    program = peer.program(task)
    log = task.folder / f"{peer.name}.log"
    child = task.servers.children.start(program.command, label=peer.name, log=log, env=program.env)
    try:
        _watch(child, peer, task, row_topics=topics, timeout=timeout)
    finally:
        child.kill()
    return list(topics)


def _watch(
    child: Child, peer: Peer, task: Task, *, row_topics: dict[str, int], timeout: float
) -> tuple[list[_Look], Watch]:
    """All polls that found more than the previous one, and the samples of memory."""
    servers = task.servers
    roots = {
        peer.main: child.identity.pid,
        MYSQLD: servers.mysqld.identity.pid,
        BROKER: servers.broker.identity.pid,
    }
    watch = Watch(roots, child=peer.child)
    wanted = messages(peer, task.workload.recipe)
    looks: list[_Look] = []
    moved = remembered = time.monotonic()
    with StableOffsets(servers.kafka, row_topics) as stable:
        while True:
            time.sleep(LOOK_SECONDS)
            total, now = stable.total(), time.monotonic()
            if total > (looks[-1].total if looks else 0):
                moved = now
                if not looks:
                    watch.discover()  # children's CPU time before the window is not counted
                looks.append(_Look(now, total, watch.cpu(), busy_seconds()))
            if now - remembered >= MEMORY_SECONDS:
                watch.discover()
                watch.sample_memory(peer.main)
                remembered = now
            seen, still = (looks[-1].total if looks else 0), now - moved
            if seen >= wanted and still > STILL_SECONDS:
                return looks, watch
            if not child.alive():
                raise RunFailed(f"it ended with status {child.popen.returncode}")
            if still > timeout:
                raise RunFailed(f"no record for {still:.0f} s, {seen:,} of {wanted:,} are there")


def messages(peer: Peer, recipe: Recipe) -> int:
    """The minimum number of records of a workload; offsets count control records too."""
    if peer.batches:
        return recipe.transactions
    return recipe.rows + (recipe.deletes if peer.tombstones else 0)


def _window(looks: Sequence[_Look]) -> dict[str, float]:
    first, last = looks[0].cpu, looks[-1].cpu
    return {name: seconds - first.get(name, 0.0) for name, seconds in last.items()}


def _own(cpu: Mapping[str, float]) -> float:
    return sum(seconds for name, seconds in cpu.items() if name not in SHARED)


def _verify(peer: Peer, task: Task, topics: list[str]) -> None:
    found = asyncio.run(contents.read(task.servers.kafka, topics, peer))
    recipe = task.workload.recipe
    if faults := found.faults(recipe, tombstones=peer.tombstones):
        raise RunFailed(f"{peer.name}, {recipe.name}: {'; '.join(faults)}")


async def _create(bootstrap: str, topics: Mapping[str, int]) -> None:
    if not topics:
        return
    async with _admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])


async def _delete(bootstrap: str, topics: Iterable[str]) -> None:
    async with _admin(bootstrap) as admin:
        await admin.delete_topics(sorted(set(topics)))


@contextlib.asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()
