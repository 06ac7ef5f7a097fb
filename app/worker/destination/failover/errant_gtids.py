"""Errant transactions: those of a standby that its source lacks.

Invariant: only a replica can have them; additional transactions of any other server are its present
writes. They are determined from the source that was read, if it answers; else from the server that
wrote them, if the standby is read-only.
"""

from __future__ import annotations

import logging

from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList, MariadbGtidState
from connectors.mysql.position import Gtids
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected

log = logging.getLogger(__name__)


def errant(
    gtids: Gtids, facts: ServerFacts, address: SourceAddress, other: SourceAddress | None
) -> str:
    """The GTIDs of a replica that its source lacks and that are not in ``gtids``; empty if none.

    ``other`` is the source that was read. Blocks while it queries.
    """
    if isinstance(gtids, MariadbGtidList):
        return _of_mariadb(gtids, facts, other)
    more = subtracted(str(facts.gtid_executed), str(gtids), address)
    if not more:
        return ""
    other_gtids = _transactions_of(other, facts, "@@GLOBAL.server_uuid", "@@GLOBAL.gtid_executed")
    if other_gtids is not None:
        return str(subtracted(str(more), other_gtids, address))
    return str(_written_by(more, facts.server_uuid)) if _is_read_only(facts) else ""


def subtracted(whole: str, part: str, address: SourceAddress) -> GtidSet:
    """The difference of two GTID sets, as computed by a server."""
    with connected(address) as cursor:
        cursor.execute("SELECT GTID_SUBTRACT(%s, %s)", (whole, part))
        return GtidSet.parse(cursor.fetchall()[0][0])


def _of_mariadb(position: MariadbGtidList, facts: ServerFacts, other: SourceAddress | None) -> str:
    """MariaDB reports the last GTID per domain and server, so only the standby's own are checked."""
    own = {
        at: sequence
        for at, sequence in MariadbGtidState.parse(
            facts.variables.get("gtid_binlog_state", "")
        ).last.items()
        if str(at[1]) == facts.variables.get("server_id")
    }
    answer = _transactions_of(other, facts, "@@GLOBAL.server_uid", "@@GLOBAL.gtid_binlog_state")
    other_gtids = MariadbGtidState.parse(answer).last if answer is not None else {}
    found = [
        f"{domain}-{server}-{sequence}"
        for (domain, server), sequence in sorted(own.items())
        if (
            other_gtids.get((domain, server), -1) < sequence
            if answer is not None
            else _is_read_only(facts) and not position.holds(f"{domain}-{server}-{sequence}")
        )
    ]
    return ", ".join(found)


def _is_read_only(facts: ServerFacts) -> bool:
    return facts.variables.get("read_only", "OFF").upper() not in ("OFF", "0")


def _transactions_of(
    other: SourceAddress | None, facts: ServerFacts, name: str, transactions: str
) -> str | None:
    """The GTIDs of the source that was read; None if it does not answer or is this server."""
    if other is None:
        return None
    try:
        with connected(other) as cursor:
            cursor.execute(f"SELECT {name}, {transactions}")
            found, answer = cursor.fetchall()[0]
    except Exception:
        log.debug("the other source does not answer", exc_info=True)
        return None
    return None if found == facts.server_uuid else str(answer)


def _written_by(gtids: GtidSet, server_uuid: str) -> GtidSet:
    """The part of a set that originates from one server."""
    parts = str(gtids).split(",")
    return GtidSet.parse(",".join(part for part in parts if part.startswith(f"{server_uuid}:")))
