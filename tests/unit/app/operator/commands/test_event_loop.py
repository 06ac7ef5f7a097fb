"""The event loop of commands: its result, and its end on an interrupt."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from app.__main__ import INTERRUPTED
from app.operator.commands.event_loop import run_operation
from connectors.errors import UsageError

BLOCKED = """
import sys, time
from app import __main__ as program
from app.operator.commands.event_loop import run_operation
from app.worker.destination.background import in_its_own_thread

def work():
    print("at work", flush=True)
    time.sleep(60)

class Blocked:
    def configure(self, parser): pass
    def run(self, options): return run_operation(in_its_own_thread(work))

program.command = lambda group, name: Blocked()
sys.exit(program.main(["cursor", "show"]))
"""


def test_an_operations_value_is_returned() -> None:
    async def operation() -> int:
        return 7

    assert run_operation(operation()) == 7


def test_an_operations_error_is_raised() -> None:
    async def operation() -> None:
        raise UsageError("so")

    with pytest.raises(UsageError, match="so"):
        run_operation(operation())


def test_an_interrupt_ends_an_operation_that_waits_for_a_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (INTERRUPTED, "")
