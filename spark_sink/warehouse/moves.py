"""Each DROP and RENAME that the sink has decided on, and the table that each row belongs to after them.

A table that exists under some names from its CREATE to its DROP is one incarnation. `moves` of an event map the
name that an incarnation had before to its next name, or to None where its rows are gone.

Invariant: where a row belongs depends on its source table, its (epoch, seq) and the events alone, never on
when it arrives. An event is stored with what was decided then, so a changed setting concerns later DDL only.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from spark_sink.text.quoting import literal
from spark_sink.warehouse.ledger import Floor, Source

Name = tuple[str, str]
Place = tuple[int, int]
"""(epoch, seq)."""
Piece = tuple[Place | None, Name | None]
"""Rows below a position, or all other rows (None), and the table that they belong to; None if they are gone."""


DROPPED = "__dropped_"
"""Between a table's name and the time, in the name that its rows get when the source drops it."""
BEGINNING: Place = (-1, -1)
"""The position before all rows."""
END: Place = (2**63 - 1, 2**63 - 1)
"""The position after all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What `status` prints of a name: the change, and why the rows are as they are."""

    name: Name
    text: str
    """Empty once it no longer holds."""
    is_gap: bool = False
    """Whether rows have changed at the source without a record."""
    source: Name | None = None
    """The source table that the note is about, if it is a mapped one: the table has rows of others too."""
    truncates: int = 0
    """The number of truncates that follow the statement as a part of it; these do not end the gap."""
    is_gone: bool = False
    """Whether the source table is gone since the statement, and its rows are still here."""

    @property
    def keeps_rows(self) -> bool:
        """Whether rows of its source table from before the statement are here, and are not at the source."""
        return bool(self.text) and self.source is not None and not self.is_gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One DDL statement of a destination, and what the sink does about it."""

    destination: str
    epoch: int
    seq: int
    ts_ms: int
    moves: Mapping[Name, Name | None] = field(default_factory=dict)
    removed: Collection[Name] = ()
    """Names whose table is removed from the warehouse with its rows, if nothing else takes its place."""
    carried: Mapping[Name, Place] = field(default_factory=dict)
    """The floor of each incarnation that moved, by its new name: a truncate from before the move."""
    notes: Collection[Note] = ()
    given_up: Collection[Name] = ()
    """The names under which a DROP left rows that an operator has given up: these rows are gone."""
    altered: Collection[tuple[Name, int]] = ()
    """The source's tables that the statement altered or renamed, by their names after it, each with its version
    from then on."""

    @property
    def only_alters(self) -> bool:
        """Whether all tables keep their names, rows and notes."""
        return not (self.moves or self.removed or self.carried or self.notes or self.given_up)

    @property
    def place(self) -> Place:
        """The position of the statement, by which events and rows are ordered."""
        return self.epoch, self.seq

    @property
    def names(self) -> set[Name]:
        """The tables that may change."""
        targets = (name for name in self.moves.values() if name is not None)
        return {*self.moves, *targets, *self.removed}

    def text(self) -> str:
        """The event's own members, as stored."""
        return json.dumps(
            {
                "version": 1,
                "moves": [[list(old), new and list(new)] for old, new in self.moves.items()],
                "removed": [list(name) for name in self.removed],
                "carried": [[list(name), *place] for name, place in self.carried.items()],
                "notes": [_stored(note) for note in self.notes],
                **({"given_up": [list(name) for name in self.given_up]} if self.given_up else {}),
                **({"altered": [[*name, to] for name, to in self.altered]} if self.altered else {}),
            }
        )

    @classmethod
    def of(cls, destination: str, place: Place, ts_ms: int, text: str) -> Event:
        """The stored event."""
        body: dict[str, Any] = json.loads(text)
        return cls(
            destination=destination,
            epoch=place[0],
            seq=place[1],
            ts_ms=ts_ms,
            moves={_name(old): new and _name(new) for old, new in body["moves"]},
            removed=tuple(_name(name) for name in body["removed"]),
            carried={_name(name): (epoch, seq) for name, epoch, seq in body["carried"]},
            notes=tuple(
                Note(
                    name=_name(name),
                    text=text,
                    is_gap=bool(more and more[0]),
                    source=_name(more[1]) if len(more) > 1 else None,
                    truncates=more[2] if len(more) > 1 else 0,
                    is_gone=bool(more[3:] and more[3]),
                )
                for name, text, *more in body["notes"]
            ),
            given_up=tuple(_name(name) for name in body.get("given_up", ())),
            altered=tuple(((one[0], one[1]), one[2]) for one in body.get("altered", ())),
        )

    def without_given_up(self, names: Iterable[Name]) -> Event:
        """The event as if it removed the rows that would be in tables of these names."""
        given_up = {*self.given_up, *names}
        return replace(
            self,
            moves={old: None if new in given_up else new for old, new in self.moves.items()},
            carried={name: at for name, at in self.carried.items() if name not in given_up},
            notes=tuple(note for note in self.notes if note.name not in given_up),
            given_up=tuple(sorted(given_up)),
        )


