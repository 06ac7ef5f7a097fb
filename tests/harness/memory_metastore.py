"""A metastore in memory, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_sink.errors import MetastoreUnreachable
from spark_sink.warehouse.protocol import Name


@dataclass(slots=True)
class MemoryMetastore:
    """See registration.Metastore."""

    held: dict[Name, str] = field(default_factory=dict)
    """The location of each table, and of the table of each view of ours; empty for views of others."""
    views: dict[Name, str] = field(default_factory=dict)
    """The query of each view."""
    is_away: bool = False
    """Whether it does not answer."""

    def names(self, database: str) -> set[str]:
        """See registration.Metastore."""
        self._answer()
        return {table for held, table in self.held if held == database}

    def is_at(self, name: Name, location: str) -> bool | None:
        """See registration.Metastore."""
        self._answer()
        held = self.held.get(name)
        return None if held is None else held == location

    def register(self, name: Name, location: str) -> None:
        """See registration.Metastore."""
        self._answer()
        self.held.setdefault(name, location)

    def put_view(self, name: Name, sql: str, location: str) -> None:
        """See registration.Metastore."""
        self._answer()
        self.held[name], self.views[name] = location, sql

    def remove(self, name: Name) -> None:
        """See registration.Metastore."""
        self._answer()
        self.held.pop(name, None)
        self.views.pop(name, None)

    def _answer(self) -> None:
        if self.is_away:
            raise MetastoreUnreachable("thrift://memory", advice="Bring it back")
