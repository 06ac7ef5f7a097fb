"""The sources of a load, in the rows of its table and in the records of its topics.

Invariant: a load replaces the table as a whole, so it has every source of which the table has a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.errors import LoadRefused
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.state import LoadState
from spark_sink.text.quoting import literal
from spark_sink.warehouse.identity import source_parts, source_sql
from spark_sink.warehouse.protocol import Tables

_NAMED: Final = 10
"""Sources that an error names."""
_OF_RECORD: Final = ("destination", "source_database", "source_table")


def before_sql(state: LoadState) -> str:
    """Return the condition that a record is of a change that the load has read."""
    parts = []
    for destination, low in state.lows.items():
        own = [one for one in state.sources if one.destination == destination]
        before = f"(epoch < {low.epoch} OR (epoch = {low.epoch} AND seq <= {low.seq}))"
        parts.append(f"({_of_any(own)} AND {before})")
    return f"({' OR '.join(parts)})"


def check_rows(state: LoadState, tables: Tables[DataFrame]) -> None:
    """Raise LoadRefused if the table has rows of a source that is not in the load: they would be lost."""
    shape = tables.shape(*state.name)
    if shape is None:
        return
    own = [f"__destination = {literal(destination)}" for destination in state.lows]
    if shape.apart:
        own = [source_sql(shape, one.source(state.name)) for one in state.sources]
    rows = tables.rows(shape).where("NOT __deleted")
    others = rows.where(" AND ".join(f"NOT ({one})" for one in own))
    _check_none(state, others, source_parts(shape, "") or ["__destination"])


def check_records(state: LoadState, envelopes: DataFrame) -> None:
    """Raise LoadRefused if records before the load's offsets are of a source that is not in the load.

    `envelopes` are the records before these offsets that the table does not have yet.
    """
    planned = f"destination IN ({', '.join(map(literal, sorted(state.lows)))})"
    if state.apart:
        planned = _of_any(state.sources)
    rows = envelopes.where("op IN ('c', 'u', 'r')")
    _check_none(state, rows.where(f"NOT {planned}"), _OF_RECORD)


def _check_none(state: LoadState, rows: DataFrame, parts: Sequence[str]) -> None:
    named = rows.selectExpr(f"concat_ws('.', {', '.join(parts)}) AS name").distinct()
    if found := sorted(row.name for row in named.limit(_NAMED).collect()):
        raise LoadRefused(
            f"{'.'.join(state.name)} has rows of sources that are not in the load: {', '.join(found)}",
            advice="Make new plans of all its destinations, and name those after --with. Rows of a source "
            "table that is gone are to be deleted in the warehouse first",
        )


def _of_any(sources: Sequence[SourceTable]) -> str:
    """The condition that a record is of one of these source tables."""
    tables = (
        f"(destination = {literal(one.destination)} AND source_database = {literal(one.database)}"
        f" AND source_table = {literal(one.table)})"
        for one in sources
    )
    return f"({' OR '.join(tables)})"
