"""Faults of two coordinated workers: of the leader, of its links, of both."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.crash.both import PAST, Both
from tests.crash.keeper import Keeper
from tests.crash.scenario import fault
from tests.crash.scene import Scene

_STALL = 20
_MOST_UNPUBLISHED = 60.0
"""Seconds, where a start takes about ten."""
_ANSWER = 10.0
"""Seconds within which a Kafka transaction must be through."""


@fault(
    "leader.frozen",
    "SIGSTOP of the leader past its session timeout; SIGCONT after the other worker leads",
)
def frozen(at: Scene) -> str:
    with Both.begun(at) as both:
        both.leader.signal(signal.SIGSTOP)
        took = both.taken_over()
        at.pause(0.5, 3)
        both.leader.signal(signal.SIGCONT)
        at.wait_state("STANDBY", worker=both.leader)
        at.wait_recovered(both.standby)
        return f"the other led after {took:.1f} s; the resumed worker is STANDBY; {both.at_rest()}"


@fault(
    "leader.frozen-twice", "SIGSTOP of one leader after the other, each past its session timeout"
)
def frozen_twice(at: Scene) -> str:
    with Both.begun(at) as both:
        both.leader.signal(signal.SIGSTOP)
        both.taken_over()
        both.leader.signal(signal.SIGCONT)
        both.at_rest()
        both.leader, both.standby = both.standby, both.leader
        both.epoch = both.epoch_of(both.leader)
        both.leader.signal(signal.SIGSTOP)
        took = both.taken_over()
        both.leader.signal(signal.SIGCONT)
        return f"the first led again after {took:.1f} s; {both.at_rest()}"


@fault(
    "leader.stalled",
    "the leader's event loop is blocked between its last acknowledgement and the commit",
)
def stalled(at: Scene) -> str:
    with Both.begun(at, f"commit.before=stall@{at.rng.randint(150, 200)}:{_STALL}") as both:
        took = both.taken_over()
        at.pause(_STALL - PAST, _STALL - PAST + 2)
        at.wait_recovered(both.standby)
        return f"the other led after {took:.1f} s; {both.at_rest()}"


@fault("leader.killed", "kill -9 of the leader, twice")
def killed(at: Scene) -> str:
    with Both.begun(at) as both:
        took = [_ended(at, both, signal.SIGKILL) for _ in range(2)]
        return f"led on after {took[0]:.1f} and {took[1]:.1f} s; {both.at_rest()}"


@fault("leader.term", "SIGTERM to the leader, twice")
def term(at: Scene) -> str:
    with Both.begun(at) as both:
        took = [_ended(at, both, signal.SIGTERM) for _ in range(2)]
        return f"led on after {took[0]:.1f} and {took[1]:.1f} s; {both.at_rest()}"


@fault("leader.kafka-cut", "only the leader's link to Kafka is held, for 14 s")
def kafka_cut(at: Scene) -> str:
    with Both.begun(at) as both:
        wire = both.ways(both.leader).kafka
        wire.way("up", held=True)
        wire.way("down", held=True)
        at.pause(_ANSWER + 3, _ANSWER + 5)
        wire.restore()
        took = both.somebody(later=False)
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("leader.mysql-cut", "only the leader's link to MySQL is closed, for some seconds")
def mysql_cut(at: Scene) -> str:
    with Both.begun(at) as both:
        wire = both.ways(both.leader).mysql
        wire.door("refuse")
        wire.reset()
        at.wait_state("RETRYING", worker=both.leader)
        at.pause(6, 8)
        assert at.state(both.standby) == "STANDBY", "it was handed over"
        wire.restore()
        took = both.somebody(later=False)
        return f"the leader stays leader, RETRYING; recovered in {took:.1f} s; {both.at_rest()}"


@fault("workers.killed", "kill -9 of both workers at the same time")
def both_killed(at: Scene) -> str:
    with Both.begun(at) as both:
        for worker in at.workers:
            worker.kill()
        took = both.somebody()
        return f"recovered in {took:.1f} s; {both.at_rest()}"


@fault("workers.rolling", "SIGTERM to one worker after the other, two rounds")
def rolling(at: Scene) -> str:
    with Both.begun(at) as both:
        longest = 0.0
        for worker in [*at.workers, *at.workers]:
            ends = len(worker.exits)
            worker.signal(signal.SIGTERM)
            began = time.monotonic()
            at.wait_recovered()
            longest = max(longest, time.monotonic() - began)
            at.wait(lambda: len(worker.exits) > ends, "does not end")  # noqa: B023 - waited for
            assert worker.exits[-1] == 0, f"it ended with {worker.exits[-1]}"
            both.at_rest()
        return f"publishing paused for at most {longest:.1f} s; {both.at_rest()}"


@fault(
    "workers.rolling-busy",
    "SIGTERM to one worker after the other every 5 s, while other programs use the CPUs",
)
def rolling_busy(at: Scene) -> str:
    with Both.begun(at) as both:
        with _busy(count=3):
            longest = max(_restarted_meanwhile(at, at.workers[n % 2]) for n in range(10))
        at.wait_recovered()
        assert longest < _MOST_UNPUBLISHED, f"nothing was published for {longest:.0f} s"
        return f"publishing paused for at most {longest:.1f} s; {both.at_rest()}"


def _restarted_meanwhile(at: Scene, worker: Keeper) -> float:
    """End one, and look on for 5 s; the longest time in which nothing was published."""
    worker.signal(signal.SIGTERM)
    longest, changed, before = 0.0, time.monotonic(), _published(at)
    end = changed + 5
    while (now := time.monotonic()) < end or _published(at) == before:
        if (count := _published(at)) > before:
            longest, changed, before = max(longest, now - changed), now, count
        assert now - changed < _MOST_UNPUBLISHED, "nothing is published any more"
        time.sleep(0.1)
    return longest


def _published(at: Scene) -> int:
    return max(int((at.status(one).get("cursor") or {}).get("seq", 0)) for one in at.workers)


@contextlib.contextmanager
def _busy(*, count: int) -> Iterator[None]:
    """Programs that want all the time that the machine has."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@fault("two.idle", "two coordinated workers run undisturbed; then the leader stops")
def idle(at: Scene) -> str:
    at.most_claims = 2
    at.shared = True
    at.servers.with_zookeeper()
    first = at.begin()
    second = at.start()
    at.wait(lambda: bool(at.status(second)), "does not answer")
    at.pause(10, 12)
    first.stop()
    at.workers.remove(first)
    return f"no new epoch without cause; the other led after {at.wait_recovered():.1f} s"


def _ended(at: Scene, both: Both, number: signal.Signals) -> float:
    """Stop the leader; return the seconds until the next leader publishes."""
    worker = _leader(at, both)
    both.epoch = both.epoch_of(worker)
    worker.signal(number)
    took = both.somebody()
    both.at_rest()
    return took


def _leader(at: Scene, both: Both) -> Keeper:
    return max(at.workers, key=both.epoch_of)
