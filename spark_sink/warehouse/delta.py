"""Tables at rest: Delta behind five methods, so that another format can take its place.

Law: nothing here knows a batch, Kafka or a clock; it makes, widens, fills and reads tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import ForeignTable, UnknownTable
from spark_sink.names import CUT, delta, quoted, table_path, unfolder
from spark_sink.source.schemas import OWN_COLUMNS, SOURCE_COLUMNS
from spark_sink.spark.error_mapping import is_conflict
from spark_sink.spark.files import Files
from spark_sink.warehouse.convert import cut_text, parse_cut
from spark_sink.warehouse.evolve import (
    KEY_PROPERTY,
    NAME_PROPERTY,
    Shape,
    alter_sql,
    create_sql,
    replace_sql,
)
from spark_sink.warehouse.key_sql import SOURCES
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.merge import merge_sql, truncate_sql

_SOURCES_OF = tuple(f"{name}_of" for name in SOURCES)
_ATTEMPTS = 5
CUT_PROPERTY = "aqueduct.cut"


class Warehouse(Protocol):
    """Where tables are kept."""

    def shape(self, database: str, table: str) -> Shape | None:
        """The table's shape; None where there is no such table."""

    def evolve(self, held: Shape | None, wanted: Shape) -> None:
        """Makes the table, or gives it the columns and types of `wanted`."""

    def merge(self, shape: Shape, rows: DataFrame) -> None:
        """Applies rows that `compact.changes` made."""

    def truncate(self, shape: Shape, floor: Floor) -> None:
        """Removes what came before a truncate."""

    def rows(self, shape: Shape, *, session: SparkSession | None = None) -> DataFrame:
        """All that the table holds, bookkeeping included; for use in a session of a batch's."""


