"""A follower of the row topics, which reads them as a consumer does while they are written.

Invariant: it reads committed records only, not through the proxy and by no reader of the product, and waits for
an unavailable broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer

FIRST_MARK = 99_000_000
"""Rows with such keys are written by tests that wait to see them."""
_AGAIN = 0.5


class Tail:
    """Counts rows and notes marks, in a thread of its own."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._pattern = rf"^{re.escape(prefix)}\.shop\..*"
        self.rows = 0
        self.marks: set[int] = set()
        self._offsets: dict[tuple[str, int], int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no more."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=20)

    def _run(self) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(Exception):  # the broker is away: it is asked again
                asyncio.run(self._follow())
            self._ending.wait(_AGAIN)

    async def _follow(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
        )
        consumer.subscribe(pattern=self._pattern)
        await consumer.start()
        try:
            while not self._ending.is_set():
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    for message in messages:
                        self._take(message)
        finally:
            await consumer.stop()

    def _take(self, message: Any) -> None:
        position = message.topic, message.partition
        if message.offset <= self._offsets.get(position, -1):
            return
        self._offsets[position] = message.offset
        if message.value is None:
            return
        self.rows += 1
        after = orjson.loads(message.value)["after"]
        if after and after["id"] >= FIRST_MARK:
            self.marks.add(after["id"])
