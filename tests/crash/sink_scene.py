"""One warehouse through many kills: a source's records in a real Kafka, sinks that die, and what they leave.

Invariant: after each repair the tables are compared row by row with the source's, the ledger with Kafka's ends,
and the dead letters with the unusable records; so the kill after which something is wrong is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from spark_sink.errors import UnknownTable
from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.views.recent.reading import current
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.crash.sink_load import NAMES, PARTITIONS, TOPICS, Record, Source, ordered
from tests.unit.spark_sink.conftest import FORMAT

TIMEOUT = 600.0
BETWEEN_TRANSACTIONS = 2.0
"""Seconds; the writer does not wait for the sink."""


@contextmanager
def sinking(config: Path, step: str, *more: object) -> Iterator[subprocess.Popen[bytes]]:
    """The sink, with a death in one of its steps, in a process group of its own; see ``sink_killed``."""
    command = [sys.executable, "-m", "tests.crash.sink_killed", str(config), step, *map(str, more)]
    with (config.parent / "sink.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class SinkScene:
    """A source, its topics, and the warehouse."""

    def __init__(
        self, folder: Path, kafka: str, spark: SparkSession, *, prefix: str, seed: int
    ) -> None:
        sys.stderr.write(f"{prefix}: SEED={seed}\n")
        self.folder, self.kafka, self.spark, self.prefix = folder, kafka, spark, prefix
        self.source = Source(seed)
        self.random = self.source.random
        self.warehouse = str(folder / "wh")
        self.checkpoint = folder / "wh/__checkpoint"
        self.config = folder / "sink.yaml"
        self.settings: dict[str, Any] = {
            "prefix": prefix,
            "bootstrap_servers": kafka,
            "warehouse": self.warehouse,
            "format": FORMAT,
            "on_drop": "drop",
            "trigger_interval": 0,
            "merge_interval": 1,
            "unusable_limit": 10_000,
            "max_offsets_per_trigger": 60,
            "maintenance": {"every": 0},
            "metrics": {"port": 0},
        }

    async def begin(self) -> None:
        """Makes the topics."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        await admin.start()
        topics = [
            NewTopic(f"{self.prefix}.{name}", PARTITIONS if name.startswith("shop.") else 1, 1)
            for name in TOPICS
        ]
        await admin.create_topics(topics)
        await admin.close()

    async def write(self, transactions: list[list[Record]]) -> None:
        """Writes them as Kafka transactions."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.kafka, transactional_id=f"{self.prefix}-source"
        )
        await producer.start()
        try:
            for records in transactions:
                async with producer.transaction():
                    for one in records:
                        await producer.send(
                            f"{self.prefix}.{one.topic}",
                            one.value,
                            key=one.key,
                            partition=one.partition,
                            headers=[(name, b"{}") for name in one.headers],
                        )
        finally:
            await producer.stop()

    async def play(self, *kinds: str) -> None:
        """Lets the source change, and writes what is new."""
        self.source.play(*kinds)
        await self.write(self.source.take())

    async def killed(self, step: str, nth: int, *kinds: str) -> None:
        """Runs a sink that dies in a step, while the source continues to change."""
        code = await self.ended(step, 0.0, nth, kinds=kinds)
        assert code == -signal.SIGKILL, (step, nth, self.log())

    async def ended(self, step: str, *more: object, kinds: tuple[str, ...] = ()) -> int:
        """Runs a sink until it ends, while the source continues to change; returns its exit code."""
        self.config.write_text(yaml.safe_dump(self.settings))
        began = time.monotonic()
        with sinking(self.config, step, *more) as sink:
            while sink.poll() is None:
                assert time.monotonic() < began + TIMEOUT, (step, more, self.log())
                self.source.play(*kinds)
                for records in self.source.take():
                    await self.write([records])
                    if sink.poll() is None:
                        await asyncio.sleep(BETWEEN_TRANSACTIONS)
            sys.stderr.write(f"ended step={step} {more} {time.monotonic() - began:.0f} s\n")
            return sink.returncode

    def apply(self, **more: Any) -> None:
        """Applies all that Kafka has, in this process, in few batches."""
        own = {"mode": "available-now", "max_offsets_per_trigger": 10_000}
        settings = Settings(**{**self.settings, **own, **more})
        Sink(self.spark, settings, Metrics()).run(threading.Event())

    def ask_for_reload(self) -> None:
        """Requests that one of the tables be read again from the beginning, unless such a request is open."""
        if self._waits().requests:
            return
        while not (
            there := [name for name, held in sorted(self.source.tables.items()) if held.rows]
        ):
            self.source.play("insert")
        table = self.random.choice(there)
        request = Request(
            number=str(self.random.random()),
            database="shop",
            table=table,
            from_beginning=True,
            skip_unusable=True,
        )
        self._waits().ask(request)

    async def check(self, when: str) -> None:
        """Compares the warehouse with the source once all is applied."""
        for name in NAMES:
            due, held = Counter(self.source.rows(name)), Counter(self.held(name))
            assert held == due, (when, name, {"lacks": due - held, "has more": held - due})
        open_ = [one for one in self._waits().tables.values() if one.waits]
        assert (open_, self._waits().requests) == ([], []), when
        applied = open_warehouse(self.spark, self.warehouse).log.applied()
        assert applied == await self._ends(), when
        letters = self._letters()
        sure, perhaps = Counter(self.source.letters), Counter(self.source.perhaps)
        assert sure <= letters <= sure + perhaps, (when, letters - sure - perhaps, sure - letters)

    def held(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table as a reader finds them, in the columns that the source has."""
        try:
            rows = current(self.spark, self.warehouse, "shop", name)
        except UnknownTable:
            return []
        table = self.source.tables.get(name)
        found = [row.asDict() for row in rows.collect()]
        # A column that no row had yet may be missing.
        names = table.names if table is not None else rows.columns
        return ordered(tuple(row.get(one) for one in names) for row in found)

    def _letters(self) -> Counter[bytes]:
        letters: Any = open_warehouse(self.spark, self.warehouse).letters
        held = letters.table.read()
        return Counter() if held is None else Counter(bytes(row.value) for row in held.collect())

    def _waits(self) -> Waits:
        waits = Waits(open_warehouse(self.spark, self.warehouse).log, time.time)
        waits.refresh()
        return waits

    async def _ends(self) -> dict[tuple[str, int], int]:
        """Where the partitions of row topics end, those that have anything."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.kafka, isolation_level="read_committed")
        await consumer.start()
        try:
            found = await consumer.end_offsets(
                [
                    TopicPartition(f"{self.prefix}.{name}", number)
                    for name in TOPICS
                    if name.startswith("shop.")
                    for number in range(PARTITIONS)
                ]
            )
        finally:
            await consumer.stop()
        return {(at.topic, at.partition): end for at, end in found.items() if end}

    def log(self) -> str:
        """The end of what sinks have printed."""
        return self._printed()[-4000:]

    def lines(self, text: str) -> int:
        """The number of lines with a text that sinks have printed."""
        return sum(text in line for line in self._printed().splitlines())

    def _printed(self) -> str:
        return (self.folder / "sink.log").read_text(errors="replace")
