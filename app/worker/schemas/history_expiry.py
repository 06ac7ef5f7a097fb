"""The expiry of schema history in the journal, computed concurrently with the run.

Invariant: nothing is deleted here; the run writes the expiry with its next batch, in the order of
its own records.
"""

from __future__ import annotations

import asyncio
import logging

from connectors.errors import AqueductError
from tables.state.history_retention import Expired, Retention
from tables.state.journal.state import JournalPartition

log = logging.getLogger(__name__)


class Expiry:
    """Reads the journal of one destination on request, once at a time."""

    def __init__(self, journal: JournalPartition) -> None:
        self._journal = journal
        self._task: asyncio.Task[Expired] | None = None

    def begin(self, expire_ms: int) -> None:
        """Begin to compute what may be deleted, after a new checkpoint."""
        if self._task is None:
            self._task = asyncio.create_task(self._find(expire_ms))

    def found(self) -> Expired | None:
        """Return what may be deleted, once; None while it is not known.

        A failed read is logged, and retried at the next checkpoint.
        """
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, AqueductError):
            raise error
        log.warning("%s: what may be forgotten is not known: %s", self._journal.destination, error)
        return None

    def close(self) -> None:
        """Cancel the reading."""
        if self._task is not None:
            self._task.cancel()

    async def _find(self, expire_ms: int) -> Expired:
        retention = Retention(self._journal.destination)
        await self._journal.read(retention.take)
        return retention.expired(expire_ms)