@dataclass(slots=True)
class History:
    """The events, and the position up to which each destination's events are carried out in the tables."""

    events: dict[tuple[str, Place], Event] = field(default_factory=dict)
    done: dict[str, Place] = field(default_factory=dict)
    alters: dict[tuple[str, Place], Event] = field(default_factory=dict)
    """The events that only alter tables: there may be many, and names and rows do not depend on them."""

    def add(self, events: Iterable[Event]) -> None:
        """Add events; a known event gets what the new one has more in `carried` and `given_up`."""
        for event in events:
            at = event.destination, event.place
            if event.only_alters and at not in self.events:
                self.alters[at] = event
                continue
            held = self.events.get(at)
            if held is not None:
                carried = dict(held.carried)
                for name, place in event.carried.items():
                    carried[name] = max(place, carried.get(name, place))
                event = replace(held, carried=carried, given_up=(*held.given_up, *event.given_up))
            self.events[at] = event.without_given_up(()) if event.given_up else event

    def settled(self) -> list[Event]:
        """The events that are carried out."""
        pending = {(one.destination, one.place) for one in self.pending()}
        return [one for one in self.ordered() if (one.destination, one.place) not in pending]

    def pending(self) -> list[Event]:
        """The events that are not carried out yet."""
        return self.since(self.done)

    def since(self, places: Mapping[str, Place]) -> list[Event]:
        """The events after a position of each destination, also those that only alter tables."""
        found = self.events | self.alters
        later = [at for at in found if at[1] > places.get(at[0], BEGINNING)]
        return [found[at] for at in sorted(later)]

    def ordered(self) -> list[Event]:
        """All events in the order of their destinations and positions."""
        return [self.events[at] for at in sorted(self.events)]

    def notes(self, floors: Iterable[Floor] = ()) -> dict[Name, list[str]]:
        """The texts of each name's notes, in the order of destinations.

        A truncate among `floors` ends a gap: all rows from before it are gone, and later ones are published. So
        it ends a note on rows of a source table that nothing removed, also one at the statement itself.
        """
        found: dict[Name, list[str]] = {}
        last = self.last_notes(floors)
        for (_, name, _), note in sorted(
            last.items(), key=lambda one: (*one[0][:2], one[0][2] or ())
        ):
            if note.text:
                found.setdefault(name, []).append(note.text)
        return found

    def gaps(self, floors: Iterable[Floor] = ()) -> set[Name]:
        """The tables with rows that have changed at the source without a record; see `notes`."""
        return {name for (_, name, _), note in self.last_notes(floors).items() if note.is_gap}

    def last_notes(self, floors: Iterable[Floor] = ()) -> dict[tuple[str, Name, Name | None], Note]:
        """The last note of each destination, name, and mapped source table; see `notes`."""
        last: dict[tuple[str, Name, Name | None], Note] = {}
        places: dict[tuple[str, Name, Name | None], Place] = {}
        for event in self.ordered():
            for note in event.notes:
                last[event.destination, note.name, note.source] = note
                # Truncates up to here are no end of the note.
                last_seq = event.seq + (-1 if note.keeps_rows else note.truncates)
                places[event.destination, note.name, note.source] = event.epoch, last_seq
        for floor in floors:
            source = floor.source
            for of in (None, (source.database, source.table)):
                at = source.destination, _of(floor), of
                held = last.get(at)
                if held is None or not (held.is_gap or held.keeps_rows):
                    continue
                if floor.place > places[at]:
                    del last[at]
        return last

    def note_on(self, name: Name, source: Source) -> tuple[Event, Note] | None:
        """The last note on a source table's rows in a table, and its event, whatever truncates came since."""
        own, found = (source.database, source.table), None
        for event in self.ordered():
            for note in event.notes if event.destination == source.destination else ():
                if (note.name, note.source) == (name, own):
                    found = event, note
        return found

    def is_moved(self, name: Name) -> bool:
        """Whether a table of that name was dropped or renamed, so that another may have another key."""
        return any(name in event.moves for event in self.events.values())

    def begun(self, destination: str, name: Name) -> Event | None:
        """The last event at which a name passed to another incarnation, or became free."""
        found = None
        for event in self.ordered():
            if event.destination == destination and name in {*event.moves, *event.moves.values()}:
                found = event
        return found

    def names(self, destination: str, name: Name) -> list[tuple[Name, Place]]:
        """The names that a table has had up to `name`, each with the position at which it got it; see `Stay`.

        Empty if no event concerns the table.
        """
        found: list[tuple[Name, Place]] = []
        for event in reversed([one for one in self.ordered() if one.destination == destination]):
            before = next((old for old, new in event.moves.items() if new == name), None)
            if before is None and name not in event.moves:
                continue
            found.insert(0, (name, event.place))
            if before is None:
                # The table was created after the one that had this name before.
                return found
            name = before
        return [(name, BEGINNING), *found] if found else []

    def floors(self, floors: Iterable[Floor]) -> list[Floor]:
        """The truncates that concern the tables as they are named now.

        A truncate of a name concerns the incarnation that had the name then: it moved with that one's rows.
        """
        begun: dict[tuple[str, Name], Event] = {}
        for event in self.ordered():
            for name in event.names:
                begun[event.destination, name] = event
        found = []
        for floor in floors:
            event_ = None if floor.is_mapped else begun.get((floor.source.destination, _of(floor)))
            if event_ is None or floor.place >= event_.place:
                found.append(floor)
        for (destination, name), event in begun.items():
            if name in event.carried:
                found.append(carried_floor(event, destination, name))
        return found


