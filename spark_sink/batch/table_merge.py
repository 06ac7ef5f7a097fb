"""The merge of the rows that a batch has for one table, and their addition to the table's history.

Invariant: the rows are computed once, whether the driver holds them, the executors hold them, or a MERGE into
an empty table takes them as they come. Each change is in the history once, however often its batch is applied,
also if its row was changed again in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_sink.batch.compact import ALTERED, changes, refused, several, standing
from spark_sink.batch.contents import TablePart
from spark_sink.batch.dead_letters import MOST, at_of
from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.batch.partial_images import partial_images, whole
from spark_sink.batch.report import FOLD, MERGE, Stages
from spark_sink.errors import MalformedRecord
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import TableVersion
from spark_sink.spark.error_mapping import place, refused_record
from spark_sink.spark.jobs import LARGE, MANY
from spark_sink.warehouse.columns import values_changed
from spark_sink.warehouse.ledger import Floors
from spark_sink.warehouse.protocol import Facts, Name, Tables
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import FAILURES

_ROWS: Final = 20_000
_BYTES: Final = 16 * 1024 * 1024


class BatchStopped(Exception):
    """The batch was left for the next start to apply again."""


def merged(
    tables: Tables[DataFrame],
    batch: DataFrame,
    part: TablePart,
    shape: Shape,
    versions: list[TableVersion],
    floors: Floors,
    *,
    stages: Stages | None = None,
    deleted: DeletedKeys | None = None,
    is_new: bool = False,
) -> None:
    """Merge a table's rows of some versions; raise MalformedRecord with the positions of all refused records.

    A table that `is_new` is created with the rows. `deleted` merges them into tables whose deleted rows are
    removed; without it, deletes leave markers. Raise UnsupportedPartialImage if an image lacks a column that
    nothing completes. `stages` receives the time of `fold`, unless the rows stay with the executors, which fold
    them during `merge`.
    """
    stages = stages or Stages()
    held = markers = None
    if part.is_partial:
        held = tables.rows(shape, beside=batch)
        markers = deleted.markers(shape, beside=batch) if deleted is not None else None
    try:
        rows = merged_rows(batch, part, shape, versions, floors, held=held, markers=markers)
        at_hand = few(rows=part.ops.total(), size=part.size)
        with stages.timed(FOLD):
            if at_hand:
                rows = local(rows)
            # A MERGE that reads its source twice would otherwise parse the records each time.
            elif not (deleted or tables).reads_once(shape):
                rows = rows.localCheckpoint(eager=False)
        with stages.timed(MERGE):
            if deleted is None:
                tables.merge(shape, rows, is_new=is_new)
            else:
                deleted.merge(shape, rows, has_deletes=part.ops["d"] > 0, is_new=is_new)
    except (PySparkException, Py4JJavaError) as fault:
        if record := refused_record(str(fault)):
            raise _malformed(batch, shape, versions, floors, record) from fault
        raise


def _malformed(
    batch: DataFrame,
    shape: Shape,
    versions: list[TableVersion],
    floors: Floors,
    record: str,
) -> MalformedRecord:
    """The error for all records that are refused like the one that stopped the job; one pass finds them."""
    found = refused(batch, shape, versions, floors=floors).limit(MOST).collect()
    reasons = {at_of(row): str(row.reason) for row in found}
    altered = sorted(
        {one.removeprefix(ALTERED) for one in reasons.values() if one.startswith(ALTERED)}
    )
    if altered:
        sources = {version.key.destination for version in versions}
        raise values_changed((shape.database, shape.table), "; ".join(altered), sources)
    if not reasons:
        return MalformedRecord(record)
    first = min(reasons)
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    fault = MalformedRecord(f"{place(*first, reasons[first])}{more}")
    fault.reasons = reasons
    return fault


def merged_rows(
    batch: DataFrame,
    part: TablePart,
    shape: Shape,
    versions: list[TableVersion],
    floors: Floors,
    *,
    held: DataFrame | None,
    markers: DataFrame | None = None,
) -> DataFrame:
    """Return the rows that a batch has for a table: the last row of each key, or all images of a log.

    `held` are the table's rows, which complete images that lack columns; `markers` are stored beside the table.
    """
    if not part.is_partial:
        return changes(batch, shape, versions, floors=floors)
    if not shape.keyed or held is None:
        # Without a key, earlier rows cannot be identified.
        found = batch.where(f"partial AND {of_table(part.name)}")
        places = found.select("topic", "partition", "offset").collect()
        raise partial_images([at_of(row) for row in places])
    rows = standing(batch, shape, versions, floors=floors, marked=True)
    return whole(rows, held, shape, markers=markers, several=several(versions))


def few(*, rows: int, size: int) -> bool:
    """Whether the driver can well hold this number of rows, whose JSON records have `size` bytes."""
    return rows <= _ROWS and size <= _BYTES


def local(rows: DataFrame) -> DataFrame:
    """Return the same rows as a plan without a job; a MERGE would run the job again and again.

    The rows stay in the JVM. They are exact only with `spark.sql.datetime.java8API.enabled`: the older Java
    classes of dates use another calendar.
    """
    session: Any = rows.sparkSession
    held = rows._jdf.collectAsList()
    return DataFrame(session._jsparkSession.createDataFrame(held, rows._jdf.schema()), session)


_MERGES: Final = 50
"""The number of merges after which a table's size is read again."""


@dataclass(slots=True, kw_only=True)
class TableSizes:
    """The sizes of the tables that batches have changed.

    Invariant: a table's size is read again only after _MERGES merges, since it affects only speed.
    """

    facts: Facts
    merged: Mapping[Name, int]
    """The merges of each table by this process."""
    _known: dict[Name, tuple[int, int]] = field(default_factory=dict)
    """The number of merges when the size was read, and the size in bytes."""

    def rows(self, parts: Iterable[TablePart]) -> int:
        """Return the number of rows for which to execute a batch: its largest part's, MANY for large tables."""
        rows = 0
        for part in parts:
            own = part.ops.total()
            rows = max(rows, own if own >= MANY or self._bytes(part.name) < LARGE else MANY)
        return rows

    def _bytes(self, name: Name) -> int:
        merges = self.merged.get(name, 0)
        at, size = self._known.get(name, (-_MERGES, 0))
        if merges - at >= _MERGES:
            try:
                size = self.facts.size(name)
            except FAILURES:
                # The table's merge finds why it cannot be read.
                size = 0
            self._known[name] = merges, size
        return size
