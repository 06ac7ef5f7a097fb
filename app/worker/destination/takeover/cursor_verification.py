"""Proof of a cursor at its server, before reading resumes.

The GTIDs and offsets of a server that was reset or restored grow past the cursor again, and then
prove nothing. So the last published transaction is searched for in the binlog, by position and
bytes.

Invariant: a proven server is read by file and offset, so that nothing can be missed. It is read by
GTIDs only up to the position before which it may hold transactions that were published from another
server.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from connectors.errors import (
    AnonymousTransaction,
    SourceDiverged,
    SourceLost,
    SourceRefused,
    SourceReset,
    SourceUnproven,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.binlog_retention import created_at
from connectors.mysql.lookup.gtids_before import previous_of
from connectors.mysql.lookup.landmark_search import (
    LARGEST,
    Found,
    find_landmark,
    transactions_before,
)
from connectors.mysql.lookup.mariadb_start import position_at
from connectors.mysql.lookup.resumable import check, refuse_skipped
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts, read_facts
from tables.state.cursor import Cursor, CursorProof, FileHead

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorVerification:
    """The proof of one destination's cursor at one server. Blocks while it queries."""

    destination: str
    facts: ServerFacts
    address: SourceAddress
    accepts_unproven: bool = False

    def at_home(self, offset: SourceOffset, proof: CursorProof) -> CursorProof:
        """The proof to continue with at the server that was read before.

        Raise SourceReset or SourceDiverged if its binlog is a different one, SourceUnproven if
        that cannot be decided.
        """
        if proof.is_empty:
            return self.first(offset, proof)
        if proof.landmark is not None:
            found = find_landmark(proof.landmark, self.facts, self.address)
            if not found.is_there and not found.is_purged:
                raise self._refusal(proof.landmark, found)
            if found.is_there:
                self._refuse_other_head(offset, proof, proof.landmark)
                return self._confirmed(offset, proof)
        if self._has_head(offset, proof):
            return self._confirmed(offset, proof)
        if uninterrupted(offset, proof, self.facts, self.address):
            log.info(
                "%s: the source has purged all that was read, and nothing else", self.destination
            )
            return replace(proof, head=None, by_gtids_to=self._end())
        self._refuse_unproven(offset, proof)
        return CursorProof(recent=proof.recent, by_gtids_to=self._end())

    def first(self, offset: SourceOffset, proof: CursorProof) -> CursorProof:
        """The proof of a cursor without one: the server's present state, if GTIDs and position agree."""
        position = offset.coordinates
        if position.file not in dict(self.facts.binlogs):
            return replace(proof, by_gtids_to=self._end())
        try:
            before = transactions_before(position, self.address)
        except AnonymousTransaction:
            # Anonymous transactions before the position are not sent again; later ones are refused on arrival.
            created = int(created_at(self.address, position.file))
            return replace(proof, head=FileHead(file=position.file, created=created))
        to = None
        if isinstance(offset.gtid_set, GtidSet):
            to = self._agreed(offset, offset.gtid_set, before.gtids)
        elif isinstance(offset.gtid_set, MariadbGtidList):
            self._agreed_on_mariadb(offset, offset.gtid_set)
        head = FileHead(file=position.file, created=before.created)
        landmark = before.landmark
        return CursorProof(landmark=landmark, head=head, recent=proof.recent, by_gtids_to=to)

    def moved(self, offset: SourceOffset, proof: CursorProof) -> CursorProof:
        """The proof at another server, from which nothing was published yet."""
        file = offset.coordinates.file
        created = int(created_at(self.address, file))
        to = self._end() if isinstance(offset.gtid_set, GtidSet) else None
        head = FileHead(file=file, created=created)
        return CursorProof(head=head, recent=proof.recent, by_gtids_to=to)

    def reads_by_coordinates(self, offset: SourceOffset, proof: CursorProof) -> bool:
        """Whether the binlog is read by file and offset.

        Raise AnonymousTransaction if a reader by GTIDs would miss an anonymous transaction.
        """
        to, position = proof.by_gtids_to, offset.coordinates
        if self.facts.is_mariadb or not isinstance(offset.gtid_set, GtidSet):
            return not self.facts.is_mariadb
        is_here = position.file in dict(self.facts.binlogs) and position.pos <= LARGEST
        if is_here and (to is None or to.order <= position.order):
            return True
        refuse_skipped(offset, offset.gtid_set, self.facts, self.address)
        return False

    def _confirmed(self, offset: SourceOffset, proof: CursorProof) -> CursorProof:
        """A confirmed proof, without the limit of reading by GTIDs if the cursor has passed it."""
        to = proof.by_gtids_to
        if to is not None and to.order <= offset.coordinates.order:
            return replace(proof, by_gtids_to=None)
        return proof

    def _end(self) -> Coordinates:
        return Coordinates(*self.facts.binlogs[-1])

    def _refuse_other_head(
        self, offset: SourceOffset, proof: CursorProof, landmark: Landmark
    ) -> None:
        """Raise SourceReset if the cursor's file is later than the landmark's, and is gone or was replaced.

        Then the data between landmark and cursor was never read.
        """
        head, file = proof.head, offset.coordinates.file
        is_later = head is not None and file == head.file != landmark.end.file
        if head is not None and is_later and not self._is_read(head):
            raise SourceReset(f"it has no file {file}, which was read", source=self.address)

    def _is_read(self, head: FileHead) -> bool:
        """Whether a file that was read exists; raise SourceReset if it was replaced."""
        if head.file not in dict(self.facts.binlogs):
            return False
        created = int(created_at(self.address, head.file))
        if created == head.created:
            return True
        raise SourceReset(
            f"{head.file} was created at {created}, the one that was read at {head.created} (seconds since "
            "1970)",
            source=self.address,
        )

    def _has_head(self, offset: SourceOffset, proof: CursorProof) -> bool:
        """Whether the cursor's file is the one that was read; raise SourceReset if it was replaced."""
        head = proof.head
        return head is not None and head.file == offset.coordinates.file and self._is_read(head)

    def _refuse_unproven(self, offset: SourceOffset, proof: CursorProof) -> None:
        """Raise SourceUnproven, unless the settings accept it."""
        position = offset.coordinates
        what = proof.landmark if proof.landmark is not None else position
        error = SourceUnproven(
            f"it has purged {what}, the last position that was read, so nothing shows whether "
            f"{offset} is still the same",
            source=self.address,
        )
        if not self.accepts_unproven:
            raise error
        log.warning("%s: accepted by the settings: %s", self.destination, error)

    def _refusal(self, landmark: Landmark, found: Found) -> SourceDiverged:
        detail = (
            f"the last published transaction, {landmark} to {landmark.end}, is no longer there: "
            f"{found.detail}"
        )
        created = self._creation_time(landmark.start.file)
        written = landmark.first.timestamp if landmark.first is not None else 0
        if created is None or created > written:
            return SourceReset(detail, source=self.address)
        return SourceDiverged(detail, source=self.address)

    def _creation_time(self, file: str) -> float | None:
        if file not in dict(self.facts.binlogs):
            return None
        return created_at(self.address, file)

    def _agreed(self, offset: SourceOffset, gtids: GtidSet, before: GtidSet) -> Coordinates | None:
        """The limit of reading by GTIDs, as GTIDs of the cursor may be after its position; None if none are."""
        if before == gtids:
            return None
        if before.issubset(gtids):
            return self._end()
        raise SourceDiverged(
            f"before {offset.coordinates} it has {before}, and the cursor holds {gtids}: position and GTIDs "
            "do not agree",
            source=self.address,
        )

    def _agreed_on_mariadb(self, offset: SourceOffset, gtids: MariadbGtidList) -> None:
        before = position_at(offset.coordinates, self.address)
        if not gtids.holds_all(before):
            raise SourceDiverged(
                f"before {offset.coordinates} it is at {before}, and the cursor at {gtids}: position and GTIDs "
                "do not agree",
                source=self.address,
            )


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
    """Whether the server proves that its binlog is the one that was read; False if it cannot.

    An idle source purges files that were read to their end, and the last published transaction with them.
    Files can be restored, copied or cloned only while a server is down, and resets are counted. So a server
    that has run since that transaction was committed, and counts no reset, has the binlog that was read.

    Invariant: this holds only if the server's oldest file begins right after the cursor's GTIDs, and
    gtid_mode was not set since, so that nothing unread was purged.
    """
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
    """Whether the server was not started or reset since a commit, and later transactions all have GTIDs."""
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


@dataclass(slots=True, kw_only=True)
class CursorRecheck:
    """The second proof of one run.

    Between the first proof and the moment when the server opens its binlog for us, the server can be reset or
    restored, or another server can answer at its address. The second proof is of the opened binlog.

    Invariant: nothing of a run is published before its second proof.
    """

    cursor: Cursor
    """The run's initial cursor."""
    address: SourceAddress
    accepts_unproven: bool = False
    _is_proven: bool = False

    async def once(self) -> None:
        """Prove the cursor, once; raise SourceReset and related errors, SourceLost at another server."""
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
