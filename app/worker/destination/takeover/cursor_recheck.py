"""Second proof of a cursor, after the source has begun to send its binlog.

Between the first proof and the moment the server opens its binlog for us, it can be reset or
restored, or another server can answer at its address. The second proof is of the opened binlog.

Invariant: nothing of a run is published before its second proof.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.errors import SourceLost
from connectors.mysql.lookup.start import check
from connectors.mysql.server.facts import SourceAddress, read_facts
from tables.state.cursor import Cursor


@dataclass(slots=True, kw_only=True)
class CursorRecheck:
    """The second proof of one run."""

    cursor: Cursor
    """The run's initial cursor."""
    address: SourceAddress
    accepts_unproven: bool = False
    _is_proven: bool = False

    async def once(self) -> None:
        """Prove it on the first call; raises SourceReset and related errors, SourceLost at another server."""
        if not self._is_proven:
            await asyncio.to_thread(self._prove)
            self._is_proven = True

    def _prove(self) -> None:
        address, offset = self.address, self.cursor.offset
        facts = read_facts(address)
        if facts.server_uuid != offset.server_uuid:
            raise SourceLost(
                f"server {facts.server_uuid} answers there now, and {offset.server_uuid} did before",
                source=address,
            )
        check(offset, facts, address)
        CursorVerification(
            destination=self.cursor.destination,
            facts=facts,
            address=address,
            accepts_unproven=self.accepts_unproven,
        ).at_home(offset, self.cursor.proof)
