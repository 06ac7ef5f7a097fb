"""Consistent cuts over a real Kafka, whose transactions are open, aborted, in parts, and in several topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.errors import CutIncomplete
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.own_topics import ForeignRecord
from spark_sink.views.cuts.cut_tables import as_of
from spark_sink.views.recent.follower import Follower
from spark_sink.warehouse.opening import open_warehouse
from tests.harness import wait
from tests.unit.spark_sink.conftest import FORMAT, spark
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PREFIX = "cuts"
MARKERS = f"{PREFIX}.__transactions.shop"


def change(seq: int, table: str, name: str, order: int) -> tuple[str, str]:
    """A topic, and a record of it."""
    more = {"transaction": {"id": name, "total_order": order}}
    one = Change(op="c", seq=seq, table=table, after={"id": seq, "v": 1}, more=more)
    return f"{PREFIX}.shop.{table}", one.value()


def end(name: str, part: int, *, last: bool) -> tuple[str, str]:
    """The end of a part of a transaction."""
    return MARKERS, json.dumps({"status": "END", "id": name, "part": part, "last": last, "wire": 1})


@pytest.mark.long("unit/spark_sink/views has cuts and recent changes of what is committed")
async def test_a_cut_leaves_out_what_kafka_has_not_committed_and_parts_without_a_last(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    names = (f"{PREFIX}.__schemas", MARKERS, f"{PREFIX}.shop.a", f"{PREFIX}.shop.b")
    await admin.create_topics([NewTopic(name, 1, 1) for name in names])
    await admin.close()
    producer = AIOKafkaProducer(
        bootstrap_servers=stack.kafka, transactional_id=PREFIX, transaction_timeout_ms=800_000
    )
    await producer.start()

    async def write(*records: tuple[str, str]) -> None:
        await producer.begin_transaction()
        for topic, value in records:
            await producer.send_and_wait(topic, value.encode(), key=b"k")

    settings = Settings(
        prefix=PREFIX,
        bootstrap_servers=stack.kafka,
        warehouse=f"{tmp_path}/wh",
        format=FORMAT,
        trigger_interval=0,
    )
    foreign = list[ForeignRecord]()
    topics = KafkaTopics(spark, settings, foreign=foreign.extend)
    columns = (("id", "int"), ("v", "int"))
    schemas = [schema(*columns, table=table) for table in ("a", "b")]
    await write(
        *((names[0], text) for text in schemas), change(1, "a", "u:1", 1), change(2, "b", "u:1", 2)
    )
    await producer.commit_transaction()
    await write(end("u:2", 1, last=False), change(3, "a", "u:2", 1))
    ends, reach, markers = topics.ends(), topics.reach(), topics.markers_end()
    assert reach is not None
    assert reach[names[2], 0] > ends[names[2], 0], "an open transaction"
    assert reach[names[3], 0] == ends[names[3], 0]
    assert (reach[MARKERS, 0], markers) == (1, {(MARKERS, 0): 0})
    assert topics.last_values(markers) == []
    await producer.abort_transaction()
    await write(end("u:2", 1, last=False), change(3, "a", "u:2", 1))
    await producer.commit_transaction()
    markers = topics.markers_end()
    (last,) = topics.last_values(markers)
    assert (json.loads(last)["last"], foreign) == (False, [])
    # Records of another program in the topic do not hide it.
    await write(*((MARKERS, "{") for _ in range(200)))
    await producer.commit_transaction()
    assert topics.last_values(topics.markers_end()) == [last]
    assert len({one.offset for one in foreign}) == len(foreign) == 200

    warehouse = open_warehouse(spark, settings.warehouse, table_format=FORMAT)
    warehouse.notes.make()
    follower = Follower(
        spark,
        settings,
        log=warehouse.recent,
        merged=dict,
        followed=dict,
        metrics=Metrics(),
    )

    def whole_up_to(offset: int) -> bool:
        follower.look()
        recent = warehouse.recent.newest()
        whole = recent.cut.whole if recent is not None else None
        return whole is not None and whole.get((names[2], 0), 0) >= offset

    follower.look()
    try:
        # The abort, and each commit, have an offset of their own.
        wait.until(
            lambda: whole_up_to(6), seconds=300, glance=0.5, late=lambda: "u:1 is not proven whole"
        )
        await write(change(4, "b", "u:2", 2))
        cut = as_of(spark, settings.warehouse)
        assert cut.positions["shop"].transaction == "u:1"
        held = cut.read()
        assert [[row.id for row in rows.collect()] for _, rows in sorted(held.items())] == [
            [1],
            [2],
        ]
        with pytest.raises(CutIncomplete, match="u:2"):
            as_of(spark, settings.warehouse, "u:2")
        topic, marker = end("u:2", 2, last=True)
        await producer.send_and_wait(topic, marker.encode())
        await producer.commit_transaction()

        def is_newest() -> bool:
            follower.look()
            return as_of(spark, settings.warehouse).positions["shop"].transaction == "u:2"

        wait.until(is_newest, seconds=300, glance=0.5, late=lambda: "u:2 is not proven whole")
        held = as_of(spark, settings.warehouse, "u:2").read()
        found = [sorted(row.id for row in rows.collect()) for _, rows in sorted(held.items())]
        assert found == [[1, 3], [2, 4]]
    finally:
        follower.stop()
        await producer.stop()
