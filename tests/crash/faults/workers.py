"""Faults of the worker's process."""

from __future__ import annotations

import signal
import time
from functools import partial

from app.failpoints import POINTS
from tests.crash.keeper import Keeper
from tests.crash.scenario import fault
from tests.crash.scene import Scene

_ONCE_A_RUN = ("init.before", "init.after", "recover.after", "claim.before", "claim.after")
_FIRST = ("topics.made", "produce.schemas")
_OTHERWISE = ("release.decoded", "release.published", "stop.begun")
_STEADY = [
    name
    for name in POINTS
    # Those of existing rows are in tests/crash/existing/kills.py.
    if name not in _ONCE_A_RUN + _OTHERWISE and not name.startswith("snapshot.")
]


def _killed_at(name: str) -> None:
    @fault(f"kill.{name}", f"kill -9 {POINTS[name]}")
    def act(at: Scene) -> str:
        if name in _ONCE_A_RUN:
            # The first run is killed where the second has something to take over.
            at.begin("", f"{name}=kill")
            at.pause(0.2, 1.5)
            at.worker.kill()
            at.wait_exit(-signal.SIGKILL, runs=2)
        else:
            most = 1 if name in _FIRST else 12
            if name.startswith("decode."):
                # The variable is the worker's own; decoders that are processes do not have it.
                at.decoders = 0
            at.load.start()
            at.start(f"{name}=kill@{at.rng.randint(1, most)}")
            at.wait_exit(-signal.SIGKILL)
        return f"recovered in {at.wait_recovered():.1f} s"


for _name in [*_ONCE_A_RUN, *_STEADY]:
    _killed_at(_name)


@fault("kill.random", "kill -9 at random moments, during startup too")
def kill_random(at: Scene) -> str:
    at.begin()
    for n in range(6):
        if n % 2:
            at.wait_running()
        at.pause(0.1, 3.0)
        at.worker.kill()
        at.wait(partial(_started_again, at, n), "is not started again")
    return f"6 times; recovered in {at.wait_recovered():.1f} s"


def _started_again(at: Scene, ends: int) -> bool:
    return len(at.worker.exits) > ends and at.worker.alive


@fault("kill.decoder", "kill -9 of a decoder process")
def kill_decoder(at: Scene) -> str:
    from tests.crash.processes import children_of, kill_all

    at.decoders = 2
    at.begin()
    killed = kill_all(children_of(at.worker.pid, "app.worker.pipeline.decoders.child")[:1])
    assert killed == 1
    error = at.wait_state("RETRYING", "RUNNING")
    return f"{error or 'a new run'}; recovered in {at.wait_recovered():.1f} s"


@fault("term.begun", "kill -9 during an orderly stop")
def term_killed(at: Scene) -> str:
    at.begin("stop.begun=kill")
    at.pause(0.5, 1.5)
    at.worker.signal(signal.SIGTERM)
    at.wait_exit(-signal.SIGKILL)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("term", "SIGTERM under load")
def term(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    began = time.monotonic()
    at.worker.signal(signal.SIGTERM)
    at.wait_exit(0)
    took = time.monotonic() - began
    return f"ended with 0 in {took:.1f} s; recovered in {at.wait_recovered():.1f} s"


@fault("frozen.short", "SIGSTOP of the worker for 4 s, longer than MySQL's heartbeat interval")
def frozen_short(at: Scene) -> str:
    at.begin()
    _freeze(at, 4)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("frozen.long", "SIGSTOP of the worker for 20 s, longer than its transaction timeout")
def frozen_long(at: Scene) -> str:
    at.begin()
    _freeze(at, 20)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("stalled", "the worker's event loop is blocked for 20 s within a transaction")
def stalled(at: Scene) -> str:
    at.begin(f"commit.before=stall@{at.rng.randint(20, 40)}:20")
    at.pause(5, 6)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("raise", "unexpected exceptions in the reader and while publishing")
def raised(at: Scene) -> str:
    points = ("read.chunk", "handoff.taken", "commit.before")
    at.begin(*(f"{name}=raise@{at.rng.randint(5, 20)}" for name in points))
    at.pause(6, 8)
    return f"{len(at.worker.exits)} new processes; recovered in {at.wait_recovered():.1f} s"


@fault(
    "two.take-over",
    "a second worker is started while the first is running; then the first is killed",
)
def take_over(at: Scene) -> str:
    first = at.begin()
    second = at.start()
    at.wait(lambda: at.state(second) == "FENCED", "the second is not FENCED")
    assert "AnotherWorkerLeads" in str(at.status(second).get("error"))
    at.wait_recovered(first)
    first.again = False
    first.kill()
    took = at.wait_recovered(second)
    _leave(at, first)
    return f"the second FENCED while the first lived, then recovered in {took:.1f} s"


@fault("two.zombie", "a second worker takes over from a frozen one, which then resumes")
def zombie(at: Scene) -> str:
    first = at.begin()
    first.signal(signal.SIGSTOP)
    second = at.start()
    at.wait_running(second)
    at.wait_recovered(second)
    first.signal(signal.SIGCONT)
    at.wait(lambda: at.state(first) == "FENCED", "the one that was frozen leads again")
    _leave(at, first)
    took = at.wait_recovered()
    # That nothing of the old epoch follows the new one is the verdict's to see.
    return f"the frozen worker FENCED, the other recovered in {took:.1f} s"


def _leave(at: Scene, first: Keeper) -> None:
    """The one that does not lead any more ends, and all else is asked of the other."""
    first.stop()
    at.workers.remove(first)


def _freeze(at: Scene, seconds: float) -> None:
    at.worker.signal(signal.SIGSTOP)
    time.sleep(seconds)
    at.worker.signal(signal.SIGCONT)
