"""Rows that existed already, from a real Kafka, and from a server through a worker, into the warehouse."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.errors import TableNotInCut, UnknownTable
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.kafka import KafkaTopics
from spark_sink.views.cuts.cut_tables import as_of
from spark_sink.views.recent.follower import Follower
from spark_sink.views.recent.reading import current, fresh
from spark_sink.warehouse.coverage import reaches
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.waiting_tables import RELOADING, Waits
from tests.harness import wait
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.sql import ask, run
from tests.harness.topics import rows as published
from tests.harness.worker import running, settings
from tests.integration.process.conftest import mysql
from tests.integration.process.test_snapshot import changing, filled, is_done, wanted_settings
from tests.integration.spark_sink.test_sink import Installation, until
from tests.unit.spark_sink.batch.test_existing_rows import chunk, image
from tests.unit.spark_sink.conftest import FORMAT, FORMATS, spark
from tests.unit.spark_sink.history import Change, held, schema
from wire.warehouse_folders import table_path

__all__ = ["filled", "mysql", "spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/batch/test_existing_rows.py and cuts/test_existing_rows.py have them without Kafka"
    ),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PREFIX = "existing"
COLUMNS = (("id", "int"), ("v", "int"))
IDS = {"id": {"id": "id@1"}, "v": {"id": "v@1"}}
ADDED: dict[str, dict[str, Any]] = {**IDS, "w": {"id": "w@2", "initial": {"value": "5"}}}
SCHEMAS = [
    schema(*COLUMNS, more=IDS),
    schema(*COLUMNS, table="other"),
    schema(*COLUMNS, ("w", "int"), version=2, more=ADDED),
]


def transaction(number: int, *changes: Change) -> list[Change]:
    """The changes of one transaction."""
    name = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}"
    return [
        Change(
            op=one.op, seq=one.seq, before=one.before, after=one.after, table=one.table,
            version=one.version, more={"transaction": {"id": name, "total_order": order}},
        )
        for order, one in enumerate(changes, start=1)
    ]  # fmt: skip


def wide(key: int, value: int, more: int) -> dict[str, Any]:
    return {**image(key, value), "w": more}


STREAM = [
    transaction(
        1,
        Change(op="c", seq=1, after=image(1, 10)),
        Change(op="c", seq=2, after=image(2, 20)),
        Change(op="c", seq=3, after=image(7, 70), table="other"),
    ),
    # The first has the image that was published.
    chunk(4, 1, image(1, 10), image(3, 30)),
    transaction(
        2,
        Change(op="u", seq=6, before=image(1, 10), after=image(1, 11)),
        Change(op="d", seq=7, before=image(3, 30)),
        Change(op="u", seq=8, before=image(7, 70), after=image(7, 71), table="other"),
    ),
    # A column was added; one of the rows comes after a delete of its key.
    chunk(9, 2, wide(1, 11, 5), wide(3, 33, 6), wide(4, 40, 7), version=2),
    transaction(
        3,
        Change(op="u", seq=12, before=wide(4, 40, 7), after=wide(4, 41, 7), version=2),
        Change(op="d", seq=13, before=wide(1, 11, 5), version=2),
    ),
]
CHANGES = [one for part in STREAM for one in part]
THERE = {2: wide(2, 20, 5), 3: wide(3, 33, 6), 4: wide(4, 41, 7)}
IDS_OF = {number: f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}" for number in (1, 2, 3)}


async def write(kafka: str) -> None:
    """Publishes the stream, each part of it in a Kafka transaction."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    names = ("__schemas", "__transactions.shop", "shop.t", "shop.other")
    await admin.create_topics([NewTopic(f"{PREFIX}.{name}", 1, 1) for name in names])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=PREFIX) as producer:
        async with producer.transaction():
            for text in SCHEMAS:
                await producer.send_and_wait(f"{PREFIX}.__schemas", text.encode())
        for part in STREAM:
            async with producer.transaction():
                for one in part:
                    topic = f"{PREFIX}.shop.{one.table}"
                    await producer.send_and_wait(topic, one.value().encode(), key=b"k")


