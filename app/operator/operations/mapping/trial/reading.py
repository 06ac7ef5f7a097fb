"""The chunks of the binlog that a trial reads: up to its present end, or as they come for some seconds.

Invariant: the running worker's connection is never ended. A trial up to the end is no replica, and has no
server_id; one that follows the binlog is a replica with a server_id and a UUID that no other has.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from app.operator.operations.mapping.trial.start import TrialOffset
from connectors.errors import SourceLost
from connectors.mysql.lookup.binlog_end import BinlogEnd
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.dump_command import UNREGISTERED_ID
from connectors.mysql.stream.replica import BinlogStream

_CHUNK = 256 * 1024
"""Bytes of a chunk: the records of both mappings are held for one, and small rows grow a hundredfold."""
_OWN_IDS = range(1 << 31, 1 << 32)
"""Server ids that a replica configured by hand hardly has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReading:
    """What is read, and for how long."""

    address: SourceAddress
    start: TrialOffset
    seconds: float | None = None
    """The time after which reading ends; None: at the present end of the binlog."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in order. Raises SourceLost or SourceRefused; nothing reconnects."""
        offset, deadline = self.start.offset, _deadline(self.seconds)
        stream = BinlogStream(
            self.address,
            offset,
            prepared=self.start.prepared,
            aim=lambda: _CHUNK,
            by_coordinates=self.start.by_coordinates,
        )
        # A silent source sends nothing that could end the loop below.
        timer = threading.Timer(self.seconds or 0.0, stream.close)
        timer.daemon = True
        try:
            stream.open()
            if self.seconds is not None:
                timer.start()
            for chunk in stream.chunks(lambda: True):
                yield chunk
                if time.monotonic() >= deadline:
                    return
        except SourceLost:
            # A server that shuts down ends the stream too, so the caller compares the positions.
            is_end = self.seconds is None and stream.has_sent_all
            if not is_end and time.monotonic() < deadline:
                raise
        finally:
            timer.cancel()
            stream.close()


def refuse_early_end(reached: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise SourceLost if a server ended its stream before the end that its binlog had in ``facts``."""
    end = BinlogEnd(server_uuid=facts.server_uuid, binlogs=facts.binlogs, gtids=facts.gtids_at_end)
    if end.is_past(reached):
        raise SourceLost(
            f"it ended the stream at {reached.coordinates}, before the end of its binlog",
            source=address,
        )


def own_address(
    address: SourceAddress, facts: ServerFacts, others: Iterable[int], *, follows: bool
) -> SourceAddress:
    """Return the address with the identity of a trial; ``others``: server ids of this installation."""
    if not follows:
        return replace(address, server_id=UNREGISTERED_ID, replica_uuid="")
    taken = {one.server_id for one in facts.replicas} | {*others, _id_of(facts)}
    number = next(one for one in iter(_random_id, None) if one not in taken)
    return replace(address, server_id=number, replica_uuid=str(uuid.uuid4()))


def _random_id() -> int:
    return secrets.choice(_OWN_IDS)


def _id_of(facts: ServerFacts) -> int:
    return int(facts.variables.get("server_id") or 0)


def _deadline(seconds: float | None) -> float:
    return float("inf") if seconds is None else time.monotonic() + seconds
