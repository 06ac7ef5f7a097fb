"""The lines about what Kafka has and the warehouse has not."""

from __future__ import annotations

import logging

import pytest

from spark_sink.errors import KafkaUnreachable
from spark_sink.jobs.lag import Freshness, Watch, lag_lines
from spark_sink.metrics import Metrics
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.ledger import Entry
from tests.harness.memory_warehouse import MemoryWarehouse

A, B, C = ("aq.shop.a", 0), ("aq.shop.b", 1), ("aq.shop.c", 0)


def merged(**until: int) -> MemoryWarehouse:
    """A warehouse with these offsets in its ledger, stored at 100 s."""
    kept = MemoryWarehouse()
    kept.log.append([
        Entry(
            query_id="q", batch_id=1, topic=f"aq.shop.{name}", partition=1 if name == "b" else 0, from_offset=0,
            until_offset=offset, records=offset, applied_at_ms=100_000,
        )
        for name, offset in until.items()
    ])  # fmt: skip
    return kept


def test_each_partition_has_a_line_with_what_is_merged_visible_and_committed() -> None:
    kept = merged(a=5, b=3)
    kept.recent.begin([], Cut(since={A: 4, B: 3}, until={A: 8, B: 3}, at_ms=0))
    assert list(lag_lines(kept, {A: 0, B: 0, C: 2}, {A: 9, B: 3, C: 6}, now=130.4)) == [
        "aq.shop.a partition 0: merged to 5, visible to 8, committed to 9",
        "aq.shop.b partition 1: merged to 3, visible to 3, committed to 3",
        "aq.shop.c partition 0: merged to 0, visible to 0, committed to 6",
        "not merged: 8 offsets; not visible: 5 offsets; last batch merged: 30 s ago",
    ]


def test_recent_changes_past_a_gap_are_not_visible() -> None:
    kept = merged(a=5)
    kept.recent.begin([], Cut(since={A: 6}, until={A: 8}, at_ms=0))
    assert next(lag_lines(kept, {A: 0}, {A: 9})) == (
        "aq.shop.a partition 0: merged to 5, visible to 5, committed to 9"
    )


def test_offsets_that_kafka_has_deleted_before_they_were_merged_are_named() -> None:
    lines = list(lag_lines(merged(a=5), {A: 7}, {A: 9}, now=100.0))
    assert lines[0].endswith("committed to 9; offsets 5 to 7 are deleted in Kafka")
    assert lines[1].startswith("not merged: 2 offsets")


def test_an_empty_warehouse_has_merged_nothing() -> None:
    assert list(lag_lines(MemoryWarehouse(), {}, {})) == [
        "not merged: 0 offsets; not visible: 0 offsets; last batch merged: never"
    ]


def test_offsets_in_a_topic_that_was_made_again_are_void() -> None:
    kept = merged(a=5)
    (line, *_, summary) = lag_lines(kept, {A: 0}, {A: 9}, again={A[0]}, now=0.0)
    assert line == (
        "aq.shop.a partition 0: merged to 0, visible to 0, committed to 9; it was deleted and made again"
    )
    assert summary.startswith("not merged: 9 offsets; not visible: 9 offsets")


AT = ("aq.shop.t", 0)


def test_in_a_stall_the_time_stays_and_a_batch_moves_it_to_what_it_covers() -> None:
    fresh = Freshness()
    for at in range(1, 6):
        fresh.seen(float(at), {AT: at * 10})
    assert fresh.reached({AT: 25}) == 2.0
    assert fresh.reached({AT: 25}) == 2.0
    assert fresh.unapplied({AT: 25}) == 25
    assert fresh.reached({AT: 50}) == 5.0


def test_an_idle_source_is_complete_and_a_new_partition_counts_from_its_start() -> None:
    fresh = Freshness()
    fresh.seen(1.0, {AT: 10})
    assert fresh.reached({AT: 10}) == 1.0
    fresh.seen(2.0, {AT: 10, ("aq.shop.u", 0): 1})
    assert fresh.reached({AT: 10}) == 1.0


def test_what_is_not_applied_is_known_by_topic_also_once_all_is() -> None:
    fresh, other = Freshness(), ("aq.shop.t", 1)
    assert fresh.unapplied_topics({}) == {}
    fresh.seen(1.0, {AT: 10, other: 5, ("aq.shop.u", 0): 1})
    assert fresh.unapplied_topics({AT: 7, other: 4}) == {"aq.shop.t": 4, "aq.shop.u": 1}
    everything = {AT: 10, other: 5, ("aq.shop.u", 0): 1}
    assert fresh.reached(everything) == 1.0
    assert fresh.unapplied_topics(everything) == {"aq.shop.t": 0, "aq.shop.u": 0}


def test_a_long_stall_keeps_few_samples_and_the_newest() -> None:
    fresh = Freshness()
    for at in range(10_000):
        fresh.seen(float(at), {AT: at + 1})
    assert len(fresh._samples) <= 720
    assert fresh.reached({AT: 10_000}) == 9_999.0


def test_the_lag_grows_while_kafka_is_away_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "spark_sink")
    now, away = [100.0], [False]

    def ends() -> Offsets:
        if away[0]:
            raise KafkaUnreachable("broker:9092")
        return {AT: 5}

    metrics = Metrics()
    watch = Watch(ends, lambda: {AT: 5}, metrics, clock=lambda: now[0])
    watch.begin(40.0)
    value = metrics.registry.get_sample_value
    complete = "aqueduct_sink_complete_until_timestamp_seconds"
    assert value(complete) == 40.0
    watch.look()
    assert (value(complete), value("aqueduct_sink_kafka_up")) == (100.0, 1)
    away[0], now[0] = True, 200.0
    watch.look()
    watch.look()
    assert (value(complete), value("aqueduct_sink_kafka_up")) == (100.0, 0)
    away[0] = False
    watch.look()
    assert (value(complete), value("aqueduct_sink_kafka_up")) == (200.0, 1)
    described = [record.getMessage() for record in caplog.records]
    assert len([line for line in described if "KafkaUnreachable" in line]) == 1
    assert described[-1] == "Kafka answers again"


def test_a_clock_that_is_set_back_takes_the_time_with_it_and_a_stall_is_seen() -> None:
    fresh = Freshness()
    fresh.seen(90_000.0, {AT: 10})
    assert fresh.reached({AT: 10}) == 90_000.0
    fresh.seen(90_005.0, {AT: 20})
    fresh.seen(3_600.0, {AT: 30})
    assert fresh.reached({AT: 10}) == 3_600.0, "never after now"
    fresh.seen(3_605.0, {AT: 40})
    assert fresh.reached({AT: 30}) == 3_600.0
    assert fresh.reached({AT: 40}) == 3_605.0
