"""What a batch reports: the time of its stages, and the lag of tables and destinations."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from spark_sink.batch.contents import Contents, TablePart
from spark_sink.batch.report import (
    FOLD,
    LEDGER,
    MERGE,
    READ,
    TABLES,
    Stages,
    report_batch,
    report_table,
)
from spark_sink.metrics import OTHERS, Metrics
from spark_sink.source.positions import Progress

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")


def part(name: tuple[str, str], oldest: int, place: tuple[int, int], rows: int = 4) -> TablePart:
    progress = {"shop": Progress(oldest_ms=oldest, newest_ms=oldest, place=place)}
    return TablePart(name, ops=Counter(c=rows), progress=progress)


def contents(*parts: TablePart) -> Contents:
    found = Contents({one.name: one for one in parts})
    found.records["aq.shop", 0] = sum(one.ops.total() for one in parts)
    found.oldest_ms = min(one.progress["shop"].oldest_ms for one in parts)
    found.newest_ms = max(one.progress["shop"].newest_ms for one in parts)
    for one in parts:
        known = found.progress.get("shop", one.progress["shop"])
        found.progress["shop"] = known.joined(one.progress["shop"])
    return found


def test_a_stage_adds_up_whether_it_fails_or_not() -> None:
    now = iter([0.0, 1.5, 10.0, 12.0])
    stages = Stages(clock=lambda: next(now))
    with stages.timed(READ):
        pass
    with pytest.raises(ValueError, match="lost"), stages.timed(READ):
        raise ValueError("lost")
    assert (stages.of(READ), stages.of(LEDGER)) == (3.5, 0.0)


def test_a_batch_reports_its_stages_and_what_it_has_merged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "spark_sink")
    metrics, stages = Metrics(), Stages(seconds={READ: 1.0, TABLES: 2.5, LEDGER: 0.5})
    waiting = part(ITEMS, 50_000, (1, 99))
    found = contents(part(ORDERS, 90_000, (1, 7)), waiting)
    report_batch(metrics, found, 12, stages, waiting=[ITEMS], seconds=4.0, applied=100.0)
    (line,) = [one.getMessage() for one in caplog.records]
    assert line == (
        "batch applied batch=12 rows=8 tables=2 lag_seconds=50.0 seconds=4.0 rows_per_second=2 "
        "read_seconds=1.0 schemas_seconds=0.0 tables_seconds=2.5 ledger_seconds=0.5"
    )
    value = metrics.registry.get_sample_value
    assert value("aqueduct_sink_stage_seconds_sum", {"stage": TABLES}) == 2.5
    assert value("aqueduct_sink_rows_total", {"table": "shop.orders", "op": "c"}) == 4
    assert value("aqueduct_sink_rows_total", {"table": "shop.items", "op": "c"}) is None
    # Changes of a table that waits are read, and not applied.
    assert value("aqueduct_sink_applied_seq", {"destination": "shop"}) == 7
    assert value("aqueduct_sink_seen_seq", {"destination": "shop"}) == 99
    assert value("aqueduct_sink_destination_lag_seconds", {"destination": "shop"}) == 10.0


def test_seq_does_not_go_back_except_with_the_epoch() -> None:
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    for place, shown in (((1, 9), 9), ((1, 4), 9), ((2, 3), 3)):
        metrics.seen({"shop": place})
        metrics.destination("shop", place, lag=0.0)
        assert value("aqueduct_sink_seen_seq", {"destination": "shop"}) == shown
        assert value("aqueduct_sink_applied_seq", {"destination": "shop"}) == shown


def test_a_table_is_a_line_of_details_and_one_that_took_long_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "spark_sink")
    metrics = Metrics()
    for seconds, level in ((2.0, logging.DEBUG), (10.0, logging.INFO)):
        caplog.clear()
        own = Stages(seconds={FOLD: 0.5, MERGE: 1.0})
        report_table(metrics, part(ORDERS, 90_000, (1, 7)), own, seconds=seconds, now=100.0)
        (record,) = caplog.records
        assert record.levelno == level
        assert record.getMessage().startswith("table merged table=shop.orders rows=4")
        assert "fold_seconds=0.5 merge_seconds=1.0" in record.getMessage()
    value = metrics.registry.get_sample_value
    assert value("aqueduct_sink_table_seconds_total", {"table": "shop.orders"}) == 12.0
    assert value("aqueduct_sink_table_lag_seconds", {"table": "shop.orders"}) == 10.0


def test_of_many_tables_and_topics_the_later_ones_share_a_label() -> None:
    metrics = Metrics(tables=2)
    for number in range(500):
        metrics.rows(f"shop.t{number}", "c", 1)
        metrics.table(f"shop.t{number}", seconds=1.0, lag=float(number))
    metrics.unapplied({f"aq.shop.t{number}": 3 for number in range(500)})
    families = {family.name: family for family in metrics.registry.collect()}
    for name in ("rows", "table_seconds", "table_lag_seconds", "topic_unapplied_offsets"):
        samples = families[f"aqueduct_sink_{name}"].samples
        own = {s.labels.get("table") or s.labels.get("topic") for s in samples}
        assert len(own) == 3
        assert OTHERS in own
    value = metrics.registry.get_sample_value
    assert value("aqueduct_sink_rows_total", {"table": OTHERS, "op": "c"}) == 498
    assert value("aqueduct_sink_topic_unapplied_offsets", {"topic": OTHERS}) == 3 * 498


def exported(metrics: Metrics, name: str) -> set[tuple[str, str]]:
    """The metrics that have a label of that value, with its name."""
    return {
        (family.name.removeprefix("aqueduct_sink_"), label)
        for family in metrics.registry.collect()
        for sample in family.samples
        for label, value in sample.labels.items()
        if value == name
    }


def test_a_table_that_is_gone_has_counters_alone() -> None:
    metrics = Metrics(tables=1)
    for name in ("shop.orders", "shop.items"):
        metrics.rows(name, "c", 1)
        metrics.table(name, seconds=1.0, lag=2.0)
    # The second one shares the label of all others, which stays.
    metrics.forget([ORDERS, ITEMS])
    counters = {("rows", "table"), ("table_seconds", "table")}
    assert exported(metrics, "shop.orders") == counters
    assert exported(metrics, OTHERS) == {*counters, ("table_lag_seconds", "table")}


def test_of_a_topic_that_is_gone_nothing_is_exported() -> None:
    metrics = Metrics(tables=2)
    topics = dict.fromkeys(("aq.a", "aq.b", "aq.c"), 3)
    metrics.unapplied(topics)
    metrics.applied({(topic, 0): 7 for topic in topics})
    metrics.visible({(topic, 0): 9 for topic in topics}, oldest_ms=None, now=0.0)
    offsets = {("applied_offset", "topic"), ("visible_offset", "topic")}
    assert exported(metrics, "aq.a") == {*offsets, ("topic_unapplied_offsets", "topic")}
    assert exported(metrics, OTHERS) == {("topic_unapplied_offsets", "topic")}
    metrics.unapplied({"aq.b": 0, "aq.c": 3})
    assert exported(metrics, "aq.a") == exported(metrics, OTHERS) == set()
    for name in ("aq.b", "aq.c"):
        assert exported(metrics, name) == {*offsets, ("topic_unapplied_offsets", "topic")}
