"""Tables whose deleted rows are removed: the markers that keep older changes out are stored beside them.

Invariant: at any moment there is a marker for each deleted key, in the table or beside it, until the marker is
purged. A marker is stored beside the table before its row is removed. It is put back into the table before the
table's columns, name or rows change by anything but a batch. A change that is older than its key's marker is
not merged. If the table still has the row of a marker, the batch that stored the marker was not merged, and
will be applied again; until then the row is as it was before the delete, and the marker has no effect.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from spark_sink.errors import ForeignTable
from spark_sink.spark.error_mapping import named
from spark_sink.warehouse.markers import in_columns, in_force, newer, without_older
from spark_sink.warehouse.protocol import CommitConflict, Name, Warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import FAILURES, is_shared
from spark_sink.warehouse.table_rules import TableRules

_log = logging.getLogger(__name__)
_ALWAYS = 2**62
"""A time (ms) after all markers."""


@dataclass(slots=True, kw_only=True)
class DeletedKeys:
    """The markers beside the tables; several tables of a batch may use it at once."""

    warehouse: Warehouse[DataFrame]
    rules: TableRules
    wrote: Callable[[Name], object] = lambda _: None
    """Receives a table that is written to by another call than `merge`."""
    drops: Callable[[Name], object] = lambda _: None
    """Receives a table before the markers beside it are removed."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is applied."""
    _reading: threading.Lock = field(default_factory=threading.Lock)
    """Held while the tables with markers are looked for: several tables of a batch ask at once."""
    _shapes: dict[Name, Shape] | None = None
    """The tables that have markers beside them, each with the shape of its markers."""
    _unread: dict[Name, Exception] = field(default_factory=dict)
    """Tables whose markers cannot be read, and why."""
    _unswept: set[Name] | None = None
    """The tables that should have no markers of their own, and may have some."""

    def reads_once(self, shape: Shape) -> bool:
        """Whether `merge` reads its rows only once now."""
        name = shape.database, shape.table
        is_plain = not self.rules.has_hard_deletes(name) and self._shape(name) is None
        return is_plain and self.warehouse.tables.reads_once(shape)

    def merge(
        self, shape: Shape, rows: DataFrame, *, has_deletes: bool, is_new: bool = False
    ) -> None:
        """Merge rows like `Tables.merge`.

        Unless `reads_once`, the rows must be computed: they are read several times. `has_deletes` is false if
        no row is a delete.
        """
        name = shape.database, shape.table
        is_hard = shape.keyed and self.rules.has_hard_deletes(name)
        if is_hard and has_deletes:
            self._store(shape, rows.where("__deleted"))
        if (markers := self.markers(shape, beside=rows)) is not None:
            late = newer(markers, rows, shape).localCheckpoint(eager=False)
            if not late.isEmpty():
                if not is_new:
                    late = in_force(late, self.warehouse.tables.rows(shape, beside=rows), shape)
                rows = without_older(rows, late, shape).localCheckpoint(eager=False)
        self.warehouse.tables.merge(shape, rows, is_hard=is_hard, is_new=is_new)

    def markers(self, shape: Shape, *, beside: DataFrame) -> DataFrame | None:
        """The markers beside the table; None without any. See `Tables.rows`."""
        if not shape.keyed or self._shape((shape.database, shape.table)) is None:
            return None
        return self.warehouse.deleted.tables.rows(shape, beside=beside)

    def put_back(self, name: Name, *, wanted: Shape | None = None) -> None:
        """Put the markers back into their table, unless they have the shape `wanted`; safe to repeat."""
        held = self._shape(name)
        if held is None or held == wanted:
            return
        shape = self.warehouse.tables.shape(*name)
        if shape is not None and shape.key == held.key:
            markers = in_columns(self.warehouse.deleted.tables.rows(held), held, shape)
            own = in_force(markers, self.warehouse.tables.rows(shape), shape)
            own = own.localCheckpoint(eager=False)
            self.warehouse.tables.merge(shape, own)
            self.wrote(name)
        self.drops(name)
        self.warehouse.deleted.tables.drop(*name)
        self._known().pop(name, None)
        self.forget(name)

    def discard(self, name: Name) -> None:
        """Remove the markers beside a table that was recreated, if they could not be put back before."""
        if name in self._known() or self._unread.pop(name, None) is not None:
            self.drops(name)
            self.warehouse.deleted.tables.drop(*name)
            self._known().pop(name, None)

    def forget(self, name: Name) -> None:
        """Record that a table was replaced, so that it may have markers of its own."""
        if self._unswept is not None and self.rules.has_hard_deletes(name):
            self._unswept.add(name)

    def due(self) -> Name | None:
        """Return a table that may have markers of its own but should have none; None without such a table."""
        if self._unswept is None:
            # The setting may be new.
            names = self.warehouse.tables.names() if self.rules.any_hard else ()
            self._unswept = set(filter(self.rules.has_hard_deletes, names))
        return next(iter(self._unswept), None)

    def sweep(self, name: Name) -> None:
        """Move a table's own markers beside the table; no batch is applied meanwhile.

        If another writer commits first, the table stays due.
        """
        with self.gate, suppress(CommitConflict):
            try:
                self._sweep(name)
            except FAILURES as failure:
                if is_shared(failure):
                    raise
                _log.error(
                    "markers of deleted rows not removed table=%s.%s: %s", *name, named(failure)
                )
            if self._unswept is not None:
                self._unswept.discard(name)

    def _sweep(self, name: Name) -> None:
        shape = None
        # Another table has the name.
        with suppress(ForeignTable):
            shape = self.warehouse.tables.shape(*name)
        if shape is not None and shape.keyed:
            markers = self.warehouse.tables.rows(shape, fixed=True).where("__deleted")
            if not markers.isEmpty():
                self._store(shape, markers.localCheckpoint(eager=False))
                self.warehouse.upkeep.purge(name, _ALWAYS)
                self.wrote(name)
                _log.info("markers of deleted rows removed table=%s.%s", *name)

    def _store(self, shape: Shape, markers: DataFrame) -> None:
        name, tables = (shape.database, shape.table), self.warehouse.deleted.tables
        held = self._shape(name)
        if held != shape:
            tables.evolve(held, shape)
            self._known()[name] = shape
        tables.merge(shape, markers)

    def _shape(self, name: Name) -> Shape | None:
        """The shape of a table's markers; None without any. Raise the error if they cannot be read."""
        held = self._known()
        if (failure := self._unread.pop(name, None)) is not None:
            # The next call looks again.
            self._shapes = None
            raise failure
        return held.get(name)

    def _known(self) -> dict[Name, Shape]:
        with self._reading:
            if self._shapes is None:
                tables = self.warehouse.deleted.tables
                found: dict[Name, Shape] = {}
                self._unread.clear()
                for name in tables.names():
                    try:
                        shape = tables.shape(*name)
                    except FAILURES as failure:
                        if is_shared(failure):
                            raise
                        self._unread[name] = failure
                    else:
                        found |= {name: shape} if shape is not None else {}
                self._shapes = found
            return self._shapes
