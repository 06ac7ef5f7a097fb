"""DROP TABLE and RENAME TABLE around a cut: tables that it cannot show, and where other tables' rows belong.

A cut reads tables as of a batch, under the names that they had then. A statement may have been carried out
before that batch although rows from before the statement were still to come, or only after the batch.

Invariant: a table is in a cut only if each statement that concerns it is either in the cut and was carried
out before the batch, or is after the cut and not carried out at all. So the table has the rows and the name
that it had at the source. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.warehouse.milestones import Positions
from spark_sink.warehouse.moves import Event, History, Name, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The statements that are known, and the batch as of which a cut reads its tables."""

    history: History
    statements: Collection[str]
    """The values of DDL topics among the recent changes."""
    done: Mapping[str, Place]
    """The position up to which the DDL of each destination was carried out before the batch."""
    positions: Positions
    """The last change of each destination in the cut."""

    def carried_out(self) -> list[Event]:
        """The statements that were carried out before the batch: its tables have the names after them."""
        return [one for one in self.history.ordered() if _is_within(one.place, one, self.done)]

    def refused(self) -> dict[Name, str]:
        """The tables that are not in the cut, and why."""
        found: dict[Name, str] = {}
        for destination, place, names in self._known():
            last = self.positions.get(destination)
            is_before = last is not None and place <= (last.epoch, last.seq)
            was_done = place <= self.done.get(destination, _NEVER)
            is_done = was_done or place <= self.history.done.get(destination, _NEVER)
            if (is_before and was_done) or not (is_before or is_done):
                continue
            when = f"by the statement at epoch {place[0]}, seq {place[1]}"
            if is_before:
                why = f"it was dropped or renamed {when}, which was not carried out yet"
            else:
                why = f"it was dropped or renamed after the cut, {when}"
            found |= dict.fromkeys(names, why)
        return found

    def names(self) -> set[Name]:
        """All names that statements have dropped or renamed."""
        return {name for *_, names in self._known() for name in names}

    def _known(self) -> Iterator[tuple[str, Place, Iterable[Name]]]:
        for event in self.history.ordered():
            new = (name for name in event.moves.values() if name is not None)
            yield event.destination, event.place, {*event.moves, *new}
        for text in self.statements:
            one = parse_statement(text, "recent changes")
            # A statement that is decided on is an event already, or concerns no table that the sink follows.
            if one.place > self.history.done.get(one.destination, _NEVER):
                yield (
                    one.destination,
                    one.place,
                    {*one.renamed, *one.renamed.values(), *one.dropped},
                )


_NEVER = (-1, -1)


def _is_within(place: Place, event: Event, done: Mapping[str, Place]) -> bool:
    return place <= done.get(event.destination, _NEVER)
