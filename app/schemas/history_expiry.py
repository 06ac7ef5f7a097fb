"""What of the schema history the journal may forget, found out beside the run that goes on.

The law: nothing is forgotten here; the run writes it with its next piece, in the order of its own records.
"""

from __future__ import annotations

import asyncio
import logging

from connectors.errors import AqueductError
from tables.journal.partition import JournalPartition
from tables.schema_history.retention import Expired, Retention

log = logging.getLogger(__name__)


class Expiry:
    """Reads the journal of one destination when it is asked to, once at a time."""

    def __init__(self, journal: JournalPartition) -> None:
        self._journal = journal
        self._task: asyncio.Task[Expired] | None = None

    def begin(self, expire_ms: int) -> None:
        """Find out what may go, now that there is another checkpoint."""
        if self._task is None:
            self._task = asyncio.create_task(self._find(expire_ms))

    def found(self) -> Expired | None:
        """What may go, once; None while it is not known. Where it cannot be read, the next time tells."""
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
        """Look no further."""
        if self._task is not None:
            self._task.cancel()

    async def _find(self, expire_ms: int) -> Expired:
        retention = Retention(self._journal.destination)
        await self._journal.read(retention.take)
        return retention.expired(expire_ms)
