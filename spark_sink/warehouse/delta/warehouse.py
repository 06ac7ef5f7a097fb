"""A warehouse of Delta tables in one folder."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.text.names import (
    DDL,
    DELETED_KEYS,
    FLOORS,
    HISTORY,
    LEDGER,
    LETTERS,
    MOVING,
    RECENT,
    RELOAD,
    WAITS,
)
from spark_sink.warehouse.delta.commits import DeltaCommits
from spark_sink.warehouse.delta.conflict import again_on_conflict
from spark_sink.warehouse.delta.facts import DeltaFacts
from spark_sink.warehouse.delta.log_store import excludes_writers
from spark_sink.warehouse.delta.own_table import OwnTable
from spark_sink.warehouse.delta.recent import DeltaRecent
from spark_sink.warehouse.delta.statements import delta, letters_sql
from spark_sink.warehouse.delta.tables import DeltaTables
from spark_sink.warehouse.delta.upkeep import DeltaUpkeep
from spark_sink.warehouse.delta.waits import DeltaWaits
from spark_sink.warehouse.layout import Layouts, no_layout
from spark_sink.warehouse.notes import FileNotes
from spark_sink.warehouse.protocol import Space
from spark_sink.warehouse.sql.ddl import TableDdl
from spark_sink.warehouse.sql.ledger import EVERY, RETENTION_SECONDS, TableFloors, TableLedger
from spark_sink.warehouse.sql.letters import TableLetters


class DeltaWarehouse:
    """See protocol.Warehouse."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        *,
        every: int = EVERY,
        retention_seconds: int = RETENTION_SECONDS,
        layouts: Layouts = no_layout,
    ) -> None:
        root = root.rstrip("/")
        retention = min(retention_seconds, RETENTION_SECONDS)

        def own(name: str) -> OwnTable:
            return OwnTable(spark, f"{root}/{name}", every=every, retention_seconds=retention)

        def space(folder: str) -> Space[DataFrame]:
            beside = f"{root}/{folder}"
            return Space(
                tables=DeltaTables(spark, beside),
                upkeep=DeltaUpkeep(spark, beside),
                commits=DeltaCommits(spark, beside),
            )

        self.tables = DeltaTables(spark, root, layouts=layouts)
        self.stage = DeltaTables(spark, f"{root}/{RELOAD}")
        self.facts = DeltaFacts(spark, root)
        self.commits = DeltaCommits(spark, root)
        self.ledger = TableLedger(own(LEDGER), every=every, keep_seconds=retention_seconds)
        self.floors = TableFloors(own(FLOORS))
        self.moving = DeltaTables(spark, f"{root}/{MOVING}")
        self.ddl = TableDdl(own(DDL))
        self.waits = DeltaWaits(own(WAITS))
        self.letters = letters(f"{root}/{LETTERS}", own(LETTERS))
        # Readers go back in these as far as in the tables.
        self.recent = DeltaRecent(spark, f"{root}/{RECENT}", retention_seconds=retention_seconds)
        self.upkeep = DeltaUpkeep(spark, root, layouts=layouts)
        self.deleted = space(DELETED_KEYS)
        self.histories = space(HISTORY)
        conf = dict(spark.sparkContext.getConf().getAll())
        self.notes = FileNotes(Files(spark), root, excludes=excludes_writers(root, conf))


def letters(path: str, table: OwnTable) -> TableLetters:
    """The dead letters in a Delta table."""

    def create(session: SparkSession, columns: str) -> None:
        again_on_conflict(lambda: session.sql(letters_sql(path, columns)))

    return TableLetters(table, delta(path), create=create, again=again_on_conflict)


def current(
    spark: SparkSession, warehouse: str, database: str, table: str, *, bookkeeping: bool = False
) -> DataFrame:
    """The current rows of a table, without deleted ones; `bookkeeping` adds the bookkeeping columns.

    `spark` needs Delta's two session settings (docs/sink/tables.md). For a table without a primary key,
    each row is repeated as often as the source has it, and its only bookkeeping column is
    `__unrepresentable`. Raises UnknownTable.
    """
    return DeltaTables(spark, warehouse).current(database, table, bookkeeping=bookkeeping)
