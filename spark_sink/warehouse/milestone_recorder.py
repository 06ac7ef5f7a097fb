"""The writer of milestones: what each batch leaves in the tables, gathered while it is applied.

Invariant: no table holds a change after `reached`, whatever a killed process has left in it. A table is asked
for its newest change if its version differs from the ledger's, or if it was rebuilt.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from spark_sink.errors import ForeignTable, TableError
from spark_sink.spark.files import side_by_side
from spark_sink.warehouse.integrity import Integrity
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.milestones import (
    MOST_LINKED,
    Existing,
    Link,
    Milestone,
    Position,
    Positions,
    in_order,
    joined,
    later,
)
from spark_sink.warehouse.moves import Place
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.spark_failures import FAILURES, is_shared, twice
from spark_sink.warehouse.table_rules import NO_RULES, TableRules
from spark_sink.warehouse.waiting_tables import Waits


@dataclass(slots=True)
class MilestoneRecorder:
    """The state of all tables, kept from batch to batch."""

    warehouse: Warehouse[Any]
    sink: str = ""
    """The name of the sink."""
    rules: TableRules = NO_RULES
    """The settings of single tables."""
    _reached: dict[str, Position] = field(default_factory=dict)
    _versions: dict[Name, int] = field(default_factory=dict)
    _written: set[Name] = field(default_factory=set)
    _strange: set[Name] = field(default_factory=set)
    """Tables with changes that no batch of this process has merged."""
    _existing: Existing = field(default_factory=dict)
    """The last existing rows that were merged since the last milestone."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while changes are added: several tables may be rebuilt beside the batches at a time."""
    _last_ms: int = 0
    """The moment of the last batch in the ledger."""
    integrity: Integrity = field(init=False)
    """The commits at which the sink leaves the tables."""
    _link: Link = ("", 0)
    """The link of the last milestone whose text was made."""
    _stored: Milestone | None = None
    """The last milestone that was stored; None if the next text must be complete."""
    has_begun: bool = False
    """Whether this process has taken over what the ledger has."""
    has_stated: bool = False
    """Whether this process has made a milestone."""

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self.integrity = Integrity(warehouse=self.warehouse, sink=self.sink, rules=self.rules)

    def begin(self) -> None:
        """Take over what the ledger has; only the first call of a process has an effect."""
        if self.has_begun:
            return
        stated = self.integrity.stated()
        self._last_ms, last = stated[-1] if stated else (0, None)
        if last is not None:
            self._reached, self._versions = dict(last.reached), dict(last.versions)
        there, known = self.warehouse.tables.names(), self.integrity.unchanged
        asked = [name for name in there if name not in known]
        found: dict[Name, int | None] = {name: known[name].version for name in known}
        found |= zip(asked, side_by_side(self._version, asked), strict=True)
        self._strange.update(name for name in there if found[name] != self._versions.get(name))
        self._strange.update(self._versions.keys() - set(there))
        self.has_begun = True

    def moment(self, now: float, waits: Waits) -> int:
        """The moment (ms) of a batch that is applied now: after all batches in the ledger and all waits.

        The clock may be set back, but readers see batches and waits in the order of their moments.
        """
        self._last_ms = waits.after(max(int(now * 1000), self._last_ms + 1))
        return self._last_ms

    def reach(self, positions: Positions, existing: Existing | None = None) -> None:
        """Add the newest changes of a batch, and its last existing rows."""
        with self._lock:
            self._reached = later(self._reached, positions)
            self._existing = joined((self._existing, existing or {}))

    def wrote(self, name: Name) -> None:
        """Record that a batch writes to a table, or that maintenance has rewritten it without a change."""
        self._written.add(name)

    def rebuilt(self, name: Name) -> None:
        """Record that something other than a batch has written a table."""
        self._strange.add(name)

    def restate(self) -> None:
        """Put the versions that maintenance has made since the last batch into that batch's milestone.

        Otherwise, while no batch comes, the files of the milestone's versions might be removed as unused.
        Called while no batch is applied, and after `begin`, so that no table has a change from after the last
        batch.
        """
        names = self._written - self._strange
        stated = self.warehouse.log.last_of_sinks() if names else []
        last = stated[-1][1] if stated else None
        if last is None:
            return
        upkeep = self.warehouse.upkeep
        versions = {name: upkeep.version(name) for name in names if name in last.versions}
        if versions:
            again = replace(last, versions={**last.versions, **versions})
            # The milestone of another sink has no part in this link.
            is_own = last == self._stored
            text = self.text(again) if is_own else again.text()
            if self.warehouse.log.restate(text) and is_own:
                self.stored(again)
            self._versions |= versions
            self._written.difference_update(versions)

    def text(self, milestone: Milestone) -> str:
        """The text of a milestone that is to be stored next: what has changed since the last, or all of it."""
        since, self._stored = self._stored, None
        name, number = self._link
        if since is None or number >= MOST_LINKED:
            since, name, number = None, uuid.uuid4().hex, -1
        self._link = name, number + 1
        return milestone.text(self._link, since)

    def stored(self, milestone: Milestone) -> None:
        """Record which milestone's text was stored. If storing fails, the next text is complete."""
        self._stored = milestone

    def settle(self, waiting: Callable[[Name], object]) -> dict[Name, TableError]:
        """Ask tables that something other than a batch has written for their newest changes.

        Return the errors of tables that cannot be read and do not yet wait, by `waiting`. They are not asked
        again until they are rebuilt.
        """
        faults: dict[Name, TableError] = {}
        for name in sorted(self._strange):
            try:
                twice(partial(self._settle, name, waiting), name, self.warehouse)
            except ForeignTable:
                continue
            except TableError as fault:
                self._written.discard(name)
                if not waiting(name):
                    faults[name] = fault
        self._strange.clear()
        return faults

    def _settle(self, name: Name, waiting: Callable[[Name], object]) -> None:
        tables = self.warehouse.tables
        shape = tables.shape(*name)
        if shape is None:
            # The table was dropped or renamed; its version must not be taken for one of a later table.
            self._versions.pop(name, None)
            if not waiting(name):
                self.integrity.forget(name)
            self._written.discard(name)
        else:
            self.reach(tables.newest(shape))
            self._written.add(name)

    def _version(self, name: Name) -> int | None:
        """The table's version; None if the table cannot be read, which is found before its next merge."""
        try:
            return self.warehouse.upkeep.version(name)
        except FAILURES as failure:
            if is_shared(failure):
                raise
            return None

    def milestone(
        self,
        floors: Iterable[Floor],
        *,
        is_whole: bool,
        ddl: Mapping[str, Place] | None = None,
        waiting: Collection[Name] = (),
    ) -> Milestone:
        """The state of the tables now that a batch is merged, and DDL carried out up to `ddl`."""
        for fault in self.settle(lambda name: name in waiting).values():
            raise fault
        # A copy, as maintenance adds to it beside the batches.
        written = list(self._written)
        self.integrity.wrote(written, waiting)
        found = {name: self._version(name) for name in written}
        versions = {name: version for name, version in found.items() if version is not None}
        # Maintenance may have ended after its table was dropped.
        self._versions |= {name: version for name, version in versions.items() if version >= 0}
        self._written.difference_update(written)
        self.has_stated = True
        existing, self._existing = self._existing, {}
        return Milestone(
            reached=dict(self._reached),
            versions=dict(self._versions),
            floors=in_order(floors),
            ddl=dict(ddl or {}),
            recent=self.warehouse.recent.version(),
            is_whole=is_whole,
            existing=existing,
            sink=self.sink,
            left=self.integrity.left,
            beside=self.integrity.beside,
        )
