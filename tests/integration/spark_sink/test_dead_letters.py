"""Dead letters of records that a real Kafka has: each byte, header and time of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.metrics import Metrics
from spark_sink.names import LETTERS
from spark_sink.settings import Settings
from spark_sink.stream import Sink
from spark_sink.warehouse.delta import current
from tests.unit.spark_sink.conftest import spark
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.long("unit/spark_sink/batch/test_dead_letters.py has them without Kafka"),
]

PREFIX = "sinkletters"
TOPIC = f"{PREFIX}.shop.t"
HEADERS = [("h\u00e9", b"\xff\x00"), ("h\u00e9", None)]


def put(seq: int, v: object) -> bytes:
    return Change(op="c", seq=seq, after={"id": seq, "v": v}).value().encode()


async def written(kafka: str, *records: bytes) -> None:
    """The table's version, then these records of the row topic, in one Kafka transaction."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics([NewTopic(name, 1, 1) for name in (f"{PREFIX}.__schemas", TOPIC)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=PREFIX)
    await producer.start()
    async with producer.transaction():
        version = schema(("id", "int"), ("v", "int")).encode()
        await producer.send_and_wait(f"{PREFIX}.__schemas", version, key=b"k")
        for offset, value in enumerate(records):
            await producer.send_and_wait(
                TOPIC,
                value,
                key=b"\x80key",
                headers=HEADERS,
                timestamp_ms=1_790_000_000_123 + offset,
            )
    await producer.stop()


async def test_dead_letters_have_what_kafka_has_and_a_second_start_adds_none(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    unusable = [b'{"before": \xff\xfe', put(2, "x"), put(3, "\u20ac\x00")]
    await written(stack.kafka, put(1, 1), *unusable, put(4, 4))

    def apply(checkpoint: str) -> None:
        settings = Settings(
            prefix=PREFIX,
            bootstrap_servers=stack.kafka,
            warehouse=f"{tmp_path}/wh",
            checkpoint=f"{tmp_path}/{checkpoint}",
            mode="available-now",
            unusable_limit=3,
        )
        Sink(spark, settings, Metrics()).run(threading.Event())

    apply("first")
    # Everything again, as after a crash before the ledger moved.
    spark.sql(f"DELETE FROM delta.`{tmp_path}/wh/__ledger`")
    apply("second")
    rows = current(spark, f"{tmp_path}/wh", "shop", "t").collect()
    assert {(row.id, row.v) for row in rows} == {(1, 1), (4, 4)}
    letters = (
        spark.read.format("delta").load(f"{tmp_path}/wh/{LETTERS}").orderBy("offset").collect()
    )
    assert [bytes(row.value) for row in letters] == unusable
    assert [row.offset for row in letters] == [1, 2, 3]
    for row in letters:
        assert bytes(row.key) == b"\x80key"
        headers = [
            (one.key, None if one.value is None else bytes(one.value)) for one in row.headers
        ]
        assert headers == HEADERS
        assert row.timestamp.timestamp() == pytest.approx(1_790_000_000.123 + row.offset / 1000)
    assert [row["table"] for row in letters] == [None, "t", "t"]
