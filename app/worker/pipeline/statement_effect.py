"""The effect of a statement on tables by their history, and its impact on their users.

Invariant: it is determined once, at the statement's position, and sent with its chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connectors.mysql.ddl.definition import Change, TableChange, TableName
from connectors.mysql.ddl.online.cut_over import Logical, Noise, OnlineAlter, TableMovedAway
from tables.history.record import SchemaRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A statement that affects tables or databases."""

    record: SchemaRecord | None
    """Its record in the history; None if no definition changed."""
    type: str
    """The statement type, such as ``ALTER TABLE``."""
    meaning: tuple[Logical, ...] = ()
    """Its changes without the steps of online schema change tools."""
    renames: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    """For each altered table, old column names to new ones."""
    emptied: tuple[TableName, ...] = ()
    """The tables that it truncates."""
    unlogged: tuple[tuple[TableName, str], ...] = ()
    """The tables of which it changes rows that no event names, and by what."""
    is_noise: bool = False
    """Whether it only serves such a tool."""

    def changes(self) -> Iterator[Change]:
        """Yield its changes as a user's statements would have made them."""
        for one in self.meaning:
            if isinstance(one, OnlineAlter):
                yield one.change
            elif isinstance(one, TableMovedAway):
                yield TableChange(name=one.name, old=one.old, new=None, renamed_to=one.to)
            elif not isinstance(one, Noise):
                yield one
