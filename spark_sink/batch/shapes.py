"""The shapes of tables, which are made or altered, with their existing rows, for the versions that a batch has.

Invariant: existing rows get their values in new and renamed columns in the same commit as these columns; the
table is consistent before and after that commit. A shape is remembered only as long as nothing but batches
changes its table. A table that has rows never gets another key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from spark_sink.batch.contents import TablePart
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.batch.last_truncates import floors_of
from spark_sink.errors import KeyChanged, TypeConflict, ValuesChanged
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.columns import (
    Asked,
    NamesOf,
    Traced,
    concerned_sql,
    converted,
    row_sql,
    traced,
    values_changed,
)
from spark_sink.warehouse.identity import source_sql
from spark_sink.warehouse.integrity import refuse_taken
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.moves import Place
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import Name, Standing, Tables, Warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.unknown_values import note, uncovered_places

_log = logging.getLogger(__name__)


def traced_to(
    rows: DataFrame | None,
    held: Shape | None,
    versions: Sequence[TableVersion],
    book: SchemaBook,
    *,
    name: Name,
    apart: bool,
    names: NamesOf = lambda *_: (),
) -> Traced:
    """Return how versions and the table's existing `rows` fit together; see `traced`."""

    def newest(source: Source) -> int:
        assert rows is not None
        assert held is not None
        own = rows.where(source_sql(held, source)).selectExpr("max(__schema) AS v").collect()
        return -1 if own[0].v is None else int(own[0].v)

    def is_only(source: Source) -> bool:
        assert rows is not None
        assert held is not None
        return rows.where(f"NOT ({source_sql(held, source)})").isEmpty()

    asked = Asked(newest=newest, is_only=is_only)
    return traced(book, held, versions, asked, name=name, apart=apart, names=names)


def brought(tables: Tables[DataFrame], found: Traced, wanted: Shape, *, notes: Notes) -> bool:
    """Bring the table to the shape `wanted`; return whether anything had to change."""
    held = found.held
    rows = tables.rows(held, fixed=True) if held is not None and found.conversions else None
    altered = altered_rows(rows, found, wanted)
    if held == wanted and not found.moves and altered is None:
        return False
    if held is not None and not wanted.keyed:
        _check_images(tables, held, found, wanted)
    note(notes, _name(wanted), found.unknown)
    for move in found.unknown:
        _log.warning(
            "existing rows have NULL in a new column, as their value is not known table=%s.%s column=%s: %s",
            wanted.database,
            wanted.table,
            move.column,
            move.reason,
        )
    if held is not None and altered is not None:
        cut = tables.cut(held.database, held.table)
        tables.replace(wanted, altered, cut=cut)
        _log.info("rows written again with altered values table=%s.%s", *_name(wanted))
        return True
    if held is not None and found.begun and not found.renames:
        held = tables.rename_columns(held, found.begun)
    if held is not None and (names := _renamed_alone(tables, found, held)):
        tables.evolve(tables.rename_columns(held, names), wanted)
        _log.info("columns renamed table=%s.%s: %s", *_name(wanted), names)
    elif held is not None and _is_rewritten(tables, found, held):
        rows = tables.rows(held, fixed=True)
        cut = tables.cut(held.database, held.table)
        tables.replace(wanted, rows.selectExpr(*row_sql(found, wanted)), cut=cut)
        _log.info("rows written again with new columns table=%s.%s", *_name(wanted))
    else:
        tables.evolve(held, wanted)
    return True


def altered_rows(rows: DataFrame | None, found: Traced, wanted: Shape) -> DataFrame | None:
    """Return the `rows` of the held shape in the shape `wanted` if ALTER TABLE changed their values; else None.

    Raise ValuesChanged if only the source has the new values, or if values of keys changed.
    """
    if rows is None or found.held is None:
        return None
    altered = converted(found, wanted, wanted)
    if not altered:
        return None
    rows = fitted(rows, found, wanted)
    differs = {name: f"NOT (a.{quoted(name)}.value <=> v.{quoted(name)})" for name in altered}
    key_differs = [sql for name, sql in differs.items() if name in wanted.key]
    before = f"struct({', '.join(map(quoted, altered))})"
    counts = (
        rows.selectExpr(f"{before} AS v", f"{_together(altered)} AS a")
        .selectExpr(
            f"count_if({' OR '.join(f'size(a.{quoted(name)}.lost) > 0' for name in altered)}) AS lost",
            f"count_if({' OR '.join(differs.values())}) AS differs",
            f"count_if({' OR '.join(key_differs) or 'false'}) AS keys",
        )
        .collect()[0]
    )
    if counts["lost"]:
        refuse_lost(rows, altered, found)
    if counts["keys"]:
        raise ValuesChanged(f"a statement changed the keys of {'.'.join(_name(wanted))}")
    if not counts["differs"]:
        return None
    return rows.selectExpr(
        *(
            f"{altered[name]}.value AS {quoted(name)}" if name in altered else quoted(name)
            for name in rows.columns
        )
    )