def _stored(note: Note) -> list[Any]:
    """A note as stored; members that earlier versions did not have are omitted where possible."""
    body: list[Any] = [list(note.name), note.text]
    if note.source is not None:
        gone = [True] if note.is_gone else []
        return [*body, note.is_gap, list(note.source), note.truncates, *gone]
    return [*body, True] if note.is_gap else body


def carried_floor(event: Event, destination: str, name: Name) -> Floor:
    """The floor of an incarnation that got a name by an event."""
    epoch, seq = event.carried[name]
    return Floor(
        database=name[0],
        table=name[1],
        source=Source(destination, *name),
        epoch=epoch,
        seq=seq,
        ts_ms=event.ts_ms,
    )


def pieces(events: Iterable[Event]) -> dict[tuple[str, Name], list[Piece]]:
    """For each destination and name, where its rows belong after all `events`, by their positions.

    Names that no event concerns are missing: their rows belong where they are.
    """
    found: dict[tuple[str, Name], list[Piece]] = {}
    final: dict[tuple[str, Name], Name | None] = {}
    for event in sorted(events, key=lambda one: (one.destination, one.place), reverse=True):
        at = event.destination
        # All names of a statement move at once, so each is looked up as it is after the statement.
        moved = {
            old: None if new is None else final.get((at, new), new)
            for old, new in event.moves.items()
        }
        for old, target in moved.items():
            final[at, old] = target
            own = found.setdefault((at, old), [(None, old)])
            if own[0][1] != target:
                own.insert(0, (event.place, target))
    return found


def present(
    moved: Mapping[tuple[str, Name], Iterable[Piece]], event: Event, name: Name
) -> Name | None:
    """The name that a table of an event has now; None if it is gone."""
    own = moved.get((event.destination, name))
    return name if own is None else belongs(own, event.place)


def of_open(
    found: Mapping[tuple[str, Name], Iterable[Piece]], is_open: Callable[[str, Place], bool]
) -> dict[tuple[str, Name], list[Piece]]:
    """The pieces whose rows may still come: those before an event with `is_open(destination, place)`."""
    left = {}
    for (destination, name), own in found.items():
        kept = [one for one in own if one[0] is None or is_open(destination, one[0])]
        if any(target != name for _, target in kept):
            left[destination, name] = kept
    return left


def superseded(events: Iterable[Event], until: Mapping[str, Place]) -> list[Event]:
    """The events up to a position of each destination that change nothing, given the later events.

    Without them, each row belongs where it did, whenever it arrives; each table has the same names, note and
    truncate; and the same names are known as moved.
    """
    found = History()
    found.add(events)
    ordered = found.ordered()
    needed = {
        (destination, below)
        for (destination, _), own in pieces(ordered).items()
        for below, _ in own
        if below is not None
    }
    last: dict[tuple[str, object], tuple[str, Place]] = {}
    taken: dict[tuple[str, Name], list[tuple[Place, Name | None]]] = {}
    """The statements that gave or took each name, with its table's name before; None if the name was taken."""
    for event in ordered:
        at = event.destination, event.place
        before: dict[Name, Name | None] = dict.fromkeys(event.moves)
        before |= {new: old for old, new in event.moves.items() if new is not None}
        for name, old in before.items():
            taken.setdefault((event.destination, name), []).append((event.place, old))
        concerned: dict[str, Iterable[object]] = {
            "key": event.moves,
            "name": before,
            "removed": event.removed,
            "note": [(note.name, note.source) for note in event.notes],
        }
        for kind, ones in concerned.items():
            last |= {(event.destination, (kind, one)): at for one in ones}
    needed |= set(last.values())
    for destination, name in taken:
        needed |= {(destination, place) for place in _chain(taken, destination, name)}
    return [
        one
        for one in ordered
        if one.place <= until.get(one.destination, BEGINNING)
        and (one.destination, one.place) not in needed
    ]


