"""The journal's checkpoint on every worker: where to begin reading it again.

The law: a checkpoint only ever shortens the way. What it says is folded with the journal's tail, checked for
being whole, and thrown away where it is not. It holds cursors, table versions and the newest checkpoint of a
schema history, but none of that history's records: those behind it are read from the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

from connectors.kafka.reading import StoredRecord
from tables import journal
from tables.history_journal import HEAD
from tables.journal import DestinationState
from tables.journal_format import decoded, is_gone

Row = dict[str, Any]
"""A journal record: ``{"offset": int, "value": str}``."""

_LARGEST = 300_000
"""Bytes of a value that becomes a row. A row is written with its quotation marks and letters escaped, and Faust
sends no more than 1,000,000 bytes; what is larger is read from the journal."""
_ONLY_IN_THE_JOURNAL = ("history/", "baseline/", "resolved/")


class Checkpoint(Protocol):
    """Rows of the journal by key, each with the offset it is from; a Faust table or a dict."""

    @property
    def rows(self) -> Mapping[str, Row]:
        """Each row is ``{"offset": int, "value": str}``; empty while it is being recovered."""
        ...


class MemoryCheckpoint:
    """The in-memory twin of the Faust tables."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @property
    def rows(self) -> MutableMapping[str, Row]:
        """See Checkpoint."""
        return self._rows

    def fold(self, record: StoredRecord) -> None:
        """Take a journal record in."""
        take(self._rows, record)


def row_of(record: StoredRecord) -> tuple[str, Row]:
    """A journal record as a checkpoint's row."""
    return record.key.decode(), {"offset": record.offset, "value": record.value.decode()}


def newer(row: Row, known: Row | None) -> bool:
    """Whether a row should take the place of the one that is known; a replay must not turn it back."""
    return known is None or bool(row["offset"] > known["offset"])


def take(rows: MutableMapping[str, Row], record: StoredRecord) -> None:
    """Let a journal record become a row; what it makes needless goes."""
    key, row = row_of(record)
    if key.startswith(_ONLY_IN_THE_JOURNAL) or not newer(row, rows.get(key)):
        return
    if is_gone(record) or len(record.value) > _LARGEST:
        rows.pop(key, None)
        return
    rows[key] = row
    if key.startswith("checkpoint/") and key.endswith(f"/{HEAD}"):
        _forget_older(rows, key, parts=decoded(record)["parts"])


def _forget_older(rows: MutableMapping[str, Row], head: str, *, parts: int) -> None:
    """Remove the checkpoints before one of a schema history, if that is here with all its parts."""
    beginning, number, _ = head.rsplit("/", 2)
    if any(f"{beginning}/{number}/{part}" not in rows for part in range(parts)):
        return
    for key in list(rows):
        if key.startswith(f"{beginning}/") and int(key.rsplit("/", 2)[1]) < int(number):
            del rows[key]


def records_of(destination: str, checkpoint: Checkpoint) -> list[StoredRecord]:
    """The checkpoint's records of one destination, in the journal's order."""
    cursor, others = journal.cursor_key(destination).decode(), journal.quoted(destination)
    rows = [
        StoredRecord(key.encode(), row["value"].encode(), row["offset"])
        for key, row in checkpoint.rows.items()
        if key == cursor or (key.count("/") > 1 and key.split("/", 2)[1] == others)
    ]
    return sorted(rows, key=lambda record: record.offset)


def resume_from(destination: str, checkpoint: Checkpoint) -> tuple[DestinationState, int]:
    """The state a checkpoint holds, and the journal offset from which to fold on; (empty, 0) without one.

    The records of a schema history are in the journal only, and those that the cursor's newest checkpoint does
    not hold stand behind its first part. So there the fold begins; what the rows hold from behind that offset
    comes again, and changes nothing.
    """
    records = records_of(destination, checkpoint)
    state = journal.fold(destination, records)
    nothing = DestinationState(destination), 0
    cursor = state.cursor
    if cursor is None or cursor.versions > state.version_count:
        return nothing
    start = records[-1].offset + 1
    if cursor.history is not None:
        head = state.history_fold.checkpoint_for(cursor.history)
        if head is None:
            return nothing
        start = min(start, state.history_fold.begins_at(head))
    return state, start
