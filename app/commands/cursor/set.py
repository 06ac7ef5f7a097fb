"""`python -m app cursor set`: where a destination goes on, as a person says.

The law: only a place that the server has, at the border of a transaction; and only once what it costs is told
and agreed to.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import cast

from app.commands.cursor.consequences import effect
from app.commands.cursor.epoch_claim import Change, add_reason, claim, confirm
from app.commands.journal_access import Journal
from app.commands.output import answer
from app.commands.source_connection import Reached, reached
from app.settings.start import milliseconds
from connectors.errors import HistoryTooShort, PlaceUnknown, SourceDiverged, UsageError
from connectors.mysql.lookup.start import (
    FIRST_EVENT,
    AfterGtids,
    AtCoordinates,
    AtTime,
    Earliest,
    Latest,
    Start,
    first_offset,
)
from connectors.mysql.position import Coordinates, SourceOffset, parse_gtids
from tables.cursor import Cursor
from tables.cursor_proof import Proof
from tables.journal.state import DestinationState


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a place and a reason."""
    parser.epilog = (
        "A worker that leads is fenced and goes on from there by itself, one that has FAILED too. Rows between "
        "the old place and the new one are lost to subscribers (forward: load their tables anew) or come again."
    )
    parser.add_argument("destination", metavar="DEST")
    parser.add_argument("--gtid", metavar="SET", help="behind these transactions")
    parser.add_argument("--file", metavar="FILE", help="a binlog file; alone, its head")
    parser.add_argument(
        "--pos", type=int, metavar="N", help="in the file, where a transaction begins"
    )
    parser.add_argument(
        "--server", metavar="UUID",
        help="whose file it is (server_uuid); without, the cursor's, or where there is none the first source's",
    )  # fmt: skip
    parser.add_argument(
        "--time", metavar="T", type=_time,
        help="the first transaction committed then or later: ISO 8601 with a zone, or milliseconds since 1970",
    )  # fmt: skip
    parser.add_argument("--earliest", action="store_true", help="the oldest change there is")
    parser.add_argument("--latest", action="store_true", help="the end of the binlog")
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Set it; 0 once it stands in the journal."""
    asked, start = Journal.of(options.destination), start_of(options)
    begun = asked.begun()
    whose = _server_of(options, begun) if options.file else None
    source = reached(asked, begun, server_uuid=whose)
    address = source.address
    if options.file:
        _refuse_anothers(source, whose, asked)
    offset = first_offset(start, source.facts, address)
    cost = effect(begun.cursor, offset, address, source.facts)
    if not cost.is_free:
        confirm(options, f"{options.destination} goes to {offset}: {cost.text}")

    def change(state: DestinationState, installation: str) -> Change:
        if options.file:
            _refuse_anothers(source, _server_of(options, state), asked)
        found = effect(state.cursor, offset, address, source.facts)
        return Change(
            cursor=cursor_at(offset, state, installation, is_back=found.is_back),
            what="set",
            after=str(offset),
            effect=found.text,
            notes=source.notes(state.source_choice, state.destination),
        )

    told = claim(asked, change, why=options.why, sets=True)
    line = f"{options.destination}: at {offset} in epoch {told.epoch}; {told.effect}"
    answer("text", None, [line])
    return 0


def _server_of(options: argparse.Namespace, state: DestinationState) -> str | None:
    """Whose file is meant; None before the first cursor, where nobody says."""
    if options.server is not None or state.cursor is None:
        return cast("str | None", options.server)
    return state.cursor.offset.server_uuid


def _refuse_anothers(source: Reached, whose: str | None, asked: Journal) -> None:
    """Raise SourceDiverged where the server that answers is not the one whose file is meant."""
    found = source.facts.server_uuid
    if whose is None:
        is_it = str(source.address) == str(asked.plan.address)
        whose = f"at {asked.plan.address}"
    else:
        is_it = found == whose
    if not is_it:
        raise SourceDiverged(
            f"the file is of server {whose}, and the one that answers is {found}: "
            "a file and a position say nothing on another server",
            source=source.address,
            remedy="Nothing was changed. Wait until that one answers; or, where this one is to be read and the "
            f"file is its own, add --server {found}; or give --time, --earliest, --latest or --gtid.",
        )


def cursor_at(
    offset: SourceOffset, state: DestinationState, installation: str, *, is_back: bool
) -> Cursor:
    """The cursor at another place, with the numbers that go on."""
    old = state.cursor
    if old is None:
        return Cursor(
            destination=state.destination,
            installation=installation,
            epoch=1,
            seq=0,
            versions=state.version_count,
            offset=offset,
        )
    return replace(
        old,
        offset=offset,
        resume=None,
        prepared={},
        proof=Proof(),
        is_new_start=not (is_back and _reaches(state, offset)),
    )


def _reaches(state: DestinationState, offset: SourceOffset) -> bool:
    """Whether the schema history has what the tables were at a place before the cursor."""
    history = state.history()
    if history is None:
        return False
    try:
        history.rollback(offset)
    except (HistoryTooShort, PlaceUnknown):
        return False
    return True


def start_of(options: argparse.Namespace) -> Start:
    """The place that is meant; raise UsageError where it is none or more than one."""
    file, pos, ts_ms = options.file, options.pos, options.time
    kinds = [options.gtid, file or ts_ms, options.earliest, options.latest]
    if sum(map(bool, kinds)) != 1 or (pos is not None and (file is None or ts_ms is not None)):
        raise UsageError(
            "give one place: --gtid SET, --file FILE [--pos N], [--file FILE] --time T, --earliest or --latest"
        )
    if options.server is not None and file is None:
        raise UsageError("--server says whose --file it is; give that, too")
    if options.gtid:
        try:
            return AfterGtids(parse_gtids(options.gtid))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if ts_ms is not None:
        return AtTime(ts_ms, file)
    if file is not None:
        return AtCoordinates(Coordinates(file, pos or FIRST_EVENT))
    return Earliest() if options.earliest else Latest()


def _time(text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
