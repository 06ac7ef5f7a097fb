"""Session of a benchmark: one at a time, in its own folders, which ends all that it started.

Invariant: no process survives Ctrl-C, a termination signal or kill -9; the kernel ends them in the
last case, see `devstack/processes.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator

import pymysql
from aiokafka.errors import KafkaError

from bench.errors import BenchError
from devstack.errors import DevstackError
from devstack.paths import RUNS

FOLDER = RUNS / "bench"
RESULTS = FOLDER / "results"
RUN_FOLDERS = FOLDER / "runs"
"""Settings and logs of each run of the last benchmark."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(name: str, story: Callable[[], None]) -> int:
    """Run a benchmark; return its exit code."""
    for number in _SIGNALS:
        signal.signal(number, _interrupted)
    try:
        with _only_one():
            shutil.rmtree(RUN_FOLDERS, ignore_errors=True)
            story()
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted; all that it started has ended\n")
        return 130
    except (BenchError, DevstackError) as error:
        sys.stderr.write(f"{name}: failed: {error}\n")
        return 1
    except (pymysql.MySQLError, KafkaError, OSError) as error:
        error_text = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"{name}: failed: {error_text}\n  what to do: read the logs in {FOLDER}\n")
        return 1
    return 0


def _interrupted(*_: object) -> None:
    """Shut down; further signals must not interrupt the shutdown."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError("another benchmark is running; wait for it, or end it") from None
        yield


def pairs_wanted(default: int) -> int:
    """The number of paired runs, from RUNS; raise BenchError."""
    text = os.environ.get("RUNS") or str(default)
    if not text.isdecimal() or not int(text):
        raise BenchError(f"RUNS is {text!r}; give the number of paired runs, such as {default}")
    return int(text)
