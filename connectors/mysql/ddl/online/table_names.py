"""The tables that there are, and which of them may be waiting to take another's place.

The law: what a name may be a ghost of is found once, as the table comes; so asking who waits for a table costs
the same however many tables there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.online.shadow_rules import Role, ShadowRules


class Standing(Collection[TableName]):
    """Names of tables, with the ghosts among them by the tables that they may be ghosts of."""

    def __init__(self, rules: ShadowRules, names: Iterable[TableName] = ()) -> None:
        self._rules = rules
        self._names: set[TableName] = set()
        self._ghosts: dict[TableName | None, dict[TableName, None]] = {}
        """Under None those whose names were cut, which may be of any table."""
        self.update(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: TableName) -> None:
        """A table is there from now on."""
        if name not in self._names:
            self._names.add(name)
            for of in self._rules.ghost_of(name):
                self._ghosts.setdefault(of, {})[name] = None

    def update(self, names: Iterable[TableName]) -> None:
        """These are there from now on."""
        for name in names:
            self.add(name)

    def discard(self, name: TableName) -> None:
        """A table is not there any more."""
        if name not in self._names:
            return
        self._names.discard(name)
        for of in self._rules.ghost_of(name):
            waiting = self._ghosts.get(of, {})
            waiting.pop(name, None)
            if not waiting:
                self._ghosts.pop(of, None)

    def tool_behind(self, table: TableName) -> str | None:
        """The tool whose ghost stands ready to take a table's place; None where none does."""
        for name in (*self._ghosts.get(table, ()), *self._ghosts.get(None, ())):
            found = self._rules.could_shadow(name, table)
            if found is not None and found.role is Role.GHOST and found.of == table:
                return found.tool
        return None
