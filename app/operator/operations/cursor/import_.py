"""Import of a cursor that was exported from another installation.

Invariant: the server must be able to resume from it; `seq` never goes back, and the schema history
starts again there, as it is not in the export.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from app.operator.journal_access import Journal
from app.operator.operations.cursor.consequences import Effect
from app.operator.operations.cursor.epoch_claim import Change
from app.operator.operations.cursor.move import Move, moved_cursor, plan_move
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.worker.destination.background import in_its_own_thread
from connectors.mysql.lookup.start import check, in_current_terms
from connectors.mysql.position import SourceOffset
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState


async def plan_import(journal: Journal, given: Cursor, report: ReportUnreachable) -> Move:
    """Return the move to the other installation's position."""
    present = await journal.initialized_state()
    # GTIDs are the same on all servers; coordinates belong to one.
    server = None if given.offset.gtid_set is not None else given.offset.server_uuid
    source = await reachable_source(journal, present, report, server_uuid=server)
    offset = await in_its_own_thread(partial(_checked, given, source))

    def change(state: DestinationState, installation: str, found: Effect, by: str) -> Change:
        cursor = moved_cursor(offset, state, installation, is_back=False)
        return Change(
            cursor=replace(
                cursor,
                epoch=max(cursor.epoch, given.epoch + 1),
                seq=max(cursor.seq, given.seq),
                prepared=given.prepared,
            ),
            what="import",
            after=str(offset),
            effect=f"of installation {given.installation}, destination {given.destination}; {found.text}",
            notes=source.switch_records(state.source_choice, state.destination, by=by),
        )

    return await plan_move(journal, present.cursor, offset, source, change=change)


def _checked(given: Cursor, source: ReachableSource) -> SourceOffset:
    """Return the position as the server has it now; raise if it cannot resume there."""
    offset = in_current_terms(given.offset, source.facts, source.address)
    check(offset, source.facts, source.address)
    return offset
