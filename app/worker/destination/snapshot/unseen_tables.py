"""The tables that a destination's account may not see, and whose existing rows wait until it may.

The server does not list a table on which the account has no privilege. So the name of such a table is known
only if the filter spells it out, or if the stream has had rows of it; otherwise the table's database is shown.

Invariant: a run ends once a table can be seen that could not be seen at its beginning. The next run takes the
table into the schema history, and records that its rows are to be read, in one transaction. A table that a
statement of the stream has created needs neither.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from app.worker.destination.background import in_its_own_thread
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.initial_snapshots import unseen_names
from app.worker.destination.takeover.takeover import TakenOver
from connectors.errors import AqueductError, RunRestarts
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.unseen_tables import sight_now, sight_of
from tables.rules.table_filter import open_databases
from tables.state.snapshots.snapshot_progress import TableSnapshot, requested

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""The interval of queries to the server."""


class UnseenTables:
    """The unseen tables of one run."""

    def __init__(
        self, plan: Plan, led: TakenOver, *, is_known: Callable[[TableName], bool]
    ) -> None:
        """``is_known``: whether the schema history knows a table, or the table is not published."""
        self._plan, self._led, self._is_known = plan, led, is_known
        self._sight = self._first = sight_of(led.address, led.facts, led.names)
        self._began = self._sight.names - self._sight.ungranted
        """The tables that this run could take into its history; no further run is begun for these."""
        self._before: frozenset[TableName] = frozenset()
        self._due = 0.0
        self._lacking = self._grants()

    def why(self, name: TableName) -> str | None:
        """Why a table cannot be read yet, with the statement that makes it visible.

        None if it can be read, or if the schema history knows it.
        """
        if self._is_known(name):
            return None
        if name in self._sight.seen and name not in self._began:
            return "the schema history has yet to take it in"
        return self._sight.why_unseen(name)

    @property
    def scopes(self) -> int:
        """The number of databases, counting all as one, that may have tables not known by name.

        If the filter is not limited to databases, an account that sees some tables may be meant to see no
        other databases than theirs: 0.
        """
        is_any = open_databases(self._plan.rules.routes.include) is None
        return 0 if is_any and self._sight.names else len(self._lacking)

    @property
    def warnings(self) -> list[str]:
        """The warnings about tables that may exist and are not known by name."""
        return [
            f"the account may not see all captured tables; one that it may not see is read once it may: {grant}"
            for grant in self._lacking
        ]

    async def look(self, known: Mapping[TableName, TableSnapshot]) -> list[TableSnapshot]:
        """The tables whose names have become known, and which wait from now on.

        Raise RunRestarts once tables can be seen that could not be seen before.
        """
        pending = [name for name, one in known.items() if one.is_pending]
        is_wanted = self._plan.snapshot.is_initial and self._lacking
        if time.monotonic() < self._due or not (is_wanted or any(map(self.why, pending))):
            return []
        try:
            self._sight = await in_its_own_thread(
                partial(sight_now, self._led.address, self._led.facts)
            )
        except AqueductError as error:
            # The stream has its own connection, which may be healthy.
            log.debug(
                "%s: the server was not asked which tables can be seen: %s", self._plan.name, error
            )
            return []
        finally:
            self._due = time.monotonic() + LOOK_SECONDS
        self._check_news(pending)
        self._lacking = self._grants()
        return self._named(known) if self._plan.snapshot.is_initial else []

    def _check_news(self, pending: list[TableName]) -> None:
        """Raise RunRestarts if two checks in a row see tables that the schema history does not know."""
        if self._led.opened.is_partial:
            # The history takes them in once the stream is near the end of the binlog.
            return
        wanted = (
            self._sight.seen
            if self._plan.snapshot.is_initial
            else self._sight.seen.intersection(pending)
        )
        news = frozenset(
            name
            for name in wanted - self._began
            # A table that would have been seen at the beginning was created since, by a statement on its way.
            if not self._first.covers(name) and not self._is_known(name)
        )
        # Other tables may have been created since, too: only a table that two checks see counts.
        if lasting := news & self._before:
            listed = ", ".join(sorted(".".join(name) for name in lasting))
            raise RunRestarts(f"to read tables that its account may see now: {listed}")
        self._before = news

    def _named(self, known: Mapping[TableName, TableSnapshot]) -> list[TableSnapshot]:
        history = self._led.opened.history
        if history is None:
            return []
        names = unseen_names(self._plan, self._led.state, history.now(), self._sight)
        found = [name for name in names if name not in known and not self._is_known(name)]
        now_ms = time.time_ns() // 1_000_000
        return requested(self._plan.name, found, name=f"{now_ms:x}", now_ms=now_ms)

    def _grants(self) -> list[str]:
        if not self._plan.snapshot.is_initial:
            return []
        databases = open_databases(self._plan.rules.routes.include)
        return [] if databases == [] else self._sight.lacking(databases or ())
