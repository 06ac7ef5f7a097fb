"""The journal's checkpoint on every worker: where to begin reading it again.

Invariant: a checkpoint only shortens the replay. Its rows are folded with the journal from the
cursor's row on, checked for completeness, and discarded if incomplete. It holds cursors, table
versions, the newest checkpoint of a schema history and the records after it, so that a takeover
reads only the journal's last records, however old that checkpoint is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from tables.history.codec import CHECKPOINT, HEAD, NUMBERED
from tables.journal_format import decoded, is_tombstone
from tables.journal_kind import Kind
from tables.state.journal import state as journal
from tables.state.journal.kinds import KINDS
from tables.state.journal.state import DestinationState

Row = dict[str, Any]
"""A journal record: ``{"offset": int, "value": str}``."""

_LARGEST = 300_000
"""Bytes of a value that becomes a row. A row is written with its quotation marks and letters
escaped, and Faust sends no more than 1,000,000 bytes; a larger value is read from the journal."""
_NUMBER = re.compile(r'"number":(\d+)')


class Checkpoint(Protocol):
    """Rows of the journal by key, each with the offset it is from; a Faust table or a dict."""

    @property
    def rows(self) -> Mapping[str, Row]:
        """Each row is ``{"offset": int, "value": str}``; empty while the checkpoint is being recovered.

        Each access examines all rows, so access it once for rows that belong together.
        """
        ...


class MemoryCheckpoint:
    """The in-memory twin of the Faust tables."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @property
    def rows(self) -> MutableMapping[str, Row]:
        return self._rows

    def fold(self, record: StoredRecord) -> None:
        """Add a journal record."""
        take(self._rows, record)


def row_of(record: StoredRecord) -> tuple[str, Row]:
    """A journal record as a checkpoint's row."""
    value = record.value.decode("utf-8", "backslashreplace")
    return record.key.decode("utf-8", "backslashreplace"), {"offset": record.offset, "value": value}


def newer(row: Row, known: Row | None) -> bool:
    """Whether a row should replace the known one; a replay must not restore an older one."""
    return known is None or bool(row["offset"] > known["offset"])


def take(rows: MutableMapping[str, Row], record: StoredRecord) -> None:
    """Store a journal record as a row; remove the rows that it makes obsolete."""
    key, row = row_of(record)
    kind = KINDS.of(record.key)
    if (kind is not None and not kind.is_checkpointed) or not newer(row, rows.get(key)):
        return
    try:
        if is_tombstone(record) or len(record.value) > _LARGEST:
            rows.pop(key, None)
            return
        rows[key] = row
        if kind is CHECKPOINT and key.endswith(f"/{HEAD}"):
            _forget_older(rows, key, head=decoded(record))
    except (JournalUnreadable, JournalTooNew, KeyError, TypeError):
        # A takeover of the record's destination judges the record, from this row; other
        # destinations are not concerned.
        rows[key] = row


def _forget_older(rows: MutableMapping[str, Row], key: str, *, head: Mapping[str, Any]) -> None:
    """Remove the rows that a checkpoint of a schema history replaces, if all its parts are present."""
    beginning, number, _ = key.rsplit("/", 2)
    if any(f"{beginning}/{number}/{part}" not in rows for part in range(head["parts"])):
        return
    records = tuple(f"{kind.name}/{beginning.partition('/')[2]}/" for kind in NUMBERED)
    for other in list(rows):
        if other.startswith(f"{beginning}/"):
            own = other.rsplit("/", 2)[1]
            is_replaced = own.isdecimal() and int(own) < int(number)
        else:
            is_replaced = other.startswith(records) and _number(rows[other]) <= head["count"]
        if is_replaced:
            del rows[other]


def _number(row: Row) -> int:
    """The number of a history's record, or of the record that a part belongs to."""
    found = _NUMBER.search(row["value"])
    return int(found[1]) if found else 0


def records_of_kind(kind: Kind[Any], checkpoint: Checkpoint) -> list[StoredRecord]:
    """The checkpoint's records of one kind, of all destinations, in the journal's order."""
    rows = [(key.encode(), row) for key, row in checkpoint.rows.items()]
    records = [
        StoredRecord(key, row["value"].encode(), row["offset"])
        for key, row in rows
        if kind.is_of(key)
    ]
    return sorted(records, key=lambda record: record.offset)


def records_of(destination: str, rows: Mapping[str, Row]) -> list[StoredRecord]:
    """The records of one destination among a checkpoint's rows, in the journal's order."""
    cursor, others = journal.cursor_key(destination).decode(), journal.quoted(destination)
    found = [
        StoredRecord(key.encode(), row["value"].encode(), row["offset"])
        for key, row in rows.items()
        if key == cursor or (key.count("/") > 1 and key.split("/", 2)[1] == others)
    ]
    return sorted(found, key=lambda record: record.offset)


def resume_from(destination: str, checkpoint: Checkpoint) -> tuple[DestinationState, int]:
    """The state in a checkpoint, and the journal offset at which the fold resumes; (empty, 0) without one.

    The fold resumes at the cursor's row, since each transaction writes a cursor: another row may arrive
    before older rows of other keys. Records after that offset whose rows are already included are read
    again, and change nothing. If rows of the schema history's records or of a later checkpoint are
    missing, the fold begins at the first part of the cursor's newest checkpoint: the missing records come
    after it.
    """
    rows = checkpoint.rows
    records = records_of(destination, rows)
    state = journal.fold(destination, records)
    nothing = DestinationState(destination), 0
    cursor = state.cursor
    if cursor is None or cursor.versions > state.version_count:
        return nothing
    start = int(rows[journal.cursor_key(destination).decode()]["offset"]) + 1
    if cursor.history is not None:
        head = state.history_fold.checkpoint_for(cursor.history)
        if head is None:
            return nothing
        if not state.is_whole() or state.history_fold.lacks_parts(head, cursor.history):
            start = min(start, state.history_fold.begins_at(head))
    return state, start
