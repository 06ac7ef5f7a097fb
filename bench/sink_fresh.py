"""``python -m bench.sink_fresh``: how long changes of 20 tables take from their commit to a warehouse's reader.

A real sink reads a real Kafka, to which changes are written at a steady rate. A change counts as visible once
the sink's own metric says so; a reader checks the rows at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer

from bench import session
from bench.errors import RunFailed
from bench.sink_topics import Writer, create
from demo.checks import percentile
from demo.visible import At, Visible
from devstack import Stack
from devstack.ports import free_port

FOLDER: Final = Path(os.environ.get("FOLDER") or session.FOLDER / "sink_fresh").resolve()
TABLES: Final = int(os.environ.get("TABLES") or 20)
PER_SECOND: Final = int(os.environ.get("PER_SECOND") or 60)
"""Changes of all tables together."""
SECONDS: Final = int(os.environ.get("SECONDS") or 60)
_PREFIX: Final = "fresh"
_IDS: Final = 500
"""Rows of each table, which are inserted first and then updated."""
_PATIENCE: Final = 300.0


async def _load(kafka: str, seen: Visible) -> list[float]:
    """Fill the tables, then write at the rate; return the lags of the latter in seconds."""
    await create(kafka, _PREFIX, TABLES)
    producer = AIOKafkaProducer(bootstrap_servers=kafka, enable_idempotence=True)
    await producer.start()
    try:
        writer = Writer(producer, _PREFIX)
        for table in range(TABLES):
            await writer.write((table, row) for row in range(_IDS))
        await _until(seen, writer)
        # The first small batch after a large one is no measure.
        await writer.write((table, 0) for table in range(TABLES))
        await _until(seen, writer)
        first, began, written = len(writer.sent), time.time(), 0
        while (now := time.time()) < began + SECONDS:
            due = int((now - began) * PER_SECOND) - written
            await writer.write(_next(written, due))
            written += due
            await asyncio.sleep(0.05)
        await _until(seen, writer)
    finally:
        await producer.stop()
    return [_when(seen, at, offset) - sent for at, offset, sent in writer.sent[first:]]


def _when(seen: Visible, at: At, offset: int) -> float:
    """The time at which an offset was first seen to be visible."""
    return next(one.at_ms for one in seen.seen[at] if one.until > offset) / 1000


def _next(written: int, due: int) -> Iterator[tuple[int, int]]:
    return ((n % TABLES, n // TABLES % _IDS) for n in range(written, written + due))


async def _until(seen: Visible, writer: Writer) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not seen.has(writer.ends()):
        if time.monotonic() > deadline:
            raise RunFailed(
                f"the sink has not shown all changes in {_PATIENCE:.0f} s; see {FOLDER}"
            )
        await asyncio.sleep(0.1)


def _settings(kafka: str, port: int) -> Path:
    path = FOLDER / "sink.yaml"
    settings = {
        "prefix": _PREFIX,
        "bootstrap_servers": kafka,
        "warehouse": str(FOLDER / "warehouse"),
        "metrics": {"port": port},
        "log": {"file": str(FOLDER / "sink.details")},
        **json.loads(os.environ.get("SINK") or "{}"),
    }
    path.write_text(json.dumps(settings))
    return path


def story() -> None:
    """Run once."""
    lags, cpu = measured()
    p50, p99 = percentile(lags, 50), percentile(lags, 99)
    print(
        f"bench-sink-fresh: tables={TABLES} changes={len(lags)} p50={p50:.1f} p99={p99:.1f} cpu={cpu:.0f}"
    )


def measured() -> tuple[list[float], float]:
    """The lag of each change in seconds, and the CPU seconds of the sink."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    seen = Visible(free_port())
    with Stack(FOLDER / "stack", ("kafka",)) as stack:
        command = [sys.executable, "-m", "spark_sink", "--config"]
        sink = stack.children.start(
            [*command, str(_settings(stack.kafka, seen.port))],
            label="the sink",
            log=FOLDER / "sink.log",
        )
        seen.start()
        try:
            return asyncio.run(_load(stack.kafka, seen)), _cpu_seconds(sink.popen.pid)
        finally:
            seen.stop()
            sink.popen.terminate()
            sink.popen.wait(60)


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and of its children so far."""
    pids, total = [pid], 0.0
    while pids:
        one = pids.pop()
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids += map(int, children.read_text().split())
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


if __name__ == "__main__":
    sys.exit(session.run("bench-sink-fresh", story))
