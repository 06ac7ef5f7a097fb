"""Text of one line, whatever a name in it contains; times and tracebacks as text.

Invariant: a traceback keeps its frames, causes and groups. Only messages and notes are escaped, so that none
begins a line or controls a terminal.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def printed(value: object) -> str:
    """A value within a line of text, with characters that are not printable escaped.

    So no name can end a line, move a terminal's cursor, or reverse the direction of the text.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def utc(ms: int) -> str:
    """A time (ms since 1970) in UTC: 2026-11-22T15:02:11.123Z."""
    return _utc(ms, "milliseconds")


def utc_seconds(ms: int) -> str:
    """A time (ms since 1970) in UTC, in whole seconds: 2026-11-22T15:02:11Z."""
    return _utc(ms, "seconds")


def _utc(ms: int, timespec: str) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=timespec)
    return text.replace("+00:00", "Z")


def traceback_text(error: BaseException, escaped: type[BaseException] | tuple[()] = ()) -> str:
    """The whole traceback, without a line end at its end.

    ``escaped`` is the class of errors that escape their messages themselves: these messages keep their lines.
    """
    return "".join(_parts(error, escaped, set())).rstrip("\n")


def _parts(
    error: BaseException, escaped: type[BaseException] | tuple[()], seen: set[int]
) -> Iterator[str]:
    seen.add(id(error))
    before, how = error.__cause__, _CAUSE
    if before is None and not error.__suppress_context__:
        before, how = error.__context__, _CONTEXT
    if before is not None and id(before) not in seen:
        yield from _parts(before, escaped, seen)
        yield how
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    first, *notes = traceback.format_exception_only(error)
    yield first if isinstance(error, escaped) else _line(first)
    yield from (f"  {_line(note)}" for note in notes)
    if isinstance(error, BaseExceptionGroup):
        for number, each in enumerate(error.exceptions, start=1):
            if id(each) not in seen:
                yield f"Of this group, {number} of {len(error.exceptions)}:\n"
                yield from _parts(each, escaped, seen)


def _line(text: str) -> str:
    return printed(text.removesuffix("\n")) + "\n"
