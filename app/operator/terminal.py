"""The operator at the command line: answers, confirmation of irreversible changes, the loop of a coroutine.

Invariant: nothing is changed before the operator has agreed, by an option or by typing the name of what is
changed. Standard output has the answer only, as text for operators or as JSON for programs, both with the same
content. Times are UTC. An item of text is one line, whatever a name contains; JSON, and statements to be run,
contain names as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import orjson

from connectors.errors import AqueductError, NotConfirmed
from connectors.mysql.server.connection import SourceAddress
from wire.text import printed


def ask_for_name(name: str, effect: str, *, remedy: str = "", **context: str) -> None:
    """Show the effect and return if the operator types the name; otherwise raise NotConfirmed."""
    if not sys.stdin.isatty():
        raise NotConfirmed(effect, remedy=remedy, **context)
    sys.stderr.write(f"{printed(effect)}.\nType {name!r} to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise NotConfirmed(effect, remedy=remedy, **context)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the reason, and the confirmation of the cost."""
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    parser.add_argument(
        "--yes-lose-changes", action="store_true", help="do not ask for confirmation"
    )


def confirm(options: argparse.Namespace, effect: str) -> None:
    """Return if the operator confirms; otherwise raise NotConfirmed."""
    if not options.yes_lose_changes:
        ask_for_name(options.destination, effect, destination=options.destination)


def operator() -> str:
    """Return the calling user, for the record."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"


def report_unreachable(
    address: SourceAddress, error: AqueductError, instead: SourceAddress
) -> None:
    """Report a source that does not answer, and the source that is asked instead."""
    why = printed(error.detail)
    sys.stderr.write(f"{address} does not answer, asking {instead} instead: {why}\n")


_JSON = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def print_answer(form: str, value: Any, lines: Iterable[str]) -> None:
    """Print an answer in the requested format."""
    if form == "json":
        text = orjson.dumps(value, option=_JSON).decode()
    else:
        text = "".join(f"{printed(line).rstrip()}\n" for line in lines)
    sys.stdout.write(text)


def aligned_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows below their headings; the last column has no fixed width."""
    table = [list(head), *([printed(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(head) - 1)]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in table]


def shortened(text: str, most: int = 120) -> str:
    """Return a statement shortened to a line of a list."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


# The event loop of commands: nothing else runs one. An operation runs to its end and returns what a
# command prints; no question is asked while it runs.

T = TypeVar("T")

_LONGEST_WAIT = 1.0
"""The seconds after which the loop looks for an interrupt, whatever it waits for."""


def run_operation(operation: Coroutine[Any, Any, T]) -> T:
    """Return an operation's result, or raise its error."""
    return asyncio.run(_interruptible(operation))


async def _interruptible(operation: Coroutine[Any, Any, T]) -> T:
    _wake(asyncio.get_running_loop())
    return await operation


def _wake(loop: asyncio.AbstractEventLoop) -> None:
    # `asyncio.run` sets no file descriptor for signals. An interrupt that another thread takes, or
    # that comes just before the loop's wait, would be seen only when that wait ends by itself.
    loop.call_later(_LONGEST_WAIT, _wake, loop)
