"""Faults of subscribers: a stopped one slows neither the others nor the worker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from devstack.processes import parse_stat
from spark_sink.text.quoting import LOG
from tests.crash.scenario import fault
from tests.crash.scene import Scene
from tests.crash.warehouse import order_of, wait_for_sink

_SLOW = 10.0
"""Seconds within which the other readers have all records, on a busy machine."""
_FAR = 300
_SPARK_STARTS = 240.0
"""Seconds within which a sink has applied its first batches, on such a machine."""

_AT_EASE = 4.0
"""The factor by which the load is slowed, so that batches do not grow."""


@fault("subscriber.stopped", "SIGSTOP of one of two subscribers for 15 s, while reading")
def stopped(at: Scene) -> str:
    at.begin()
    with _reading(at, "one") as one, _reading(at, "other") as other:
        at.wait(lambda: min(_last(one[1]), _last(other[1])) > 0, "is not read")
        one[0].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        halted = _last(one[1])
        longest = _longest_lag(at, other[1])
        ahead = _last(other[1]) - halted
        assert _last(one[1]) == halted
        assert ahead > _FAR, f"the other one is only {ahead} ahead"
        one[0].send_signal(signal.SIGCONT)
        at.load.hold()
        at.wait_recovered()
        due = {row.record.seq for row in at.topics().rows}
        for _, path in (one, other):
            at.wait(lambda: _numbers(path) == due, "does not catch up")  # noqa: B023 - waited for
        at.load.proceed()
    return f"the other kept reading, with a lag of at most {longest:.1f} s; the stopped one read all of it"


@fault("sink.stopped", "SIGSTOP of the Spark sink for 15 s, during its batches")
def sink_stopped(at: Scene) -> str:
    at.begin()
    with at.load.slower(_AT_EASE), _sinking(at) as sink, _reading(at, "other") as other:
        _wait_batches(at, 2)
        at.wait(lambda: _last(other[1]) > 0, "is not read")
        os.killpg(sink.pid, signal.SIGSTOP)
        time.sleep(0.5)
        batches = _batches(at)
        longest = _longest_lag(at, other[1])
        assert parse_stat(Path(f"/proc/{sink.pid}/stat").read_text())[0] == "T"
        assert _batches(at) == batches, "the sink was not stopped"
        os.killpg(sink.pid, signal.SIGCONT)
        _wait_batches(at, 1)
        sink.send_signal(signal.SIGTERM)
        assert sink.wait(60) == 0
    return f"the other readers lagged at most {longest:.1f} s; the sink recovered by itself"


@fault("sink.killed", "kill -9 of the Spark sink during its batches, three times")
def sink_killed(at: Scene) -> str:
    at.begin()
    before = 0
    for _ in range(3):
        with at.load.slower(_AT_EASE), _sinking(at) as sink:
            _wait_batches(at, 1)
            at.pause(0.1, 4)
            os.killpg(sink.pid, signal.SIGKILL)
            before = _batches(at)
    assert before >= 3
    return f"{before} batches in three runs; the worker recovered in {at.wait_recovered():.1f} s"


def _longest_lag(at: Scene, path: Path, seconds: float = 15) -> float:
    """The longest lag of worker and subscriber after the source, over some time."""
    longest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        mark, began = int(at.cursor()["seq"]), time.monotonic()
        at.wait_recovered()
        at.wait(lambda: _last(path) >= mark, "is held up")  # noqa: B023 - waited for
        longest = max(longest, time.monotonic() - began)
    assert longest < _SLOW, f"the one that was not stopped lagged by {longest:.1f} s"
    return longest


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


@contextlib.contextmanager
def _sinking(at: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """The sink as its command runs it, on the warehouse that the verdict compares; a group of its own."""
    wait_for_sink(at)
    order = order_of(at)
    config = at.folder / "sink.yaml"
    own = {
        "prefix": order.prefix,
        "bootstrap_servers": order.bootstrap,
        "warehouse": order.warehouse,
        "metrics": {"port": 0},
    }
    config.write_text(yaml.safe_dump(own))
    command = [sys.executable, "-m", "spark_sink", "--config", str(config)]
    with (at.folder / "sink.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_batches(at: Scene, more: int) -> None:
    """Wait until the sink has applied so many batches more."""
    least = _batches(at) + more
    at.wait(lambda: _batches(at) >= least, "is not applied by the sink", seconds=_SPARK_STARTS)


def _batches(at: Scene) -> int:
    """The number of files of the sink's log, of which each batch adds one."""
    return len(list((at.folder / "warehouse" / LOG).glob("*.json")))


def _numbers(path: Path) -> set[int]:
    """The records that a subscriber has read; some twice, if its group expelled it meanwhile."""
    lines = path.read_text().split("\n") if path.exists() else [""]
    return {int(line) for line in lines[:-1]}


def _last(path: Path) -> int:
    return max(_numbers(path), default=0)
