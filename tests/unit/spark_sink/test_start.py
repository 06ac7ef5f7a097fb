"""The errors of a start that fails: the folder, Java, Kafka, or a prefix without topics."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.apply import Applier
from spark_sink.errors import (
    CheckpointDamaged,
    CheckpointPastLedger,
    DataLost,
    ForeignCheckpoint,
    KafkaUnreachable,
    NoTopics,
    SinkError,
    TypeConflict,
    WarehouseUnusable,
)
from spark_sink.jobs import stream
from spark_sink.jobs.stream import BackgroundTasks, Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.warehouse.ledger import Entry
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.history import schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Kafka:
    """A cluster that has only the topics it is given."""

    def __init__(
        self,
        *topics: str,
        ends: dict[tuple[str, int], int] | None = None,
        made: str = "a",
        first: int = 0,
    ) -> None:
        """`made` is the id of all topics, and `first` the offset at which their partitions begin."""
        self._topics, self._made, self._first = set(topics), made, first
        self._ends = ends or {}

    def cluster_id(self) -> str:
        return "c"

    def topics(self) -> set[str]:
        return self._topics

    def ids(self) -> dict[str, str]:
        return dict.fromkeys(self._topics, self._made)

    def ranges(self, _: str) -> tuple[dict[Any, int], dict[Any, int]]:
        return dict.fromkeys(self._ends, self._first), self._ends


def answering(*answers: Kafka | Exception) -> Callable[..., Any]:
    """Kafka's answers, one after the other; the last forever."""
    left = list(answers)

    @contextmanager
    def admin(*_: object) -> Iterator[Kafka]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        yield answer

    return admin


@pytest.fixture
def sink(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Sink]]:
    monkeypatch.setattr(stream, "_SECONDS_BETWEEN_TRIES", 0.01)

    begun: list[Sink] = []

    def made(
        mode: str = "continuous", warehouse: str = f"{tmp_path}/wh", prefix: str = "wrong"
    ) -> Sink:
        settings = Settings(
            prefix=prefix,
            bootstrap_servers="127.0.0.1:1",
            warehouse=warehouse,
            mode="available-now" if mode == "available-now" else "continuous",
        )
        begun.append(Sink(spark, settings, Metrics()))
        return begun[-1]

    yield made
    for one in begun:
        one._presence.end()


@pytest.mark.remedy("sink.WarehouseUnusable")
@pytest.mark.parametrize("path", ["/proc/nothing/wh", "nosuch://bucket/wh", "/dev/null/wh"])
def test_a_folder_that_cannot_be_used_is_named_before_kafka_is_asked(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])
    monkeypatch.setattr(stream, "admin", answering(KafkaUnreachable("127.0.0.1:1: no answer")))
    with pytest.raises(WarehouseUnusable, match=path):
        sink(warehouse=path).run(threading.Event())
    # With another one, it starts.
    there = Kafka("wrong.shop.t", ends={("wrong.shop.t", 0): 7})
    monkeypatch.setattr(stream, "admin", answering(there))
    assert sink()._from_kafka(threading.Event()) == "earliest"


