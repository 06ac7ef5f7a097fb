"""Rows of the signal table, which become requests for snapshots.

Invariant: a request is in the Kafka transaction of its row, so each row makes its requests once. A row
concerns the tables as they are named at its position; one that is renamed right after is read as any that is
renamed while it is read. What a row names without a request is logged once.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence

from app.worker.destination.commit.read_tables import (
    ReadTables,
)
from app.worker.pipeline.piece import Piece, SignalRow
from connectors.mysql.ddl.definition import TableName
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.snapshots.request import (
    unapplied_starts,
)
from tables.state.snapshots.signal_row import (
    Signal,
    SignalRefused,
    left_out,
    requests_of,
    signal_in,
    without_table,
)

log = logging.getLogger(__name__)

_NAMED = 10
"""The most tables that a line of the log names."""


class SignalRows:
    """The signal rows of one run of a destination."""

    def __init__(self, tables: ReadTables) -> None:
        self._tables = tables
        self._said: list[str] = []
        """What is logged once the piece is committed."""

    def before(self, piece: Piece, cursor: Cursor, /) -> Iterable[Entry]:
        """The requests that a piece's rows make."""
        self._said = []
        return [note for row in piece.signals for note in self._notes(row, piece, cursor)]

    def committed(self, _piece: Piece, _cursor: Cursor, /) -> None:
        """Log what was not requested; each worker follows the journal for the requests."""
        for said in self._said:
            log.warning("%s: %s", self._tables.destination, said)
        self._said = []

    def _notes(self, row: SignalRow, piece: Piece, cursor: Cursor) -> list[Entry]:
        # No log line contains a row's values, not even its id; who made a request is logged, too.
        which = f"a signal after {cursor.offset.coordinates}"
        tables = self._tables
        try:
            signal = signal_in(row.row)
        except SignalRefused as error:
            self._said.append(f"{which} is passed by, as {error}")
            return []
        if signal is None:
            return []
        existing = tables.existing(piece, cursor, statements=row.statements)
        started = unapplied_starts(tables.unapplied(), tables.snapshots)
        requests = list(
            requests_of(
                signal,
                tables.destination,
                captured=lambda: existing,
                snapshots=tables.snapshots,
                started=started,
                name=uuid.uuid4().hex[:12],
                by=which,
                now_ms=time.time_ns() // 1_000_000,
            )
        )
        which = f"{which} ({signal.action.value})"
        others = left_out(signal, snapshots=tables.snapshots, started=started)
        concerned = {one.name for one in requests}.union(*others.values())
        self._said += [f"{which}{said}" for said in _unmatched(signal, concerned)]
        self._said += [
            f"{which} leaves out {_listed(names)}: {why}" for why, names in others.items()
        ]
        return tables.records(requests)


def _unmatched(signal: Signal, concerned: set[TableName]) -> Iterator[str]:
    """What is to be said of the expressions of a signal that concern no table; they are values of the row."""
    if not concerned:
        yield " concerns no table"
    elif numbers := without_table(signal, concerned):
        *first, last = map(str, numbers)
        which = f"s {', '.join(first)} and {last} concern" if first else f" {last} concerns"
        yield f": of the expressions in its data, number{which} no table"


def _listed(names: Sequence[TableName]) -> str:
    shown = ", ".join(".".join(one) for one in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
