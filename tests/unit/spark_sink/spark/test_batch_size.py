"""The largest batch, by the memory of what holds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.jobs import stream
from spark_sink.jobs.stream import batch_limit, memory
from spark_sink.settings.model import Settings
from spark_sink.source.admin import range_options, read_ahead


def settings(**more: Any) -> Settings:
    return Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse="/wh", **more)


def cluster(*, registered: int, asked_for: str = "", executor: int = 1024) -> Any:
    """A session of a cluster with so many executors."""
    conf = {"spark.executor.instances": asked_for} if asked_for else {}
    jvm = SimpleNamespace(
        isLocal=lambda: False,
        executorMemory=lambda: executor,
        # The driver is among them.
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: registered + 1),
    )
    context = SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: jvm),
        getConf=lambda: SimpleNamespace(get=lambda name, default: conf.get(name, default)),
    )
    return SimpleNamespace(sparkContext=context, _jvm=None)


@pytest.mark.parametrize(
    ("registered", "asked_for", "mebibytes"), [(3, "", 3072), (0, "", 1024), (1, "4", 4096)]
)
def test_on_a_cluster_the_memory_is_that_of_the_executors(
    registered: int, asked_for: str, mebibytes: int
) -> None:
    found = cluster(registered=registered, asked_for=asked_for)
    assert memory(found) == mebibytes
    # driver_memory is only of `python -m`, with a local master.
    assert batch_limit(found, settings(master="spark://host:7077")) == mebibytes * 150


def test_under_spark_submit_the_settings_of_python_m_are_not_used(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(driver_memory="8g")
    assert batch_limit(spark, given) == 8 * 1024 * 150
    monkeypatch.setattr(stream, "submitted", lambda: True)
    # The session of the tests has 1 GiB.
    assert batch_limit(spark, given) == 1024 * 150


def test_a_limit_that_is_set_is_the_limit() -> None:
    assert batch_limit(cluster(registered=9), settings(max_offsets_per_trigger=7)) == 7


@pytest.mark.parametrize(
    ("driver_memory", "partitions", "kib"),
    [("1g", 1, 1024), ("1g", 128, 1024), ("1g", 512, 256), ("1g", 5000, 64), ("8g", 5000, 128)],
)
def test_what_the_clients_of_all_partitions_hold_takes_an_eighth_of_the_memory(
    driver_memory: str, partitions: int, kib: int
) -> None:
    (found,) = read_ahead(settings(driver_memory=driver_memory), partitions).values()
    assert int(found) // 1024 == kib


def test_reads_that_have_other_options_are_of_another_group() -> None:
    # Spark refuses a consumer of a group whose options differ from those of an earlier one.
    by_group: dict[str, dict[str, str]] = {}
    for partitions in (0, 1, 128, 129, 200, 5000):
        found = range_options(settings(driver_memory="1g"), partitions)
        assert by_group.setdefault(found["kafka.group.id"], found) == found
    assert len(by_group) == 4
