"""Dead letters of records that a real Kafka has: each byte of them, through restarts, up to the limit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.warehouse.opening import open_warehouse
from tests.integration.spark_sink.test_sink import COLUMNS, Installation, insert, until
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
KEY = b"\x80\x00key"
HEADERS = [("h\u00e9", b"\xff\x00"), ("h\u00e9", None)]
FIRST_MS = int(time.time()) * 1000 - 3_600_000 + 123
"""Of the records. Kafka soon removes those that are older than a week."""
LIMIT = 5
WIDE = (("id", "int"), ("v", "int"))


def put(seq: int, v: object, table: str = "n") -> bytes:
    return Change(op="c", seq=seq, table=table, after={"id": seq, "v": v}).value().encode()


# Not JSON, no envelope, a value that is none, one of a length that Python's text would change, no image.
UNUSABLE = [
    b'{"before": \xff\xfe',
    b"",
    put(2, "x"),
    put(3, "\u20ac\x00" * 3000),
    Change(op="c", seq=4, table="n", more={"left_out": "2000000"}).value().encode(),
]


async def write(at: Installation, table: str, *values: bytes, first_ms: int = FIRST_MS) -> None:
    """These records of a row topic, in one Kafka transaction."""
    producer = AIOKafkaProducer(bootstrap_servers=at.kafka, transactional_id=f"{PREFIX}-raw")
    await producer.start()
    async with producer.transaction():
        for number, value in enumerate(values):
            more: dict[str, Any] = {"headers": HEADERS, "timestamp_ms": first_ms + number}
            await producer.send_and_wait(at.topic(table), value, key=KEY, **more)
    await producer.stop()


def letters(spark: SparkSession, at: Installation) -> list[Any]:
    """The stored dead letters, by position."""
    held: Any = open_warehouse(spark, f"{at.folder}/wh").letters
    rows = held.table.read().collect()
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


def forget_the_ledger(at: Installation) -> None:
    shutil.rmtree(f"{at.folder}/wh/__log")


def kept(spark: SparkSession, at: Installation) -> list[tuple[str, int, bytes]]:
    """Topic, offset and value of each."""
    return [(row.topic, row.offset, bytes(row.value)) for row in letters(spark, at)]


@pytest.mark.remedy("sink.UnusableLimitReached")
async def test_dead_letters_have_what_kafka_has_whatever_is_started_again_and_then_the_table_waits(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, prefix=PREFIX)
    at.config.write_text(f"{at.config.read_text()}unusable_limit: {LIMIT}\n")
    await at.make_topics(f"{PREFIX}.__schemas", at.topic("n"), at.topic("t"))
    await at.write(schema(*WIDE, table="n"), schema(*COLUMNS), insert(9, "kept"))
    await write(at, "n", put(1, 1), *UNUSABLE, put(5, 5))
    first = at.run("--mode", "available-now")
    assert first.returncode == 0, first.stderr
    lines = [line for line in first.stderr.splitlines() if "dead letters" in line]
    assert len(lines) == 1, first.stderr
    assert f" batch=0 number={LIMIT} new={LIMIT} first=topic" in lines[0]

    wanted = [(at.topic("n"), 1 + number, value) for number, value in enumerate(UNUSABLE)]
    assert kept(spark, at) == wanted
    for number, row in enumerate(letters(spark, at)):
        assert bytes(row.key) == KEY
        headers = [
            (one.key, one.value if one.value is None else bytes(one.value)) for one in row.headers
        ]
        assert headers == HEADERS
        assert row.timestamp.timestamp() * 1000 == pytest.approx(FIRST_MS + 1 + number)
    assert [row["table"] for row in letters(spark, at)] == [None, None, "n", "n", "n"]

    # Everything again, as after a crash before the ledger moved, of which the checkpoint is lost too.
    forget_the_ledger(at)
    shutil.rmtree(tmp_path / "wh/__checkpoint")
    more = [put(6, "y"), put(7, "z")]
    with at.running() as sink:
        until(lambda: at.applied("n") >= 8, sink)
        assert f"dead letters batch=0 number={LIMIT} new=0 " in at.log()
        # Two more than the hour has room for: none of them is skipped.
        await write(at, "n", put(8, 8), *more)
        await at.write(insert(10, "after"))
        until(lambda: at.metric('tables_waiting{error="UnusableLimitReached"}') == 1, sink)
        until(lambda: at.applied("t") >= 4, sink)
        os.killpg(sink.pid, signal.SIGKILL)
        sink.wait()
    assert kept(spark, at) == wanted
    status = at.run("status")
    assert f"dead letters in the last hour: {LIMIT}; " in status.stdout
    assert "shop.n: WAITING\n" in status.stdout
    assert f"unusable_limit is {LIMIT}" in status.stdout
    assert at.rows("t") == {(9, "kept"), (10, "after")}

    with at.running():
        reloaded = at.run("reload", "shop.n", "--skip-unusable")
        assert reloaded.returncode == 0, reloaded.stderr
    shown = at.run("show", "shop.n")
    assert {int(found) for found in re.findall(r"\|(\d+)\s*\|\d+\s*\|", shown.stdout)} == {1, 5, 8}
    assert kept(spark, at) == wanted

    listed = at.run("letters", "--table", "shop.n", "--limit", "2")
    assert listed.returncode == 0, listed.stderr
    newest = [line.partition("Z ")[2] for line in listed.stdout.splitlines()]
    place = f"shop.n: topic {at.topic('n')}, partition 0, offset"
    # A value is found unusable when its table is merged, after the record that has none.
    assert newest == [
        f"{place} {offset}: MalformedRecord: column v holds no int" for offset in (4, 3)
    ]
    assert len(at.run("letters").stdout.splitlines()) == LIMIT
