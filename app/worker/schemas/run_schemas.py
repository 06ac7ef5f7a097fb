"""The schemas of one destination during a run: their history, and which tables are quarantined.

Invariant: answers describe the journal after the present batch is committed. The reader's thread
may be further in the history, so every query is as of the cursor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping

from app import metrics
from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.rules import PublishingRules
from app.worker.schemas.store_mirror import Mirror
from app.worker.status import DestinationStatus
from connectors.errors import AqueductError
from connectors.mysql.ddl.definition import Table, TableName
from tables.history.codec import checkpoint_records
from tables.history.history import SchemaHistory
from tables.history.impact.rule_findings import rule_faults
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.history_retention import Expired, Retention
from tables.state.journal.state import JournalPartition
from tables.state.quarantine import Quarantine, Resolution, note_of

# The expiry of schema history in the journal, computed concurrently with the run.
#
# Invariant: nothing is deleted here; the run writes the expiry with its next batch, in the order
# of its own records.


class Expiry:
    """Reads the journal of one destination on request, once at a time."""

    def __init__(self, journal: JournalPartition) -> None:
        self._journal = journal
        self._task: asyncio.Task[Expired] | None = None

    def begin(self, expire_ms: int) -> None:
        """Begin to compute what may be deleted, after a new checkpoint."""
        if self._task is None:
            self._task = asyncio.create_task(self._find(expire_ms))

    def found(self) -> Expired | None:
        """Return what may be deleted, once; None while it is not known.

        A failed read is logged, and retried at the next checkpoint.
        """
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, AqueductError):
            raise error
        log.warning("%s: what may be forgotten is not known: %s", self._journal.destination, error)
        return None

    def close(self) -> None:
        """Cancel the reading."""
        if self._task is not None:
            self._task.cancel()

    async def _find(self, expire_ms: int) -> Expired:
        retention = Retention(self._journal.destination)
        await self._journal.read(retention.take)
        return retention.expired(expire_ms)


log = logging.getLogger(__name__)

_MOST_SHOWN = 10


class Schemas:
    """Adds the journal's schema records to each commit, and shows them."""

    def __init__(
        self,
        history: SchemaHistory | None,
        quarantine: Quarantine,
        rules: PublishingRules,
        status: DestinationStatus,
        *,
        expiry: Expiry,
        mirror: Mirror | None = None,
        postponed: Mapping[TableName, str] | None = None,
    ) -> None:
        """``postponed``: by table, the ids of resolutions that become due when a row of the table waits."""
        self._history = history
        self._expiry = expiry
        self._is_new = False
        """Whether the batch that is being published contains a checkpoint of the history."""
        self._quarantine = quarantine
        self._rules = rules
        self._status = status
        self._mirror = mirror
        self._postponed = dict(postponed or {})
        self._has_rows = False
        """Whether events of a table with a postponed resolution wait now."""

    def known(self) -> dict[tuple[str, str], Schema]:
        """Return the captured tables as decoders need them at the beginning."""
        routes = self._rules.routes
        tables = self._history.now().tables() if self._history is not None else {}
        known: dict[tuple[str, str], Schema] = {
            name: table for name, table in tables.items() if routes.of(name) is not None
        }
        self._show_unfit(tables, known)
        known.update(dict.fromkeys(self._quarantine.quarantined, Unpublished.QUARANTINED))
        known.update(dict.fromkeys(self._quarantine.given_up, Unpublished.GIVEN_UP))
        self._show()
        return known

    def before(self, piece: Piece, cursor: Cursor) -> list[Entry]:
        """Return quarantine entries; add checkpoints of the history, and the expiry of old ones."""
        return [*self._quarantined(piece), *self._checkpointed(piece, cursor), *self._expired()]

    def _quarantined(self, piece: Piece) -> Iterator[Entry]:
        for record in piece.tables.history:
            yield from map(note_of, self._quarantine.released_by_statement(record))
        for added in piece.tables.quarantined:
            yield note_of(self._quarantine.add(added.name, added.why, added.since))

    def _checkpointed(self, piece: Piece, cursor: Cursor) -> list[Entry]:
        history, now = self._history, time.time_ns() // 1_000_000
        if history is None or not history.is_due(now, cursor.offset.server_uuid):
            return []
        at = HistoryPosition.between(cursor.offset, ts_ms=piece.committed_ms or now)
        self._is_new = True
        return checkpoint_records(history.checkpoint(at, made_ms=now, count=cursor.history))

    def _expired(self) -> list[Entry]:
        expired = self._expiry.found() if self._history is not None else None
        if expired is None:
            return []
        if self._history is not None and expired.checkpoint is not None:
            self._history.forget_before(expired.checkpoint)
        return expired.entries

    def may_release(self, resolutions: Iterable[Resolution]) -> bool:
        """Return whether a new run can release a table.

        It can if one of these resolutions is new for a table that is quarantined or given up, or if events now
        wait for a postponed resolution.
        """
        return self._has_rows or any(map(self._is_new_for_table, resolutions))

    def _is_new_for_table(self, resolution: Resolution) -> bool:
        entry = self._quarantine.entries.get(resolution.name)
        if entry is None or not (entry.is_quarantined or entry.is_given_up):
            return False
        return resolution.id not in (entry.resolution, self._postponed.get(resolution.name))

    def run_started(self, cursor: Cursor) -> None:
        """Report that the run's own cursor is committed, so the history up to there may be mirrored."""
        if self._mirror is not None and self._history is not None:
            self._mirror.begin(self._history, cursor.history or 0)

    def committed(self, piece: Piece, cursor: Cursor) -> None:
        """Show the effects of a committed batch, and report it to the central store's thread."""
        name = self._rules.destination
        if self._mirror is not None and cursor.history is not None:
            self._mirror.committed(cursor.history)
        for record in piece.tables.history:
            if record.changes or record.reason is not None:
                metrics.SCHEMA_CHANGES.labels(name, self._outcome(record)).inc()
            self._log(record)
        for added in piece.tables.quarantined:
            log.error(
                "%s: %s is quarantined from %s on: %s; `python -m app schema quarantine %s` prints what "
                "releases it", name, ".".join(added.name), added.since, added.why, name,
            )  # fmt: skip
        if piece.counts.parked:
            self._status.parked.update(piece.counts.parked)
            metrics.PARKED.labels(name).inc(piece.counts.parked.total())
            self._has_rows |= not self._postponed.keys().isdisjoint(piece.counts.parked)
        if piece.tables.quarantined or piece.tables.history:
            self._show()
        if self._is_new and self._history is not None:
            self._is_new = False
            self._expiry.begin(self._history.policy.expire_ms)

    def _log(self, record: SchemaRecord) -> None:
        """Log a statement on captured tables, without its text, which may contain values of rows."""
        routes, destination = self._rules.routes, self._rules.destination
        tables = [".".join(one) for one in record.concerned if routes.of(one) is not None]
        if record.kind != "statement" or not tables:
            return
        more = f" and {len(tables) - _MOST_SHOWN} more" if len(tables) > _MOST_SHOWN else ""
        log.log(
            logging.INFO if record.reason is None else logging.WARNING,
            "%s: %s of %s%s at %s, %s%s",
            destination,
            record.type,
            ", ".join(tables[:_MOST_SHOWN]),
            more,
            record.position,
            record.outcome,
            f": `python -m app schema audit {destination} --unresolved` has the reason"
            if record.reason is not None
            else "",
        )

    def _outcome(self, record: SchemaRecord) -> str:
        """Return the metric's label: an unresolved statement that quarantines nothing needs no alert."""
        is_harmless = not self._quarantine.quarantined.keys() & set(record.unresolved)
        return "unknown" if record.outcome == "unresolved" and is_harmless else record.outcome

    def _show_unfit(self, tables: Mapping[TableName, Table], captured: Iterable[TableName]) -> None:
        """Show tables that rules of the mapping cannot be applied to, before a row quarantines them."""
        routes, waiting, found = self._rules.routes, self._quarantine.quarantined, list[str]()
        for name in sorted(captured):
            route = routes.of(name)
            if (
                route is not None
                and name not in waiting
                and (faults := rule_faults(tables[name], route))
            ):
                found.append(
                    f"the mapping does not fit {'.'.join(name)}: {'; '.join(faults)}: its next row quarantines "
                    "it (RuleImpossible); correct the mapping"
                )
        more = (
            [f"and {len(found) - _MOST_SHOWN} further tables"] if len(found) > _MOST_SHOWN else []
        )
        self._status.warnings["mapping"] = [*found[:_MOST_SHOWN], *more]
        for warning in self._status.warnings["mapping"]:
            log.warning("%s: %s", self._rules.destination, warning)

    def _show(self) -> None:
        waiting, given_up = self._quarantine.quarantined, self._quarantine.given_up
        self._status.quarantined, self._status.given_up = waiting, given_up
        metrics.QUARANTINED.labels(self._rules.destination).set(len(waiting))
        metrics.GIVEN_UP.labels(self._rules.destination).set(len(given_up))
