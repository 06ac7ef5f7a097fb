"""A row for each table in each second, and how long each takes to its topic."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
import pymysql
from aiokafka import AIOKafkaConsumer

from tests.hostile import quoted

SECONDS = 1.0


class Beat:
    """Rows with a number, which come into the tables until they are stopped."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.refused: list[str] = []
        """What MySQL refused: nothing should be."""
        self._sent: dict[str, dict[int, float]] = defaultdict(dict)
        self._arrived: dict[str, dict[int, float]] = defaultdict(dict)

    def write(self, cursor: Any, stop: threading.Event) -> None:
        """Insert the rows; those of each table are transactions of their own."""
        number = 0
        while not stop.wait(SECONDS):
            number += 1
            for name in self.names:
                try:
                    cursor.execute(
                        f"INSERT INTO shop.{quoted(name)} (id, n) VALUES ({number}, {number})"
                    )
                    cursor.execute("COMMIT")
                except pymysql.MySQLError as error:
                    self.refused.append(f"{name}: {error}")
                else:
                    self._sent[name][number] = time.monotonic()

    async def read(self, kafka: str, topics: Sequence[str], stop: threading.Event) -> None:
        """Note when each row can be read."""
        consumer = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=kafka,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        async with consumer:
            while not stop.is_set():
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    now = time.monotonic()
                    for one in records:
                        row = orjson.loads(one.value).get("after") if one.value else None
                        if row:
                            name = one.topic.rpartition(".")[2]
                            self._arrived[name].setdefault(row["n"], now)

    def missing(self, name: str) -> int:
        """The number of rows of a table that have not arrived."""
        return len(self._sent[name].keys() - self._arrived[name].keys())

    def lags(self, name: str, apart: Sequence[tuple[float, float]]) -> list[float]:
        """Seconds to the topic of all rows that were not sent in one of these times.

        A row that is missing has taken until now.
        """
        now = time.monotonic()
        return [
            self._arrived[name].get(number, now) - at
            for number, at in [*self._sent[name].items()]
            if not any(begin <= at <= end for begin, end in apart)
        ]
