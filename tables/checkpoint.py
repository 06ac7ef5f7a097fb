"""The journal's checkpoint on every worker: where to begin reading it again.

The law: a checkpoint only ever shortens the way. What it says is folded with the journal's tail, checked for
being whole, and thrown away where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

from connectors.kafka.reading import StoredRecord
from tables import journal
from tables.journal import DestinationState


class Checkpoint(Protocol):
    """Rows of the journal by key, each with the offset it is from; a Faust table or a dict."""

    @property
    def rows(self) -> Mapping[str, dict[str, Any]]:
        """Each row is ``{"offset": int, "value": str}``; empty while it is being recovered."""
        ...


class MemoryCheckpoint:
    """The in-memory twin of the Faust tables."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    @property
    def rows(self) -> MutableMapping[str, dict[str, Any]]:
        """See Checkpoint."""
        return self._rows


def row_of(record: StoredRecord) -> tuple[str, dict[str, Any]]:
    """A journal record as a checkpoint's row."""
    return record.key.decode(), {"offset": record.offset, "value": record.value.decode()}


def newer(row: dict[str, Any], known: dict[str, Any] | None) -> bool:
    """Whether a row should take the place of the one that is known; a replay must not turn it back."""
    return known is None or bool(row["offset"] > known["offset"])


def records_of(destination: str, checkpoint: Checkpoint) -> list[StoredRecord]:
    """The checkpoint's records of one destination, in the journal's order."""
    mine = journal.cursor_key(destination).decode(), f"schema/{journal.quoted(destination)}/"
    rows = [
        StoredRecord(key.encode(), row["value"].encode(), row["offset"])
        for key, row in checkpoint.rows.items()
        if key == mine[0] or key.startswith(mine[1])
    ]
    return sorted(rows, key=lambda record: record.offset)


def resume_from(destination: str, checkpoint: Checkpoint) -> tuple[DestinationState, int]:
    """The state a checkpoint holds, and the journal offset from which to fold on; (empty, 0) without one."""
    records = records_of(destination, checkpoint)
    state = journal.fold(destination, records)
    if state.cursor is None or not state.is_whole():
        return DestinationState(destination), 0
    return state, records[-1].offset + 1