class DeltaWarehouse:
    """Delta tables at `<root>/<database>/<table>`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root.rstrip("/")
        self._views = count()

    def shape(self, database: str, table: str) -> Shape | None:
        """See Warehouse."""
        path = table_path(self._root, database, table)
        found = self._describe(path)
        if found is None:
            return None
        properties, columns = found
        if json.loads(properties.get(NAME_PROPERTY, "null")) != [database, table]:
            raise ForeignTable(path, advice="Move it away; the sink creates its tables itself")
        return Shape(
            database,
            table,
            tuple((name, kind) for name, kind in columns if name not in OWN_COLUMNS),
            tuple(json.loads(properties[KEY_PROPERTY])),
            mapped=properties.get("delta.columnMapping.mode", "none") != "none",
            apart=all(name in dict(columns) for name, _ in SOURCE_COLUMNS),
        )

    def evolve(self, held: Shape | None, wanted: Shape) -> None:
        """See Warehouse."""
        path = table_path(self._root, wanted.database, wanted.table)
        statements = [create_sql(path, wanted)] if held is None else alter_sql(path, held, wanted)
        for statement in statements:
            _again_on_conflict(partial(self._spark.sql, statement))

    def merge(self, shape: Shape, rows: DataFrame) -> None:
        """See Warehouse. Safe to call from several threads for different tables."""
        view = f"aqueduct_changes_{next(self._views)}"
        # The view has to be in the session that the rows are from.
        session = rows.sparkSession
        rows.createOrReplaceTempView(view)
        path = table_path(self._root, shape.database, shape.table)
        try:
            _again_on_conflict(lambda: session.sql(merge_sql(path, shape, source=view)))
        finally:
            session.catalog.dropTempView(view)

    def truncate(self, shape: Shape, floor: Floor) -> None:
        """See Warehouse."""
        path = table_path(self._root, shape.database, shape.table)
        _again_on_conflict(lambda: self._spark.sql(truncate_sql(path, shape, floor)))

    def replace(
        self,
        shape: Shape,
        rows: DataFrame,
        *,
        cut: tuple[int, dict[tuple[str, int], int]] | None = None,
    ) -> None:
        """Puts these rows of that shape in place of all that the table is, in one commit.

        `cut` is kept with it: which wait that ended, and up to where Kafka is applied.
        """
        path = table_path(self._root, shape.database, shape.table)
        view, session = f"aqueduct_replaced_{next(self._views)}", rows.sparkSession
        rows.createOrReplaceTempView(view)
        more = {CUT_PROPERTY: cut_text(*cut)} if cut else {}
        try:
            session.sql(replace_sql(path, shape, source=view, more=more))
        finally:
            session.catalog.dropTempView(view)

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        """What `replace` kept with the table."""
        found = self._describe(table_path(self._root, database, table))
        text = found[0].get(CUT_PROPERTY) if found else None
        return parse_cut(text) if text else None

    def drop(self, database: str, table: str) -> None:
        """Removes the table with all of its files."""
        Files(self._spark).delete(table_path(self._root, database, table))

    def rows(self, shape: Shape, *, session: SparkSession | None = None) -> DataFrame:
        """See Warehouse."""
        path = table_path(self._root, shape.database, shape.table)
        return (session or self._spark).read.format("delta").load(path)

    def tables(self) -> list[tuple[str, str]]:
        """The names of all tables that are there."""
        files, root = Files(self._spark), self._root
        found = []
        for database in files.names(root):
            # The sink's own begin with this, and no database's folder does.
            for table in () if database.startswith("_") else files.names(f"{root}/{database}"):
                path = f"{root}/{database}/{table}"
                if files.names(f"{path}/_delta_log"):
                    name = self._name(path) if CUT in database + table else None
                    found.append(name or (unfolder(database), unfolder(table)))
        return found

    def _name(self, path: str) -> tuple[str, str] | None:
        """The name that a table was made with, where its folder does not have all of it."""
        described = self._describe(path)
        told = json.loads(described[0].get(NAME_PROPERTY, "null")) if described else None
        return None if told is None else (told[0], told[1])

    def _describe(self, path: str) -> tuple[dict[str, str], list[tuple[str, str]]] | None:
        try:
            detail = self._spark.sql(f"DESCRIBE DETAIL {delta(path)}").collect()[0]
            schema = self._spark.read.format("delta").load(path).schema
        except PySparkException as fault:
            if "DELTA_TABLE_NOT_FOUND" in str(fault) or "DELTA_MISSING_DELTA_TABLE" in str(fault):
                return None
            if "PATH_NOT_FOUND" in str(fault):
                return None
            raise
        return detail.properties, [(x.name, x.dataType.simpleString()) for x in schema.fields]


def current(
    spark: SparkSession, warehouse: str, database: str, table: str, *, bookkeeping: bool = False
) -> DataFrame:
    """What a table holds now: no deleted rows, and no bookkeeping columns unless asked for.

    `spark` needs Delta's two session settings (docs/sink.md). For a table without a primary key
    each row comes as often as the source has it; such rows have no bookkeeping columns but
    `__unrepresentable`. Raises UnknownTable.
    """
    store = DeltaWarehouse(spark, warehouse)
    shape = store.shape(database, table)
    if shape is None:
        raise UnknownTable(f"{database}.{table}")
    if shape.keyed:
        rows = store.rows(shape).where("NOT __deleted")
        return rows if bookkeeping else rows.drop(*OWN_COLUMNS)
    return _standing(store.rows(shape), shape, bookkeeping=bookkeeping)


def _standing(images: DataFrame, shape: Shape, *, bookkeeping: bool) -> DataFrame:
    """The rows of a log: each distinct image as often as its signs add up to."""
    columns = [quoted(name) for name, _ in shape.columns]
    # A map cannot be grouped by; its sorted entries can.
    entries = f.expr("array_sort(map_entries(__unrepresentable))").alias("__entries")
    # An image that one source has removed is not another's.
    named = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
    own = [f.coalesce(name, f.lit(value)).alias(f"{name}_of") for (name, _), value in named]
    sources = [f.col("__destination").alias("__destination_of"), *own] if shape.apart else []
    sums = (
        images.select(*columns, entries, *sources, "__delta")
        .groupBy(*columns, "__entries", *_SOURCES_OF[: len(sources)])
        .agg(f.sum("__delta").cast("int").alias("__n"))
        .where("__n > 0")
    )
    # As columns, not as SQL: in a reader's own session, Spark may put variables for a name's ${…}.
    back = f.expr("map_from_entries(__entries)").alias("__unrepresentable")
    each = f.expr("explode(sequence(1, __n))").alias("__nth")
    repeated = sums.select(*columns, back, each).drop("__nth")
    return repeated if bookkeeping else repeated.drop("__unrepresentable")


def _again_on_conflict(act: Callable[[], object]) -> None:
    """Repeats `act` where another writer (an OPTIMIZE, say) committed first: it is idempotent."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            act()
        # Spark's own errors have classes in Python; Delta's conflicts come as they are.
        except (PySparkException, Py4JJavaError) as fault:
            if attempt == _ATTEMPTS or not is_conflict(fault):
                raise
        else:
            return
