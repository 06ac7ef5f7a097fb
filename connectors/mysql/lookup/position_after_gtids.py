"""The position in a server's binlog of the first transaction that is not in a GTID set.

Invariant: the server itself finds the transaction, as it does for a replica. If no such transaction
exists yet, the position is the binlog's end.
"""

from __future__ import annotations

from connectors.errors import EndPositionUnknown
from connectors.mysql.binlog.chunk_context import GTIDS
from connectors.mysql.binlog.events import EventType
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.stream.replica import unregistered


def position_after(gtids: Gtids, facts: ServerFacts, address: SourceAddress) -> Coordinates:
    """Return the coordinates; raise PositionGone if the server has purged transactions outside the set."""
    if not facts.binlogs:
        raise EndPositionUnknown("it lists no binlog files", source=address)
    if not gtids:
        return Coordinates(facts.binlogs[0][0], FIRST_EVENT)
    # The server reported this end before the dump was requested, so no transaction in between is missed.
    end = Coordinates(*facts.binlogs[-1])
    begin = SourceOffset(server_uuid=facts.server_uuid, coordinates=end, gtid_set=gtids)
    with unregistered(begin, address) as stream:
        for placed in stream.events_there_are():
            # MariaDB's incidents have no GTID; no reader may begin after an incident that is not reported.
            if placed.event.type in GTIDS or placed.event.type == EventType.INCIDENT:
                return placed.start
    return end
