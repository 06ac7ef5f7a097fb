"""`python -m app cursor import`: take a cursor that was exported from another installation.

The law: the server must be able to go on from it; `seq` never goes back, and the schema history begins anew
there, as it is not in the export.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.commands.cursor.consequences import effect
from app.commands.cursor.epoch_claim import Change, add_reason, claim, confirm
from app.commands.cursor.export import FORM, WHAT
from app.commands.cursor.set import cursor_at
from app.commands.journal_access import Journal
from app.commands.output import answer
from app.commands.source_connection import reached
from connectors.errors import JournalDamaged, UsageError
from connectors.mysql.lookup.start import as_of_now, check
from tables.cursor import Cursor
from tables.journal.state import DestinationState


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a file."""
    parser.epilog = (
        "A transaction that was half published where it comes from is published whole here. Stop the "
        "destination there first, and for good."
    )
    parser.add_argument("destination", metavar="DEST")
    parser.add_argument(
        "export", type=Path, metavar="FILE.json", help="what `cursor export` printed"
    )
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Take it; 0 once it stands in the journal."""
    asked, given = Journal.of(options.destination), _read(options.export)
    begun = asked.begun()
    # GTIDs are the same on all; places are one server's.
    server = None if given.offset.gtid_set is not None else given.offset.server_uuid
    source = reached(asked, begun, server_uuid=server)
    address = source.address
    offset = as_of_now(given.offset, source.facts, address)
    check(offset, source.facts, address)
    cost = effect(begun.cursor, offset, address, source.facts)
    if not cost.is_free:
        confirm(options, f"{options.destination} goes to {offset}: {cost.text}")

    def change(state: DestinationState, installation: str) -> Change:
        found = effect(state.cursor, offset, address, source.facts)
        cursor = cursor_at(offset, state, installation, is_back=False)
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
            notes=source.notes(state.source_choice, state.destination),
        )

    told = claim(asked, change, why=options.why, sets=True)
    line = f"{options.destination}: at {offset} in epoch {told.epoch}; {told.effect}"
    answer("text", None, [line])
    return 0


def _read(path: Path) -> Cursor:
    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict) or value.get("what") != WHAT:
        raise UsageError(f"{path} was not printed by `cursor export`")
    if value.get("form") != FORM:
        raise UsageError(f"{path} has form {value.get('form')}, this version reads {FORM}")
    try:
        return Cursor.from_json(value["cursor"])
    except (KeyError, JournalDamaged) as error:
        raise UsageError(f"{path} holds no whole cursor: {error}") from None
