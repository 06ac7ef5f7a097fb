"""The alteration of a table, with its existing rows, to the columns that its source has now.

Invariant: existing rows get their values in new and renamed columns in the same commit as these columns; the
table is consistent before and after that commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import DataFrame

from spark_sink.errors import ValuesChanged
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
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import Name, Tables
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.unknown_values import note

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
    how = converted(found, wanted, wanted)
    if not how.values:
        return None
    rows = fitted(rows, found, wanted)
    differs = " OR ".join(f"NOT ({value} <=> {quoted(name)})" for name, value in how.values.items())
    key_differs = " OR ".join(
        f"NOT ({value} <=> {quoted(name)})"
        for name, value in how.values.items()
        if name in wanted.key
    )
    counts = rows.selectExpr(
        *(f"count_if({lost}) AS l{n}" for n, (_, lost) in enumerate(how.lost)),
        f"count_if({differs}) AS differs",
        f"count_if({key_differs or 'false'}) AS keys",
    ).collect()[0]
    lost = [one for n, (one, _) in enumerate(how.lost) if counts[f"l{n}"]]
    if lost:
        which = "; ".join(dict.fromkeys(one.text() for one in lost))
        raise values_changed(_name(wanted), which, (one.source.destination for one in lost))
    if counts["keys"]:
        raise ValuesChanged(f"a statement changed the keys of {'.'.join(_name(wanted))}")
    if not counts["differs"]:
        return None
    return rows.selectExpr(
        *(
            f"{how.values[name]} AS {quoted(name)}" if name in how.values else quoted(name)
            for name in rows.columns
        )
    )


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
