"""The commit participants of each run: progress, dead letters, filter, skips and fingerprints.

Invariant: only what is committed is shown and counted, so that a new run counts nothing twice.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches

from app import metrics
from app.worker.destination.takeover.timings import Phases
from app.worker.pipeline.piece import DeadLetter, Piece
from app.worker.pipeline.publish.publisher import Publisher
from app.worker.pipeline.rules import PublishingRules
from app.worker.status import DestinationStatus
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import DeadLetterLimitReached
from connectors.mysql.binlog.mariadb_events import type_name
from connectors.mysql.ddl.definition import TableChange, TableName
from connectors.mysql.lookup.skipped_transactions import (
    SkippedTransaction,
    TransactionSkipper,
    skipped_up_to,
)
from connectors.mysql.server.database_filters import SYSTEM
from tables.history.resolved_statement import ResolvedStatement
from tables.journal_format import Entry
from tables.rules.routes.routes import Routes
from tables.rules.table_filter import expressions, literal_prefix
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints
from tables.state.operator_requests import Skip, Skips, skip_note

log = logging.getLogger(__name__)


class Progress:
    """The progress of one run."""

    def __init__(self, status: DestinationStatus, policy: ErrorPolicy, phases: Phases) -> None:
        self._status, self._policy, self._phases = status, policy, phases
        self._is_first = True
        self._began = 0.0
        """The start of the transaction, by the monotonic clock."""

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Start the clock."""
        self._began = time.monotonic()
        return ()

    def committed(self, piece: Piece, cursor: Cursor) -> None:
        """Show the progress that the piece made."""
        name = self._status.name
        metrics.COMMITS.labels(name).observe(time.monotonic() - self._began)
        if self._is_first:
            self._is_first = False
            log.info("%s: first commit after %.2f s", name, self._phases.reached("first commit"))
        self._policy.succeeded()
        self._show(piece, cursor)
        self._count(piece)

    def _show(self, piece: Piece, cursor: Cursor) -> None:
        status = self._status
        status.cursor = cursor
        status.rows += piece.counts.rows.total()
        metrics.SEQ.labels(status.name).set(cursor.seq)
        if piece.committed_ms:
            status.committed_ms = piece.committed_ms
            status.lag_seconds = max(0.0, time.time() - piece.committed_ms / 1000)
            metrics.LAG.labels(status.name).set(status.lag_seconds)

    def _count(self, piece: Piece) -> None:
        name = self._status.name
        for (kind, handling), count in piece.counts.events.items():
            metrics.EVENTS.labels(name, type_name(kind), handling).inc(count)
        for op, count in piece.counts.rows.items():
            metrics.ROWS.labels(name, op).inc(count)
        for way, count in piece.counts.oversize.items():
            metrics.OVERSIZE.labels(name, way).inc(count)
        metrics.RECORDS.labels(name).inc(piece.records)
        metrics.BYTES.labels(name).inc(piece.size)


# The hourly limit and the count of dead letters.
#
# Invariant: nothing from the first row past the limit on is published. The hour is measured by
# the worker's clock, so a restart of the worker, or a restart requested by an operator, resets
# the count.

HOUR = 3600.0