def refuse_lost(rows: DataFrame, altered: Mapping[str, str], found: Traced) -> None:
    """Raise ValuesChanged if only the source has the values of some rows in the columns `altered`.

    The columns are those of `converted`. The error names the statements.
    """
    lost = ", ".join(f"a.{quoted(name)}.lost" for name in altered)
    numbers = (
        rows.selectExpr(f"{_together(altered)} AS a")
        .selectExpr(f"explode(concat({lost})) AS number")
        .distinct()
        .collect()
    )
    if made := [found.conversions[number] for number in sorted(row.number for row in numbers)]:
        which = "; ".join(dict.fromkeys(one.text() for one in made))
        raise values_changed(found.name, which, (one.source.destination for one in made))


def _together(altered: Mapping[str, str]) -> str:
    """The struct of all altered columns, in which each is computed once."""
    return f"struct({', '.join(f'{sql} AS {quoted(name)}' for name, sql in altered.items())})"


def _check_images(tables: Tables[DataFrame], held: Shape, found: Traced, wanted: Shape) -> None:
    """Raise ValuesChanged if images of a table without a key lack values that later images will have.

    A later image that removes an image must have the same values.
    """
    lacking = [move for move in found.unknown if not move.is_hidden]
    if lacking and not tables.rows(held).where(concerned_sql(lacking, held)).isEmpty():
        which = "; ".join(f"{one.column}: {one.reason}" for one in lacking)
        raise values_changed(_name(wanted), which, (m.source.destination for m in lacking))


def _renamed_alone(tables: Tables[DataFrame], found: Traced, held: Shape) -> dict[str, str]:
    """The new names of columns, if no row need be written; empty otherwise."""
    if not found.renames:
        return {}
    others = [move for move in found.writes() if move.taken_from is None]
    if any(held.spelling(move.column) for move in others):
        return {}
    if others and not tables.rows(held).where(concerned_sql(others, held)).isEmpty():
        return {}
    return found.free_names()


def _is_rewritten(tables: Tables[DataFrame], found: Traced, held: Shape) -> bool:
    """Whether rows must be written again, because altering the table alone would not give them their values."""
    writes = found.writes()
    if not writes:
        return False
    if found.renames or (found.is_single and any(held.spelling(one.column) for one in writes)):
        return True
    return not tables.rows(held).where(concerned_sql(writes, held)).isEmpty()


def fitted(rows: DataFrame, found: Traced, wanted: Shape) -> DataFrame:
    """Return rows of the held shape in the columns and types of the shape `wanted`."""
    return rows.selectExpr(*row_sql(found, wanted)).select(
        *(quoted(name) for name, _ in wanted.all_columns)
    )


def _name(shape: Shape) -> Name:
    return shape.database, shape.table


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
            # Another key needs a table without rows, which the source has dropped or renamed.
            if held is None or not self.is_emptied(part.name) or not tables.rows(held).isEmpty():
                raise
            found = self._traced(None, versions, part)
            wanted = found.wanted
            empty = ", ".join(f"{quoted(name)} {kind}" for name, kind in wanted.all_columns)
            session = tables.rows(held).sparkSession
            tables.replace(wanted, session.createDataFrame([], empty))
            _log.info("table created again with another key or type table=%s.%s", *part.name)
        else:
            self.deleted.put_back(part.name, wanted=wanted)
            by_rows = part.has_rows and not part.is_partial and not floors_of(part, versions)
            if held is None and by_rows:
                self._new.add(part.name)
                return wanted, found.versions
            if standing is not None:
                refuse_taken(part.name, standing, (name for name, _ in wanted.columns))
                if held is not None and (standing.made is None or standing.is_altering):
                    # An earlier version of the sink made the table, or a batch that was interrupted.
                    tables.evolve(held, held, is_made=False)
            if brought(tables, found, wanted, notes=self.warehouse.notes):
                _log.info("table %s table=%s.%s", "widened" if held else "made", *part.name)
                self._warn_of_uncovered(part.name, found)
        self._known[part.name] = wanted
        return wanted, found.versions

    def _warn_of_uncovered(self, name: Name, found: Traced) -> None:
        """Log where values remain that the mapping covers from now on."""
        for move in found.unknown:
            if places := uncovered_places(self.warehouse, name, move):
                _log.warning(
                    "values from before the mapping covered a column remain table=%s.%s column=%s: %s",
                    *name, move.column, ", ".join(places),
                )  # fmt: skip

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
