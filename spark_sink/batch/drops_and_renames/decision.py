"""What the warehouse does about a statement, decided by the settings and by what the warehouse has.

Invariant: each name that a statement drops or renames is followed, or has a note that says why it is not.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from spark_sink.batch.drops_and_renames.statement import Statement
from spark_sink.settings.model import OnDrop, OnRename
from spark_sink.text.quoting import argument, discards_source, snapshot_starts
from spark_sink.warehouse.moves import DROPPED, Event, Name, Note, Place
from wire.text import utc_seconds

_DROPPED: Final = "dropped at the source"
_MOVED_ASIDE: Final = "when the source dropped it"
"""The beginning, or the end, of the note of a table whose rows a DROP left."""


Earlier = Callable[[str, Collection[Name]], Mapping[Name, Collection[Name]]]
"""Returns, for each of a destination's tables, the tables in which any mapping has placed its rows."""


def decided(
    statement: Statement,
    *,
    on_drop: OnDrop,
    on_rename: OnRename,
    is_mapped: Callable[[Name], bool],
    floor: Callable[[str, Name], Place | None],
    is_noted: Callable[[Name], bool],
    earlier: Earlier,
    left: Callable[[str, Name], Collection[Name]],
) -> Event | None:
    """Return the event of a statement; None if the statement concerns nothing that the sink follows.

    `is_mapped` returns whether mapped tables fill a table: the mapping then determines what a DROP does. A
    worker states which tables are mapped, and publishes the effect on their rows; one of an earlier version
    states nothing.
    `floor` returns the last truncate of a destination's table, and `is_noted`, whether an earlier DROP of a
    table of that name left its rows. `left` returns the tables that have rows of a source table which is
    gone, by their notes.
    """
    at = utc_seconds(statement.ts_ms)
    moves: dict[Name, Name | None] = {}
    notes: dict[Name, str] = {}
    stated = statement.mapped
    for name in statement.created:
        if is_noted(name) and on_drop == "rename" and not is_mapped(name):
            _rename_dropped(name, statement, moves, notes, at=at)
        elif is_noted(name):
            text = f"created again at the source {at}; the rows of the table before are still in it"
            notes[name] = text if on_drop == "keep" else ""
    for name in statement.dropped:
        if name in stated or is_mapped(name):
            continue
        if on_drop == "keep":
            notes[name] = f"{_DROPPED} {at}; its rows are kept (on_drop: keep)"
        elif on_drop == "rename":
            _rename_dropped(name, statement, moves, notes, at=at)
        else:
            moves[name] = None
            notes[name] = "" if on_drop == "drop" else f"{_DROPPED} {at}"
    # Where a mapping applies to one of two names, the rows are gone from the first and come into the second.
    renamed = {o: n for o, n in statement.renamed.items() if o not in stated and n not in stated}
    names = {*renamed, *renamed.values()}
    mapped = sorted(filter(is_mapped, names))
    if on_rename == "move" and not mapped:
        moves |= renamed
        notes |= dict.fromkeys(names, "")
        # Their tables have other names at the source now, or had none of these names before.
        freed = [new for new in renamed.values() if new not in moves]
        passed = {one for pair in statement.renamed.items() for one in pair} - names
        freed += [name for name in sorted(passed) if name not in {*stated, *moves, *freed}]
        for name in freed:
            if on_drop == "rename":
                _rename_dropped(name, statement, moves, notes, at=at)
            else:
                moves[name] = None
    else:
        why = f"a mapping fills {argument(mapped[0])}" if mapped else "on_rename: keep"
        notes |= _unmoved(renamed, at=at, why=why)
    texts = _of_rows(statement, at=at)
    kept = [
        note
        for note in (
            *_of_earlier(statement, is_mapped, earlier, at=at),
            *_of_another(statement, left, at=at),
        )
        if note.source not in texts or note.name != stated.get(note.source)
    ]
    if not moves and not notes and not texts and not kept and not statement.altered:
        return None
    carried = {
        new: at_floor
        for old, new in moves.items()
        if new is not None and (at_floor := floor(statement.destination, old)) is not None
    }
    is_drop, omitted = on_drop == "drop", statement.omitted
    gone = (*statement.dropped, *statement.renamed)
    return Event(
        destination=statement.destination,
        epoch=statement.epoch,
        seq=statement.seq,
        ts_ms=statement.ts_ms,
        moves=moves,
        removed=tuple(name for name in statement.dropped if name in moves and is_drop),
        carried=carried,
        notes=(
            *(Note(name=name, text=text) for name, text in notes.items() if name not in texts),
            *kept,
            *(
                Note(
                    name=stated.get(name, name),
                    text=text,
                    is_gap=name not in omitted,
                    source=name if name in stated else None,
                    truncates=len([one for one in gone if one in stated and one not in omitted]),
                    is_gone=name in stated and name in omitted and _is_gone(name, statement),
                )
                for name, text in texts.items()
            ),
        ),
        altered=statement.altered,
    )


