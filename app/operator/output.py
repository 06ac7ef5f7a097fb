"""The output of commands: text for operators, JSON for programs, both with the same content.

Invariant: standard output has the answer only. Times are UTC. An item of text is one line, whatever a name
contains; JSON, and statements to be run, contain names as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from wire.text import printed, utc

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


def time_text(ts_ms: int) -> str:
    """Return a time of the source's clock as text."""
    return utc(ts_ms)


def shortened(text: str, most: int = 120) -> str:
    """Return a statement shortened to a line of a list."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"
