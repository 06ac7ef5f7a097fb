"""The tables that the sink has renamed or emptied after DDL, as its dump states them.

Invariant: a record is expected in the table that its row belongs to now, by its position alone, as the sink
itself places it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from app.audit.warehouse.applied import NumberPosition

Name = tuple[str, str]


@dataclass(slots=True)
class MovedTables:
    """For each source table, up to which positions its rows belong to which table."""

    _pieces: dict[Name, list[tuple[NumberPosition, Name | None]]] = field(default_factory=dict)

    @classmethod
    def of(cls, stated: Iterable[list[object]], destination: str) -> MovedTables:
        """Read the member ``moved`` of a dump's first line.

        Its items are destination, database, table, and [epoch, seq, [database, table] or null] for each piece.
        """
        found = cls()
        for owner, database, table, pieces in stated:
            if owner == destination and isinstance(pieces, list):
                found._pieces[str(database), str(table)] = [
                    ((int(epoch), int(seq)), None if to is None else (to[0], to[1]))
                    for epoch, seq, to in pieces
                ]
        return found

    def place(self, name: Name, position: NumberPosition) -> Name | None:
        """Return the table that a row belongs to; None if its table was dropped, and its rows with it."""
        for below, target in self._pieces.get(name, ()):
            if position < below:
                return target
        return name

    def follows(self, name: Name, position: NumberPosition) -> bool:
        """Return whether the sink has followed a statement at a position that took a name from its table."""
        return any(position <= below for below, _ in self._pieces.get(name, ()))
