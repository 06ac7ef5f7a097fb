"""Detection of a Kafka outage while nothing is published; its beginning and its end are each reported once.

Invariant: it only reports. A run that publishes detects the outage itself, and ends with its own error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from mode import Service

from app import metrics
from app.worker.process.library_logs import SERVICES
from connectors.errors import AqueductError, KafkaLost

log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 3.0
_FAILURES = 2
"""Consecutive failures until Kafka counts as lost; a single failure may be a closed connection."""


class KafkaWatch(Service):  # type: ignore[misc]  # mode has no types
    """Asks the cluster at intervals; ``changed`` gets the error, or None when the cluster answers again."""

    logger = SERVICES

    def __init__(
        self,
        check: Callable[[], Awaitable[None]],
        changed: Callable[[AqueductError | None], None],
    ) -> None:
        super().__init__()
        self._check, self._changed = check, changed
        self._failures = 0
        self._since = 0.0
        self.lost: AqueductError | None = None

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch(self) -> None:
        while not self.should_stop:
            await self.ask()
            await self.sleep(_INTERVAL_SECONDS)

    async def ask(self) -> None:
        """Ask once, and report a change."""
        error = await self._answer()
        if error is None:
            self._failures = 0
            if self.lost is not None:
                self.lost = None
                metrics.KAFKA_UP.set(1)
                log.info("Kafka answers again after %.0f s", time.monotonic() - self._since)
                self._changed(None)
            return
        self._failures += 1
        if self._failures == 1:
            self._since = time.monotonic()
        if self._failures >= _FAILURES and type(error) is not type(self.lost):
            self.lost = error
            metrics.KAFKA_UP.set(0)
            log.error("%s: %s. Nothing is lost: destinations wait and resume.", error.name, error)
            self._changed(error)

    async def _answer(self) -> AqueductError | None:
        try:
            await self._check()
        except AqueductError as error:
            return error
        except Exception as error:
            # An unforeseen library error must not end a worker that publishes.
            return KafkaLost(f"{type(error).__name__}: {error}")
        return None
