"""Faults of the workers' clocks."""

from __future__ import annotations

import sys

from devstack.programs import ARGUMENTS, WORKER
from tests.crash.both import PAST, Both
from tests.crash.clock import put
from tests.crash.scenario import fault
from tests.crash.scene import Scene

_OFF = (600, -600, 3600, -3600, 0)
"""Seconds."""


@fault(
    "clock.jumps",
    "both workers' clocks jump by ten minutes and by an hour, forwards and backwards, under load",
)
def jumps(at: Scene) -> str:
    result = at.folder / "clock"
    put(result, 0)
    at.command = (sys.executable, "-m", "tests.crash.clock", str(result), *ARGUMENTS)
    try:
        with Both.begun(at) as both:
            for seconds in _OFF:
                put(result, seconds)
                at.wait_recovered(both.leader)
                # So is the lag that it shows, which is never below zero; nothing else goes by the clock.
                low, high = (seconds, 2 * seconds) if seconds > 0 else (0, PAST)
                at.wait(lambda: low <= _lag(both) <= high, "shows no such lag")  # noqa: B023 - waited for
                at.pause(1, 2)
            at.pause(PAST, PAST + 1)
            took = at.wait_recovered(both.leader)
            assert both.epoch_of(both.leader) == both.epoch, (
                "the leader did not continue in its epoch"
            )
            return f"recovered in {took:.1f} s; {both.at_rest()}"
    finally:
        at.command = WORKER


def _lag(both: Both) -> float:
    return float(both.at.status(both.leader).get("lag_seconds") or 0)
