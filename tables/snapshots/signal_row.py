"""A row of the signal table, as users of Debezium write it, and the requests that it makes.

Invariant: a row that cannot be understood makes no request, and stops nothing; why is returned.
Source: Debezium's documentation of signalling: columns id, type and data, the latter JSON with
``data-collections`` (regular expressions of ``database.table``) and ``additional-conditions``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tables.snapshots.request import SnapshotAction, SnapshotRequest
from tables.snapshots.table_snapshot import Name, SnapshotState, TableSnapshot

_ACTIONS = {
    "execute-snapshot": SnapshotAction.START,
    "pause-snapshot": SnapshotAction.PAUSE,
    "resume-snapshot": SnapshotAction.RESUME,
    "stop-snapshot": SnapshotAction.STOP,
}
_OPEN = (SnapshotState.WAITING, SnapshotState.READING, SnapshotState.PAUSED)


class SignalRefused(Exception):
    """Why a row makes no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A row's meaning."""

    id: str
    action: SnapshotAction
    patterns: tuple[str, ...] = ()
    """Regular expressions of tables; none: all."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions in SQL on rows, by an expression of tables."""

    def concerns(self, name: Name) -> bool:
        """Whether a table is among those of the row."""
        return not self.patterns or any(_matches(one, name) for one in self.patterns)

    def where(self, name: Name) -> str | None:
        """The condition on a table's rows."""
        return next((text for one, text in self.conditions.items() if _matches(one, name)), None)


def signal_in(row: str) -> Signal | None:
    """The meaning of a row as a JSON object; None for a signal of another kind. Raises SignalRefused."""
    values: dict[str, Any] = {str(name).lower(): value for name, value in json.loads(row).items()}
    kind = values.get("type")
    if not isinstance(kind, str):
        raise SignalRefused("it has no column type with a text")
    action = _ACTIONS.get(kind)
    if action is None:
        return None
    try:
        data = json.loads(values.get("data") or "{}")
        patterns = tuple(data.get("data-collections") or ())
        conditions = {
            str(one["data-collection"]): str(one["filter"])
            for one in data.get("additional-conditions") or ()
        }
        for one in (*patterns, *conditions):
            re.compile(one)
    except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
        raise SignalRefused(f"its data cannot be read: {error!r}") from None
    if action is SnapshotAction.START and not patterns:
        raise SignalRefused("its data names no data-collections")
    return Signal(id=str(values.get("id")), action=action, patterns=patterns, conditions=conditions)


def requests_of(
    signal: Signal,
    destination: str,
    *,
    captured: Callable[[], Iterable[Name]],
    snapshots: Mapping[Name, TableSnapshot],
    name: str,
    now_ms: int,
) -> Iterator[SnapshotRequest]:
    """The requests on the tables that a signal concerns; ``name``: the id of all.

    A start concerns those of ``captured`` that are not being read, and the others those that are or may be.
    """
    if signal.action is SnapshotAction.START:
        tables = [one for one in captured() if not _is_open(snapshots.get(one))]
    else:
        tables = [table for table, one in snapshots.items() if _is_open(one)]
    for table in sorted(tables):
        if signal.concerns(table):
            yield SnapshotRequest(
                destination=destination,
                database=table[0],
                table=table[1],
                id=name,
                action=signal.action,
                where=signal.where(table) if signal.action is SnapshotAction.START else None,
                by=f"signal {signal.id}",
                ts_ms=now_ms,
            )


def _is_open(snapshot: TableSnapshot | None) -> bool:
    return snapshot is not None and snapshot.state in _OPEN


def _matches(pattern: str, name: Name) -> bool:
    return re.fullmatch(pattern, ".".join(name)) is not None
