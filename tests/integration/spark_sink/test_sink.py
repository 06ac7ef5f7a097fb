"""The sink as a process, between a real Kafka and a real warehouse."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from pyspark.sql import SparkSession

from devstack import Stack
from devstack.ports import free_port
from spark_sink.errors import ForeignTopic, ForeignWarehouse, TablesWaiting
from spark_sink.jobs.lag import lag_lines
from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import read
from spark_sink.source.installation import installation_in
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.views.recent.reading import current
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness import wait
from tests.unit.spark_sink.batch.drops_and_renames.statements import rename
from tests.unit.spark_sink.conftest import FORMAT, spark
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COLUMNS = (("id", "int"), ("v", "varchar(20)"))
TIMEOUT = 400.0


def until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a fact, as long as the sink runs."""
    wait.until(
        holds,
        seconds=TIMEOUT,
        glance=0.2,
        hopeless=lambda: process.poll() is not None,
        late=lambda: (
            "the sink did not get there" if process.poll() is None else process.communicate()[0]
        ),
    )


class Installation:
    """A sink's settings, its topics, and its process."""

    def __init__(
        self,
        folder: Path,
        kafka: str,
        prefix: str = "sinktest",
        *,
        table_format: Format = FORMAT,
    ) -> None:
        self.folder, self.kafka, self.port, self.prefix = folder, kafka, free_port(), prefix
        self.config = folder / "sink.yaml"
        self.config.write_text(
            f"prefix: {self.prefix}\nbootstrap_servers: {kafka}\nwarehouse: {folder}/wh\n"
            f"metrics: {{port: {self.port}}}\nlog: {{file: {folder}/details.log}}\nmerge_interval: 1\n"
            f"format: {table_format}\n"
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "spark_sink", "--config", str(self.config), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=TIMEOUT
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            self.command(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def rows(self, table: str) -> set[tuple[int, str]]:
        shown = self.run("show", f"shop.{table}", "--limit", "1000")
        assert shown.returncode == 0, shown.stderr
        return {(int(k), v) for k, v in re.findall(r"\|(\d+)\s*\|(\w+)\s*\|", shown.stdout)}

    def applied(self, table: str) -> int:
        """The offset that the sink says it has applied."""
        return int(self.metric(f'applied_offset{{partition="0",topic="{self.topic(table)}"}}'))

    def metric(self, name: str) -> float:
        """What the sink says of itself; 0 where it says nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                text = page.read().decode()
        except OSError:
            return 0
        found = re.search(rf"^aqueduct_sink_{re.escape(name)} (\S+)", text, re.MULTILINE)
        return float(found[1]) if found else 0

    def batches(self) -> int:
        """How many batches were read, and so begun to be merged."""
        return self.log().count(" batch read ")

    def until_batch(self, begun: int, sink: subprocess.Popen[str]) -> None:
        """Waits until another batch was read."""
        until(lambda: self.batches() > begun, sink)

    def log(self) -> str:
        file = self.folder / "details.log"
        return file.read_text() if file.exists() else ""

    def topic(self, table: str) -> str:
        """The table's topic; that of `late` has a name that a mapping gave."""
        return f"{self.prefix}.trade" if table == "late" else f"{self.prefix}.shop.{table}"

    async def make_topics(self, *names: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        await admin.start()
        await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        await admin.close()

    async def write(self, *records: Change | str, commit: bool = True) -> None:
        """One Kafka transaction of rows, and of schemas and statements given as text."""
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka, transactional_id=self.prefix)
        await producer.start()
        await producer.begin_transaction()
        for record in records:
            if isinstance(record, Change):
                topic, value = self.topic(record.table), record.value()
            else:
                kind = "__ddl.shop" if '"ddl":' in record else "__schemas"
                topic, value = f"{self.prefix}.{kind}", record
            await producer.send_and_wait(topic, value.encode(), key=b"k")
        await (producer.commit_transaction() if commit else producer.abort_transaction())
        await producer.stop()


def insert(seq: int, v: str, table: str = "t") -> Change:
    return Change(op="c", seq=seq, after={"id": seq, "v": v}, table=table)


def offsets_in(printed: str, topic: str) -> list[int]:
    """Up to where the topic is merged, visible and committed, by what `lag` printed."""
    (line,) = (one for one in printed.splitlines() if one.startswith(f"{topic} partition 0: "))
    return [int(number) for number in re.findall(r" to (\d+)", line)]


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    # The kernel lists them by thread: a JVM starts programs in any of its own.
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for one in lists for child in one.read_text().split()]
    return [found for child in children for found in (child, *descendants(child))]


def until_ended(pids: list[int]) -> None:
    def left() -> list[int]:
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    wait.until(lambda: not left(), seconds=TIMEOUT, glance=0.2, late=lambda: f"{left()} still run")


@pytest.mark.remedy("sink.ForeignWarehouse")
@pytest.mark.parametrize(
    "table_format",
    [
        "delta",
        pytest.param("iceberg", marks=pytest.mark.long("the contract has it without a process")),
    ],
)
async def test_rows_arrive_exactly_and_a_lost_checkpoint_loses_and_repeats_nothing(
    stack: Stack,
    spark: SparkSession,
    tmp_path: Path,
    table_format: Format,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix = f"sinktest{table_format}"
    at = Installation(tmp_path, stack.kafka, prefix, table_format=table_format)
    await at.make_topics(f"{at.prefix}.__schemas")
    with at.running() as sink:
        await at.make_topics(at.topic("t"))
        await at.write(schema(*COLUMNS), insert(1, "kept"))
        await at.write(insert(2, "aborted"), insert(3, "aborted"), commit=False)
        await at.write(insert(2, "kept"))
        until(lambda: at.applied("t") >= 6, sink)
        await at.make_topics(at.topic("late"))
        await at.write(schema(*COLUMNS, table="late"), insert(3, "late", "late"))
        until(lambda: at.applied("late") >= 1, sink)
        late = time.time()
        until(lambda: at.metric("complete_until_timestamp_seconds") > late, sink)
        assert at.metric("kafka_up") == 1
        assert at.metric("unapplied_offsets") == 0
        assert at.metric('rows_total{op="c",table="shop.late"}') == 1
        # A statement after which no row of any table comes.
        await at.make_topics(f"{at.prefix}.__ddl.shop")
        await at.write(rename(4, ("late", "later")))
        until(lambda: (tmp_path / "wh/shop/later").is_dir(), sink)
        java = descendants(sink.pid)
        assert java
        # To all of them, as systemd does.
        os.killpg(sink.pid, signal.SIGTERM)
        output, _ = sink.communicate(timeout=TIMEOUT)
        assert sink.returncode == 0, output
        assert "Traceback" not in output
        until_ended(java)

    shutil.rmtree(tmp_path / "wh/__checkpoint")
    await at.write(insert(4, "after"))
    with caplog.at_level(logging.INFO, "spark_sink"):
        Sink(spark, read(at.config, mode="available-now"), Metrics()).run(threading.Event())
    assert "checkpoint lost" in caplog.text
    assert "rows=1 " in caplog.text
    held = current(spark, f"{tmp_path}/wh", "shop", "t").collect()
    assert sorted((row.id, row.v) for row in held) == [(1, "kept"), (2, "kept"), (4, "after")]
    await at.write(insert(5, "not merged"))
    warehouse = open_warehouse(spark, f"{tmp_path}/wh", table_format=table_format)
    ranges = KafkaTopics(spark, read(at.config)).ranges(())
    assert_one_row_is_missing(at, "\n".join(lag_lines(warehouse, *ranges)))
    other = other_than(table_format)
    with pytest.raises(ForeignWarehouse, match=f"is in {table_format}, and {other} is wanted"):
        open_warehouse(spark, f"{tmp_path}/wh", table_format=other)
    assert open_warehouse(spark, f"{tmp_path}/wh", table_format=table_format).tables.names()


@pytest.mark.remedy("sink.ForeignTopic")
async def test_only_topics_that_a_table_version_of_the_installation_names_are_applied(
    stack: Stack, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = Installation(tmp_path, stack.kafka, "near")
    begins, ends, contains = "near.eu", "test-near", "far.near"
    for number, prefix in enumerate((at.prefix, begins, ends, contains), start=1):
        one = at
        if number > 1:
            (tmp_path / prefix).mkdir()
            one = Installation(tmp_path / prefix, stack.kafka, prefix)
        await one.make_topics(f"{prefix}.__schemas", f"{prefix}.__journal", one.topic("t"))
        await one.write(schema(*COLUMNS, topic=one.topic("t")), insert(number, prefix[:4]))
    alerts, logs = f"{at.prefix}.alerts", f"{at.prefix}.shop.log"
    await at.make_topics(alerts, logs)
    await at.write(schema(*COLUMNS, table="log", topic=logs), insert(5, "log", "log"))
    producer = AIOKafkaProducer(bootstrap_servers=stack.kafka)
    await producer.start()
    await producer.send_and_wait(alerts, b'{"alert":1}', key=b"k")
    await producer.stop()

    def run(exclude: str) -> None:
        at.config.write_text(f"{settings}exclude: '{exclude}'\n")
        Sink(spark, read(at.config, mode="available-now"), Metrics()).run(threading.Event())

    settings = at.config.read_text()
    with caplog.at_level(logging.INFO, "spark_sink"), pytest.raises(ForeignTopic) as fault:
        run(r".*\.log")
    assert fault.value.where.startswith(f"topic {alerts}: no table version in near.__schemas")
    assert r"Add near\.alerts to exclude" in fault.value.advice
    assert "add near\\.eu\\..* to exclude prefix=near.eu" in caplog.text
    warehouse = open_warehouse(spark, f"{tmp_path}/wh", table_format=FORMAT)
    assert warehouse.tables.names() == [("shop", "t")]
    assert [row.id for row in current(spark, f"{tmp_path}/wh", "shop", "t").collect()] == [1]
    assert f"topic {alerts}: REFUSED" in list(status_lines(warehouse))
    topics = KafkaTopics(spark, read(at.config))
    own = installation_in(topics, at.prefix, lambda: read_schemas(spark, read(at.config)))
    lag = list(lag_lines(warehouse, *topics.ranges(()), installation=own))
    topics.close()
    assert [line for line in lag if line.startswith(alerts)] == [
        f"{alerts}: not applied, as it is not of this installation"
    ]
    assert any(line.startswith("not merged: 0 offsets") for line in lag)
    with pytest.raises(ForeignTopic):
        run(r".*\.log")
    run(r".*\.log|near\.alerts|near\.eu\..*")
    assert not any("REFUSED" in line for line in status_lines(warehouse))


@pytest.mark.remedy("sink.TopicReplaced")
@pytest.mark.long("test_start.py has the wait and where reading begins; any reload ends it")
async def test_tables_of_a_topic_that_was_deleted_and_made_again_wait_and_none_of_its_rows_is_skipped(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "again")
    settings = read(at.config, mode="available-now")
    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"), at.topic("u"))
    await at.write(*(schema(*COLUMNS, table=one, topic=at.topic(one)) for one in ("t", "u")))
    await at.write(*(insert(seq, "old", table) for table in ("t", "u") for seq in (1, 2)))
    Sink(spark, settings, Metrics()).run(threading.Event())

    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    await admin.delete_topics([at.topic("t")])

    async def is_gone() -> bool:
        return at.topic("t") not in await admin.list_topics()

    await wait.until_async(is_gone, late=lambda: "the topic is still there")
    await admin.close()
    await at.make_topics(at.topic("t"))
    # More than it had, so that the old offsets lie within it.
    await at.write(*(insert(seq, "new") for seq in range(2, 9)), insert(9, "new", "u"))
    warehouse = open_warehouse(spark, f"{tmp_path}/wh", table_format=FORMAT)

    def ids(table: str) -> list[int]:
        return sorted(r.id for r in current(spark, f"{tmp_path}/wh", "shop", table).collect())

    with pytest.raises(TablesWaiting, match=r"shop\.t \(TopicReplaced\)"):
        Sink(spark, settings, Metrics()).run(threading.Event())
    assert (ids("t"), ids("u")) == ([1, 2], [1, 2, 9])
    waits = Waits(warehouse.log, time.time)
    waits.ask(Request(number="1", database="shop", table="t"))
    Sink(spark, settings, Metrics()).run(threading.Event())
    assert ids("t") == list(range(1, 9))
    await at.write(insert(10, "later"))
    Sink(spark, settings, Metrics()).run(threading.Event())
    assert ids("t") == [*range(1, 9), 10]


async def remove_records(at: Installation, table: str) -> None:
    """As retention does: all records of a table's topic are gone."""
    admin = AIOKafkaAdminClient(bootstrap_servers=at.kafka)
    await admin.start()
    await admin.delete_records(
        {TopicPartition(at.topic(table), 0): RecordsToDelete(before_offset=-1)}
    )
    await admin.close()


def replaced(seq: int, table: str, *ids: int) -> list[Change]:
    """What `snapshot start --replace` publishes: a TRUNCATE, then the rows."""
    rows = [insert(seq + n, "again", table) for n in range(1, len(ids) + 1)]
    named = [
        replace(row, after={"id": key, "v": "again"}) for key, row in zip(ids, rows, strict=True)
    ]
    return [Change(op="t", seq=seq, table=table), *named]


@pytest.mark.remedy("sink.ChangesLost", "sink.TablesWaiting")
@pytest.mark.long("test_start.py has who waits and where reading begins; any reload ends it")
async def test_a_table_whose_unread_records_are_removed_waits_alone_until_its_rows_are_published_again(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "removed")
    settings = read(at.config, mode="available-now")

    def run() -> dict[str, list[int]]:
        Sink(spark, settings, Metrics()).run(threading.Event())
        return held()

    def held() -> dict[str, list[int]]:
        found = {}
        for table in ("t", "u", "v"):
            rows = current(spark, f"{tmp_path}/wh", "shop", table).collect()
            found[table] = sorted(row.id for row in rows)
        return found

    await at.make_topics(f"{at.prefix}.__schemas", *(at.topic(one) for one in "tuv"))
    await at.write(*(schema(*COLUMNS, table=one, topic=at.topic(one)) for one in "tuv"))
    await at.write(*(insert(seq, "old", table) for table in "tuv" for seq in (1, 2)))
    run()
    await at.write(insert(3, "unread"), insert(3, "unread", "v"), insert(4, "kept", "u"))
    await remove_records(at, "t")
    await remove_records(at, "v")
    await at.write(insert(5, "later"))
    for _ in range(2):
        # Also at the next start.
        with pytest.raises(
            TablesWaiting, match=r"shop\.t \(ChangesLost\), shop\.v \(ChangesLost\)"
        ):
            run()
    assert held() == {"t": [1, 2], "u": [1, 2, 4], "v": [1, 2]}
    waits = Waits(open_warehouse(spark, f"{tmp_path}/wh", table_format=FORMAT).log, time.time)
    # One is published again, of the other it is accepted that changes are missing.
    await at.write(*replaced(6, "t", 1, 3, 5))
    for table in "tv":
        waits.ask(Request(number=table, database="shop", table=table))
    assert run() == {"t": [1, 3, 5], "u": [1, 2, 4], "v": [1, 2]}
    await at.write(insert(10, "on"), insert(10, "on", "v"))
    assert run() == {"t": [1, 3, 5, 10], "u": [1, 2, 4], "v": [1, 2, 10]}


@pytest.mark.remedy("sink.DataLost")
@pytest.mark.long("test_start.py has the wait, after a stop")
async def test_a_sink_that_runs_continues_with_all_others_once_unread_records_are_gone(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "removedbelow")
    at.config.write_text(f"{at.config.read_text()}max_rate: 1\n")
    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"), at.topic("u"))
    await at.write(*(schema(*COLUMNS, table=one, topic=at.topic(one)) for one in "tu"))
    with at.running() as sink:
        await at.write(insert(1, "old"), insert(1, "old", "u"))
        until(lambda: at.applied("t") >= 1 and at.applied("u") >= 1, sink)
        # At that rate it is still at the batch before.
        await at.write(*(insert(seq, "unread") for seq in range(2, 60)))
        await remove_records(at, "t")
        await at.write(insert(70, "later", "u"), insert(71, "later"))
        until(lambda: "The sink starts again" in at.log(), sink)
        until(lambda: at.metric('tables_waiting{error="ChangesLost"}') == 1, sink)
        until(lambda: at.applied("u") >= 3, sink)
        assert sink.poll() is None
        assert at.rows("u") == {(1, "old"), (70, "later")}
        shown = at.run("status").stdout
        assert "ChangesLost: " in shown
        command = re.search(r"python -m spark_sink (reload shop\.t)", shown)
        assert command
        done = at.run(*command[1].split())
        assert done.returncode == 0, done.stderr
        assert at.rows("t") == {(1, "old"), (71, "later")}
        java = descendants(sink.pid)
        os.kill(sink.pid, signal.SIGTERM)
        output, _ = sink.communicate(timeout=TIMEOUT)
        assert sink.returncode == 0, output
        assert "Traceback" not in output
    until_ended(java)


def assert_one_row_is_missing(at: Installation, lag: str) -> None:
    """What `lag` says once a row was written that no sink has read."""
    merged = offsets_in(lag, at.topic("t"))
    # The row and the marker of its transaction.
    assert merged[0] == merged[1] == merged[2] - 2
    assert "not merged: 2 offsets; not visible: 2 offsets; last batch merged: " in lag


def other_than(table_format: Format) -> Format:
    return "iceberg" if table_format == "delta" else "delta"


@pytest.mark.long(
    "the test above has the rows, the lag and the refusal, of what a process has left"
)
async def test_commands_show_the_rows_and_what_is_missing_and_another_format_is_refused(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "sinkcommands")
    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"))
    await at.write(schema(*COLUMNS), insert(1, "kept"), insert(2, "kept"))
    applied = at.run("--mode", "available-now")
    assert applied.returncode == 0, applied.stderr
    assert at.rows("t") == {(1, "kept"), (2, "kept")}
    await at.write(insert(5, "not merged"))
    lag = at.run("lag")
    assert lag.returncode == 0, lag.stderr
    assert_one_row_is_missing(at, lag.stdout)
    other = other_than(FORMAT)
    at.config.write_text(at.config.read_text().replace(f"format: {FORMAT}", f"format: {other}"))
    refused = at.run("--mode", "available-now")
    assert refused.returncode == 1
    wanted = f"ForeignWarehouse: .*/wh is in {FORMAT}, and {other} is wanted"
    assert re.search(wanted, refused.stderr)


@pytest.mark.remedy("sink.KeyChanged")
@pytest.mark.long("unit/spark_sink/warehouse/test_waiting_tables.py has it without a process")
async def test_a_table_that_cannot_be_applied_waits_alone_and_a_reload_beside_the_stream_repairs_it(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, prefix="sinkwaits")
    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"), at.topic("late"))
    await at.write(schema(*COLUMNS), *(insert(seq, "kept") for seq in (1, 2)), insert(4, "after"))
    await at.write(schema(*COLUMNS, table="late"), insert(3, "late", "late"))
    await at.write(
        schema(*COLUMNS, key=("id", "v"), version=2),
        Change(op="c", seq=5, version=2, after={"id": 5, "v": "new"}),
        Change(op="d", seq=6, version=2, before={"id": 4, "v": "after"}),
        insert(7, "on", "late"),
    )
    waiting = at.run("--mode", "available-now")
    assert waiting.returncode == 1
    assert "TablesWaiting" in waiting.stderr
    assert "shop.t (KeyChanged)" in waiting.stderr
    assert "Traceback" not in waiting.stderr
    shown = at.run("status")
    assert "shop.t: WAITING\n" in shown.stdout
    assert "shop.late: APPLIED\n" in shown.stdout
    with at.running():
        reloaded = at.run("reload", "shop.t")
        assert reloaded.returncode == 0, reloaded.stderr
    assert at.rows("t") == {(1, "kept"), (2, "kept"), (5, "new")}


def test_a_killed_sink_leaves_no_jvm(stack: Stack, tmp_path: Path) -> None:
    at = Installation(tmp_path, stack.kafka)
    with at.running() as sink:
        until(lambda: bool(descendants(sink.pid)), sink)
        java = descendants(sink.pid)
        os.kill(sink.pid, signal.SIGKILL)
        sink.wait()
    until_ended(java)


def test_bad_settings_end_with_one_line_and_code_2(tmp_path: Path) -> None:
    at = Installation(tmp_path, "127.0.0.1:1")
    at.config.write_text("prefix: aq\ncolour: red\n")
    refused = at.run()
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "colour" in refused.stderr
    assert "warehouse" in refused.stderr
