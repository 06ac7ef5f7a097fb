"""Set a cursor to a position that an operator names.

Invariant: only a position that the server has, at the boundary of a transaction; a binlog file
belongs to one server, and sets no cursor on another one.
"""

from __future__ import annotations

from functools import partial

from app.operator.journal_access import Journal
from app.operator.operations.cursor.consequences import Effect
from app.operator.operations.cursor.epoch_claim import Change
from app.operator.operations.cursor.move import Move, moved_cursor, plan_move
from app.operator.operations.snapshot.replacing import replacing_requests
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.worker.destination.background import in_its_own_thread
from connectors.errors import SourceDiverged
from connectors.mysql.lookup.start import AtCoordinates, AtTime, Start, first_offset
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState


async def plan_set(
    journal: Journal,
    start: Start,
    report: ReportUnreachable,
    *,
    server: str | None = None,
    replacing_by: str | None = None,
) -> Move:
    """Return the move to a position; ``server``: the server of the named file, by default the
    cursor's. ``replacing_by``: the operator who wants all rows to be published again after it.

    Raises SourceDiverged if another server answers than the file's, SnapshotUnsupported if its rows cannot be
    read exactly.
    """
    present = await journal.initialized_state()
    names_file = _names_file(start)
    file_server = _server_of(server, present) if names_file else None
    source = await reachable_source(journal, present, report, server_uuid=file_server)
    if names_file:
        _refuse_other_server(source, file_server, journal)
    offset = await in_its_own_thread(partial(first_offset, start, source.facts, source.address))

    snapshots: list[Note] = []
    if replacing_by is not None:
        snapshots = await replacing_requests(journal, present, source, by=replacing_by)

    def change(state: DestinationState, installation: str, found: Effect, by: str) -> Change:
        if names_file:
            _refuse_other_server(source, _server_of(server, state), journal)
        return Change(
            cursor=moved_cursor(offset, state, installation, is_back=found.is_back),
            what="set",
            after=str(offset),
            effect=found.text,
            notes=[
                *source.switch_records(state.source_choice, state.destination, by=by),
                *snapshots,
            ],
        )

    return await plan_move(journal, present.cursor, offset, source, change=change)


def _names_file(start: Start) -> bool:
    return isinstance(start, AtCoordinates) or (isinstance(start, AtTime) and bool(start.file))


def _server_of(server: str | None, state: DestinationState) -> str | None:
    """Return the server of the file; None before the first cursor, if no server is named."""
    if server is not None or state.cursor is None:
        return server
    return state.cursor.offset.server_uuid


def _refuse_other_server(
    source: ReachableSource, file_server: str | None, journal: Journal
) -> None:
    """Raise SourceDiverged if the server that answers is not the file's."""
    found = source.facts.server_uuid
    if file_server is None:
        is_same = str(source.address) == str(journal.plan.address)
        file_server = f"at {journal.plan.address}"
    else:
        is_same = found == file_server
    if not is_same:
        raise SourceDiverged(
            f"the file belongs to server {file_server}, but server {found} answers: "
            "a file and position mean nothing on another server",
            source=source.address,
            remedy="Nothing was changed. Wait until that server answers; or, if this one is to be read and the "
            f"file is its own, add --server {found}; or give --time, --earliest, --latest or --gtid.",
        )