async def test_a_topic_with_both_is_folded_and_cut(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    await write(stack.kafka)
    settings = Settings(
        prefix=PREFIX,
        bootstrap_servers=stack.kafka,
        warehouse=f"{tmp_path}/wh",
        format=FORMAT,
        trigger_interval=0,
    )
    warehouse = open_warehouse(spark, settings.warehouse, table_format=FORMAT)
    warehouse.notes.make()
    topics = KafkaTopics(spark, settings)
    follower = Follower(
        spark,
        settings,
        log=warehouse.recent,
        merged=dict,
        followed=dict,
        metrics=Metrics(),
    )

    def is_whole() -> bool:
        follower.look()
        recent = warehouse.recent.newest()
        whole = recent.cut.whole if recent is not None else None
        return whole is not None and reaches(whole, topics.ends())

    follower.look()
    try:
        wait.until(is_whole, seconds=300, glance=0.5, late=lambda: "the stream is not proven whole")
    finally:
        follower.stop()
        topics.close()
    wanted = {**held([one for one in CHANGES if one.table == "t"]), 2: THERE[2]}
    assert wanted == THERE
    assert by_id(fresh(spark, settings.warehouse, "shop", "t")) == THERE
    assert_cuts(spark, settings.warehouse)
    apply_all(stack.kafka, PREFIX, tmp_path)
    assert by_id(current(spark, settings.warehouse, "shop", "t")) == THERE
    assert_cuts(spark, settings.warehouse)


def assert_cuts(spark: SparkSession, warehouse: str) -> None:
    """Before its last row that existed already a table is refused; the other table is in each cut."""
    for number, value in ((1, 70), (2, 71)):
        cut = as_of(spark, warehouse, IDS_OF[number])
        assert by_id(cut.table("shop", "other")) == {7: image(7, value)}
        with pytest.raises(TableNotInCut, match=r"shop\.t: rows that existed before were still"):
            cut.table("shop", "t")
    for at in (IDS_OF[3], None):
        cut = as_of(spark, warehouse, at)
        assert cut.positions["shop"].transaction == IDS_OF[3]
        assert by_id(cut.table("shop", "t")) == THERE


def by_id(rows: Any) -> dict[int, dict[str, Any]]:
    return {row["id"]: row.asDict() for row in rows.collect()}


def apply_all(kafka: str, prefix: str, folder: Path) -> None:
    """A sink applies all of Kafka, in small batches."""
    config = folder / "sink.yaml"
    described = {
        "prefix": prefix,
        "bootstrap_servers": kafka,
        "warehouse": str(folder / "wh"),
        "format": FORMAT,
        "max_offsets_per_trigger": 9_000,
        "metrics": {"port": 0},
    }
    config.write_text(yaml.safe_dump(described))
    command = [sys.executable, "-m", "spark_sink", "--config", str(config)]
    command += ["--mode", "available-now"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_destination_that_begins_with_existing_rows_fills_the_warehouse(
    stack: Stack, filled: Any, spark: SparkSession, tmp_path: Path
) -> None:
    run(
        filled,
        "CREATE USER few IDENTIFIED BY 'few'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO few",
        "GRANT INSERT ON shop.* TO few",
        *(f"GRANT SELECT ON shop.{table} TO few" for table in ("many", "empty")),
    )
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["source"] |= {"user": "few", "password": "few"}
    with changing(filled, seed=3) as stop, running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.plain", {}).get("error")))
        # Published as changes before the table is read, and then read.
        run(filled, "INSERT INTO shop.plain VALUES (5), (5)", "DELETE FROM shop.plain WHERE v = 2")
        worker.wait(lambda _: len(published(stack, wanted["prefix"], "plain")) == 3)
        run(filled, "GRANT SELECT ON shop.* TO few")
        worker.wait(is_done)
        stop()
        run(
            filled,
            "DELETE FROM shop.plain WHERE v = 1 LIMIT 1",
            "INSERT INTO shop.empty VALUES (9)",
        )
        worker.wait(lambda _: bool(published(stack, wanted["prefix"], "empty")))
        assert worker.stop() == 0
    ops = [one.value["op"] for one in published(stack, wanted["prefix"], "plain")]
    assert ops == ["c", "c", "d", "t", "r", "r", "r", "r", "d"]
    apply_all(stack.kafka, wanted["prefix"], tmp_path)
    for table, columns in (("many", "a, b, v"), ("plain", "v"), ("empty", "id")):
        there = Counter(ask(filled, f"SELECT {columns} FROM shop.{table}"))
        rows = current(spark, f"{tmp_path}/wh", "shop", table).selectExpr(*columns.split(", "))
        assert Counter(tuple(row) for row in rows.collect()) == there, table


TABLE_ROWS = 4_000
OLD, NEW = 1, 2
"""The values before and after what no record says; higher ones are of changes since."""


class Looks:
    """What a reader of the table sees between batches: its rows from before, or all of those since."""

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        self._spark, self._warehouse = spark, warehouse
        self.before = {(key, OLD) for key in range(1, TABLE_ROWS + 1)}
        self.old = self.new = 0
        """How often the rows of either were seen."""
        self.wrong: list[str] = []

    def rows(self, table: str = "t") -> set[tuple[int, ...]]:
        try:
            found = current(self._spark, self._warehouse, "shop", table)
        except UnknownTable:
            return set()
        return {tuple(row) for row in found.select("id", "x").collect()}

    def look_on(self, stop: threading.Event) -> None:
        while not stop.wait(0.2):
            found = self.rows()
            if found == self.before:
                self.old += 1
            elif found and all(value >= NEW for _, value in found):
                self.new += 1
            else:
                self.wrong.append(f"{len(found)} rows: {Counter(value for _, value in found)}")

    def sees_more(self) -> Callable[[], bool]:
        """Whether the rows from before were seen twice since now."""
        seen = self.old
        return lambda: self.old >= seen + 2


@pytest.mark.parametrize("table_format", FORMATS)
def test_readers_see_the_rows_from_before_until_all_are_replaced_though_the_sink_is_killed(
    stack: Stack, mysql: Mysql, spark: SparkSession, tmp_path: Path, table_format: Format
) -> None:
    wanted = settings(stack, mysql, tmp_path, snapshot={"rows_per_second": 400})
    at = Installation(tmp_path, stack.kafka, wanted["prefix"], table_format=table_format)
    warehouse, config = f"{tmp_path}/wh", tmp_path / "aqueduct.yaml"
    run(
        mysql,
        "CREATE TABLE shop.calm (id int PRIMARY KEY, x int)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO shop.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n "
        f"WHERE i < {TABLE_ROWS}) SELECT i, {OLD} FROM n",
    )
    looks = Looks(spark, warehouse)

    def snapshot(*words: str) -> None:
        done = run_command(config, "snapshot", *words)
        assert done.returncode == 0, (done.stdout, done.stderr)

    def is_waiting() -> bool:
        return at.metric('tables_waiting{error="RowsPublishedAgain"}') == 1

    def is_calm(key: int) -> bool:
        return (key, key) in looks.rows("calm")

    def is_built() -> bool:
        """Whether the table is being built beside, or is in place already."""
        waits = Waits(open_warehouse(spark, warehouse).log, time.time)
        waits.refresh()
        held = waits.waiting(("shop", "t"))
        return held is None or held.kind == RELOADING

    with running(wanted, tmp_path) as worker:
        with at.running() as sink:
            until(lambda: looks.rows() == looks.before, sink)
            with beside(looks.look_on) as stop:
                # No record says so, as where changes were purged before they were read.
                run(
                    mysql,
                    "SET SESSION sql_log_bin = 0",
                    f"UPDATE shop.t SET x = {NEW}",
                    "DELETE FROM shop.t WHERE id % 10 = 0",
                    f"INSERT INTO shop.t VALUES ({TABLE_ROWS + 1}, {NEW})",
                )
                snapshot("start", "shop", "shop.t", "--replace")
                worker.wait(lambda status: bool(status["snapshot"]["shop.t"].get("rows")))
                snapshot("pause", "shop", "shop.t")
                # A table whose rows are replaced has changes, too, and no other one waits for it.
                run(
                    mysql,
                    "UPDATE shop.t SET x = 3 WHERE id < 20",
                    "INSERT INTO shop.calm VALUES (1, 1)",
                )
                until(is_waiting, sink)
                until(lambda: is_calm(1), sink)
                until(looks.sees_more(), sink)
                os.killpg(sink.pid, signal.SIGKILL)
                sink.wait()
                with at.running() as sink:
                    run(mysql, "INSERT INTO shop.calm VALUES (2, 2)")
                    until(lambda: is_calm(2), sink)
                    until(is_waiting, sink)
                    until(looks.sees_more(), sink)
                    assert looks.new == 0
                    snapshot("resume", "shop", "shop.t")
                    until(is_built, sink)
                    os.killpg(sink.pid, signal.SIGKILL)
                    sink.wait()
                worker.wait(is_done)
                with at.running() as sink:
                    until(lambda: looks.new > 0, sink)
                    run(mysql, "UPDATE shop.t SET x = 4 WHERE id = 1")
                    there = set(ask(mysql, "SELECT id, x FROM shop.t"))
                    assert len(there) == TABLE_ROWS - TABLE_ROWS // 10 + 1
                    until(lambda: looks.rows() == there, sink)
                    assert at.metric('tables_waiting{error="RowsPublishedAgain"}') == 0
                stop()
        assert worker.stop() == 0
    assert looks.wrong == []
    if table_format == "delta":
        assert_one_commit(spark, table_path(warehouse, "shop", "t"))


def assert_one_commit(spark: SparkSession, path: str) -> None:
    """No version of the table has rows of both, nor none; and it changed from one to the other once."""
    history = [row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    seen: list[str] = []
    for version in sorted(history):
        rows = spark.read.format("delta").option("versionAsOf", version).load(path)
        values = {row.x for row in rows.where("NOT __deleted").select("x").distinct().collect()}
        if values or seen:
            seen.append(
                "old" if values == {OLD} else "new" if min(values, default=0) >= NEW else "mixed"
            )
    changes = [before + after for before, after in itertools.pairwise(seen) if before != after]
    assert changes == ["oldnew"], seen