def _of_rows(statement: Statement, *, at: str) -> dict[Name, str]:
    """The notes on tables whose rows in the warehouse are not those of the source, by the source's names."""
    notes: dict[Name, str] = {}
    stated = statement.mapped
    for name in statement.omitted:
        gone = name in statement.renamed or name in statement.dropped
        what = "dropped or renamed" if gone else "truncated"
        own = f"{argument(name)} was {what}" if name in stated else what
        notes[name] = (
            f"{own} at the source {at}; its rows from before are kept, as the worker publishes no TRUNCATE "
            "of it"
        )
        if name in stated:
            notes[name] += _discarding(statement, name, stated[name])
    for name in statement.come_in:
        own = f"{argument(name)} was renamed" if name in stated else "renamed"
        before = {new: old for old, new in statement.renamed.items()}.get(name)
        of = (
            "that a mapping names" if before in stated or name in stated else "that is not captured"
        )
        notes[name] = (
            f"{own} at the source {at} from a table {of}; its earlier rows are in no topic. "
            f"{_snapshot(statement, name)}"
        )
    for name, what in statement.emptied:
        own = f"{what} of {argument(name)}" if name in stated else what
        notes[name] = (
            f"{own} at the source {at}: the rows that it changed are in no topic, so no reload helps. "
            f"{_snapshot(statement, name)}"
        )
    return notes


def _of_earlier(
    statement: Statement,
    is_mapped: Callable[[Name], bool],
    earlier: Earlier,
    *,
    at: str,
) -> Iterator[Note]:
    """The notes on rows of tables that are gone, in tables to which an earlier mapping brought them.

    What the worker publishes of the statement concerns the rows under their present name only.
    """
    gone = {
        **dict.fromkeys(statement.renamed, "renamed"),
        **dict.fromkeys(statement.dropped, "dropped"),
    }
    found = earlier(statement.destination, gone.keys()) if gone else {}
    for name, what in sorted(gone.items()):
        tables = {*found.get(name, ())} - {name, statement.mapped.get(name)}
        if name in statement.dropped and name in statement.unmapped:
            # Rows under the present name are moved unless a mapping applied to some of them.
            tables.add(name)
        for table in sorted(filter(is_mapped, tables - {None})):
            yield Note(
                name=table,
                text=f"{argument(name)} was {what} at the source {at}; its rows from before are kept, as a "
                f"mapping applied to them{_discarding(statement, name, table)}",
                source=name,
                is_gone=_is_gone(name, statement),
            )


def _of_another(
    statement: Statement, left: Callable[[str, Name], Collection[Name]], *, at: str
) -> Iterator[Note]:
    """The notes on rows that a table has left which is gone, once the source has another one of its name."""
    for name in sorted({*statement.created, *statement.renamed.values()}):
        for table in sorted(left(statement.destination, name)):
            yield Note(
                name=table,
                text=f"the source has another {argument(name)} since {at}; the rows of the earlier one are "
                f"kept{_discarding(statement, name, table)}",
                source=name,
            )


def _is_gone(name: Name, statement: Statement) -> bool:
    """Whether a name has no table after the statement that dropped or renamed it."""
    is_left = name in statement.dropped or name in statement.renamed
    return is_left and name not in {*statement.renamed.values(), *statement.created}


def _discarding(statement: Statement, name: Name, table: Name) -> str:
    """The end of a note on rows of a source table that a table still has."""
    return f"; to remove them, run: {discards_source(table, statement.destination, name)}"


def is_left_by_drop(note: str) -> bool:
    """Whether a table has, by its last note, only rows that a DROP left, which an operator may remove."""
    return note.startswith(_DROPPED) or note.endswith(_MOVED_ASIDE)


def _rename_dropped(
    name: Name,
    statement: Statement,
    moves: dict[Name, Name | None],
    notes: dict[Name, str],
    *,
    at: str,
) -> None:
    # A name that no other table has.
    moment = datetime.datetime.fromtimestamp(statement.ts_ms / 1000, datetime.UTC)
    kept = name[0], f"{name[1]}{DROPPED}{moment:%Y%m%d%H%M%S}_{statement.seq}"
    moves[name] = kept
    notes[name] = ""
    notes[kept] = f"was {argument(name)} until {at}, {_MOVED_ASIDE}"


def _snapshot(statement: Statement, name: Name) -> str:
    """The command that publishes the rows of a table that are in no topic."""
    return f"Run: {snapshot_starts([(statement.destination, name)])}"


def _unmoved(renamed: Mapping[Name, Name], *, at: str, why: str) -> dict[Name, str]:
    """The notes on renamed tables whose rows stay."""
    notes: dict[Name, str] = {}
    for old, new in renamed.items():
        stay = f"the rows from before are still here ({why})"
        notes[old] = f"renamed to {argument(new)} at the source {at}; {stay}"
    for old, new in renamed.items():
        taken = f"was {argument(old)} until {at}, where its rows from before still are"
        notes[new] = f"{notes[new]}; {taken}" if new in renamed else taken
    return notes
