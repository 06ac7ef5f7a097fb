"""The repair after a validation: the running worker reads rows that are missing, different or extra again.

Invariant: one request after the other, each once the rows of the one before are published, as a table has one
snapshot at a time. A table whose rows are not published does not end the repair of others.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.operator.journal_access import Journal
from app.operator.operations.snapshot.request import WantedSnapshot, request_snapshots
from app.operator.operations.validation.validation import Validation
from app.operator.source_connection import ReportUnreachable
from app.operator.validation.rows.errors import NotRepaired
from app.operator.validation.rows.repair import RequestRows, request_removal, request_repair
from app.operator.validation.rows.table_result import TableResult
from connectors.errors import SnapshotUnsupported, TableUnreadable, UsageError
from connectors.mysql.ddl.definition import TableName
from tables.state.journal.state import DestinationState
from tables.state.snapshots.request import SnapshotAction
from tables.state.snapshots.table_snapshot import SnapshotState

_APPLIED_SECONDS = 60.0
_READ_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was requested of one table, and published."""

    name: TableName
    rows: int
    """Count of missing and different rows."""
    extra: int
    """Count of extra rows."""
    requests: int
    failed: str | None = None
    """Why not all of it was published."""

    def line(self) -> str:
        """It as text."""
        if self.failed is not None:
            return f"{'.'.join(self.name)}: not repaired: {self.failed}"
        done = [f"{self.rows} row(s) published again"] if self.rows else []
        done += [f"{self.extra} extra row(s) deleted if still gone"] if self.extra else []
        return f"{'.'.join(self.name)}: {', '.join(done)}, by {self.requests} request(s)"


async def repair(
    journal: Journal, found: Validation, report: ReportUnreachable, *, by: str
) -> list[Repaired]:
    """Have all rows that differ, as many as the result has the keys of, published again, or deleted.

    Raises NotApplied if no worker takes a request, and the errors of the source and of Kafka.
    """
    request = _Requests(journal=journal, report=report, by=by)
    return [
        await _repaired(request, one) for one in found.tables if one.repairable or one.removable
    ]


async def _repaired(request: RequestRows, one: TableResult) -> Repaired:
    count, failed = 0, None
    try:
        count = await request_repair(request, one.name, one.key, one.repairable)
        count += await request_removal(request, one.name, one.key, one.removable)
    except (NotRepaired, UsageError, SnapshotUnsupported, TableUnreadable) as error:
        failed = f"{error.name}: {error}"
    return Repaired(
        name=one.name,
        rows=len(one.repairable),
        extra=len(one.removable),
        requests=count,
        failed=failed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """See RequestRows."""

    journal: Journal
    report: ReportUnreachable
    by: str

    async def __call__(
        self, table: TableName, condition: str, removes: tuple[str, ...] = (), /
    ) -> None:
        wanted = WantedSnapshot(
            action=SnapshotAction.START, tables=(table,), where=condition, removes=removes
        )
        requested = await request_snapshots(
            self.journal, wanted, self.report, by=self.by, wait=_APPLIED_SECONDS
        )

        def has_ended(state: DestinationState) -> bool:
            one = state.snapshots.all.get(table)
            return one is not None and not one.is_pending

        state = await self.journal.wait(has_ended, after=requested.offset, seconds=_READ_SECONDS)
        one = state.snapshots.all[table] if state is not None else None
        if one is None or one.state is not SnapshotState.DONE:
            why = (
                f"not within {_READ_SECONDS:.0f} s" if one is None else one.error or one.state.value
            )
            raise NotRepaired(why, destination=self.journal.plan.name, table=".".join(table))
