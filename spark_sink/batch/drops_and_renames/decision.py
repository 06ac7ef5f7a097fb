"""What the sink does about a statement, by its settings and by what the warehouse has.

Invariant: each name that a statement drops or renames is followed, or has a note that says why it is not.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_sink.batch.drops_and_renames.statement import Statement
from spark_sink.settings.model import OnDrop, OnRename
from spark_sink.text.quoting import argument
from spark_sink.warehouse.moves import Event, Name, Note, Place
from wire.text import utc_seconds

_DROPPED: Final = "dropped at the source"
_MOVED_ASIDE: Final = "when the source dropped it"
"""The beginning, or the end, of the note of a table whose rows a DROP left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlRules:
    """The settings, and what must be known of a table."""

    on_drop: OnDrop
    on_rename: OnRename
    is_mapped: Callable[[Name], bool]
    """Whether mapped tables fill a table: the mapping then determines what a DROP does."""
    floor: Callable[[str, Name], Place | None]
    """The last truncate of a destination's table."""
    is_noted: Callable[[Name], bool]
    """Whether an earlier DROP of a table of that name left its rows."""


def decided(statement: Statement, rules: DdlRules) -> Event | None:
    """Return the event of a statement; None if the statement concerns nothing that the sink follows."""
    at = utc_seconds(statement.ts_ms)
    moves: dict[Name, Name | None] = {}
    notes: dict[Name, str] = {}
    for name in statement.created:
        if rules.is_noted(name) and rules.on_drop == "rename" and not rules.is_mapped(name):
            _rename_dropped(name, statement, moves, notes, at=at)
        elif rules.is_noted(name):
            text = f"created again at the source {at}; the rows of the table before are still in it"
            notes[name] = text if rules.on_drop == "keep" else ""
    for name in statement.dropped:
        if rules.is_mapped(name):
            continue
        if rules.on_drop == "keep":
            notes[name] = f"{_DROPPED} {at}; its rows are kept (on_drop: keep)"
        elif rules.on_drop == "rename":
            _rename_dropped(name, statement, moves, notes, at=at)
        else:
            moves[name] = None
            notes[name] = "" if rules.on_drop == "drop" else f"{_DROPPED} {at}"
    _rename(statement, rules, moves, notes, at=at)
    for name in statement.come_in:
        notes[name] = (
            f"renamed at the source {at} from a table that is not captured; its earlier rows are in no topic. "
            f"{_snapshot(statement, name)}"
        )
    for name in statement.omitted:
        notes[name] = (
            f"truncated at the source {at}; its rows from before are kept, as the worker publishes no TRUNCATE "
            "of it"
        )
    for name, what in statement.emptied:
        notes[name] = (
            f"{what} at the source {at}: the rows that it changed are in no topic, so no reload helps. "
            f"{_snapshot(statement, name)}"
        )
    gaps = {*statement.come_in, *(name for name, _ in statement.emptied)}
    if not moves and not notes and not statement.altered:
        return None
    carried = {
        new: floor
        for old, new in moves.items()
        if new is not None and (floor := rules.floor(statement.destination, old)) is not None
    }
    is_drop = rules.on_drop == "drop"
    return Event(
        destination=statement.destination,
        epoch=statement.epoch,
        seq=statement.seq,
        ts_ms=statement.ts_ms,
        moves=moves,
        removed=tuple(name for name in statement.dropped if name in moves and is_drop),
        carried=carried,
        notes=tuple(
            Note(name=name, text=text, is_gap=name in gaps) for name, text in notes.items()
        ),
        altered=statement.altered,
    )


def is_left_by_drop(note: str) -> bool:
    """Whether a table has, by its last note, only rows that a DROP left, which an operator may remove."""
    return note.startswith(_DROPPED) or note.endswith(_MOVED_ASIDE)


def _name_of_dropped(name: Name, statement: Statement) -> Name:
    """The name that the rows of a dropped table get, which no other table has."""
    at = datetime.datetime.fromtimestamp(statement.ts_ms / 1000, datetime.UTC)
    return name[0], f"{name[1]}__dropped_{at:%Y%m%d%H%M%S}_{statement.seq}"


def _rename_dropped(
    name: Name,
    statement: Statement,
    moves: dict[Name, Name | None],
    notes: dict[Name, str],
    *,
    at: str,
) -> None:
    kept = _name_of_dropped(name, statement)
    moves[name] = kept
    notes[name] = ""
    notes[kept] = f"was {argument(name)} until {at}, {_MOVED_ASIDE}"


def _snapshot(statement: Statement, name: Name) -> str:
    """The command that publishes the rows of a table that are in no topic."""
    return f"Run: python -m app snapshot start {statement.destination} {argument(name)} --replace"


def _rename(
    statement: Statement,
    rules: DdlRules,
    moves: dict[Name, Name | None],
    notes: dict[Name, str],
    *,
    at: str,
) -> None:
    """Add the moves of renamed tables, or notes on why their rows stay."""
    renamed = statement.renamed
    names = {*renamed, *renamed.values()}
    mapped = sorted(name for name in names if rules.is_mapped(name))
    if rules.on_rename == "move" and not mapped:
        moves |= renamed
        # The source had no table of the new name: what the warehouse has there is of an earlier table.
        left = [new for new in renamed.values() if new not in moves]
        notes |= dict.fromkeys(names, "")
        for new in left:
            if rules.on_drop == "rename":
                _rename_dropped(new, statement, moves, notes, at=at)
            else:
                moves[new] = None
        return
    why = f"a mapping fills {argument(mapped[0])}" if mapped else "on_rename: keep"
    for old, new in renamed.items():
        stay = f"the rows from before are still here ({why})"
        notes[old] = f"renamed to {argument(new)} at the source {at}; {stay}"
    for old, new in renamed.items():
        taken = f"was {argument(old)} until {at}, where its rows from before still are"
        notes[new] = f"{notes[new]}; {taken}" if new in renamed else taken
