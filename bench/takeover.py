"""How long a destination stands still when its worker dies, ends or is restarted: ``python -m bench.takeover``.

The law: real workers, real servers, rows written all the time; what counts is when a consumer that reads
committed records only sees the first one of the next leader.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pymysql
from aiokafka import AIOKafkaConsumer

from devstack import Stack
from tests.integration.process.shared import Pair, pair_settings

_EACH_SECONDS = 0.02


class Watch:
    """Sees each record of a topic as it becomes visible: when, and of which epoch."""

    def __init__(self, kafka: str, topic: str) -> None:
        self.seen: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._kafka, self._topic = kafka, topic
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()), daemon=True)
        self._thread.start()

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._kafka,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
            metadata_max_age_ms=1000,
        )
        await consumer.start()
        while not self._stopping.is_set():
            found = await consumer.getmany(timeout_ms=50)
            now = time.monotonic()
            for records in found.values():
                for record in records:
                    if record.value:
                        epoch = orjson.loads(record.value)["source"]["epoch"]
                        self.seen.append((now, epoch))
        await consumer.stop()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()

    def epoch(self) -> int:
        """The greatest so far."""
        return max((epoch for _, epoch in list(self.seen)), default=0)

    def next_leader(self, since: float, epoch: int, patience: float = 60.0) -> float:
        """Seconds from a moment until a later epoch was seen."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for at, each in list(self.seen):
                if each > epoch and at > since:
                    return at - since
            time.sleep(0.01)
        raise TimeoutError(f"no epoch above {epoch} in {patience} s")

    def longest_gap(self, since: float) -> float:
        """The longest time without any record."""
        times = [since, *(at for at, _ in list(self.seen) if at >= since)]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


@contextlib.contextmanager
def writing(stack: Stack) -> Iterator[None]:
    """Rows, all the time."""
    stopping = threading.Event()

    def write() -> None:
        connection = pymysql.connect(
            host=stack.mysql.host, port=stack.mysql.port, user="root", autocommit=True
        )
        with connection, connection.cursor() as cursor:
            while not stopping.wait(_EACH_SECONDS):
                cursor.execute("INSERT INTO takeover.shop (x) VALUES (1)")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="takeover-") as name:
        folder = Path(name)
        with Stack(folder / "stack") as stack:
            _measure(stack, folder, options.kills, options.stops)


def _measure(stack: Stack, folder: Path, kills: int, stops: int) -> None:
    root = pymysql.connect(
        host=stack.mysql.host, port=stack.mysql.port, user="root", autocommit=True
    )
    with root, root.cursor() as cursor:
        cursor.execute("CREATE DATABASE takeover")
        cursor.execute("CREATE TABLE takeover.shop (id bigint PRIMARY KEY AUTO_INCREMENT, x int)")
    wanted = pair_settings(stack, stack.mysql, folder, database="takeover")
    with Pair(wanted, folder) as pair, writing(stack):
        pair.start("a")
        pair.start("b")
        leader = pair.leader("shop")
        pair.until(lambda: pair.status(leader)["destinations"]["shop"]["rows"] > 0)
        watch = Watch(stack.kafka, f"{wanted['prefix']}.takeover.shop")
        killed = [_one(pair, watch, signal.SIGKILL) for _ in range(kills)]
        _tell("kill -9, session 6 s", killed)
        stopped = [_one(pair, watch, signal.SIGTERM) for _ in range(stops)]
        _tell("clean stop", stopped)
        _tell("longest gap in a rolling restart of both", [_rolled(pair, watch)])
        watch.stop()


def _one(pair: Pair, watch: Watch, number: signal.Signals) -> float:
    """End the leader; seconds until the next one's first record."""
    leader = pair.leader("shop")
    pair.settled()
    time.sleep(1.0)
    epoch, began = watch.epoch(), time.monotonic()
    pair.end(leader, number)
    took = watch.next_leader(began, epoch)
    sys.stdout.write(f"  {number.name}: {took:.2f} s\n")
    sys.stdout.flush()
    pair.start(leader)
    return took


def _rolled(pair: Pair, watch: Watch) -> float:
    pair.settled()
    began = time.monotonic()
    for name in ("a", "b"):
        pair.end(name, signal.SIGTERM)
        pair.start(name)
        pair.settled()
        time.sleep(2.0)
    return watch.longest_gap(began)


def _tell(what: str, seconds: list[float]) -> None:
    ordered: list[Any] = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    sys.stdout.write(
        f"{what}: n={len(ordered)} p50={statistics.median(ordered):.2f} s p95={p95:.2f} s "
        f"max={ordered[-1]:.2f} s\n"
    )


if __name__ == "__main__":
    main()
