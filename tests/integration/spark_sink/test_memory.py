"""Reloads that need more memory than the sink has, through processes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from devstack import Stack
from tests.integration.spark_sink.test_sink import COLUMNS, TIMEOUT, Installation, insert, until
from tests.unit.spark_sink.history import schema

pytestmark = [pytest.mark.stack, pytest.mark.spark]

_LARGE = 60_000_000
"""Characters of a value that a batch takes with `_ENOUGH`, and not with the least memory that Spark accepts."""
_ENOUGH, _LEAST = "3g", "512m"


def stop(sink: subprocess.Popen[str]) -> None:
    """Stop a sink in order."""
    os.killpg(sink.pid, signal.SIGTERM)
    sink.wait(TIMEOUT)


@pytest.mark.long("unit/spark_sink/jobs/test_reload.py ends processes without a JVM")
async def test_a_reload_that_exhausts_memory_is_refused_at_last_while_others_continue(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "memory")
    settings = at.config.read_text()

    def remember(memory: str) -> None:
        at.config.write_text(f"{settings}driver_memory: {memory}\n")

    remember(_ENOUGH)
    await at.make_topics(f"{at.prefix}.__schemas", *map(at.topic, ("large", "t")))
    columns = (COLUMNS[0], ("v", "longtext"))
    await at.write(
        schema(*columns, table="large", topic=at.topic("large")),
        schema(*COLUMNS, topic=at.topic("t")),
        insert(1, "first"),
    )
    # Kafka has it compressed, and so in few bytes.
    producer = AIOKafkaProducer(
        bootstrap_servers=stack.kafka, compression_type="gzip", max_request_size=2 * _LARGE
    )
    await producer.start()
    value = insert(2, "x" * _LARGE, "large").value().encode()
    await producer.send_and_wait(at.topic("large"), value, key=b"k")
    await producer.stop()
    with at.running() as sink:
        until(lambda: at.applied("large") >= 1 and at.applied("t") >= 1, sink)
        stop(sink)
    remember(_LEAST)
    # The command gives up waiting at once, and the request is kept.
    assert (
        "The request is kept"
        in at.run("reload", "shop.large", "--from-beginning", "--timeout", "0").stderr
    )
    for _ in range(3):
        with at.running() as sink:
            until(lambda: sink.poll() is not None, sink)
            printed = sink.stdout.read() if sink.stdout else ""
        assert sink.returncode == 1, printed
        assert "MemoryExhausted" in printed
        assert "Traceback" not in printed
    with at.running() as sink:
        await at.write(insert(3, "later"))
        until(lambda: at.applied("t") >= 3, sink)
        stop(sink)
    shown = at.run("status").stdout
    assert "shop.t: APPLIED\n" in shown
    assert "the sink has ended 3 times amid the reload of shop.large" in shown
    assert "raise driver_memory" in shown
    advised = re.search(r"python -m spark_sink (reload shop\.large.*)", shown)
    assert advised is not None
    remember(_ENOUGH)
    with at.running() as sink:
        ended = at.run(*shlex.split(advised[1]))
        assert ended.returncode == 0, ended.stderr
        stop(sink)
    assert "shop.large: APPLIED\n" in at.run("status").stdout
