"""A table brought to the columns that its source has now, with the rows that it holds.

Invariant: the rows get what they have in new and renamed columns in one commit with these columns; before and
after it, the table is whole.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import DataFrame

from spark_sink.names import quoted
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.warehouse.column_notes import note
from spark_sink.warehouse.columns import Asked, Traced, concerned_sql, row_sql, traced
from spark_sink.warehouse.identity import source_sql
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.protocol import Name, Notes, Tables
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)


def traced_to(
    rows: DataFrame | None,
    held: Shape | None,
    versions: Sequence[TableVersion],
    book: SchemaBook,
    *,
    name: Name,
    apart: bool,
) -> Traced:
    """How versions, and the `rows` that the table has, fit together."""

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
    return traced(book, held, versions, asked, name=name, apart=apart)


def brought(tables: Tables[DataFrame], found: Traced, wanted: Shape, *, notes: Notes) -> bool:
    """Brings the table to the shape that is wanted; returns whether anything had to change."""
    held = found.held
    if held == wanted and not found.moves:
        return False
    note(notes, _name(wanted), found.unknown)
    for move in found.unknown:
        _log.warning(
            "existing rows have NULL in a new column, as their value is not known table=%s.%s column=%s: %s",
            wanted.database,
            wanted.table,
            move.column,
            move.reason,
        )
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


def _renamed_alone(tables: Tables[DataFrame], found: Traced, held: Shape) -> dict[str, str]:
    """The new names of columns, if nothing else makes it necessary to write rows."""
    if not found.renames:
        return {}
    others = [move for move in found.writes() if move.taken_from is None]
    if any(held.spelling(move.column) for move in others):
        return {}
    if others and not tables.rows(held).where(concerned_sql(others, held)).isEmpty():
        return {}
    return found.free_names()


def _is_rewritten(tables: Tables[DataFrame], found: Traced, held: Shape) -> bool:
    """Whether any row differs from what the table's own statements would make of it."""
    writes = found.writes()
    if not writes:
        return False
    if found.renames or (found.is_single and any(held.spelling(one.column) for one in writes)):
        return True
    return not tables.rows(held).where(concerned_sql(writes, held)).isEmpty()


def fitted(rows: DataFrame, found: Traced, wanted: Shape) -> DataFrame:
    """The rows of the held shape in the columns and types of the wanted one."""
    return rows.selectExpr(*row_sql(found, wanted)).select(
        *(quoted(name) for name, _ in wanted.all_columns)
    )


def _name(shape: Shape) -> Name:
    return shape.database, shape.table
