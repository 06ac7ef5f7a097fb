"""A warehouse of Iceberg tables: in one folder, or in another catalog beside the sink's texts in the folder."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.text.names import FORMAT, WAITS
from spark_sink.warehouse.iceberg.catalog import HADOOP, NAME, Catalog, digest, kind, registered
from spark_sink.warehouse.iceberg.commits import IcebergCommits
from spark_sink.warehouse.iceberg.conflict import again_on_conflict
from spark_sink.warehouse.iceberg.facts import IcebergFacts
from spark_sink.warehouse.iceberg.own_table import IcebergOwnTable
from spark_sink.warehouse.iceberg.recent import IcebergRecent
from spark_sink.warehouse.iceberg.statements import NEVER_HELD
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.iceberg.upkeep import IcebergUpkeep
from spark_sink.warehouse.iceberg.waits import FileWaits
from spark_sink.warehouse.notes import FileNotes
from spark_sink.warehouse.protocol import Space
from spark_sink.warehouse.sql.ddl import TableDdl
from spark_sink.warehouse.sql.ledger import EVERY, RETENTION_SECONDS, TableFloors, TableLedger
from spark_sink.warehouse.sql.letters import SEARCHED, TableLetters

_OWN = "__aqueduct"


class IcebergWarehouse:
    """See protocol.Warehouse."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        *,
        catalog: Mapping[str, str],
        every: int = EVERY,
        retention_seconds: int = RETENTION_SECONDS,
    ) -> None:
        root = root.rstrip("/")
        files, is_folder = Files(spark), kind(catalog) == HADOOP
        retention = min(retention_seconds, RETENTION_SECONDS)
        # Other warehouses may be in the same catalog.
        own = _OWN if is_folder else f"{_OWN}_{digest(root)}"
        note = {"version": 1, "format": "iceberg", "catalog": kind(catalog), "namespace": own}
        note |= {NAME: catalog[NAME]} if NAME in catalog else {}
        # A Hadoop catalog commits by renaming a file, which only on HDFS fails if another was first.
        excludes = not is_folder or root.startswith("hdfs:")
        self.notes = FileNotes(files, root, first={FORMAT: json.dumps(note)}, excludes=excludes)
        own = json.loads(self.notes.read(FORMAT) or "{}").get("namespace", own)
        made = Catalog(
            spark=spark,
            name=registered(spark, root, catalog),
            kind=kind(catalog),
            prepare=self.notes.make,
        )

        def small(name: str) -> IcebergOwnTable:
            return IcebergOwnTable(
                spark=spark,
                catalog=made,
                place=(own, name),
                every=every,
                retention_seconds=retention,
            )

        folder = root if is_folder else None

        def space(name: str) -> Space[DataFrame]:
            tables = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_{name}_")
            return Space(
                tables=tables,
                upkeep=IcebergUpkeep(spark=spark, tables=tables),
                commits=IcebergCommits(tables=tables, notes=self.notes),
            )

        self.tables = IcebergTables(spark=spark, catalog=made, root=folder)
        self.deleted, self.histories = space("deleted"), space("history")
        self.facts = IcebergFacts(spark=spark, tables=self.tables)
        self.commits = IcebergCommits(tables=self.tables, notes=self.notes)
        self.moving = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_moving_")
        self.stage = IcebergTables(spark=spark, catalog=made, root=folder, prefix=f"{own}_reload_")
        self.ledger = TableLedger(small("ledger"), every=every, keep_seconds=retention_seconds)
        self.floors = TableFloors(small("floors"))
        self.ddl = TableDdl(small("ddl"))
        self.letters = letters(small("dead_letters"))
        self.waits = FileWaits(files=files, folder=f"{root}/{WAITS}", prepare=self.notes.make)
        # Readers go back in these as far as in the tables.
        self.recent = IcebergRecent(
            spark=spark, catalog=made, place=(own, "recent"), retention_seconds=retention_seconds
        )
        self.upkeep = IcebergUpkeep(spark=spark, tables=self.tables)


def letters(table: IcebergOwnTable) -> TableLetters:
    """The dead letters in an Iceberg table."""
    column = "write.metadata.metrics.column."
    metrics = {
        "write.metadata.metrics.default": "none",
        **{f"{column}{n}": "full" for n in SEARCHED},
    }

    def create(_: SparkSession, columns: str) -> None:
        again_on_conflict(lambda: table.create(columns, metrics))

    name = table.catalog.sql_name(table.place)
    return TableLetters(table, name, create=create, again=again_on_conflict, of_held=NEVER_HELD)
