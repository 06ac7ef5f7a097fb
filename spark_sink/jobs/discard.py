"""The removal of one source table's rows from a table of several source tables, at an operator's request.

It is a truncate of the source table: at the statement that dropped the table, or past all rows that the
warehouse has of it.

Invariant: the truncate is recorded before a row is removed, so a request that is repeated after a crash ends
in the same rows; and rows of other source tables stay as they are.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.batch.apply import Applier
from spark_sink.errors import ReloadRefused
from spark_sink.spark.jobs import describe
from spark_sink.text.quoting import argument, discards_source, snapshot_starts
from spark_sink.warehouse.identity import below_sql, source_sql
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import BEGINNING, Place
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import twice
from spark_sink.warehouse.waiting_tables import Request

_log = logging.getLogger(__name__)
CONFIRM: Final = "--yes-lose-rows"


def discard_source(applier: Applier, request: Request) -> None:
    """Remove the rows of the request's source table, while no batch is applied.

    Raise ReloadRefused if they cannot be distinguished, or may not all be of a table that is gone.
    """
    name, source = request.name, request.of_source
    assert source is not None
    shape = _shape(applier, name, source)
    applier.milestones.integrity.checked(name)
    rows = applier.warehouse.tables.rows(shape)
    describe(rows.sparkSession, f"reload {argument(name)}: remove rows of a source table")
    noted = applier.ddl.history.note_on(name, source) if applier.ddl is not None else None
    if noted is not None and not noted[1].keeps_rows:
        noted = None
    place = noted[0].place if noted is not None else BEGINNING
    own = rows.where(source_sql(shape, source))
    if not request.lose_rows:
        if noted is None:
            raise _unnoted(name, source)
        if noted[1].is_gone:
            _check_gone(own, shape, name, source, place)
    else:
        place = max(place, _past(own))
    place = max(place, applier.truncates.raised().get(name, {}).get(source, BEGINNING))
    if place == BEGINNING:
        raise ReloadRefused(
            f"{argument(name)} has no row of {_stated(source)}",
            advice="Write the source table as DESTINATION:database.table, with the destination's name in the "
            "worker's settings",
        )
    floor = Floor(
        database=name[0],
        table=name[1],
        source=source,
        epoch=place[0],
        seq=place[1],
        ts_ms=noted[0].ts_ms if noted is not None else int(applier.clock() * 1000),
    )
    applier.truncates.raised([floor])
    applier.milestones.rebuilt(name)
    # No marker is left: the next record may have the position of the truncate, and would lose against one.
    truncate = partial(applier.warehouse.tables.truncate, shape, floor, is_hard=True)
    twice(truncate, name, applier.warehouse)
    if noted is not None:
        add = partial(applier.histories.truncate, name, source, noted[0], rows.sparkSession)
        twice(add, name, applier.warehouse)
    _log.info("rows of a source table removed table=%s.%s source=%s", *name, _stated(source))


def _shape(applier: Applier, name: Name, source: Source) -> Shape:
    """The shape of a table whose rows state their source tables."""
    shape = twice(partial(applier.warehouse.tables.shape, *name), name, applier.warehouse)
    if (held := applier.waits.waiting(name)) is not None:
        raise ReloadRefused(
            f"{argument(name)} waits for {held.waits_for}",
            advice="End its wait first, as status says",
        )
    if shape is None:
        raise ReloadRefused(
            f"there is no table {argument(name)}", advice="Write the name as status prints it"
        )
    if not shape.apart:
        replaced = snapshot_starts([(one, name) for one in sorted(applier.book.sources(name))])
        raise ReloadRefused(
            f"no mapping fills {argument(name)}, so its rows do not state their source tables, and those of "
            f"{_stated(source)} cannot be distinguished",
            advice="To have only the rows that its sources have now, publish them in place of the present: "
            f"{replaced}; to rebuild it from its topics, run: python -m spark_sink reload {argument(name)} "
            "--from-beginning",
        )
    return shape


def _past(rows: DataFrame) -> Place:
    """The position right after the last of these rows, removed ones included."""
    (found,) = rows.selectExpr("max(struct(__epoch AS epoch, __seq AS seq)) AS p").collect()
    return BEGINNING if found.p is None else (found.p.epoch, found.p.seq + 1)


def _check_gone(rows: DataFrame, shape: Shape, name: Name, source: Source, place: Place) -> None:
    """Raise ReloadRefused if a source table that is gone has rows from after the statement."""
    late = rows.where(f"NOT __deleted AND NOT {below_sql(shape, source, place)}").count()
    if late:
        own = source.database, source.table
        raise ReloadRefused(
            f"{late} row(s) of {_stated(source)} are from after the statement that dropped or renamed it: they "
            "had waited in the quarantine, or the source has a table of that name again",
            advice=f"If it has, run: {snapshot_starts([(source.destination, own)])}, which replaces them all. "
            f"If not, run: {discards_source(name, source.destination, own)} {CONFIRM}",
        )


def _unnoted(name: Name, source: Source) -> ReloadRefused:
    own = source.database, source.table
    return ReloadRefused(
        f"nothing states that {_stated(source)} is gone, so it may still publish to {argument(name)}",
        advice="To remove all of its rows nevertheless, run: "
        f"{discards_source(name, source.destination, own)} {CONFIRM}. What it publishes later comes in again",
    )


def _stated(source: Source) -> str:
    return argument((source.database, source.table), of=source.destination)
