"""The lines about what Kafka has and the warehouse has not."""

from __future__ import annotations

from spark_sink.jobs.lag.command import lag_lines
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
