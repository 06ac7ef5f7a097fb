"""A question before what cannot be undone."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.__main__ import INTERRUPTED
from app.operator.terminal import ask_for_name, run_operation
from connectors.errors import NotConfirmed, UsageError


class Terminal(io.StringIO):
    """Standard input with an operator at it."""

    def isatty(self) -> bool:
        return True


def test_the_name_itself_confirms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("mails\n"))
    ask_for_name("mails", "the group mails moves", group="mails")
    assert capsys.readouterr().err == "the group mails moves.\nType 'mails' to continue: "


@pytest.mark.parametrize("typed", ["mail\n", "y\n", "\n", ""])
def test_nothing_else_confirms(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(NotConfirmed, match="the group mails moves"):
        ask_for_name("mails", "the group mails moves", group="mails")


def test_without_a_terminal_the_option_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("mails\n"))
    with pytest.raises(NotConfirmed) as caught:
        ask_for_name("mails", "it moves", remedy="Add --yes.", group="mails")
    assert caught.value.advice == "Add --yes."


BLOCKED = """
import signal, sys, threading, time
from app import __main__ as program
from app.operator.terminal import run_operation
from app.worker.destination.background import in_its_own_thread

def work():
    print("at work", flush=True)
    if sys.argv[1:] == ["another thread"]:
        # The event loop waits by then, and the signal does not end its wait.
        time.sleep(1.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(600)

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


@contextlib.contextmanager
def blocked(*options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            yield process
        finally:
            process.kill()


def test_an_interrupt_ends_an_operation_that_waits_for_a_server() -> None:
    with blocked() as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=50)
        assert (process.returncode, errors) == (INTERRUPTED, "")


def test_an_interrupt_that_another_thread_takes_ends_it_too() -> None:
    with blocked("another thread") as process:
        _, errors = process.communicate(timeout=50)
        assert (process.returncode, errors) == (INTERRUPTED, "")