@pytest.mark.remedy("sink.KafkaUnreachable")
def test_an_absent_kafka_is_logged_once_and_waited_for(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = KafkaUnreachable("127.0.0.1:1: no answer")
    monkeypatch.setattr(stream, "admin", answering(away, away, away, Kafka("aq.__schemas")))
    sink()._from_kafka(threading.Event())
    described = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    assert [line.partition(":")[0] for line in described] == ["KafkaUnreachable", "NoTopics"]
    assert "Retrying until it answers" in described[0]
    assert "the prefixes in Kafka: aq." in described[1]


def test_a_stop_ends_the_waiting_without_an_error(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def admin(*_: object) -> None:
        stop.set()
        raise KafkaUnreachable("127.0.0.1:1")

    monkeypatch.setattr(stream, "admin", admin)
    sink().run(stop)


@pytest.mark.parametrize("fault", [None, ValueError("disk full")])
def test_a_run_with_an_end_waits_for_the_work_beside_it_and_fails_with_it(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    done: list[str] = []
    ended = SimpleNamespace(isActive=False, exception=lambda: None)

    def reload() -> None:
        time.sleep(0.3)
        done.append("reloaded")
        if fault is not None:
            raise fault

    run = sink("available-now")
    run._beside = BackgroundTasks(due=(lambda: reload,))
    monkeypatch.setattr(run, "_start", lambda _: ended)
    monkeypatch.setattr(run, "_apply_ddl", lambda: done.append("the rest"))
    run._until_ended("", threading.Event())
    assert done == ["reloaded", *(["the rest"] if fault is None else [])]
    assert run._failure is fault


@pytest.mark.remedy("sink.NoTopics")
def test_a_run_that_does_not_wait_ends_by_name(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_SECONDS_FOR_KAFKA", 0.0)
    monkeypatch.setattr(stream, "admin", answering(KafkaUnreachable("127.0.0.1:1")))
    with pytest.raises(KafkaUnreachable):
        sink("available-now").run(threading.Event())
    monkeypatch.setattr(stream, "admin", answering(Kafka("aq.__schemas", "crm.__schemas")))
    with pytest.raises(NoTopics, match="prefix 'wrong'") as fault:
        sink("available-now").run(threading.Event())
    assert "aq, crm" in fault.value.advice
    # With one of these prefixes, it starts.
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])
    there = Kafka("aq.__schemas", "aq.shop.t", ends={("aq.shop.t", 0): 7})
    monkeypatch.setattr(stream, "admin", answering(there))
    assert sink("available-now", prefix="aq")._from_kafka(threading.Event()) == "earliest"


@pytest.mark.remedy("sink.ForeignFormat")
def test_an_excluded_topic_is_dropped_with_the_batch_that_the_checkpoint_would_replay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = ("aq.shop.bad", 0), ("aq.shop.good", 0)
    settings = Settings(
        prefix="aq",
        bootstrap_servers="127.0.0.1:1",
        warehouse=str(tmp_path),
        exclude=r"aq\.shop\.bad",
    )
    sink = Sink(spark, settings, Metrics())
    entry = {"query_id": "q", "batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}
    sink._warehouse.log.append(
        [
            Entry(**entry, topic=topic, partition=number, until_offset=4)  # type: ignore[arg-type]
            for topic, number in (bad, good)
        ]
    )
    checkpoint = tmp_path / "__checkpoint"
    for name in ("offsets/0", "offsets/1", "commits/0", "sources/0/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        topics = {"aq.shop.bad": {"0": 9}, "aq.shop.good": {"0": 4}}
        (checkpoint / name).write_text("v1\n" + json.dumps(topics))
    monkeypatch.setattr(stream, "admin", answering(Kafka("aq.shop.good", ends={good: 7})))
    start = sink._from_kafka(threading.Event())
    sink._presence.end()
    assert start == json.dumps({"aq.shop.good": {"0": 4}})
    assert [path.name for path in checkpoint.iterdir() if not path.name.startswith(".")] == [
        "__origin.json"
    ]


@pytest.mark.remedy("sink.CheckpointPastLedger", "sink.CheckpointDamaged", "sink.ForeignCheckpoint")
def test_a_start_that_could_omit_records_is_refused_until_what_its_error_names_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])

    def started(prefix: str = "aq", folder: str = "wh") -> str | None:
        at = f"{prefix}.shop.t", 0
        monkeypatch.setattr(stream, "admin", answering(Kafka(at[0], ends={at: 9})))
        settings = Settings(
            prefix=prefix, bootstrap_servers="127.0.0.1:1", warehouse=str(tmp_path / folder)
        )
        sink = Sink(spark, settings, Metrics())
        try:
            start = sink._from_kafka(threading.Event())
        finally:
            sink._presence.end()
        if start == "earliest":
            entry = {"batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}
            sink._warehouse.log.append(
                [Entry(**entry, query_id="q", topic=at[0], partition=0, until_offset=4)]  # type: ignore[arg-type]
            )
        return start

    assert started() == "earliest"
    # The warehouse is put back from a copy that is older than the checkpoint.
    checkpoint = tmp_path / "wh" / "__checkpoint"
    for name in ("offsets/0", "commits/0", "sources/0/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text("v1\n" + json.dumps({"aq.shop.t": {"0": 9}}))
    with pytest.raises(CheckpointPastLedger, match=r"checkpoint is at 9, the ledger at 4.*Remove"):
        started()
    shutil.rmtree(checkpoint)
    assert json.loads(started() or "") == {"aq.shop.t": {"0": 4}}

    origin = tmp_path / "wh" / "__origin.json"
    origin.write_text("{")
    (tmp_path / "wh" / ".__origin.json.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointDamaged, match=rf"{origin}. Delete that file"):
        started()
    origin.unlink()
    assert json.loads(started() or "") == {"aq.shop.t": {"0": 4}}

    with pytest.raises(ForeignCheckpoint, match=r"prefix is 'crm', but 'aq' in .*of its own"):
        started("crm")
    assert started("crm", "other") == "earliest"


def test_tables_of_a_topic_that_was_made_again_wait_and_its_offsets_are_void(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, other = ("aq.shop.t", 0), ("aq.shop.u", 0)
    values = [
        schema(("id", "int"), table=table, topic=f"aq.shop.{table}") for table in ("t", "u", "gone")
    ]
    monkeypatch.setattr(stream, "read_schemas", lambda *_: values)
    settings = Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse=str(tmp_path))
    entry = {"query_id": "q", "batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}

    def started(made: str) -> tuple[Sink, str | None]:
        sink = Sink(spark, settings, Metrics())
        answer = Kafka("aq.shop.t", "aq.shop.u", ends={old: 700, other: 7}, made=made)
        monkeypatch.setattr(stream, "admin", answering(answer))
        start = sink._from_kafka(threading.Event())
        sink._presence.end()
        return sink, start

    sink, _ = started("a")
    for table in ("t", "u"):
        sink._warehouse.tables.evolve(None, Shape("shop", table, (("id", "int"),), ("id",)))
    sink._warehouse.log.append(
        [
            Entry(**entry, topic=topic, partition=number, until_offset=4)  # type: ignore[arg-type]
            for topic, number in (old, other)
        ]
    )
    sink, start = started("a")
    assert json.loads(start or "") == {"aq.shop.t": {"0": 4}, "aq.shop.u": {"0": 4}}
    assert sink._waits.tables == {}

    sink._topic_ids.keep({"aq.shop.u": "b"})
    sink, start = started("b")
    assert json.loads(start or "") == {"aq.shop.t": {"0": -2}, "aq.shop.u": {"0": 4}}
    held = sink._waits.tables["shop", "t"]
    assert (held.error, held.reason, held.offsets) == ("TopicReplaced", "aq.shop.t", {old: 0})
    assert "snapshot start shop shop.t; once that is done, run: python" in held.action
    assert "reload shop.t --from-beginning; or" in held.action
    assert list(sink._waits.tables) == [("shop", "t")]
    assert started("b")[1] == start, "once"
    with pytest.raises(DataLost, match=r"aq\.shop\.u was deleted and made again"):
        sink._topic_ids.check({"aq.shop.u": "c", "aq.shop.t": "b"})


def test_tables_of_topics_whose_unread_records_are_gone_wait_and_all_others_continue(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("removed", "deleted", "shorter", "unmerged", "kept")
    at = {table: (f"aq.shop.{table}", 0) for table in tables}
    values = [schema(("id", "int"), table=table, topic=f"aq.shop.{table}") for table in tables]
    monkeypatch.setattr(stream, "read_schemas", lambda *_: values)
    settings = Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse=str(tmp_path))
    checkpoint = tmp_path / "__checkpoint"

    def started() -> tuple[Sink, dict[str, Any]]:
        sink = Sink(spark, settings, Metrics())
        there = {table: at[table] for table in tables if table != "deleted"}
        ends = {one: 2 if table == "shorter" else 9 for table, one in there.items()}
        kafka = Kafka(*(topic for topic, _ in ends), ends=ends)
        firsts = dict.fromkeys(ends, 0) | {at["removed"]: 5, at["unmerged"]: 3, at["kept"]: 4}
        monkeypatch.setattr(kafka, "ranges", lambda _: (firsts, ends))
        monkeypatch.setattr(stream, "admin", answering(kafka))
        start = sink._from_kafka(threading.Event())
        sink._presence.end()
        return sink, json.loads(start or "")

    sink = Sink(spark, settings, Metrics())
    for table in tables:
        sink._warehouse.tables.evolve(None, Shape("shop", table, (("id", "int"),), ("id",)))
    entry = {"query_id": "q", "batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}
    sink._warehouse.log.append(
        [
            Entry(**entry, topic=at[table][0], partition=0, until_offset=4)  # type: ignore[arg-type]
            for table in tables
            if table != "unmerged"
        ]
    )
    for name in ("offsets/0", "commits/0", "sources/0/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        read = {topic: {"0": 0 if topic == "aq.shop.unmerged" else 4} for topic, _ in at.values()}
        (checkpoint / name).write_text("v1\n" + json.dumps(read))
    sink, start = started()
    assert start == {
        "aq.shop.kept": {"0": 4},
        "aq.shop.removed": {"0": -2},
        "aq.shop.shorter": {"0": -2},
        "aq.shop.unmerged": {"0": -2},
    }
    waits = {name[1]: held for name, held in sink._waits.tables.items()}
    assert sorted(waits) == ["deleted", "removed", "shorter", "unmerged"]
    assert {held.error for held in waits.values()} == {"ChangesLost"}
    assert waits["removed"].reason.endswith("is read up to offset 4, and Kafka has 5 to 9")
    assert waits["unmerged"].reason.endswith("is read up to offset 0, and Kafka has 3 to 9")
    assert waits["shorter"].reason.endswith("is read up to offset 4, and Kafka has 0 to 2")
    assert "is not in Kafka" in waits["deleted"].reason
    assert waits["removed"].offsets == {at["removed"]: 5}
    assert sink.lost == {at[table][0] for table in waits}
    sink, again = started()
    assert (again, sink.lost) == (start, set()), "once"


def test_tables_that_wait_or_that_maintenance_failed_for_are_counted_from_the_start_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        prefix="aq",
        bootstrap_servers="127.0.0.1:1",
        warehouse=str(tmp_path),
        mode="available-now",
    )
    sink = Sink(spark, settings, Metrics())
    sink._warehouse.log.make()
    sink._warehouse.tables.evolve(None, Shape("shop", "t", (("id", "int"),), ("id",)))
    sink._waits.begin(("shop", "t"), TypeConflict("it"), {})
    faults = {json.dumps(["shop", table]): "why" for table in ("t", "gone")}
    sink._warehouse.notes.write(sink._maintenance.fault_note, json.dumps(faults))
    monkeypatch.setattr(Sink, "_from_kafka", lambda *_: "earliest")
    monkeypatch.setattr(Applier, "follow_ddl", lambda *_: None)
    metrics = Metrics()
    Sink(spark, settings, metrics)._prepared(threading.Event())
    value = metrics.registry.get_sample_value
    assert value("aqueduct_sink_tables_waiting", {"error": "TypeConflict"}) == 1
    assert value("aqueduct_sink_tables_unmaintained") == 1


def test_a_topic_that_is_included_again_continues_at_the_ledger(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])
    again, other = ("aq.shop.again", 0), ("aq.shop.other", 0)
    settings = Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse=str(tmp_path))
    sink = Sink(spark, settings, Metrics())
    entry = {"query_id": "q", "batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}
    sink._warehouse.log.append(
        [
            Entry(**entry, topic=topic, partition=number, until_offset=4)  # type: ignore[arg-type]
            for topic, number in (again, other)
        ]
    )
    # The query that ran while it was excluded.
    for name in ("offsets/0", "commits/0", "sources/0/0"):
        path = tmp_path / "__checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1\n" + json.dumps({other[0]: {"0": 4}}))
    answer = Kafka(again[0], other[0], ends={again: 9, other: 7}, first=2)
    monkeypatch.setattr(stream, "admin", answering(answer))
    start = json.loads(sink._from_kafka(threading.Event()) or "")
    sink._presence.end()
    assert start == {again[0]: {"0": 4}, other[0]: {"0": 4}}
    assert sink._waits.tables == {}


def test_without_the_ledger_or_the_ids_of_topics_and_with_an_old_checkpoint_nothing_is_taken_for_applied(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])
    at, checkpoint = ("aq.shop.t", 0), tmp_path / "__checkpoint"
    settings = Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse=str(tmp_path))

    def started(first: int) -> tuple[Sink, str | None]:
        sink = Sink(spark, settings, Metrics())
        answer = Kafka("aq.shop.t", ends={at: 700}, first=first)
        monkeypatch.setattr(stream, "admin", answering(answer))
        try:
            return sink, sink._from_kafka(threading.Event())
        finally:
            sink._presence.end()

    sink, _ = started(0)
    sink._warehouse.tables.evolve(None, Shape("shop", "t", (("id", "int"),), ("id",)))
    # Kafka has all records, so all are applied again.
    assert started(0)[1] == "earliest"
    assert started(0)[0]._waits.tables == {}
    # Each start so far was ended before it began.
    sink, start = started(5)
    held = sink._waits.tables["shop", "t"]
    assert (held.error, start) == ("LedgerLost", "earliest")
    assert "bulk-load.md" in held.action
    # What followed the checkpoint is removed, and applied.
    entry = {"query_id": "q", "batch_id": 0, "from_offset": 0, "records": 1, "applied_at_ms": 1}
    sink._warehouse.log.append([Entry(**entry, topic=at[0], partition=0, until_offset=9)])  # type: ignore[arg-type]
    for name in ("offsets/0", "commits/0", "sources/0/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text("v1\n" + json.dumps({at[0]: {"0": 4}}))
    assert started(4)[1] == "earliest"
    assert "lacks the ids" not in caplog.text
    (tmp_path / "__topics.json").unlink()
    assert json.loads(started(5)[1] or "") == {"aq.shop.t": {"0": 9}}
    assert "__topics.json lacks the ids of topics" in caplog.text


@pytest.mark.remedy("sink.JavaMissing")
def test_a_missing_java_is_named_before_anything_else(tmp_path: Path) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text(f"prefix: aq\nbootstrap_servers: x:1\nwarehouse: {tmp_path}/wh\n")
    ended = subprocess.run(
        [sys.executable, "-m", "spark_sink", "--config", str(config)],
        env=os.environ | {"JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "JavaMissing: Spark needs Java 17 or later" in ended.stderr
    assert "JAVA_HOME is /nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr
    # With it, the next thing is looked at.
    config.write_text(f"prefix: aq\nbootstrap_servers: x:1\nwarehouse: {config}/wh\n")
    ended = subprocess.run(
        [sys.executable, "-m", "spark_sink", "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "WarehouseUnusable: " in ended.stderr


class _Recent:
    """Recent changes that suffice below a number of offsets."""

    def __init__(self, unmerged: int) -> None:
        self._unmerged = unmerged

    def suffices(self, most: int) -> bool:
        return self._unmerged < most


@pytest.mark.parametrize(
    ("unmerged", "waited", "wanted"),
    [(0, 0.0, False), (19_999, 119.0, False), (20_000, 0.0, True), (0, 120.0, True)],
)
def test_the_first_merge_waits_while_readers_see_all_changes_without_it(
    sink: Callable[..., Sink], unmerged: int, waited: float, wanted: bool
) -> None:
    one: Any = sink()
    one._recent = _Recent(unmerged)
    assert one._must_merge(waited) is wanted


def test_without_recent_changes_the_first_merge_is_due_at_once(sink: Callable[..., Sink]) -> None:
    assert sink("available-now")._must_merge(0.0)


def test_only_a_stop_or_the_end_of_all_work_counts_as_an_orderly_end(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "read_schemas", lambda *_: [])
    answer = answering(Kafka("wrong.shop.t", ends={("wrong.shop.t", 0): 1}))

    def ended(fault: Exception | None, *, is_stopped: bool = False) -> bool:
        """Whether the next process of the sink finds that the last one broke off."""
        one, stop = sink(), threading.Event()
        monkeypatch.setattr(stream, "admin", answer)

        def prepared(_: threading.Event) -> None:
            one._from_kafka(stop)
            if is_stopped:
                stop.set()
            if fault is not None:
                raise fault

        monkeypatch.setattr(one, "_prepared", prepared)
        if fault is None or is_stopped:
            one.run(stop)
        else:
            with pytest.raises((type(fault), SinkError)):
                one.run(stop)
        later = sink()
        later._presence.claim(["wrong.shop.t"])
        later._presence.end()
        return later._presence.broke_off

    assert not ended(None, is_stopped=True)
    assert ended(ValueError("an unforeseen error"))
    assert ended(OSError("the JVM does not answer"))
    assert ended(DataLost("a topic"))
    # As the JVM was stopped too, it no longer answers.
    assert not ended(OSError("the JVM does not answer"), is_stopped=True)
