"""A small Spark session for all tests of the sink, and a sink without Kafka."""

from __future__ import annotations

import base64
import gc
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink import errors
from spark_sink.batch.apply import Applier
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.jobs.reload import Reloader
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark import session
from spark_sink.spark.error_mapping import named
from spark_sink.text import secrets
from spark_sink.views.recent.follower import stored
from spark_sink.views.recent.reading import current, fresh
from spark_sink.warehouse.common.own_tables import joined, texts
from spark_sink.warehouse.coverage import Cut, Step
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.table_rules import NO_RULES
from spark_sink.warehouse.waiting_tables import Request, Waits, WaitState
from tests.harness.logs import keep_formats, logging_restored
from tests.unit.spark_sink.history import Change

# All that have to do with Spark import this module.
keep_formats()

TOPIC = ("aq.shop.t", 0)
FORMATS: tuple[Format, ...] = ("delta", "iceberg")
FORMATS_LONG = [
    pytest.param("delta", marks=pytest.mark.spark),
    pytest.param(
        "iceberg",
        marks=[pytest.mark.spark, pytest.mark.long("warehouse/test_iceberg.py has the main parts")],
    ),
]
"""Those of a test of which `make test` has one."""
FORMAT: Format = "iceberg" if os.environ.get("SINK_FORMAT") == "iceberg" else "delta"
"""The format of a warehouse in tests that have one: `make test SUITE=iceberg` runs them in Iceberg."""
of_delta = pytest.mark.skipif(FORMAT != "delta", reason="is about Delta's own files")


class Warehouse:
    """A warehouse that takes changes as one batch after another."""

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        *,
        table_format: Format = FORMAT,
    ) -> None:
        self.spark = spark
        self.path = str(path)
        self.schemas: list[str] = []
        self.kept = open_warehouse(spark, self.path, table_format=table_format)
        self.metrics = Metrics()
        self.records: list[dict[str, Any]] = []
        self.first = 0
        self.since: dict[tuple[str, int], int] = {}
        self._numbers = itertools.count()
        self.unusable_limit = 0
        self.rules = NO_RULES
        self.follows: Callable[[Waits], Ddl] | None = None
        """Makes what follows DDL; None without."""
        self.restart()

    def restart(self) -> None:
        """Forgets what a process remembers."""
        waits = Waits(self.kept.log, time.time, report=self.metrics.waiting)
        self.applier = Applier(
            book=SchemaBook(lambda: self.schemas),
            warehouse=self.kept,
            waits=waits,
            metrics=self.metrics,
            unusable_limit=self.unusable_limit,
            ddl=self.follows and self.follows(waits),
            rules=self.rules,
            applied=dict(self.kept.log.applied()),
        )

    def take(self, *changes: Change | str | bytes | None, partition: int = 0) -> None:
        """Applies one batch; text is a record's raw value, None a tombstone.

        Raises why the table waits, if it does since.
        """
        waited = self.waiting()
        start = self.ends()
        for change in changes:
            self.write(change, partition=partition)
        self.catch_up(start)
        if waited is None and (held := self.waiting()) is not None:
            kind = getattr(errors, held.error)
            raise kind(held.reason, advice=held.action)

    def write(self, change: Change | str | bytes | None, *, partition: int = 0, **own: Any) -> None:
        """Puts a record into the topic, for a later batch; `own` are further columns of it."""
        value = change.value() if isinstance(change, Change) else change
        key = None
        if isinstance(change, Change) and (image := change.after or change.before):
            key = json.dumps({"id": image.get("id")})
        headers = [{"key": name} for name in change.headers] if isinstance(change, Change) else None
        self.records.append(
            {
                "topic": TOPIC[0],
                "partition": partition,
                "offset": self.ends().get((TOPIC[0], partition), 0),
            }
            | {"key": key, "value": value, "headers": headers}
            | own
        )

    def catch_up(self, start: Offsets) -> None:
        """Applies one batch of all records from `start` on."""
        end = self.ends()
        try:
            self.applier.apply(
                self.read(start, end), next(self._numbers), query_id="q", moved=(start, end)
            )
        except Exception as fault:
            raise named(fault) from fault

    def store(self, start: Offsets, step: Step = Step.ADD, *, is_whole: bool = False) -> None:
        """Stores all records from `start` on as recent changes; `is_whole` if they divide no transaction."""
        until = self.ends()
        rows = stored(self.read(start, until), "aq.__schemas", "aq.__ddl.")
        if step is Step.BEGIN:
            self.since = dict(start)
        whole = until if is_whole else None
        cut = Cut(since=self.since, until=until, at_ms=next(self._numbers), whole=whole)
        if step is Step.BEGIN:
            rows = joined(rows, texts(rows, "version", self.schemas))
            self.kept.recent.begin(rows, cut)
        elif step is Step.ADVANCE:
            self.since |= self.kept.log.applied()
            advanced = replace(cut, since=self.since)
            self.kept.recent.tidy(advanced)
            self.kept.recent.add(rows, advanced)
        else:
            self.kept.recent.add(rows, cut)

    def fresh(self, table: str = "t") -> list[dict[str, Any]]:
        """The table's current rows with recent changes."""
        rows = fresh(self.spark, self.path, "shop", table)
        return [row.asDict(recursive=True) for row in rows.collect()]

    def waiting(self, table: str = "t") -> WaitState | None:
        """The table's waiting state, or None."""
        self.applier.waits.refresh()
        return self.applier.waits.waiting(("shop", table))

    def reload(self, table: str = "t", **options: Any) -> None:
        """Requests a reload and meets it; raises why not."""
        waits = self.applier.waits
        request = Request(number=str(next(self._numbers)), database="shop", table=table, **options)
        waits.ask(request)
        waits.refresh()
        self.meet_requests()
        held = waits.tables["shop", table]
        assert held.answered == request.number
        if held.error:
            raise getattr(errors, held.error)(held.reason, advice=held.action)

    def meet_requests(self) -> None:
        """Does what a running sink does with requests."""
        self.applier.waits.refresh()
        reloader = Reloader(applier=self.applier, topics=self)
        reloader.answer(*self.applier.waits.requests)

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        """See reload.Topics."""
        ends = self.ends()
        assert set(topics) <= {topic for topic, _ in ends}
        ends = {at: end for at, end in ends.items() if not topics or at[0] in topics}
        return {at: self.first if at == TOPIC else 0 for at in ends}, ends

    def ends(self) -> dict[tuple[str, int], int]:
        """The end of each partition."""
        places = Counter((record["topic"], record["partition"]) for record in self.records)
        return {TOPIC: 0, **places}

    def read(self, start: Offsets, end: Offsets) -> DataFrame:
        """See reload.Topics."""
        return self.frame(
            [
                record
                for at, until in end.items()
                for record in self.records
                if (record["topic"], record["partition"]) == at
                and start.get(at, 0) <= record["offset"] < until
            ]
        )

    def rows(self, table: str = "t", *, bookkeeping: bool = False) -> list[dict[str, Any]]:
        """The table's current rows."""
        frame = current(self.spark, self.path, "shop", table, bookkeeping=bookkeeping)
        return [row.asDict(recursive=True) for row in frame.collect()]

    def stored(self, table: str = "t") -> DataFrame:
        """The table's rows as they are stored, markers too."""
        shape = self.kept.tables.shape("shop", table)
        assert shape is not None
        return self.kept.tables.rows(shape)

    def files(self, table: str = "t") -> int:
        """The number of files that have the table's rows."""
        return self.stored(table).select(f.input_file_name()).distinct().count()

    def frame(self, rows: list[dict[str, Any]]) -> DataFrame:
        """Records in the columns of Spark's Kafka source."""
        parsed = f.from_json(
            f.lit(json.dumps([encoded(row) for row in rows])),
            "array<struct<topic:string,partition:int,offset:bigint,key:string,value:string,"
            "headers:array<struct<key:string,value:string>>,timestamp:bigint>>",
        )
        return (
            self.spark.range(1, numPartitions=1)
            .select(f.inline(parsed))
            .selectExpr(
                *(
                    "topic",
                    "partition",
                    "offset",
                    "unbase64(key) AS key",
                    "unbase64(value) AS value",
                ),
                "transform(headers, x -> struct(x.key AS key, unbase64(x.value) AS value)) AS headers",
                "timestamp_millis(timestamp) AS timestamp",
            )
        )