def superseded_alters(history: History, until: Mapping[str, Place]) -> list[Event]:
    """The events up to a position of each destination that only alter tables, and are not needed.

    Their versions are between others of the same table under the same name.
    """
    taken: dict[tuple[str, Name], list[Place]] = {}
    for event in history.ordered():
        for name in event.names:
            taken.setdefault((event.destination, name), []).append(event.place)
    stays: dict[tuple[str, Name, int], list[Place]] = {}
    for event in history.since({}):
        for name, _ in event.altered:
            of = event.destination, name
            number = bisect_left(taken.get(of, []), event.place)
            stays.setdefault((*of, number), []).append(event.place)
    needed = {(at[0], one) for at, own in stays.items() for one in (own[0], own[-1])}
    return [
        one
        for at, one in history.alters.items()
        if at not in needed and one.place <= until.get(one.destination, BEGINNING)
    ]


def _chain(
    taken: Mapping[tuple[str, Name], list[tuple[Place, Name | None]]], destination: str, name: Name
) -> Iterable[Place]:
    """The statements by which a table got its names, as `History.names` goes through them."""
    at: Name | None = name
    below: Place | None = None
    while at is not None:
        own = taken.get((destination, at), [])
        number = len(own) if below is None else bisect_left(own, below, key=itemgetter(0))
        if number == 0:
            return
        below, at = own[number - 1]
        yield below


def pieces_of(
    found: Mapping[tuple[str, Name], list[Piece]], tables: Collection[Name]
) -> dict[tuple[str, Name], list[Piece]]:
    """The pieces of each name that is among these tables, or that has rows which belong to one of them.

    The rows of all other tables count as gone, so adjacent pieces of such rows become one.
    """
    kept: dict[tuple[str, Name], list[Piece]] = {}
    for at, own in found.items():
        if at[1] not in tables and not any(target in tables for _, target in own):
            continue
        kept[at] = []
        for below, target in reversed(own):
            to = target if target in tables else None
            if not kept[at] or kept[at][0][1] != to:
                kept[at].insert(0, (below, to))
    return kept


def belongs(found: Iterable[Piece], place: Place) -> Name | None:
    """The table that a row at a position belongs to; None if the row is gone."""
    return next(target for below, target in found if below is None or place < below)


def below_sql(place: Place, *, epoch: str, seq: str) -> str:
    """The condition that a row is below a position; `epoch` and `seq` are its columns."""
    return f"({epoch} < {place[0]} OR ({epoch} = {place[0]} AND {seq} < {place[1]}))"


def piece_sql(found: Iterable[Piece], target: Name | None, *, epoch: str, seq: str) -> str:
    """The condition that a row belongs to `target`."""
    whens = "".join(
        f"WHEN {'true' if below is None else below_sql(below, epoch=epoch, seq=seq)} "
        f"THEN {'true' if to == target else 'false'} "
        for below, to in found
    )
    return f"(CASE {whens}END)"


def routed_sql(found: Mapping[tuple[str, Name], Collection[Piece]]) -> tuple[str, str]:
    """The expression of an envelope's table (struct `d`, `t`), and the condition that its row is gone.

    Rows of mapped tables stay where the mapping puts them. All pieces are one constant that is searched. Spark
    repeats an expression for each of its uses, so one with a branch for each piece could fill its memory.
    """
    rows: dict[str, list[dict[str, object]]] = {}
    for (destination, name), own in sorted(found.items()):
        named = rows.setdefault("\0".join((destination, *name)), [])
        for below, target in own:
            (epoch, seq), (to_database, to_table) = below or END, target or (None, None)
            named.append({"e": epoch, "s": seq, "d": to_database, "t": to_table})
    kind = "map<string,array<struct<e:bigint,s:bigint,d:string,t:string>>>"
    known = f"from_json({literal(json.dumps(rows))}, '{kind}')"
    pieces_sql = (
        f"try_element_at({known}, concat_ws(chr(0), destination, source_database, source_table))"
    )
    # A row without a position belongs where the newest rows do.
    place = f"struct(coalesce(epoch, {END[0] - 1}), coalesce(seq, 0))"
    piece = f"try_element_at(filter({pieces_sql}, x -> {place} < struct(x.e, x.s)), 1)"
    piece = f"if(NOT routed, {piece}, NULL)"
    to = f"coalesce(if({piece}.d IS NULL, NULL, struct({piece}.d AS d, {piece}.t AS t))"
    return (
        f"{to}, struct(database AS d, `table` AS t))",
        f"({piece} IS NOT NULL AND {piece}.d IS NULL)",
    )


def _of(floor: Floor) -> Name:
    return floor.database, floor.table


def _name(parts: list[str]) -> Name:
    return parts[0], parts[1]
