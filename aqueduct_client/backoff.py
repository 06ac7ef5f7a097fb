"""Pauses between attempts while Kafka is lost.

Invariant: a pause doubles up to a limit, with jitter, and is kept over calls: a caller that asks more often
does not make more attempts. An outage is logged once, and once more when it is over.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field

from aqueduct_client.errors import BrokersLost

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


@dataclass(slots=True)
class Outage:
    """The time without Kafka, if it is lost now."""

    limit: float | None = None
    """Seconds after which the error is raised; None: never."""
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=FIRST_PAUSE, init=False)
    _retry_at: float = field(default=0.0, init=False)
    _is_logged: bool = field(default=False, init=False)

    def failed(self, error: BrokersLost) -> None:
        """Note a failed attempt; raise the error if the outage is past the limit."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self.limit is not None and now - self._since >= self.limit:
            raise error
        log.log(logging.DEBUG if self._is_logged else logging.WARNING, "%s", error)
        self._is_logged = True
        self._retry_at = now + self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def over(self) -> None:
        """Note a success."""
        if self._is_logged and self._since is not None:
            log.info("Kafka answers again, after %.0f s", time.monotonic() - self._since)
        self._since, self._pause, self._is_logged = None, FIRST_PAUSE, False

    async def may_try(self, seconds: float | None = None) -> bool:
        """Wait for the next attempt, for so many seconds at most; whether it is due."""
        remaining = self._retry_at - time.monotonic()
        if remaining > 0:
            await asyncio.sleep(remaining if seconds is None else max(0.0, min(remaining, seconds)))
        return time.monotonic() >= self._retry_at