class CountedGate:
    """Counts how often the batches wait."""

    def __init__(self) -> None:
        self.lock, self.times = threading.Lock(), 0

    def __enter__(self) -> None:
        self.times += 1
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def encoded(row: dict[str, Any]) -> dict[str, Any]:
    """A record's columns, of which the bytes are base64."""

    def text(value: str | bytes | None) -> str | None:
        data = value.encode() if isinstance(value, str) else value
        return None if data is None else base64.b64encode(data).decode()

    headers = [{**one, "value": text(one.get("value"))} for one in row.get("headers") or ()]
    own = {"key": text(row["key"]), "value": text(row["value"])}
    return {**row, **own, "headers": headers if row.get("headers") is not None else None}


def _of_both_formats(folder: Path) -> Path:
    """A folder with the jars of both formats, and of a MySQL server: one session reads each."""
    folder.mkdir()
    for field in ("jars", "iceberg_jars", "jdbc_jars"):
        for jar in Settings.model_fields[field].default.glob("*.jar"):
            (folder / jar.name).symlink_to(jar)
    return folder


@pytest.fixture(autouse=True)
def no_secret_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password such as `aqueduct` is hidden in each message of the process that has read it."""
    monkeypatch.setattr(secrets, "_values", set())


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Undo what a test configures for the process's log."""
    with logging_restored():
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("session")
    (folder / "content").write_text("the content of a file of all tests")
    settings = Settings.model_validate(
        {
            "prefix": "aq",
            "bootstrap_servers": "127.0.0.1:1",
            "warehouse": str(folder / "wh"),
            "jars": _of_both_formats(folder / "jars"),
            "spark_options": {
                "spark.hadoop.fs.s3a.secret.key": "a secret of all tests",
                "spark.hadoop.of.any.name": {"file": str(folder / "content")},
            },
        }
    )
    started = session.start(settings)
    yield started
    session.close(started)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[Warehouse]:
    yield Warehouse(spark, tmp_path / "wh")
    # pyspark's own unclosed sockets go here, not in the middle of another test.
    gc.collect()
