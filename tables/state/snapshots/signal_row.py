"""A row of the signal table, as users of Debezium write it, and the requests that it makes.

Invariant: a row that cannot be understood makes no request, and stops nothing; SignalRefused states the reason,
without values of the row. An account that may write rows can neither keep the worker or the server busy nor
read rows of other tables: tables are matched by ``table_pattern``, and conditions are those of row filters.
Source: Debezium's documentation of signalling: columns id, type and data, the latter JSON with
``data-collections`` (regular expressions of ``database.table``) and ``additional-conditions``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tables.rules.mapping.row_filter import ALLOWED, parsed
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.snapshot_progress import Name, TableSnapshot

_ACTIONS = {
    "execute-snapshot": SnapshotAction.START,
    "pause-snapshot": SnapshotAction.PAUSE,
    "resume-snapshot": SnapshotAction.RESUME,
    "stop-snapshot": SnapshotAction.STOP,
}
_LONGEST = 2000
"""The limit of all expressions and conditions of a row together, in characters."""


class SignalRefused(Exception):
    """Why a row makes no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A row's meaning."""

    action: SnapshotAction
    patterns: tuple[re.Pattern[str], ...] = ()
    """Expressions of tables; empty: all tables."""
    conditions: Mapping[re.Pattern[str], str] = field(default_factory=dict)
    """Conditions in SQL on rows, by an expression of tables."""

    def concerns(self, name: Name) -> bool:
        """Whether the row concerns a table."""
        return not self.patterns or any(_matches(one, name) for one in self.patterns)

    def where(self, name: Name) -> str | None:
        """The condition on a table's rows."""
        return next((text for one, text in self.conditions.items() if _matches(one, name)), None)


def signal_in(row: str) -> Signal | None:
    """The meaning of a row as a JSON object; None for a signal of another kind. Raise SignalRefused."""
    values: dict[str, Any] = {str(name).lower(): value for name, value in json.loads(row).items()}
    kind = values.get("type")
    if not isinstance(kind, str):
        raise SignalRefused("it has no column type with a text")
    action = _ACTIONS.get(kind)
    if action is None:
        return None
    tables, filters = _data(values.get("data") or "{}")
    try:
        patterns = tuple(map(table_pattern, tables))
        names = [table_pattern(table) for table, _ in filters]
    except ValueError as error:
        raise SignalRefused(f"of its data, {error}") from None
    try:
        conditions = dict(zip(names, (_condition(text) for _, text in filters), strict=True))
    except (ValueError, RecursionError):
        # The original error has the text.
        raise SignalRefused(f"a filter in its data is not one of {ALLOWED}") from None
    if action is SnapshotAction.START and not patterns:
        raise SignalRefused("its data names no data-collections")
    return Signal(action=action, patterns=patterns, conditions=conditions)


