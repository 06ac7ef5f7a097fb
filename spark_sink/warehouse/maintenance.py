"""Keeps tables and the ledger small, beside the writer: files compacted, old ones removed, old markers purged.

Invariant: what a table holds for its readers never changes here. A marker of a deleted row is only purged where
no change older than its delete can come any more: the delete was committed longer than `purge_deleted_hours`
before the time up to which the warehouse is complete, and where several sources fill the table, before a commit
time up to which all changes of each are applied. If Kafka is read from before that, the delete is read again
after the change, in the same partition. While a table waits, its applied rows say nothing of what waits.
What is unused includes files that no commit names yet, and a batch reads the log from where it began; so
neither files nor log entries are removed while a batch runs that is nearly as old.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.errors import SinkError
from spark_sink.names import MAINTAINED
from spark_sink.settings import Maintenance as Plan
from spark_sink.spark.error_mapping import named
from spark_sink.warehouse.protocol import CommitConflict, Name, Warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.sources import Sources

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Maintenance:
    """Which tables are due, and what is done to them."""

    warehouse: Warehouse[Any]
    plan: Plan
    complete_until: Callable[[], float]
    """The time of which all that Kafka held is applied."""
    busy_since: Callable[[], float | None]
    """When the batch that is being applied beside this began."""
    sources: Sources
    """Which sources fill a table, and how far each is applied."""
    waits: Callable[[Name], object] = lambda _: None
    """Whether batches pass a table by."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is applied."""
    merged: Counter[Name] = field(default_factory=Counter)
    """Batches that had rows of a table since it was last maintained, as far as this process saw them."""
    _before: dict[Name, int] = field(default_factory=dict)
    _done: dict[str, int] | None = None

    def due(self) -> Name | None:
        """A table that took enough batches since it was last maintained, by this process or an earlier one."""
        if self.plan.every == 0:
            return None
        self.sources.settle(time.time(), self.complete_until())
        for name, number in list(self.merged.items()):
            if number + self._unmaintained(name) >= self.plan.every:
                return name
        return None

    def maintain(self, name: Name) -> None:
        """Purges markers, compacts files, and removes old files and log entries. Safe beside the writer."""
        taken = self.merged[name]
        try:
            self._maintain(name)
        except CommitConflict:
            # Another writer than this sink was first; the next round comes.
            _log.warning("maintenance put off, another writer was first table=%s.%s", *name)
        self.merged[name] -= taken
        self._before[name] = 0

    def _maintain(self, name: Name) -> None:
        shape, upkeep = self.warehouse.tables.shape(*name), self.warehouse.upkeep
        if shape is None:
            return
        self._despite_batches(lambda: upkeep.retain(name, self.plan.retention_seconds))
        self._despite_batches(lambda: self._purge(name, shape))
        self._despite_batches(lambda: upkeep.compact(name))
        if self._may_remove():
            upkeep.remove_unused(name)
        self.sources.keep()
        self._record(name, upkeep.version(name))
        _log.info("table maintained table=%s.%s", *name)

    def _despite_batches(self, step: Callable[[], object]) -> None:
        """Takes a step beside the batches; where one of them was first, again with none beside it.

        A table that every batch writes to would never be compacted otherwise.
        """
        try:
            step()
        except CommitConflict:
            with self.gate:
                step()

    def _may_remove(self) -> bool:
        """Whether the batch that runs is too young to have written, or to still read, what would be removed."""
        since = self.busy_since()
        return since is None or time.time() - since < self.plan.retention_seconds / 2

    def _purge(self, name: Name, shape: Shape) -> None:
        if not shape.keyed or self.waits(name):
            return
        before = int((self.complete_until() - self.plan.purge_deleted_hours * 3600) * 1000)
        sources = self.warehouse.upkeep.sources_if_old(name, before)
        if not sources:
            return
        if not shape.apart:
            before = self._past_all_sources(name, sources, before)
        self.warehouse.upkeep.purge(name, before)

    def _past_all_sources(self, name: Name, in_rows: Collection[str], before: int) -> int:
        """The time before which no source of the table can send a change; 0 where that is not known.

        Only where sources share keys: in a table that mapped tables fill, a marker keeps its own source's
        changes away, and its delete follows these in the same partition.
        """
        try:
            return int(min(before, self.sources.all_past(name, in_rows)))
        except (SinkError, PySparkException, Py4JJavaError) as failure:
            # Kafka is away, say; the next round asks again.
            fault = named(failure)
            _log.warning(
                "markers kept, as their sources are not known table=%s.%s: %s", *name, fault
            )
            return 0

    def _unmaintained(self, name: Name) -> int:
        """Commits since the last maintenance, when this process first saw the table."""
        if name not in self._before:
            last = self.warehouse.upkeep.version(name, at_least=True)
            done = self._maintained().get(json.dumps(name), 0)
            self._before[name] = max(0, last - done)
        return self._before[name]

    def _maintained(self) -> dict[str, int]:
        if self._done is None:
            try:
                text = self.warehouse.notes.read(MAINTAINED) or "{}"
                self._done = dict(json.loads(text))
            except ValueError:
                # A kill while it was written; the tables are maintained a little early.
                self._done = {}
        return self._done

    def _record(self, name: Name, version: int) -> None:
        self._maintained()[json.dumps(name)] = version
        self.warehouse.notes.write(MAINTAINED, json.dumps(self._done))
