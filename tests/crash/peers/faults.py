"""The faults for Debezium: ours if they do not depend on our worker's states, else those defined here.

Invariant: each fault is that of our fault with the same name; only the queries of a worker's states differ.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer

import tests.crash.faults  # noqa: F401 - it names the scenarios
from tests.crash import links
from tests.crash.faults.disks import broker_ended, small_disk
from tests.crash.keeper import Keeper
from tests.crash.peers.scene import PeerScene
from tests.crash.scenario import SCENARIOS

Act = Callable[[PeerScene], str]

_AS_THEY_ARE = (
    "frozen.short",
    "frozen.long",
    "mysql.reset",
    "mysql.cut.down",
    "mysql.cut.up",
    "mysql.half-open",
    "mysql.sliced",
    "kafka.reset",
    "kafka.cut.up",
    "kafka.cut.down",
    "kafka.black.up",
    "kafka.black.down",
    "kafka.half-open",
    "kafka.slow",
    "kafka.flip",
    "kafka.late-commit",
    "kafka.lost.init-producer.request",
    "kafka.lost.init-producer.answer",
    "kafka.lost.produce.request",
    "kafka.lost.produce.answer",
    "kafka.lost.end-transaction.request",
    "kafka.lost.end-transaction.answer",
    "mysqld.kill",
    "mysqld.restart",
    "mysqld.frozen",
    "kafka.kill",
    "kafka.restart",
    "kafka.frozen",
    "both.kill",
    "binlog.rotation-storm",
    "load.large",
    "load.cut",
    "load.ddl",
    "account.connections",
    "source.read-only",
    "source.disk-full",
)
TRANSACTIONAL = ("kill.commit.before", "kill.commit.after", "kafka.late-commit", "kafka.fenced")
"""Faults that need a transaction; so do the faults of requests that only a transaction sends."""
_SILENCE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFault:
    """A fault, and how it is done."""

    name: str
    what: str
    act: Act

    @property
    def is_transactional(self) -> bool:
        """Whether it needs a producer with transactions."""
        words = ("end-transaction", "init-producer")
        return self.name in TRANSACTIONAL or any(word in self.name for word in words)


FAULTS: dict[str, PeerFault] = {}


def _fault(name: str, what: str = "") -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        words = SCENARIOS[name].what if name in SCENARIOS else what
        FAULTS[name] = PeerFault(name=name, what=words, act=act)
        return act

    return register


@_fault("kill.random")
def kill_random(at: PeerScene) -> str:
    """Starts among them: a process is there again some tenths of a second after its end."""
    at.begin()
    for n in range(6):
        at.pause(0.5, 12.0)
        at.worker.kill()
        at.wait(lambda n=n: len(at.worker.exits) > n, "is not started again")  # type: ignore[misc]
        at.pause(0.5, 1.0)
    return f"6 times; {_on(at)}"


@_fault("kill.commit.before")
def kill_before(at: PeerScene) -> str:
    """The request that ends the transaction is lost, and so is the worker."""
    return _killed_at_commit(at, answered=False)


@_fault("kill.commit.after")
def kill_after(at: PeerScene) -> str:
    """The broker has ended the transaction, and the worker is gone before it receives the answer."""
    return _killed_at_commit(at, answered=True)


def _killed_at_commit(at: PeerScene, *, answered: bool) -> str:
    at.begin()
    at.kafka.trap(links.END_TXN, answered=answered, nth=at.rng.randint(1, 12), shut=1.0)
    at.wait(lambda: at.kafka.seen()["sprung"] == 1, "ends no transaction")
    at.worker.kill()
    return _on(at)


@_fault("term")
def term(at: PeerScene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    began = time.monotonic()
    at.worker.signal(signal.SIGTERM)
    at.wait(lambda: bool(at.worker.exits), "does not end")
    return f"ended with {at.worker.exits[0]} in {time.monotonic() - began:.1f} s; {_on(at)}"


@_fault("two.zombie")
def zombie(at: PeerScene) -> str:
    """Two workers of a group; the one with the task is frozen for longer than the group waits for it."""
    at.more = {"scheduled.rebalance.max.delay.ms": "0"}
    first = at.begin()
    second = at.start()
    at.wait(lambda: bool(at.status(second)["state"]), "a second worker does not answer")
    at.pause(12, 15)  # the group settles
    holder = _holder(at)
    holder.signal(signal.SIGSTOP)
    time.sleep(25)
    holder.signal(signal.SIGCONT)
    took = at.wait_recovered()
    at.pause(5, 6)
    which = "first" if holder is first else "second"
    return f"the {which} was frozen; recovered in {took:.1f} s"


def _holder(at: PeerScene) -> Keeper:
    result = at._described() or {}
    address = str((result.get("tasks") or [{}])[0].get("worker_id", ""))
    return next((one for one in at.workers if address.endswith(f":{one.port}")), at.worker)


@_fault("mysql.black.down")
def black_down(at: PeerScene) -> str:
    at.begin()
    before = at.mysql.seen()["accepted"]
    at.mysql.way("down", held=True)
    began = time.monotonic()
    while at.mysql.seen()["accepted"] == before and time.monotonic() - began < 30:
        time.sleep(0.2)
    took = time.monotonic() - began
    at.pause(0.5, 2)
    at.mysql.restore()
    return f"a new connection after {took:.1f} s; {_on(at)}"


@_fault("mysql.black.up")
def black_up(at: PeerScene) -> str:
    at.begin()
    at.mysql.way("up", held=True)
    at.mysql.reset()
    at.pause(6, 9)
    at.mysql.restore()
    at.mysql.reset()
    return _on(at)


@_fault("mysql.refused")
def refused(at: PeerScene) -> str:
    at.begin()
    at.mysql.door("refuse")
    at.mysql.reset()
    at.pause(4, 7)
    at.mysql.restore()
    return _on(at)


@_fault("mysql.slow")
def slow(at: PeerScene) -> str:
    at.begin()
    at.mysql.way("down", latency=0.04, bandwidth=150_000)
    at.pause(5, 7)
    at.mysql.restore()
    return _on(at)


@_fault("mysql.flip")
def flip(at: PeerScene) -> str:
    at.tls = "disabled"
    at.begin()
    for _ in range(8):
        at.mysql.way("down", flip_at=at.rng.randint(1, 20_000))
        at.pause(1.9, 2.1)
    at.mysql.restore()
    return _on(at)


@_fault("kafka.fenced")
def fenced(at: PeerScene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    asyncio.run(_take_over(at))
    at.pause(2, 3)
    return _on(at)


async def _take_over(at: PeerScene) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=at.servers.kafka, transactional_id=at.transactional_id
    )
    await producer.start()
    await producer.stop()


@_fault("kafka.disk-full")
def disk_full(at: PeerScene) -> str:
    server = at.servers.stack.kafka_server
    with small_disk(at, server, at.servers.stack.run_dir / "kafka" / "data") as disk:
        at.begin()
        ballast = broker_ended(at, disk)
        at.pause(1, 3)
        ballast.unlink()
        server.start()
        took = at.wait_recovered()
    return f"the broker exited; recovered in {took:.1f} s, then in {at.wait_recovered():.1f} s"


@_fault("account.password")
def password(at: PeerScene) -> str:
    at.begin()
    at.servers.run("ALTER USER 'aqueduct'@'%' IDENTIFIED BY 'another'")
    at.mysql.reset()
    at.pause(4, 7)
    at.servers.run("ALTER USER 'aqueduct'@'%' IDENTIFIED BY 'aqueduct'")
    return _on(at)


@_fault("account.grant")
def grant(at: PeerScene) -> str:
    at.begin()
    at.servers.run("REVOKE REPLICATION SLAVE ON *.* FROM 'aqueduct'@'%'")
    at.mysql.reset()
    at.pause(4, 7)
    at.servers.run("GRANT REPLICATION SLAVE ON *.* TO 'aqueduct'@'%'")
    return _on(at)


@_fault("binlog.purged")
def purged(at: PeerScene) -> str:
    _down_after(at)
    at.earlier = at.binlog()
    name = at.servers.run("SHOW BINARY LOGS")[-1][0]
    at.servers.run(f"PURGE BINARY LOGS TO '{name}'")
    return _stops(at)


@_fault("binlog.reset")
def reset(at: PeerScene) -> str:
    _down_after(at)
    at.earlier = at.binlog()
    at.servers.run("RESET BINARY LOGS AND GTIDS")
    at.servers.run("INSERT INTO shop.moves VALUES (90000000, 1, 'after')")
    return _stops(at)


def _down_after(at: PeerScene) -> None:
    """Stop the worker while the source writes several files."""
    at.begin()
    at.pause(0.5, 1.5)
    at.worker.again = False
    at.worker.kill()
    at.wait(lambda: bool(at.worker.exits), "does not end")
    for _ in range(3):
        at.pause(0.3, 0.6)
        at.servers.run("FLUSH BINARY LOGS")
    at.load.stop()


def _stops(at: PeerScene) -> str:
    """It stops with an error, which is right; or it continues, and the missing records are lost."""
    second = at.start()
    mark = at._mark()
    at._looked = float("inf")  # nobody starts it again

    def over() -> bool:
        return mark in at.tail.marks or at.status(second)["state"] == "FAILED"

    at.wait(over, "neither continues nor stops")
    if mark in at.tail.marks:
        at._looked = 0.0
        return "recovered"
    at.stopped = str(at.status(second)["error"])
    return f"stopped: {at.stopped}"


def _on(at: PeerScene) -> str:
    return f"recovered in {at.wait_recovered():.1f} s"


for _name in _AS_THEY_ARE:
    _fault(_name)(SCENARIOS[_name].act)
FAULTS = {name: FAULTS[name] for name in SCENARIOS if name in FAULTS}