def _data(text: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """The expressions of tables, and each condition with its expression. Raise SignalRefused."""
    try:
        data = json.loads(text)
        tables = data.get("data-collections") or []
        conditions = [
            (one["data-collection"], one["filter"])
            for one in data.get("additional-conditions") or []
        ]
        texts = [*tables, *(part for both in conditions for part in both)]
        is_fit = isinstance(tables, list) and all(isinstance(one, str) for one in texts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SignalRefused(f"its data cannot be read ({type(error).__name__})") from None
    if not is_fit:
        raise SignalRefused("its data cannot be read (other values than texts)")
    if sum(map(len, texts)) > _LONGEST:
        raise SignalRefused(f"its data has more than {_LONGEST} characters")
    return tables, conditions


def _condition(text: str) -> str:
    """A condition as it is requested: without comments, since MySQL executes some comments."""
    return parsed(text).sql(dialect="mysql", comments=False)


def requests_of(
    signal: Signal,
    destination: str,
    *,
    captured: Callable[[], Iterable[Name]],
    snapshots: Mapping[Name, TableSnapshot],
    started: Collection[Name],
    name: str,
    by: str,
    now_ms: int,
) -> Iterator[SnapshotRequest]:
    """The requests on the tables that a signal concerns; ``name``: the id of all requests; ``by``: who
    made them, in a text that may be logged.

    A start concerns captured tables whose reading is not open. Other actions concern tables whose reading is
    open: it waits, runs or is paused. ``started``: tables whose last request is a start that was not applied
    yet. Their reading is open, but is only stopped, since a pause would be in place of the start.
    """
    read = {table for table, one in snapshots.items() if one.is_open}
    if signal.action is SnapshotAction.START:
        tables = {*captured()} - read.union(started)
    elif signal.action is SnapshotAction.STOP:
        tables = read.union(started)
    else:
        tables = read.difference(started)
    for table in sorted(tables):
        if signal.concerns(table):
            yield SnapshotRequest(
                destination=destination,
                database=table[0],
                table=table[1],
                id=name,
                action=signal.action,
                where=signal.where(table) if signal.action is SnapshotAction.START else None,
                by=by,
                ts_ms=now_ms,
            )


def left_out(
    signal: Signal, *, snapshots: Mapping[Name, TableSnapshot], started: Collection[Name]
) -> dict[str, list[Name]]:
    """The tables that a signal concerns without a request for them, in order, by what is so of them.

    These are those of which ``requests_of`` would have to replace another request or a reading that is open. An
    action that would leave a table as it is, such as the pause of a paused one, leaves out none.
    """
    found: dict[str, list[Name]] = {}
    for table in sorted({*snapshots, *started}):
        if not signal.concerns(table):
            continue
        one, is_start = snapshots.get(table), signal.action is SnapshotAction.START
        if table in started:
            why = {SnapshotAction.START: _STARTED, SnapshotAction.PAUSE: _NOT_BEGUN}.get(
                signal.action
            )
        elif is_start and one is not None and one.is_open:
            why = _BEING_READ if one.is_pending else _PAUSED
        else:
            why = None
        if why is not None:
            found.setdefault(why, []).append(table)
    return found


_BEING_READ = "existing rows are being read already"
_STARTED = "existing rows are about to be read already"
_PAUSED = (
    "the reading of existing rows is paused, so continue it with `snapshot resume`, or end it with `snapshot "
    "stop`, first"
)
_NOT_BEGUN = "the reading of existing rows has yet to begin"


def without_table(signal: Signal, names: Collection[Name]) -> list[int]:
    """The numbers, from 1, of a signal's expressions that match none of these tables."""
    return [
        number
        for number, pattern in enumerate(signal.patterns, 1)
        if not any(_matches(pattern, name) for name in names)
    ]


def _matches(pattern: re.Pattern[str], name: Name) -> bool:
    return pattern.fullmatch(".".join(name)) is not None


# Regular expressions of tables in rows of a signal table; none of them can hold up a worker.
#
# An account that may write to the source chooses them, and Python's engine may need years for a
# short expression. So only a part of the syntax is supported; the time of a match grows at most
# with the product of the lengths.
#
# Invariant: an expression matches whole names as a regular expression does, or is refused.
# Source: the translation of `*` in Python's fnmatch, whose atomic groups never go back.


_LONGEST_PATTERN = 300
_ATOM = re.compile(
    r"(?P<one>\\[^\w\s]|\\[dw]|\.|\[\^?(?:[\w ,;:=~$%-])+\]|[^\\.\[\](){}*+?|^$])(?P<repeat>[*+]?)"
)
"""An escaped character, a digit or letter, any character, a class, or a character for itself."""
SUPPORTED = (
    "supported are names with . and .*, escapes, classes such as [0-9]+, and | between whole names"
)


def table_pattern(text: str) -> re.Pattern[str]:
    """The expression, for ``fullmatch``. Raise ValueError with what is supported."""
    if len(text) > _LONGEST_PATTERN:
        raise ValueError(f"an expression has more than {_LONGEST_PATTERN} characters")
    try:
        return re.compile("|".join(map(_bounded, text.split("|"))), re.DOTALL)
    except re.error:
        raise ValueError(f"an expression is none that is supported; {SUPPORTED}") from None


def _bounded(text: str) -> str:
    """One alternative: the text between two ``.*`` is matched where it first fits, without going back."""
    atoms = _atoms(text.removeprefix("^").removesuffix("$"))
    segments = [""]
    for number, (atom, repeat) in enumerate(atoms):
        following = atoms[number + 1] if number + 1 < len(atoms) else None
        if not repeat:
            segments[-1] += atom
        elif atom == ".":
            segments[-1] += "." if repeat == "+" else ""
            segments.append("")
        elif following is not None and following[0] == "." and following[1]:
            # The repeated ``.`` that follows matches the rest of the atom's repetitions.
            segments[-1] += atom if repeat == "+" else ""
        elif not any(_overlap(atom, one) for one in _next(atoms[number + 1 :])):
            segments[-1] += f"{atom}{repeat}+"
        else:
            raise ValueError(f"{atom}{repeat} may match what follows it; {SUPPORTED}")
    first, *rest = segments
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>.*?{one})" for one in inner if one) + f".*{last}"


def _atoms(text: str) -> list[tuple[str, str]]:
    """Each atom with its repeat, which may be empty."""
    found, at = [], 0
    while at < len(text):
        match = _ATOM.match(text, at)
        if match is None:
            raise ValueError(f"character {at + 1} of an expression is not supported; {SUPPORTED}")
        found.append((match["one"], match["repeat"]))
        at = match.end()
    return found


def _next(atoms: list[tuple[str, str]]) -> Iterator[str]:
    """The atoms that may match first, since some may match nothing."""
    for atom, repeat in atoms:
        yield atom
        if repeat != "*":
            return


def _overlap(atom: str, following: str) -> bool:
    """Whether a repeated atom may match the beginning of what follows."""
    is_plain = (len(following) == 1 and following != ".") or (
        following[0] == "\\" and following[1] not in "dw"
    )
    return not is_plain or re.fullmatch(atom, following[-1]) is not None
