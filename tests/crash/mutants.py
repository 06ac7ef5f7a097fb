"""Workers and sinks with a broken guard, and the scenario in which the verdict must find each.

Invariant: a mutant that is not found is a fault of the checker. Only findings in the topics and the journal
count, not an error of the worker itself.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql

from devstack.programs import WORKER
from tests.crash import mutated, mutated_sink
from tests.crash.audited import audited
from tests.crash.both import Both
from tests.crash.done import DONE
from tests.crash.faults.leaders import idle
from tests.crash.scene import Late, Scene, scene
from tests.crash.servers import Servers
from tests.crash.sinks import Sinking
from tests.crash.verdict import Findings, compare
from tests.crash.warehouse import apply, compared, wait_for_sink

_SETTLES = 30.0
_BIG_ROWS = 12_000

Act = Callable[[Scene], None]
_PATCHES = mutated.PATCHES | mutated_sink.PATCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One broken guard."""

    name: str
    act: Act
    seen: tuple[str, ...]
    """The kinds of faults, one of which must be found."""

    @property
    def what(self) -> str:
        """A description of the broken guard."""
        return (_PATCHES[self.name].__doc__ or "").rstrip(".")

    @property
    def scenario(self) -> str:
        """A description of its scenario."""
        return (self.act.__doc__ or "").rstrip(".")


def steady(at: Scene) -> None:
    """steady load."""
    worker = at.begin()
    at.wait(lambda: DONE in worker.log, "does nothing wrong")
    at.pause(3, 4)


def in_batches(at: Scene) -> None:
    """steady load, while the sink applies four batches."""
    at.begin()
    for _ in range(4):
        at.pause(1, 2)
        apply(at)
        wait_for_sink(at)


def killed(at: Scene) -> None:
    """kill -9 under load."""
    at.begin()
    at.pause(1, 2)
    at.worker.kill()
    at.wait(lambda: len(at.worker.exits) > 0, "does not end")
    at.pause(5, 6)


def _killed_at(name: str) -> Act:
    def act(at: Scene) -> None:
        at.load.start()
        at.start(f"{name}=kill@12")
        at.wait(lambda: len(at.worker.exits) > 0, "does not end")
        at.pause(5, 6)

    act.__doc__ = f"kill -9 at `{name}`."
    return act


def killed_in_large(at: Scene) -> None:
    """kill -9 between two parts of a large transaction."""
    rows = ", ".join(f"({n}, 0, REPEAT('large ', 60))" for n in range(100, 100 + _BIG_ROWS))
    at.servers.run(f"INSERT INTO shop.moves VALUES {rows}")
    at.start("commit.after=kill@4")
    at.wait(lambda: len(at.worker.exits) > 0, "does not end")
    at.load.start()
    at.pause(5, 6)


def reconnected(at: Scene) -> None:
    """MySQL's connection is reset, twice."""
    at.begin()
    for _ in range(2):
        at.pause(1, 2)
        at.mysql.reset()
        at.wait_recovered()


def two(at: Scene) -> None:
    """two workers at the same time."""
    first = at.begin()
    second = at.start(destination={"server_id": 6101})
    at.wait_running(second)
    at.pause(4, 5)
    first.stop()
    at.workers.remove(first)


def frozen(at: Scene) -> None:
    """SIGSTOP of the leader past its session timeout."""
    # Of two replicas with one id the second would be refused for that alone.
    with contextlib.suppress(AssertionError), Both.begun(at, server_id=6101) as both:
        both.leader.signal(signal.SIGSTOP)
        both.taken_over()
        both.leader.signal(signal.SIGCONT)
        at.pause(4, 5)


def left_alone(at: Scene) -> None:
    """two coordinated workers, undisturbed."""
    # The broken one may have nobody to lead when the first has gone.
    with contextlib.suppress(Late):
        idle(at)


