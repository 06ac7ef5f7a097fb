"""An error's traceback as text for a log, in which no error's message begins a line or controls a terminal.

Invariant: frames, causes and groups stay; only messages and notes are escaped.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from spark_sink.wire.printable import printed

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def traceback_text(error: BaseException) -> str:
    """The whole of it, without a line end at its end."""
    return "".join(_parts(error, set())).rstrip("\n")


def _parts(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before, how = error.__cause__, _CAUSE
    if before is None and not error.__suppress_context__:
        before, how = error.__context__, _CONTEXT
    if before is not None and id(before) not in seen:
        yield from _parts(before, seen)
        yield how
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    first, *notes = traceback.format_exception_only(error)
    yield _line(first)
    yield from (f"  {_line(note)}" for note in notes)
    if isinstance(error, BaseExceptionGroup):
        for number, each in enumerate(error.exceptions, start=1):
            if id(each) not in seen:
                yield f"Of this group, {number} of {len(error.exceptions)}:\n"
                yield from _parts(each, seen)


def _line(text: str) -> str:
    return printed(text.removesuffix("\n")) + "\n"
