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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import session
from bench.errors import RunFailed
from demo.checks import percentile
from demo.visible import At, Visible
from devstack import Stack
from devstack.ports import free_port

FOLDER: Final = Path(os.environ.get("FOLDER") or session.FOLDER / "sink_fresh").resolve()
TABLES: Final = int(os.environ.get("TABLES") or 20)
PER_SECOND: Final = int(os.environ.get("PER_SECOND") or 60)
"""Changes of all tables together."""
SECONDS: Final = int(os.environ.get("SECONDS") or 60)
_PARTITIONS: Final = 4
_PREFIX: Final = "fresh"
_IDS: Final = 500
"""Rows of each table, which are inserted first and then updated."""
_PATIENCE: Final = 300.0


@dataclass(slots=True)
class Writer:
    """Writes changes, each at the time of its commit."""

    producer: AIOKafkaProducer
    sent: list[tuple[At, int, float]] = field(default_factory=list)
    seq: int = 0
    rows: dict[tuple[int, int], str] = field(default_factory=dict)

    async def write(self, changes: Iterator[tuple[int, int]]) -> None:
        """Write one change each of these tables' rows."""
        now, futures = time.time(), []
        for table, row in changes:
            topic, partition = f"{_PREFIX}.shop.t{table}", row % _PARTITIONS
            value = self._value(table, row, int(now * 1000))
            futures.append(
                (topic, partition, await self.producer.send(topic, value, partition=partition))
            )
        for topic, partition, future in futures:
            self.sent.append(((topic, partition), (await future).offset, now))

    def _value(self, table: int, row: int, now_ms: int) -> bytes:
        self.seq += 1
        before = self.rows.get((table, row))
        text = self.rows[table, row] = f"written as number {self.seq}"
        source: dict[str, Any] = {
            "name": "shop",
            "db": "shop",
            "table": f"t{table}",
            "ts_ms": now_ms,
        }
        source |= {"seq": self.seq, "epoch": 1, "schema": 1, "wire": 1}
        body = {
            "op": "c" if before is None else "u",
            "before": None if before is None else {"id": row, "v": before},
            "after": {"id": row, "v": text},
            "source": source,
            "ts_ms": now_ms,
        }
        return json.dumps(body, separators=(",", ":")).encode()

    def ends(self) -> dict[At, int]:
        """The offset after the last change of each partition."""
        return {at: offset + 1 for at, offset, _ in self.sent}


async def _load(kafka: str, seen: Visible) -> list[float]:
    """Fill the tables, then write at the rate; returns the lags of the latter in seconds."""
    await _create(kafka)
    producer = AIOKafkaProducer(bootstrap_servers=kafka, enable_idempotence=True)
    await producer.start()
    try:
        writer = Writer(producer)
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


async def _create(kafka: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    names = [NewTopic(f"{_PREFIX}.shop.t{table}", _PARTITIONS, 1) for table in range(TABLES)]
    await admin.create_topics([*names, NewTopic(f"{_PREFIX}.__schemas", 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    columns = [
        {"name": "id", "type": "int", "nullable": False},
        {"name": "v", "type": "varchar(50)", "nullable": True},
    ]
    for table in range(TABLES):
        version = {"destination": "shop", "database": "shop", "table": f"t{table}", "version": 1}
        version |= {"columns": columns, "primary_key": ["id"], "wire": 1}
        key = f"t{table}".encode()
        await producer.send_and_wait(f"{_PREFIX}.__schemas", json.dumps(version).encode(), key=key)
    await producer.stop()


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
            lags = asyncio.run(_load(stack.kafka, seen))
        finally:
            seen.stop()
            cpu = _cpu_seconds(sink.popen.pid)
            sink.popen.terminate()
            sink.popen.wait(60)
    p50, p99 = percentile(lags, 50), percentile(lags, 99)
    print(
        f"bench-sink-fresh: tables={TABLES} changes={len(lags)} p50={p50:.1f} p99={p99:.1f} cpu={cpu:.0f}"
    )


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
