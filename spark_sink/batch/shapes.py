"""The shapes of tables, which are widened or made for the versions that a batch has.

Invariant: a table's shape is remembered only as long as nothing but batches changes it. A table that has rows
never gets another key.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from spark_sink.batch.columns import brought, traced_to
from spark_sink.batch.contents import TablePart
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.batch.truncates import floors_of
from spark_sink.errors import KeyChanged, TypeConflict
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.integrity import refuse_taken
from spark_sink.warehouse.moves import Place
from spark_sink.warehouse.protocol import Name, Standing, Warehouse
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Shapes:
    """The shapes of the tables that this process has merged."""

    warehouse: Warehouse[DataFrame]
    book: SchemaBook
    ddl: Ddl | None
    deleted: DeletedKeys
    _known: dict[Name, Shape] = field(default_factory=dict)
    _new: set[Name] = field(default_factory=set)
    """Tables that do not exist yet, and that their first merge makes."""

    def known(self) -> frozenset[Shape]:
        """Return the shapes that are remembered."""
        return frozenset(list(self._known.values()))

    def forget(self, name: Name) -> None:
        """Drop what is remembered of a table."""
        self._known.pop(name, None)
        self._new.discard(name)

    def evolved(
        self, part: TablePart, versions: Sequence[TableVersion], standing: Standing | None = None
    ) -> tuple[Shape, list[TableVersion]] | None:
        """Return the table's shape with room for the versions, and the versions by the table's columns.

        Return None if there is neither a table nor a version. A table that the first rows of `part` will make
        does not exist yet, see `is_new`. Raise KeyChanged or TypeConflict; raise ColumnsChanged if `standing`,
        the table as it is now, has no room for the versions.
        """
        tables = self.warehouse.tables
        self._new.discard(part.name)
        held = self._known.get(part.name) or tables.shape(*part.name)
        if held is None and not versions:
            return None
        try:
            found = self._traced(held, versions, part)
            wanted = found.wanted
        except (KeyChanged, TypeConflict):
            if held is None or not self._is_vacant(held):
                raise
            found = self._traced(None, versions, part)
            wanted = found.wanted
            self._replace_empty(held, wanted)
            _log.info("table created again with another key or type table=%s.%s", *part.name)
        else:
            self.deleted.put_back(part.name, wanted=wanted)
            if held is None and self._is_made_by_rows(part, versions):
                self._new.add(part.name)
                return wanted, found.versions
            if standing is not None:
                refuse_taken(part.name, standing, (name for name, _ in wanted.columns))
            if held is not None and standing is not None and _is_unrecorded(standing):
                # An earlier version of the sink made the table, or a batch that was interrupted.
                tables.evolve(held, held, is_made=False)
            if brought(tables, found, wanted, notes=self.warehouse.notes):
                _log.info("table %s table=%s.%s", "widened" if held else "made", *part.name)
        self._known[part.name] = wanted
        return wanted, found.versions

    @staticmethod
    def _is_made_by_rows(part: TablePart, versions: Sequence[TableVersion]) -> bool:
        """Whether the merge of its first rows can make a new table."""
        return part.has_rows and not part.is_partial and not floors_of(part, versions)

    def is_new(self, name: Name) -> bool:
        """Whether the table does not exist yet, and its first merge makes it."""
        return name in self._new

    def merged(self, shape: Shape) -> None:
        """Record that rows were merged into a table, which therefore exists."""
        name = shape.database, shape.table
        if name in self._new:
            self._new.discard(name)
            self._known[name] = shape
            _log.info("table made table=%s.%s", *name)

    def _traced(
        self, held: Shape | None, versions: Sequence[TableVersion], part: TablePart
    ) -> Traced:
        rows = self.warehouse.tables.rows(held) if held is not None else None
        apart, names = part.is_apart, self.names
        return traced_to(rows, held, versions, self.book, name=part.name, apart=apart, names=names)

    def names(self, destination: str, name: Name) -> list[tuple[Name, Place]]:
        """Return the names that a table has had, see `History.names`."""
        return self.ddl.history.names(destination, name) if self.ddl is not None else []

    def is_emptied(self, name: Name) -> bool:
        """Whether a table was dropped or renamed at the source, and the sink followed."""
        return self.ddl is not None and self.ddl.is_emptied(name)

    def _is_vacant(self, held: Shape) -> bool:
        """Whether a table was dropped or renamed at the source, and has no row of another source."""
        is_emptied = self.is_emptied((held.database, held.table))
        return is_emptied and self.warehouse.tables.rows(held).isEmpty()

    def _replace_empty(self, held: Shape, wanted: Shape) -> None:
        empty = ", ".join(f"{quoted(name)} {kind}" for name, kind in wanted.all_columns)
        session = self.warehouse.tables.rows(held).sparkSession
        self.warehouse.tables.replace(wanted, session.createDataFrame([], empty))


def _is_unrecorded(standing: Standing) -> bool:
    """Whether the table does not record which of its columns the sink made."""
    return standing.made is None or standing.is_altering
