"""A client of the source beside a benchmark: a SELECT and an UPDATE at a fixed rate, and its records in Kafka.

Invariant: it is a process of its own, so that what else the benchmark does delays none of its statements; it
ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Self

import orjson
import pymysql
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from bench.existing_rows import PROBE, PROBE_ROWS
from bench.workloads import DATABASE

SECONDS_BETWEEN = 0.02
_SECONDS_FOR_TOPIC = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One SELECT and one UPDATE."""

    at: float
    """When it was due, by the monotonic clock."""
    read: float
    """Seconds of the SELECT."""
    written: float
    """Seconds of the UPDATE."""
    committed: float
    """When the UPDATE had returned."""


@dataclass(slots=True)
class Beats:
    """All of a run, and when the record of each UPDATE was visible, by number."""

    all: list[Beat] = field(default_factory=list)
    seen: dict[int, float] = field(default_factory=dict)

    def between(self, first: float, last: float) -> Beats:
        """Those that were due within a time."""
        kept = {n: one for n, one in enumerate(self.all) if first <= one.at < last}
        seen = {place: self.seen[n] for place, n in enumerate(kept) if n in self.seen}
        return Beats(list(kept.values()), seen)

    @property
    def lags(self) -> list[float]:
        """Seconds from each commit until its record was visible, of those that were."""
        return [at - self.all[number].committed for number, at in self.seen.items()]


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile by nearest rank; 0 without values."""
    ordered = sorted(values)
    return (
        ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]
        if ordered
        else 0.0
    )


class Probe:
    """Runs the client within a block; afterwards `beats` has what it measured."""

    def __init__(self, host: str, port: int, kafka: str, topic: str) -> None:
        self.beats = Beats()
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        arguments = (other, host, port, kafka, topic)
        self._process = context.Process(target=_run, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._pipe.send("stop")
            beats, seen = self._pipe.recv()
            self.beats = Beats([Beat(**one) for one in beats], seen)
        except (EOFError, OSError):
            self.beats = Beats()
        finally:
            self._process.kill()
            self._process.join()


def _run(pipe: Connection, host: str, port: int, kafka: str, topic: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It warns of a topic that does not exist yet, several times a second.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    parent = os.getppid()
    seen: dict[int, float] = {}
    threading.Thread(target=lambda: asyncio.run(_follow(kafka, topic, seen)), daemon=True).start()
    beats: list[dict[str, Any]] = []
    connection = pymysql.connect(
        host=host, port=port, user="root", autocommit=True, database=DATABASE
    )
    with connection, connection.cursor() as cursor:
        pipe.send("ready")
        began = time.monotonic()
        while not pipe.poll() and os.getppid() == parent:
            due = began + len(beats) * SECONDS_BETWEEN
            time.sleep(max(0.0, due - time.monotonic()))
            beats.append(_beat(cursor, len(beats), max(due, began)))
    pipe.send((beats, dict(seen)))
    pipe.poll(None)


def _beat(cursor: Any, number: int, due: float) -> dict[str, Any]:
    row = number * 7919 % PROBE_ROWS
    start = time.monotonic()
    cursor.execute(f"SELECT * FROM {PROBE} WHERE id = {row}")
    cursor.fetchall()
    middle = time.monotonic()
    cursor.execute(f"UPDATE {PROBE} SET n = {number} WHERE id = {row}")
    end = time.monotonic()
    return {"at": due, "read": middle - start, "written": end - middle, "committed": end}


async def _follow(kafka: str, topic: str, seen: dict[int, float]) -> None:
    """Note when records become visible, from the first of a topic on, which may not exist yet."""
    while True:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        )
        try:
            await consumer.start()
            async for record in consumer:
                body = orjson.loads(record.value) if record.value else {}
                if body.get("op") == "u":
                    seen[body["after"]["n"]] = time.monotonic()
        except KafkaError:
            await asyncio.sleep(_SECONDS_FOR_TOPIC)
        finally:
            await consumer.stop()
