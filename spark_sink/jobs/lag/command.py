"""The command `lag`: what Kafka has and the warehouse lacks, as both report it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from spark_sink.settings.model import Settings
from spark_sink.source.installation import Installation, installation_in
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import TOPICS, of_sink
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.topic_ids import TopicIds
from spark_sink.warehouse.waiting_tables import Waits


def lag(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Iterator[str]:
    """Yield the lines of the command. Raise KafkaUnreachable."""
    topics = KafkaTopics(spark, settings)
    earliest, ends = topics.ranges(())
    noted = TopicIds(
        notes=warehouse.notes,
        waits=Waits(warehouse.log, time.time),
        note=of_sink(TOPICS, settings.name),
    )
    yield from lag_lines(
        warehouse,
        earliest,
        ends,
        installation=installation_in(
            topics, settings.prefix, partial(read_schemas, spark, settings)
        ),
        again=noted.replaced(topics.ids({topic for topic, _ in ends})),
    )
    topics.close()


def lag_lines(
    warehouse: Warehouse[Any],
    earliest: Offsets,
    ends: Offsets,
    *,
    installation: Installation | None = None,
    again: Collection[str] = (),
    now: float | None = None,
) -> Iterator[str]:
    """Yield one line for each partition, then the sums.

    `earliest` and `ends` are Kafka's first offsets, and its ends that readers of committed records see. If
    Kafka has deleted records that were never merged, their partition is marked: the sink would stop there.
    Topics that are not of the installation are listed by name only. Offsets are void in the topics `again`,
    which were recreated.

    Invariant: nothing is written. Kafka and the warehouse are needed, but no running sink.
    """
    strange: set[str] = set()
    if installation is not None:
        known = installation.judge({topic for (topic, _), end in ends.items() if end > 0})
        strange = {topic for topic, _ in ends} & known.keys()
    for topic in sorted(strange):
        yield f"{topic}: not applied, as it is not of this installation"
    ends = {at: end for at, end in ends.items() if at[0] not in strange}
    merged, newest = warehouse.log.applied(), warehouse.log.newest_ms()
    recent = warehouse.recent.newest()
    covered = recent.cut.until if recent is not None and recent.cut.continues(merged) else {}
    unmerged = unseen = 0
    for (topic, partition), end in sorted(ends.items()):
        is_void = topic in again
        at = 0 if is_void else merged.get((topic, partition), 0)
        first = earliest.get((topic, partition), 0)
        visible = at if is_void else max(at, covered.get((topic, partition), 0))
        unmerged += max(0, end - max(at, first))
        unseen += max(0, end - max(visible, first))
        lost = f"; offsets {at} to {first} are deleted in Kafka" if at < first and at else ""
        yield (
            f"{topic} partition {partition}: merged to {at}, visible to {visible}, "
            f"committed to {end}{lost}{'; it was deleted and made again' if is_void else ''}"
        )
    seconds = "never"
    if newest:
        age = (time.time() if now is None else now) - newest / 1000
        seconds = f"{max(0.0, age):.0f} s ago"
    yield f"not merged: {unmerged} offsets; not visible: {unseen} offsets; last batch merged: {seconds}"