class DeadLetters:
    """The dead letters of one destination, over all its runs on this worker."""

    def __init__(
        self, limit: int, status: DestinationStatus, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._status = status
        self._clock = clock
        self._times: deque[float] = deque()

    def before(self, piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Raise DeadLetterLimitReached with the first row past the limit, if a piece exceeds it."""
        letters = piece.dead_letters
        if letters:
            self._admit(letters)
        return ()

    def _admit(self, letters: list[DeadLetter]) -> None:
        now = self._clock()
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        remaining = max(0, self._limit - len(self._times))
        if len(letters) > remaining:
            first = letters[remaining]
            raise DeadLetterLimitReached(
                f"{self._limit} are allowed: {first.reason}",
                table=first.table,
                coordinates=first.coordinates,
                gtid=first.gtid,
                row=first.row,
            )

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Count the dead letters of a piece, and show them."""
        letters = piece.dead_letters
        if letters:
            self._times.extend([self._clock()] * len(letters))
            self._status.dead_letters.update(letter.table for letter in letters)
            self._status.last_dead_letter = letters[-1]
            metrics.DEAD_LETTERS.labels(self._status.name).inc(len(letters))


# Warnings on filter expressions that match no existing table, until one matches.
#
# Invariant: this only warns, as a table may be created later; the filter alone decides what is
# captured.


_CLOSE = 0.5
_NEAREST = 3
_WARNINGS = "filter"


class FilterCheck:
    """The check of one run of a destination."""

    def __init__(
        self, rules: PublishingRules, names: Iterable[TableName], status: DestinationStatus
    ) -> None:
        self._rules = rules
        self._names = set(names)
        self._status = status
        self._show()

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Return no records."""
        return ()

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Record tables that statements created or dropped."""
        changes = [
            one
            for record in piece.tables.history
            for one in record.changes
            if isinstance(one, TableChange)
        ]
        for change in changes:
            (self._names.discard if change.new is None else self._names.add)(change.name)
        if changes and self._status.warnings.get(_WARNINGS):
            self._show()

    def _show(self) -> None:
        """Log new warnings, and show all on the status page."""
        shown = self._status.warnings.get(_WARNINGS, [])
        found = list(warnings(self._rules.routes, self._names))
        for warning in found:
            if warning not in shown:
                log.warning("%s: %s", self._status.name, warning)
        self._status.warnings[_WARNINGS] = found


def warnings(routes: Routes, names: set[TableName]) -> Iterator[str]:
    """The warnings on a filter at a server with these tables."""
    if not names:
        yield "the server has no table that the account can see, so nothing is captured now"
        return
    if not any(map(routes.of, names)) and not _of_system(routes.include):
        yield f"the filter captures none of the {len(names)} tables that the account can see"
    for setting, text in (("include", routes.include), ("black", routes.black)):
        for expression in expressions(text):
            pattern = expression.pattern
            if _of_system(pattern) or any(expression.fullmatch(".".join(one)) for one in names):
                continue
            yield f"filter.{setting}: {pattern} matches no table{_hint(pattern, names)}"


def _of_system(text: str) -> bool:
    """Whether any expression names a system database; the names of tables include none of these."""
    return any(literal_prefix(one.pattern).startswith(SYSTEM) for one in expressions(text))


def _hint(pattern: str, names: set[TableName]) -> str:
    """The nearest names of tables, or of databases if the expression covers a whole database."""
    database, _, table = re.sub(r"\\(.)|[\^$*+?()\[\]{}|]", r"\1", pattern).lower().partition(".")
    known = {one.lower(): one for one in (database for database, _ in names)}
    if table.strip("."):
        known = {".".join(one).lower(): ".".join(one) for one in names}
    wanted = f"{database}.{table}" if table.strip(".") else database
    close = get_close_matches(wanted, sorted(known), n=_NEAREST, cutoff=_CLOSE)
    return f"; near it are {', '.join(known[one] for one in close)}" if close else ""


# Operator skips: transactions omitted at an operator's request, and their completion in the
# journal.
#
# Invariant: a skip is logged and counted only after the commit of the Kafka transaction that
# moves the cursor past it; a run that ends before that skips it again.


class OperatorSkips:
    """The skips of one run of a destination."""

    def __init__(self, destination: str, skips: Skips, server_uuid: str) -> None:
        self._destination = destination
        self._pending: dict[str, Skip] = skips.pending
        self._noted: list[SkippedTransaction] = []
        self.skipper: TransactionSkipper[ResolvedStatement] | None = None
        """Removes the transactions to skip from the chunks read; None if there are none."""
        if self._pending:
            self.skipper = TransactionSkipper(frozenset(self._pending), server_uuid)

    def start_cursor(self, publisher: Publisher) -> Cursor:
        """The cursor to read from; a skipped transaction is not resumed in its middle."""
        cursor = publisher.cursor
        if cursor.resume is not None and cursor.resume.transaction_id in self._pending:
            log.warning(
                "%s: %d record(s) of %s were published before it was to be skipped",
                self._destination, cursor.resume.published, cursor.resume.transaction_id,
            )  # fmt: skip
            publisher.cursor = cursor = replace(cursor, resume=None)
        return cursor

    def is_due(self, piece: Piece) -> bool:
        """Whether a piece passes a skipped transaction, and so is committed at once."""
        return bool(self._passed(piece))

    def before(self, piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """The records that mark skips as done, for the skipped transactions that end before the piece does."""
        self._noted = self._passed(piece)
        return [
            skip_note(
                replace(self._pending[one.id], done=str(one.start), events=one.events.total())
            )
            for one in self._noted
        ]

    def _passed(self, piece: Piece) -> list[SkippedTransaction]:
        return [] if self.skipper is None else skipped_up_to(self.skipper.done, piece.coordinates)

    def committed(self, _piece: Piece, _cursor: Cursor) -> None:
        """Log and count the skips in the committed transaction."""
        for one in self._noted:
            assert self.skipper is not None
            self.skipper.done.remove(one)
            skip = self._pending.pop(one.id)
            for kind, count in one.events.items():
                metrics.EVENTS.labels(self._destination, type_name(kind), "skipped").inc(count)
            log.warning(
                "%s: transaction %s at %s was skipped with %d event(s), as %s requested: %s",
                self._destination, one.id, one.start, one.events.total(), skip.by, skip.why,
            )  # fmt: skip
        self._noted = []


# Fingerprints of published transactions, kept for sources without GTIDs.
#
# Invariant: the fingerprints are in the same Kafka transaction as their rows.


class PublishedFingerprints:
    """The fingerprints of one run; if ``kept`` is None, no fingerprints are kept."""

    def __init__(self, kept: Fingerprints | None) -> None:
        self._kept = kept

    def before(self, piece: Piece, cursor: Cursor) -> Iterable[Entry]:
        """The records of the ring that the piece's transactions change."""
        if self._kept is None:
            return ()
        return self._kept.add(piece.trace.fingerprints, cursor.offset.server_uuid)

    def committed(self, _piece: Piece, _cursor: Cursor) -> None:
        """Do nothing: the next run reads the fingerprints from the journal."""


# Report of skipped statements: counted, logged once per table, listed on /status.
#
# Invariant: only committed statements are counted, so that a new run counts nothing twice.


_MOST_TABLES = 100
"""The maximum number of tables on the status page; statements on others are only counted."""


class SkippedStatements:
    """The skipped statements of one destination."""

    def __init__(self, status: DestinationStatus) -> None:
        self._status = status

    def before(self, _piece: Piece, _cursor: Cursor) -> Iterable[Entry]:
        """Return no records."""
        return ()

    def committed(self, piece: Piece, _cursor: Cursor) -> None:
        """Count the statements of a piece, and list their tables."""
        if not piece.counts.statements:
            return
        metrics.STATEMENTS_PASSED.labels(self._status.name).inc(piece.counts.statements.total())
        for name, count in piece.counts.statements.items():
            self._list(name, count)

    def _list(self, name: tuple[str, str], count: int) -> None:
        shown = self._status.statements_passed
        if name not in shown:
            if len(shown) >= _MOST_TABLES:
                return
            log.warning(
                "%s: statements on %s are passed by: it is not captured, and they change no other table",
                self._status.name,
                ".".join(name),
            )
        shown[name] += count
