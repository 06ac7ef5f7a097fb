"""The reading of a run: its decoders, and the thread that reads the binlog for them.

Invariant: decoders and stream are opened at the same time; if either fails, both are closed before the error is
raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from app.worker.destination.background import beside
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.timings import Phases
from app.worker.pipeline.capture.reader_thread import Deletes, Reader
from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.decoders.pool import start as start_decoders
from app.worker.pipeline.decoders.protocols import Decoders
from app.worker.pipeline.number.numbers import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.handoff import MAX_BYTES, Handoff
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.pipeline.stage import StageSpec
from connectors.mysql.lookup.skipped_transactions import TransactionSkipper
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.stream.replica import BinlogStream
from tables.history.history import SchemaHistory
from tables.history.resolved_statement import ResolvedStatement
from tables.state.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The start of the reading of one run."""

    plan: Plan
    spec: StageSpec
    history: SchemaHistory | None
    address: SourceAddress
    budget: Budget
    phases: Phases
    by_coordinates: bool = False
    deletes: Deletes | None = None
    """See Reader."""

    async def read(
        self,
        cursor: Cursor,
        skipper: TransactionSkipper[ResolvedStatement] | None,
        *,
        seen: Callable[[Piece], None],
    ) -> tuple[Reader, Handoff]:
        """Open the stream at a cursor, without starting the thread. ``seen`` receives each piece first.

        Return the reading thread, and the handoff from which its pieces are taken. Raise the error of the
        source or of the decoders.
        """
        rules = self.plan.rules
        handoff = Handoff(
            asyncio.get_running_loop(),
            max_bytes=max(MAX_BYTES, 2 * rules.max_bytes),
            enough=rules.max_bytes,
        )

        def deliver(piece: Piece) -> bool:
            seen(piece)
            return handoff.put(piece)

        stream = BinlogStream(
            self.address,
            cursor.offset,
            prepared=cursor.prepared,
            aim=lambda: self.budget.chunk,
            by_coordinates=self.by_coordinates,
            skips=skipper.wants if skipper is not None else None,
        )
        tracker = SchemaTracker.of(self.history, self.spec) if self.history is not None else None
        starting = asyncio.create_task(
            asyncio.to_thread(
                start_decoders,
                self.spec,
                count=self.plan.decoders,
                state=Numbers.of(cursor),
                deliver=deliver,
                fail=handoff.fail,
                name=self.plan.name,
            )
        )
        try:
            async with beside(asyncio.to_thread(stream.open)) as opened:
                decoders = await asyncio.shield(starting)
                self.phases.reached("decoders started")
                await opened
        except BaseException:
            stream.close()
            # Threads cannot be cancelled.
            await asyncio.shield(asyncio.create_task(_closed(starting)))
            raise
        return Reader(stream, decoders, tracker, skipper, self.deletes), handoff


async def _closed(starting: asyncio.Task[Decoders]) -> None:
    """Wait for decoders that are no longer needed, and stop them."""
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await asyncio.to_thread(starting.result().close)
