"""Whether a server has run without a reset since the last published transaction.

An idle source purges files that were read to their end, and the last published transaction with
them. Files can be restored, copied or cloned only while a server is down, and resets are counted.
So a server that has run since that transaction was committed, and counts no reset, has the binlog
that was read.

Invariant: only if its oldest file begins right after the cursor's GTIDs, and gtid_mode was not set
since, so that nothing unread was purged.
"""

from __future__ import annotations

from connectors.errors import SourceRefused
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import previous_of
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected
from tables.state.cursor import CursorProof

_MARGIN = 2
"""Seconds; both times are of the server's clock, and each is rounded."""
_MODE_SET = (
    "SELECT UNIX_TIMESTAMP(set_time) FROM performance_schema.variables_info "
    "WHERE variable_name = 'gtid_mode'"
)
_COUNTERS = "SHOW GLOBAL STATUS WHERE variable_name IN ('Uptime', 'Com_reset')"


def uninterrupted(
    offset: SourceOffset, proof: CursorProof, facts: ServerFacts, address: SourceAddress
) -> bool:
    """Whether the server proves it; False if it cannot."""
    landmark, gtids = proof.landmark, offset.gtid_set
    if facts.is_mariadb or not isinstance(gtids, GtidSet) or not facts.has_gtids:
        return False
    first = landmark.first if landmark is not None else None
    if first is None or not first.original_us:
        return False
    if previous_of(facts.binlogs[0][0], address) != gtids:
        return False
    return _shows(address, first.original_us / 1_000_000)


def _shows(address: SourceAddress, committed: float) -> bool:
    """Whether it was neither started nor reset since then, and each transaction since has a GTID."""
    try:
        with connected(address) as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP()")
            now = int(cursor.fetchall()[0][0])
            cursor.execute(_COUNTERS)
            found = {str(name).lower(): int(value) for name, value in cursor.fetchall()}
            cursor.execute(_MODE_SET)
            rows = cursor.fetchall()
    except SourceRefused:
        return False
    changed = [row[0] for row in rows]
    if found.get("com_reset") != 0 or not changed:
        return False
    started = now - found["uptime"]
    return max(started, *(float(one or 0) for one in changed)) + _MARGIN < committed
