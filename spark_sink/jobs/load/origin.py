"""A destination's source as a load uses it: the server that is read, and the cursor of what is published of it.

Invariant: a SELECT begins once the server shows all transactions of the low cursor. What the SELECT saw is
published once the cursor has all transactions that the server showed after the SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import LoadStale
from spark_sink.jobs.load.cursor import Cursors, SourceCursor
from spark_sink.jobs.load.key_ranges import KeyColumn, key_ranges
from spark_sink.jobs.load.mysql_sql import literals
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import SourceServer, wait_for

BEGIN: Final = "Make a new plan (python -m app snapshot plan), and load it with --again"
_WIDTH: Final = re.compile(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)")


@dataclass(slots=True, kw_only=True)
class Origin:
    """The source of one destination."""

    server: SourceServer
    cursors: Cursors
    stopped: Callable[[float], bool]
    """Waits so many seconds, and returns whether to stop."""
    timeout: float

    def low(self) -> SourceCursor:
        """Return the present cursor of the stream. Raise LoadRefused, KafkaUnreachable."""
        return self.cursors.between(seconds=self.timeout, stopped=self.stopped)

    def wait_for(self, low: SourceCursor) -> None:
        """Wait until a SELECT sees all that was published up to a cursor. Raise LoadRefused."""
        wait_for(self.server, low.gtids, seconds=self.timeout, stopped=self.stopped)

    def await_published(self, low: SourceCursor, highs: Collection[str]) -> None:
        """Wait until the stream has all transactions of the sets `highs`. Raise LoadRefused, LoadStale."""

        def is_past(now: SourceCursor) -> bool:
            self.check_unmoved(low, now)
            return all(self.server.contains(now.gtids, high) for high in highs)

        self.cursors.wait_past(is_past, seconds=self.timeout, stopped=self.stopped)

    def check_unmoved(self, low: SourceCursor, now: SourceCursor) -> None:
        """Raise LoadStale if the cursor was set by anything but the stream between `low` and `now`."""
        if (now.installation, now.by) != (low.installation, low.by):
            raise LoadStale(
                f"the cursor of {self.cursors.destination} was set to another position since the load began",
                advice=BEGIN,
            )

    def check_columns(self, source: SourceTable) -> None:
        """Raise LoadStale if a column differs from the plan, TableUnreadable if it may not be read."""
        there = {column: kind for column, kind, _ in self._columns(source)}
        if lacking := [column for _, column, _ in source.columns if column not in there]:
            # The account does not see columns on which it has no privilege.
            self.server.check_readable(source.real, lacking)
        for _, column, kind in source.columns:
            if column not in there or _plain(there[column]) != _plain(kind):
                raise LoadStale(
                    f"column {column} of {source.database}.{source.table} is {there.get(column, 'gone')} "
                    f"at the source, and {kind} in the plan",
                    advice=BEGIN,
                )

    def ranges(self, source: SourceTable, *, rows: int) -> list[str]:
        """Return the conditions of ranges of about `rows` rows each."""
        kinds = {name: base for name, _, base in self._columns(source)}
        key = [KeyColumn(name, kinds[name]) for name in source.key]
        return key_ranges(self.server, source.real, key, rows=rows)

    def _columns(self, source: SourceTable) -> list[tuple[str, str, str]]:
        rows = self.server.ask(
            "SELECT column_name, column_type, data_type FROM information_schema.columns WHERE "  # noqa: S608
            f"(table_schema, table_name) = ({literals(source.real)})"
        )
        return [(name or "", kind or "", base or "") for name, kind, base in rows]


def _plain(column_type: str) -> str:
    """A type without a display width, which only some servers print."""
    return _WIDTH.sub(r"\1", column_type.lower())
