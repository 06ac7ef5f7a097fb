"""``python -m bench.sink_aged``: costs of a batch, a start and folders after 20,000 batches of a sink.

``bench.sink_run`` applies each of them, for hours. Here `bench.sink_past` adds most of them, to a
separate warehouse for each age; then the sink applies some itself, and is started. CPU seconds are
reported too, which a busy machine distorts less. A completed age is kept in `FOLDER`, and not
repeated.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from bench import session
from bench.errors import BenchError, RunFailed
from bench.sink_age import _frame
from bench.sink_past import Past
from bench.sink_run import (
    BATCHES,
    FOLDER,
    RECORDS,
    SCHEMA,
    TOPIC,
    Folder,
    Sink,
    expected,
    settings_file,
    values,
    write,
)
from devstack import Stack
from spark_sink.batch.apply import Applier
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings, read
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark import session as spark_session
from spark_sink.warehouse.delta import current
from spark_sink.warehouse.delta.warehouse import DeltaWarehouse
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources
from spark_sink.warehouse.waiting_tables import Waits

PARTITION: Final = (TOPIC, 0)
MARKS: Final = (BATCHES // 5, BATCHES)
"""At the first of these, data past its retention is already being removed."""
_REAL: Final = 10
"""The number of batches that the sink applies itself at each mark."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The measurements of the sink at one age."""

    batches: int
    batch_cpu_seconds: float
    """The median of the batches at the mark."""
    batch_seconds: float
    start_cpu_seconds: float
    """CPU seconds of a new process and its JVM until the end of their first batch."""
    start_seconds: float
    ledger_rows: int
    markers: int
    table_files: int
    """The files in the newest snapshot of the table."""
    table: Folder
    table_log: Folder
    ledger: Folder


@dataclass(slots=True, kw_only=True)
class Aged:
    """The sink's parts, without Kafka, composed as in `stream.Sink`."""

    spark: SparkSession
    past: Past
    applier: Applier
    applied: int
    """The number of batches that the sink applied itself."""

    @classmethod
    def over(cls, spark: SparkSession, settings: Settings) -> Aged:
        """Compose the parts over the configured warehouse."""
        root, plan = settings.warehouse, settings.maintenance
        warehouse = DeltaWarehouse(spark, root, retention_seconds=plan.retention_seconds)
        applier = Applier(
            book=SchemaBook(lambda: [json.dumps(SCHEMA)]),
            warehouse=warehouse,
            waits=Waits(warehouse.log, time.time),
            metrics=Metrics(),
        )
        maintenance = Maintenance(
            warehouse=warehouse,
            plan=plan,
            complete_until=time.time,
            merged=applier.merged,
            busy_since=lambda: applier.busy_since,
            sources=Sources(
                notes=warehouse.notes,
                of_table=applier.book.sources,
                newest=applier.newest,
            ),
        )
        past = Past(
            spark=spark,
            folder=Path(root),
            name=("shop", "t"),
            position=PARTITION,
            applier=applier,
            log=warehouse.log,
            maintenance=maintenance,
        )
        return cls(spark=spark, past=past, applier=applier, applied=0)

    def apply(self, batches: int) -> list[tuple[float, float]]:
        """Apply the sink's next batches; return the seconds and CPU seconds of each."""
        found = []
        for _ in range(batches):
            first = self.applied * RECORDS
            records = [
                {"topic": TOPIC, "partition": 0, "offset": first + nth, "value": value.decode()}
                for nth, value in enumerate(values(self.applied, now_ms=int(time.time() * 1000)))
            ]
            moved = {PARTITION: first}, {PARTITION: first + RECORDS}
            frame = _frame(self.spark, records)
            began, cpu = time.perf_counter(), _cpu(_jvm())
            self.applier.apply(frame, self.past.number, query_id="q", moved=moved)
            found.append((time.perf_counter() - began, _cpu(_jvm()) - cpu))
            self.applied += 1
            self.past.number += 1
        return found

    def look(self, costs: list[tuple[float, float]]) -> Look:
        """Measure the present state, except for the start."""
        root = self.past.folder
        table = self.spark.read.format("delta").load(f"{root}/shop/t")
        return Look(
            batches=self.past.number,
            batch_seconds=round(statistics.median(wall for wall, _ in costs), 2),
            batch_cpu_seconds=round(statistics.median(cpu for _, cpu in costs), 2),
            start_seconds=0.0,
            start_cpu_seconds=0.0,
            ledger_rows=len(self.past.log.batches()),
            markers=table.where("__deleted").count(),
            table_files=len(table.inputFiles()),
            table=Folder.at(root / "shop/t"),
            table_log=Folder.at(root / "shop/t/_delta_log"),
            ledger=Folder.at(root / "__log"),
        )

    def check(self) -> None:
        """Raise if the rows differ from those that were written."""
        held = current(self.spark, str(self.past.folder), "shop", "t").collect()
        if {row["id"]: row["v"] for row in held} != expected(self.applied):
            raise RunFailed(f"after {self.past.number} batches the table holds other rows")


def _jvm() -> int:
    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _start(stack: Stack, path: Path, look: Look) -> Look:
    """Start the sink on the topic's next batch, from the ledger, and stop it."""
    sink = Sink.start(stack, path)
    try:
        seconds = sink.first()
        cpu = _cpu(sink.java()) + _cpu(sink.child.popen.pid)
    finally:
        sink.stop()
    return replace(look, start_seconds=round(seconds, 1), start_cpu_seconds=round(cpu, 1))


def grown(early: dict[str, Any], late: dict[str, Any]) -> list[str]:
    """The measurements that grew by more than half."""
    pairs = {name: (early[name], late[name]) for name in _FLAT}
    for folder in ("table", "table_log", "ledger"):
        for kind in ("files", "bytes"):
            pairs[f"{folder}.{kind}"] = (early[folder][kind], late[folder][kind])
    return [name for name, (then, now) in pairs.items() if now > 1.5 * then]


_FLAT: Final = ("batch_cpu_seconds", "start_cpu_seconds", "ledger_rows", "markers", "table_files")


def _reached(mark: int) -> Look:
    """Create a new warehouse of that age, and measure it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with Stack(FOLDER, ("kafka",)) as stack:
        path = settings_file(stack.kafka)
        spark = spark_session.start(read(path))
        try:
            aged = Aged.over(spark, read(path))
            aged.apply(_REAL)
            aged.past.add(mark - 2 * _REAL)
            look = aged.look(aged.apply(_REAL))
            aged.check()
            asyncio.run(write(stack.kafka, aged.applied + 1))
            return _start(stack, path, look)
        finally:
            spark_session.close(spark)


def _apart(mark: int, folder: Path) -> dict[str, Any]:
    """Measure one age in a separate process and JVM."""
    result = folder / "look.json"
    if not result.exists():
        command = [sys.executable, "-m", "bench.sink_aged", str(mark)]
        subprocess.run(command, env={**os.environ, "FOLDER": str(folder)}, check=True)
    return dict(json.loads(result.read_text()))


def story() -> None:
    """Measure each age in turn, and compare the last with the first."""
    looks = []
    for mark in MARKS:
        looks.append(_apart(mark, FOLDER / str(mark)))
        print(json.dumps(looks[-1]), flush=True)
    if faults := grown(looks[0], looks[-1]):
        raise BenchError(f"grew by more than half since {looks[0]['batches']}: {faults}")


def _one(mark: int) -> None:
    look = _reached(mark)
    (FOLDER / "look.json").write_text(json.dumps(asdict(look)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _one(int(sys.argv[1]))
    else:
        sys.exit(session.run("bench-sink-aged", story))
