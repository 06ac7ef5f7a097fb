import os
import signal
from pathlib import Path

import pytest

from demo import lifetime
from demo.errors import Interrupted
from demo.lifetime import AlreadyRunning, Signals


def test_a_second_demo_is_refused_and_told_which_one_runs(tmp_path: Path) -> None:
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