def oversize(at: Scene) -> None:
    """a row larger than its topic's limit."""
    at.servers.run("CREATE TABLE shop.wide (id INT PRIMARY KEY, v MEDIUMTEXT)")
    limits = {"partitions": 3, "replication_factor": 1, "max_message_bytes": 100_000}
    at.load.start()
    at.start(topics=limits, publish={"compression": None})
    at.wait_running()
    at.pause(1, 2)
    at.servers.run("INSERT INTO shop.wide VALUES (1, REPEAT('x', 300000))")
    at.pause(3, 4)


def flipped(at: Scene) -> None:
    """bits sent by MySQL are flipped."""
    at.tls = "disabled"
    at.begin()
    for _ in range(10):
        at.mysql.way("down", flip_at=at.rng.randint(1, 4000))
        at.pause(0.5, 0.8)
    at.mysql.restore()
    # A length may be what was flipped: nothing comes to an end then without a new connection.
    at.mysql.reset()


MUTANTS: dict[str, Mutant] = {
    name: Mutant(name=name, act=act, seen=tuple(seen))
    for name, act, *seen in (
        ("row-skipped", steady, "lost"),
        ("row-repeated", steady, "repeated"),
        ("tombstone-skipped", steady, "audit lost"),
        ("tombstone-repeated", steady, "audit foreign"),
        ("order-turned", steady, "disordered"),
        ("partition-by-chance", steady, "scattered"),
        ("hole-in-cursor", steady, "cursor"),
        ("cursor-before-rows", _killed_at("produce.rows"), "lost"),
        ("cursor-after-rows", _killed_at("commit.after"), "repeated"),
        ("read-uncommitted", _killed_at("commit.before"), "lost"),
        ("fencing-off", two, "repeated", "epochs"),
        ("epoch-back", killed, "epochs"),
        ("epoch-kept", killed, "fencing"),
        ("lease-off", frozen, "repeated", "fencing"),
        ("standby-leads", left_alone, "claims"),
        ("seq-repeated", killed, "seq"),
        ("dedup-off", killed_in_large, "repeated"),
        ("mid-transaction", killed_in_large, "repeated"),
        ("refused-batch", oversize, "lost"),
        ("from-memory", reconnected, "repeated"),
        ("sink-batch-lost", in_batches, "warehouse"),
        ("sink-deletes-off", in_batches, "warehouse"),
        ("checksum-off", flipped, "values", "invented", "lost"),
    )
}


def caught(mutant: Mutant, servers: Servers, folder: Path, *, seed: int) -> str | None:
    """The kinds of faults that the verdict found in it; None where the ones due are not among them."""
    try:
        found = findings(mutant, servers, folder, seed=seed)
    except (AssertionError, OSError, pymysql.MySQLError) as error:
        sys.stdout.write(f"mutant.{mutant.name}: {error!r}\n")
        return None
    kinds = ", ".join(f"{kind} {len(what)}" for kind, what in found.items())
    return kinds if any(kind in found for kind in mutant.seen) else None


def findings(mutant: Mutant, servers: Servers, folder: Path, *, seed: int) -> Findings:
    """The verdict's findings."""
    if mutant.name in mutated_sink.PATCHES:
        with contextlib.closing(Sinking(folder, mutant.name)) as sinking:
            return _findings(mutant, replace(servers, sinking=sinking), folder, seed, WORKER)
    command = (sys.executable, "-m", "tests.crash.mutated", mutant.name)
    return _findings(mutant, servers, folder, seed, command)


def _findings(
    mutant: Mutant, servers: Servers, folder: Path, seed: int, command: Sequence[str]
) -> Findings:
    name = f"mutant.{mutant.name}"
    with scene(servers, folder / name, name=name, seed=seed, command=command) as at:
        at.decoders = 0
        mutant.act(at)
        whole = _settled(at)
        source, topics = at.source(), at.topics()
        found = compare(source, topics, whole=whole)
        if "warehouse" in mutant.seen:
            found |= compared(at, source, topics, whole=whole)
        return found | (audited(at) if whole else {})


def _settled(at: Scene) -> bool:
    """Whether all is published; a broken worker may never reach this."""
    at.load.stop()
    try:
        at.wait_recovered(seconds=_SETTLES)
    except (Late, pymysql.OperationalError):
        return False
    return True
