"""One small Spark for all tests of the sink, and a sink without Kafka."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_sink import session
from spark_sink.apply import Applier
from spark_sink.ledger import Ledger
from spark_sink.metrics import Metrics
from spark_sink.schemas import SchemaBook
from spark_sink.settings import Settings
from spark_sink.stream import named
from spark_sink.warehouse import DeltaWarehouse, current
from tests.unit.spark_sink.history import Change


class Warehouse:
    """A warehouse that takes changes as one batch after another."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = str(path)
        self.schemas: list[str] = []
        self.ledger = Ledger(spark, self.path)
        self.metrics = Metrics()
        self._numbers = itertools.count()
        self.restart()

    def restart(self) -> None:
        """Forgets what a process remembers."""
        self.applier = Applier(
            book=SchemaBook(lambda: self.schemas),
            warehouse=DeltaWarehouse(self.spark, self.path),
            ledger=self.ledger,
            metrics=self.metrics,
        )

    def take(self, *changes: Change | str | None) -> None:
        """Applies one batch; text stands for a record's raw value, None for a tombstone."""
        values = [c.value() if isinstance(c, Change) else c for c in changes]
        rows: list[dict[str, Any]] = [
            {"topic": "aq.shop.t", "partition": 0, "offset": at, "value": value}
            for at, value in enumerate(values)
        ]
        number = next(self._numbers)
        try:
            self.applier.apply(
                self._frame(rows),
                number,
                query_id="q",
                moved=lambda: ({("t", 0): number}, {("t", 0): number + 1}),
            )
        except Exception as fault:
            raise named(fault) from fault

    def rows(self, table: str = "t", *, bookkeeping: bool = False) -> list[dict[str, Any]]:
        """What the table holds now."""
        frame = current(self.spark, self.path, "shop", table, bookkeeping=bookkeeping)
        return [row.asDict(recursive=True) for row in frame.collect()]

    def _frame(self, rows: list[dict[str, Any]]) -> DataFrame:
        from pyspark.sql import functions as f

        parsed = f.from_json(
            f.lit(json.dumps(rows)),
            "array<struct<topic:string,partition:int,offset:bigint,value:string>>",
        )
        return self.spark.range(1, numPartitions=1).select(f.inline(parsed))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = Settings(
        prefix="aq",
        bootstrap_servers="127.0.0.1:1",
        warehouse=str(tmp_path_factory.mktemp("session")),
    )
    started = session.start(settings)
    yield started
    session.close(started)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[Warehouse]:
    yield Warehouse(spark, tmp_path / "wh")
    # pyspark's own unclosed sockets go here, not in the middle of another test.
    gc.collect()
