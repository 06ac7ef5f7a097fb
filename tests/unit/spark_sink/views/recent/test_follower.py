"""Whether readers see all changes without a merge."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession

from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.positions import Offsets
from spark_sink.views.recent.follower import Follower, by_kind, highest, highest_found
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.protocol import RecentLog
from tests.harness.memory_warehouse import MemoryRecent
from tests.unit.spark_sink.conftest import spark
from tests.unit.spark_sink.history import schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
A = ("aq.shop.a", 0)


@pytest.fixture
def made(spark: SparkSession) -> Callable[[Offsets], Follower]:
    """Makes one that has stored nothing, where so much is merged."""

    def make(merged: Offsets) -> Follower:
        settings = Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse="/nowhere")
        return Follower(
            spark,
            settings,
            log=cast(RecentLog[DataFrame], MemoryRecent()),
            merged=lambda: merged,
            followed=dict,
            metrics=Metrics(),
        )

    return make


def test_before_it_has_started_and_while_nothing_is_covered_it_does_not_suffice(
    made: Callable[[Offsets], Follower],
) -> None:
    assert not made({}).suffices(10)


def test_covered_changes_suffice_until_many_are_unmerged(
    made: Callable[[Offsets], Follower],
) -> None:
    one = made({A: 5})
    one._coverage.since, one._until = {A: 5}, {A: 14}
    assert one.suffices(10)
    one._until = {A: 15}
    assert not one.suffices(10)


def test_its_first_batch_is_waited_for_but_not_forever(
    made: Callable[[Offsets], Follower],
) -> None:
    one = made({})
    one._is_beginning, one._started_at = True, time.monotonic() - 30
    assert one.suffices(10)
    one._started_at = time.monotonic() - 61
    assert not one.suffices(10)


def test_a_removal_of_unused_files_that_fails_is_logged_and_tried_again_later(
    made: Callable[[Offsets], Follower],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, removed = made({}), list[str]()

    def remove() -> None:
        removed.append("")
        if len(removed) == 1:
            raise PySparkException("a file of the log is missing")

    monkeypatch.setattr(one._log, "remove_unused", remove)
    one._has_unused = True
    for _ in range(2):
        one._removed_at = time.monotonic() - 301
        assert one.is_untidy
        with caplog.at_level("INFO"):
            one.remove_unused()
        assert not one.is_untidy
    one._removed_at -= 301
    assert (len(removed), one.is_untidy) == (2, False)
    (line,) = (record.getMessage() for record in caplog.records)
    assert "unused files" in line
    assert "a file of the log is missing" in line


def test_the_highest_number_of_each_destination_is_found_in_the_job_that_stores_the_rows(
    spark: SparkSession,
) -> None:
    def found(rows: str, known: list[str]) -> dict[str, tuple[int, int]]:
        seen = Observation()
        values = f"VALUES {rows} AS r(destination, epoch, seq)"
        spark.sql(values).observe(seen, *highest(known)).collect()
        return highest_found(seen.get, known)

    version = "(NULL, NULL, NULL)"
    assert found(version, []) == {}
    assert found(f"('a', 1, 9), ('a', 2, 3), {version}", []) == {"a": (2, 3)}
    both = f"('a', 2, 4), ('it''s', 1, 8), ('it''s', 1, 7), {version}"
    assert found(both, ["a", "it's", "gone"]) == {"a": (2, 4), "it's": (1, 8)}
    # Two new ones at once are known from the first merge on.
    assert found(both, []) == {}


def test_a_record_of_another_program_among_the_markers_is_passed_by(
    spark: SparkSession,
) -> None:
    own: dict[str, Any] = {"status": "END", "id": "u:1", "wire": 1}
    kept = [own | {"part": 1, "last": False}, own | {"part": 2, "last": True}]
    left = [own | {"part": 1, "last": True}, own | {"status": "BEGIN"}, own | {"part": "x"}]
    foreign = [None, "", "{", "7", "[]", "{}", '{"status": "END"}', '{"id": "u:1", "wire": 1}']
    values = [*map(json.dumps, [*kept, *left]), *foreign]
    rows = by_kind(
        spark.createDataFrame(
            [("aq.__transactions.shop", 0, at, value) for at, value in enumerate(values)],
            "topic STRING, partition INT, offset BIGINT, value STRING",
        ).selectExpr(
            *("topic", "partition", "offset", "CAST(value AS BINARY) AS value"),
            "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        ),
        "aq.__schemas",
        "aq.__ddl.",
    )
    found = {row.offset: (row.kind, row.text) for row in rows.collect()}
    # A tombstone is no row of any kind.
    first = len(kept) + len(left) + 1
    assert found == {
        **{at: ("marker", values[at]) for at in range(len(kept))},
        **{at: ("foreign", values[at]) for at in range(first, len(values))},
    }


def test_a_beginning_has_all_versions_of_tables_and_none_of_them_in_its_plan(
    made: Callable[[Offsets], Follower], spark: SparkSession, tmp_path: Path
) -> None:
    schemas = ("aq.__schemas", 0)
    versions = [schema(("id", "int"), version=number) for number in range(1, 301)]
    kafka = [
        {"topic": schemas[0], "partition": 0, "offset": at, "value": text}
        for at, text in enumerate([None, *versions])
    ]
    columns = "topic STRING, partition INT, offset BIGINT, value STRING"
    spark.createDataFrame(kafka, columns).write.parquet(f"{tmp_path}/topic")

    class Topics:
        """Kafka's, as files: what is read is in no plan."""

        def own_ranges(self, topic: str) -> tuple[Offsets, Offsets]:
            return {(topic, 0): 1}, {(topic, 0): 400}

        def read(self, start: Offsets, end: Offsets) -> DataFrame:
            assert start.keys() == end.keys() == {schemas}
            held = spark.read.parquet(f"{tmp_path}/topic")
            within = f"offset >= {start[schemas]} AND offset < {end[schemas]}"
            return held.where(within).selectExpr(
                *("topic", "partition", "offset", "CAST(value AS BINARY) AS value"),
                "CAST(NULL AS BINARY) AS key",
                "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
            )

        def reach(self, *, ddl: bool) -> None:
            assert ddl

        def last_values(self, ends: Offsets) -> list[str]:
            assert ends == {}
            return []

    follower, log = made({A: 5}), Begun()
    given: Any = follower
    given._topics, given._log = Topics(), log
    # The last version comes with the batch.
    records = Topics().read({schemas: 300}, {schemas: 301})
    follower._store(records, {A: 5, schemas: 300}, {A: 5, schemas: 301})
    assert log.texts == sorted(versions)
    assert log.plan < 100_000
    assert follower.is_covering


class Begun:
    """A log that keeps what it begins with."""

    def begin(self, rows: DataFrame, cut: Cut, *, markers: Iterable[str]) -> None:
        assert (list(markers), dict(cut.until)) == ([], {A: 5})
        self.plan = len(rows._jdf.queryExecution().logical().toString())
        self.texts = sorted(row.text for row in rows.where("kind = 'version'").collect())
