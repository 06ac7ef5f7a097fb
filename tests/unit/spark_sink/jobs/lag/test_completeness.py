"""Up to when the warehouse is complete, where batches end and where none does."""

import logging

import pytest

from spark_sink.errors import KafkaUnreachable
from spark_sink.jobs.lag.watch import Freshness, Watch
from spark_sink.metrics import Metrics
from spark_sink.source.positions import Offsets

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
