"""Decoders of a process that is killed or interrupted, as a terminal and a system without memory do it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.app.worker.pipeline.decoders.runs import DEADLINE, is_alive, wait_until

PROJECT = Path(__file__).parents[3]
COUNT = 3

PARENT = """
import sys, time
from app.worker.pipeline.decoders.pool import start
from tests.unit.app.worker.pipeline.decoders.stages import Counting, ordered

def fail(error):
    print("failed:", error, flush=True)

pool = start(Counting(), count=int(sys.argv[1]), state=0, deliver=lambda piece: True, fail=fail)
try:
    for number in range(len(pool.pids) * 2):
        assert pool.put(ordered(number, size=300_000, decode_fault=sys.argv[2]))
    print(*pool.pids, flush=True)
    while True:
        # Short, since the system may give the signal to another thread, and then wakes nobody.
        time.sleep(0.1)
except KeyboardInterrupt:
    pool.close()
    print("closed", flush=True)
"""


@pytest.fixture(params=["hang", "spin"])
def parent(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process whose decoders are all at work forever."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(COUNT), request.param],
        cwd=PROJECT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def decoders_of(parent: subprocess.Popen[str]) -> list[int]:
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == COUNT
    assert all(is_alive(pid) for pid in pids)
    return pids


def test_no_decoder_outlives_a_killed_parent(parent: subprocess.Popen[str]) -> None:
    pids = decoders_of(parent)
    parent.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_an_interrupt_at_the_terminal_is_the_parents_affair(parent: subprocess.Popen[str]) -> None:
    pids = decoders_of(parent)
    os.killpg(parent.pid, signal.SIGINT)
    output, _ = parent.communicate(timeout=DEADLINE)
    assert output == "closed\n"
    assert not any(is_alive(pid) for pid in pids)
