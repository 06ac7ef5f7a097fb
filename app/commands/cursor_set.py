"""`python -m app cursor set`: where a destination goes on, as a person says.

The law: only a place that the server has, at the border of a transaction; and only once what it costs is told
and agreed to.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from app.commands.claimed import Change, add_reason, claim, confirm
from app.commands.cursor_effect import effect
from app.commands.journal import Journal
from app.commands.reached import reached
from app.settings_start import milliseconds
from connectors.errors import HistoryTooShort, PlaceUnknown, SettingsError
from connectors.mysql.position import Coordinates, SourceOffset, parse_gtids
from connectors.mysql.start import (
    FIRST_EVENT,
    AfterGtids,
    AtCoordinates,
    AtTime,
    Earliest,
    Latest,
    Start,
    first_offset,
)
from tables.cursor import Cursor
from tables.journal import DestinationState


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
    source = reached(asked, begun)
    address = source.address
    offset = first_offset(start, source.facts, address)
    cost = effect(begun.cursor, offset, address)
    if not cost.is_free:
        confirm(options, f"{options.destination} goes to {offset}: {cost.text}")

    def change(state: DestinationState, installation: str) -> Change:
        found = effect(state.cursor, offset, address)
        return Change(
            cursor=cursor_at(offset, state, installation, is_back=found.is_back),
            what="set",
            after=str(offset),
            effect=found.text,
            notes=source.notes(state.source_choice, state.destination),
        )

    told = claim(asked, change, why=options.why)
    sys.stdout.write(f"{options.destination}: at {offset} in epoch {told.epoch}; {told.effect}\n")
    return 0


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
    """The place that is meant; raise SettingsError where it is none or more than one."""
    file, pos, ts_ms = options.file, options.pos, options.time
    kinds = [options.gtid, file or ts_ms, options.earliest, options.latest]
    if sum(map(bool, kinds)) != 1 or (pos is not None and (file is None or ts_ms is not None)):
        raise SettingsError(
            "give one place: --gtid SET, --file FILE [--pos N], [--file FILE] --time T, --earliest or --latest"
        )
    if options.gtid:
        try:
            return AfterGtids(parse_gtids(options.gtid))
        except ValueError as error:
            raise SettingsError(str(error)) from None
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
