import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo import lifetime
from demo.errors import Interrupted
from demo.lifetime import AlreadyRunning, Signals


def test_a_second_demo_is_refused_and_shown_which_one_runs(tmp_path: Path) -> None:
    lock = tmp_path / "demo.lock"
    refused = pytest.raises(AlreadyRunning, match=f"process {os.getpid()};")
    with lifetime.only_demo(lock), refused, lifetime.only_demo(lock):
        pass


def test_the_lock_is_free_once_the_demo_has_ended(tmp_path: Path) -> None:
    lock = tmp_path / "demo.lock"
    for _ in range(2):
        with lifetime.only_demo(lock):
            pass
    assert lifetime.stop(lock) == "no demo is running"


def test_only_the_first_request_to_end_interrupts() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Signals():
            with pytest.raises(Interrupted):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_HOLDS_THE_LOCK = """
import signal, sys
from pathlib import Path
from demo import lifetime
with lifetime.only_demo(Path(sys.argv[1])), lifetime.Signals():
    print("held", flush=True)
    signal.pause()
"""


def test_a_demo_that_runs_is_ended_from_elsewhere(tmp_path: Path) -> None:
    lock = tmp_path / "demo.lock"
    command = [sys.executable, "-c", _HOLDS_THE_LOCK, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == b"held\n"
        completed = lifetime.stop(lock)
        assert demo.wait() != 0
    assert completed == f"the demo, process {demo.pid}, has ended with all that it started"
    assert lifetime.stop(lock) == "no demo is running"
