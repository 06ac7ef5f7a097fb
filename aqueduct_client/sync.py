"""The synchronous subscriber: an asynchronous subscriber in an event loop of its own thread.

Invariant: each call is the coroutine of the same name, waited for; calls from several threads are safe. The
thread keeps the membership of the group alive between calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aqueduct_client.in_flight import Batch
from aqueduct_client.records import Record
from aqueduct_client.schemas import TableVersion
from aqueduct_client.subscriber import Subscriber

T = TypeVar("T")


@dataclass(slots=True)
class SyncSubscriber:
    """A member of a group of subscribers, for programs without an event loop. Use it within ``with``."""

    make: Callable[[], Subscriber]
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _inner: Subscriber | None = None

    def __enter__(self) -> SyncSubscriber:
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="aqueduct-client", daemon=True
        )
        self._thread.start()
        try:
            self._inner = self.make()
            self._wait(self._inner.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group; nothing is acknowledged."""
        try:
            self._wait(self._subscriber().close())
        finally:
            self._end()

    @property
    def in_flight(self) -> tuple[int, ...]:
        """The ids of the batches that are not acknowledged, in order."""
        return self._subscriber().in_flight

    def get(self, most: int = 1000, timeout: float = 1.0) -> Batch:
        return self._wait(self._subscriber().get(most, timeout))

    def get_without_ack(self, most: int = 1000, timeout: float = 1.0) -> Batch:
        """See Subscriber."""
        return self._wait(self._subscriber().get_without_ack(most, timeout))

    def ack(self, batch: int) -> None:
        """See Subscriber."""
        self._wait(self._subscriber().ack(batch))

    def rollback(self, batch: int | None = None) -> None:
        """See Subscriber."""
        self._wait(self._subscriber().rollback(batch))

    def schema_of(self, record: Record) -> TableVersion:
        """See Subscriber."""
        return self._wait(self._subscriber().schema_of(record))

    def _subscriber(self) -> Subscriber:
        assert self._inner is not None, "use the subscriber within its block"
        return self._inner

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # such as Ctrl-C while it waits
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._loop.close()
