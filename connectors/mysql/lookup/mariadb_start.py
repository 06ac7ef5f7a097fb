"""The start position on a MariaDB server, in its GTIDs.

Invariant: as in ``connectors.mysql.lookup.resumable``: a position that the server no longer has, or
never had, is refused by name. A case that GTIDs alone cannot decide is left to the server, which
refuses a dump that it cannot send.
"""

from __future__ import annotations

from connectors.errors import PositionGone, SourceDiverged
from connectors.mysql.mariadb_gtid import MariadbGtidList, MariadbGtidState, split_gtid
from connectors.mysql.position import Coordinates
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts


def check(position: MariadbGtidList, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise PositionGone or SourceDiverged if the server cannot resume from a position."""
    before = MariadbGtidList.parse(facts.gtids_before_binlogs)
    if lacking := position.lacking(before):
        raise PositionGone(
            f"its binlog files begin after {', '.join(lacking)}, "
            f"the cursor is at {str(position) or 'nothing'}",
            source=address,
        )
    if unknown := missing(position, facts):
        raise SourceDiverged(
            f"it never wrote into its binlog, nor applied, {', '.join(unknown)}, which the cursor is past",
            source=address,
        )


def missing(position: MariadbGtidList, facts: ServerFacts) -> list[str]:
    """Return the GTIDs of a position that a server has neither written nor applied.

    Each is followed by the last known GTID of the same originating server: two servers share no order.
    """
    # A server made from a backup has the backup's position without the transactions before it.
    texts = (facts.variables.get(name, "") for name in ("gtid_binlog_state", "gtid_slave_pos"))
    state = MariadbGtidState.parse(*texts)
    found = []
    for gtid in position.unknown_to(state):
        domain, server, _ = split_gtid(gtid)
        last = state.last.get((domain, server))
        known = "none" if last is None else f"{domain}-{server}-{last} at most"
        found.append(f"{gtid} (it has {known} of server {server} in domain {domain})")
    return found


def position_at(coordinates: Coordinates, address: SourceAddress) -> MariadbGtidList:
    """Return all transactions before a position; raise PositionGone if the server does not accept it."""
    with connected(address) as cursor:
        cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (coordinates.file, coordinates.pos))
        (found,) = cursor.fetchone()
    if found is None:
        raise PositionGone(f"{coordinates} is not where one of its events begins", source=address)
    return MariadbGtidList.parse(found)
