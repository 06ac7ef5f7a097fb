"""Cut-over: the swap of tables at the end of an online schema change, presented as one ALTER.

Invariant: the creation and removal of a shadow are noise. A shadow that replaces its table is that table,
altered. Every other effect of a statement is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from connectors.mysql.ddl.definition import Change, DatabaseChange, Table, TableChange, TableName
from connectors.mysql.ddl.online.shadow_rules import Shadow, ShadowRules
from connectors.mysql.ddl.online.table_names import TableNames


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineAlter:
    """A table was replaced by its shadow."""

    name: TableName
    old: Table | None
    """None if the old table is no longer known."""
    new: Table
    tool: str
    shadow: TableName
    """The old name of the new table."""
    kept_as: TableName | None = None
    """The current name of the old table; None if it was dropped, now or by an earlier statement."""

    @property
    def change(self) -> TableChange:
        """The equivalent change of an ALTER TABLE."""
        return TableChange(name=self.name, old=self.old, new=self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMovedAway:
    """A table is gone, and its shadow is ready: the first of two steps, or the end of the table."""

    name: TableName
    old: Table
    tool: str
    to: TableName | None
    """None if the table was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A shadow was created, altered, dropped, or renamed."""

    change: TableChange
    shadow: Shadow


Logical = Change | OnlineAlter | TableMovedAway | Noise


def logical(
    changes: Sequence[Change],
    rules: ShadowRules,
    *,
    known: Collection[TableName],
    before: Callable[[TableName], Table | None],
) -> tuple[Logical, ...]:
    """Return the logical changes of one statement.

    ``known`` are the tables that exist after the statement, preferably as ``TableNames``. ``before`` returns
    the last definition of a name before the statement, even if the table was gone by then.
    """
    return tuple(_Reading(changes, rules, known=known, before=before).logical_changes())


class _Reading:
    def __init__(
        self,
        changes: Sequence[Change],
        rules: ShadowRules,
        *,
        known: Collection[TableName],
        before: Callable[[TableName], Table | None],
    ) -> None:
        self._changes = changes
        self._rules = rules
        self._before = before
        self._after = known
        self._known = _Both(known, changes)
        self._origins, self._ends = _moves(changes)

    def logical_changes(self) -> Iterator[Logical]:
        for change in self._changes:
            if isinstance(change, DatabaseChange):
                yield change
            elif change.renamed_to is not None:
                yield from self._removed(change)
            elif change.renamed_from is not None:
                yield from self._come(change)
            elif (found := self._rules.shadow(change.name, self._known)) is not None:
                yield Noise(change=change, shadow=found)
            elif (tool := self._ready(change)) is not None and change.old is not None:
                yield TableMovedAway(name=change.name, old=change.old, tool=tool, to=None)
            else:
                yield change

    def _removed(self, change: TableChange) -> Iterator[Logical]:
        """A table lost a name by a rename."""
        name, end = change.name, self._ends.get(change.name)
        if end is None or self._rules.could_shadow(name, end) or self._is_replaced(name):
            # The table only passed through this name, or is reported under its new name, or with its shadow.
            return
        shadow = self._rules.could_shadow(end, name)
        if shadow is not None and change.old is not None:
            yield TableMovedAway(name=name, old=change.old, tool=shadow.tool, to=end)
        elif (found := self._rules.shadow(name, self._known)) is not None:
            yield Noise(change=change, shadow=found)
        else:
            yield change

    def _come(self, change: TableChange) -> Iterator[Logical]:
        """A table received a name by a rename, perhaps temporarily."""
        name, origin = change.name, self._origins.get(change.name)
        if origin is None:
            return
        found, (old, kept_as) = self._rules.could_shadow(origin, name), self._replaced(name)
        if found is not None and change.new is not None and old is not None:
            yield OnlineAlter(
                name=name, old=old, new=change.new, tool=found.tool, shadow=origin, kept_as=kept_as
            )
        elif (shadow := self._rules.shadow(name, self._known)) is not None:
            yield Noise(change=change, shadow=shadow)
        else:
            yield change

    def _is_replaced(self, name: TableName) -> bool:
        """Whether a shadow of the table that had this name has it now."""
        origin = self._origins.get(name)
        return origin is not None and self._rules.could_shadow(origin, name) is not None

    def _replaced(self, name: TableName) -> tuple[Table | None, TableName | None]:
        """The table that had a name before, and its current name."""
        for change in self._changes:
            if isinstance(change, TableChange) and change.name == name and change.old is not None:
                return change.old, self._ends.get(name)
        return self._before(name), None

    def _ready(self, change: TableChange) -> str | None:
        """The tool whose shadow is ready to replace a dropped table; None without such a shadow."""
        if change.new is not None:
            return None
        after = self._after
        there = after if isinstance(after, TableNames) else TableNames(self._rules, after)
        return there.waiting_tool(change.name)


class _Both(Collection[TableName]):
    """The tables that exist after a statement, and the tables that the statement touched."""

    def __init__(self, after: Collection[TableName], changes: Sequence[Change]) -> None:
        self._after = after
        named = (change.name for change in changes if isinstance(change, TableChange))
        self._removed = dict.fromkeys(name for name in named if name not in after)

    def __contains__(self, name: object) -> bool:
        return name in self._removed or name in self._after

    def __iter__(self) -> Iterator[TableName]:
        return chain(self._removed, self._after)

    def __len__(self) -> int:
        return len(self._removed) + len(self._after)


def _moves(
    changes: Sequence[Change],
) -> tuple[dict[TableName, TableName], dict[TableName, TableName]]:
    """The first names of renamed tables, by their last names; and the reverse."""
    origins: dict[TableName, TableName] = {}
    for change in changes:
        if isinstance(change, TableChange) and change.renamed_to is not None:
            first = origins.pop(change.name, change.name)
            origins[change.renamed_to] = first
    origins = {last: first for last, first in origins.items() if last != first}
    return origins, {first: last for last, first in origins.items()}
