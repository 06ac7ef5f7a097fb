"""The effect on subscribers of setting a cursor to another position.

Invariant: forward, changes are never published; back, they are published again. Their number is
given if GTIDs count them, and nothing that cannot be compared is called free of cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import PositionGone
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.landmark_search import find_landmark
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected
from tables.state.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect as text, and whether an operator has to confirm it."""

    text: str
    is_free: bool = False
    is_back: bool = False
    """Whether all of it is published again, and nothing is skipped."""


def move_effect(
    before: Cursor | None,
    after: SourceOffset,
    address: SourceAddress,
    facts: ServerFacts | None = None,
) -> Effect:
    """Return the effect of setting a cursor; ``facts`` are the server's, to compare it with what
    was read."""
    if before is None:
        return Effect("it is the destination's first cursor", is_free=True)
    if facts is not None and (why := _reset_reason(before, facts, address)):
        return _effect_after_reset(before, after, facts, address, why=why)
    half = ""
    if before.resume is not None:
        half = (
            f"; {before.resume.published} record(s) of {before.resume.transaction_id}, which is published in "
            "part, are published again or stay without the rest"
        )
    found = _effect_between(before.offset, after, address)
    return Effect(found.text + half, found.is_free and not half, found.is_back)


def _reset_reason(before: Cursor, facts: ServerFacts, address: SourceAddress) -> str:
    """Return why the binlog is not the one that was read; empty if it may be."""
    if before.offset.server_uuid != facts.server_uuid or not facts.binlogs:
        return ""
    landmark = before.proof.landmark
    if landmark is not None:
        try:
            found = find_landmark(landmark, facts, address)
        except PositionGone:
            return ""
        return "" if found.is_there or found.is_purged else found.detail
    gtids = before.offset.gtid_set
    if isinstance(gtids, GtidSet) and facts.has_gtids and not gtids.issubset(facts.gtid_executed):
        missing = _count_difference(gtids, facts.gtid_executed, address)
        return f"{missing} of the cursor's transactions are no longer on the server"
    return ""


def _effect_after_reset(
    before: Cursor, after: SourceOffset, facts: ServerFacts, address: SourceAddress, *, why: str
) -> Effect:
    """Return the effect on a server that was reset or restored, whose transactions cannot be compared."""
    text = (
        f"the binlog is not the one that was read ({why}): published changes stay, and changes written "
        f"after {before.offset} and before the binlog was reset are lost"
    )
    if isinstance(after.gtid_set, GtidSet) and facts.has_gtids:
        appeared = _count_difference(facts.gtid_executed, after.gtid_set, address)
        skipped = after.gtid_set.count()
        text += (
            f"; of its {appeared + skipped} transaction(s), {skipped} are never published, "
            f"{appeared} are published as new"
        )
    return Effect(text)


def _effect_between(old: SourceOffset, new: SourceOffset, address: SourceAddress) -> Effect:
    before, after = old.gtid_set, new.gtid_set
    if isinstance(before, GtidSet) and isinstance(after, GtidSet):
        skipped, repeated = (
            _count_difference(after, before, address),
            _count_difference(before, after, address),
        )
        return _counted_effect(skipped, repeated)
    if isinstance(before, MariadbGtidList) and isinstance(after, MariadbGtidList):
        if before == after:
            return _counted_effect(0, 0)
        if before.holds_all(after):
            return Effect("back: the changes in between are published again", is_back=True)
        if after.holds_all(before):
            return Effect("forward: the changes in between are never published")
        return Effect("forward in some domains, back in others: changes are lost and repeated")
    if old.server_uuid != new.server_uuid:
        return Effect("a position of another server: what is lost or repeated is unknown")
    if old.coordinates == new.coordinates:
        return _counted_effect(0, 0)
    if new.coordinates.order < old.coordinates.order:
        return Effect(
            f"back from {old.coordinates}: the changes in between are published again", is_back=True
        )
    return Effect(f"forward from {old.coordinates}: the changes in between are never published")


def _counted_effect(skipped: int, repeated: int) -> Effect:
    if not skipped and not repeated:
        return Effect("the same position as before", is_free=True, is_back=True)
    parts = [f"forward: {skipped} transaction(s) are never published"] if skipped else []
    parts += [f"back: {repeated} transaction(s) are published again"] if repeated else []
    return Effect("; ".join(parts), is_back=not skipped)


def _count_difference(first: GtidSet, second: GtidSet, address: SourceAddress) -> int:
    """Return the number of transactions that only the first has."""
    with connected(address) as cursor:
        cursor.execute("SELECT GTID_SUBTRACT(%s, %s)", (str(first), str(second)))
        return GtidSet.parse(cursor.fetchall()[0][0]).count()
