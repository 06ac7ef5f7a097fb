"""Real tables that were dropped or renamed away, by the records of the DDL topics.

Invariant: the records of a destination are taken in their order, again or not; the last one on a table counts.
A table that has a later version than its drop exists again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tables.history.logical_schemas.shard import ShardName


@dataclass(slots=True)
class DroppedTables:
    """The real tables that do not exist now."""

    _dropped_ms: dict[ShardName, int] = field(default_factory=dict)

    def drop(self, name: ShardName, ts_ms: int) -> None:
        """Note a table that was dropped at a time, in milliseconds since 1970."""
        self._dropped_ms[name] = ts_ms

    def take(self, destination: str, record: dict[str, Any]) -> set[ShardName]:
        """Take a record of a destination's DDL topic; return the tables that it drops or creates.

        Raises AttributeError, KeyError, TypeError or ValueError if it is no such record.
        """
        changed = set()
        for table in record.get("tables", ()):
            name = ShardName(destination, table["database"], table["table"])
            if table["new"] is None:
                self._dropped_ms[name] = int(record["source"]["ts_ms"])
                changed.add(name)
            elif self._dropped_ms.pop(name, None) is not None:
                changed.add(name)
        return changed

    def dropped_ms(self, name: ShardName, version_ms: int) -> int | None:
        """The time at which a table was dropped; None if it exists.

        ``version_ms``: the time of its newest version.
        """
        found = self._dropped_ms.get(name)
        return found if found is not None and found >= version_ms else None
