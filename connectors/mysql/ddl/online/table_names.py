"""The names of existing tables, with the ghosts that may be about to replace a table.

Invariant: the tables that a name may be a ghost of are computed once, when the name is added, so that the
look-up of a table's ghost costs the same for any number of tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.online.shadow_rules import Role, ShadowRules


class TableNames(Collection[TableName]):
    """Names of tables, with ghosts indexed by the tables that they may be ghosts of."""

    def __init__(self, rules: ShadowRules, names: Iterable[TableName] = ()) -> None:
        self._rules = rules
        self._names: set[TableName] = set()
        self._ghosts: dict[TableName | None, dict[TableName, None]] = {}
        """Ghosts with cut names, which may be of any table, are under None."""
        self.update(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: TableName) -> None:
        """Add a table."""
        if name not in self._names:
            self._names.add(name)
            for of in self._rules.ghost_of(name):
                self._ghosts.setdefault(of, {})[name] = None

    def update(self, names: Iterable[TableName]) -> None:
        """Add these tables."""
        for name in names:
            self.add(name)

    def discard(self, name: TableName) -> None:
        """Remove a table."""
        if name not in self._names:
            return
        self._names.discard(name)
        for of in self._rules.ghost_of(name):
            waiting = self._ghosts.get(of, {})
            waiting.pop(name, None)
            if not waiting:
                self._ghosts.pop(of, None)

    def waiting_tool(self, table: TableName) -> str | None:
        """Return the tool whose ghost is ready to replace a table; None if no ghost is."""
        for name in (*self._ghosts.get(table, ()), *self._ghosts.get(None, ())):
            found = self._rules.could_shadow(name, table)
            if found is not None and found.role is Role.GHOST and found.of == table:
                return found.tool
        return None
