"""What happens to those who read: one that stands still slows neither the others nor the worker."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.crash.scenario import fault
from tests.crash.scene import Scene

_SLOW = 10.0
"""Seconds within which whoever is not stopped has what was there, on a machine that does much else."""
_FAR = 300


@fault("subscriber.stopped", "SIGSTOP of one of two subscribers for 15 s, in the midst of reading")
def stopped(at: Scene) -> str:
    at.begin()
    with _reading(at, "one") as one, _reading(at, "other") as other:
        at.wait(lambda: min(_last(one[1]), _last(other[1])) > 0, "is not read")
        one[0].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        halted, longest = _last(one[1]), 0.0
        until = time.monotonic() + 15
        while time.monotonic() < until:
            mark, began = int(at.cursor()["seq"]), time.monotonic()
            at.wait_going_on()
            at.wait(lambda: _last(other[1]) >= mark, "is held up")  # noqa: B023 - waited for
            longest = max(longest, time.monotonic() - began)
        ahead = _last(other[1]) - halted
        assert _last(one[1]) == halted
        assert ahead > _FAR, f"the other one is only {ahead} ahead"
        assert longest < _SLOW, f"the other one was {longest:.1f} s behind"
        one[0].send_signal(signal.SIGCONT)
        at.settle()
        due = {row.record.seq for row in at.topics().rows}
        for _, path in (one, other):
            at.wait(lambda: _numbers(path) == due, "does not catch up")  # noqa: B023 - waited for
    return f"the other read on, at most {longest:.1f} s behind; who was stopped has all of it"


@contextlib.contextmanager
def _reading(at: Scene, name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    path = at.folder / f"subscriber-{at.rng.randrange(10**6)}-{name}"
    command = [sys.executable, "-m", "tests.crash.subscriber", at.servers.kafka, at.prefix]
    process = subprocess.Popen([*command, str(path)], stderr=subprocess.DEVNULL)
    try:
        yield process, path
    finally:
        process.kill()
        process.wait()


def _numbers(path: Path) -> set[int]:
    """What a subscriber has read; again, where its group took it for dead meanwhile."""
    lines = path.read_text().split("\n") if path.exists() else [""]
    return {int(line) for line in lines[:-1]}


def _last(path: Path) -> int:
    return max(_numbers(path), default=0)
