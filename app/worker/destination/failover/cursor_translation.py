"""Translation of a cursor: the position at another server that corresponds to a destination's cursor.

Invariant: no published transaction is published again, and no other transaction is missed. With GTIDs,
the GTID set decides. Without GTIDs, the last published transactions are searched for by their
fingerprints, in sequence. A position without proof is refused with a named error.

Errant transactions are transactions of a standby that its source lacks. Invariant: only a replica can
have errant transactions; additional transactions of any other server are its present writes. They are
determined from the source that was read, if it answers; else from the server that wrote them, if the
standby is read-only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.worker.destination.plan import Failover
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import (
    LostInReplication,
    NoAlignment,
    PositionGone,
    PositionPurged,
    SourceDiverged,
    SourceLost,
    SourceUnproven,
    StandbyFiltered,
    StandbyLags,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import mariadb_start
from connectors.mysql.lookup.fingerprint import (
    Aligned,
    Fingerprint,
    Scan,
    align,
    count_before_start,
    scan,
)
from connectors.mysql.lookup.gtids_before import gtids_before
from connectors.mysql.lookup.landmark_search import find_landmark
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import Earliest, first_offset, position_after
from connectors.mysql.lookup.transaction_copies import Copies
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList, MariadbGtidState
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.database_filters import concerning
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.server.replication import (
    Channel,
    captured_there,
    channels,
    clock_ms,
    follows_group,
    replication_filters,
)
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints
from wire.text import utc

log = logging.getLogger(__name__)

_FEWEST = 16
"""The minimum number of transactions to align by, whatever their age, if that many are kept."""
_MOST_LISTED = 5
_SYNCS = 2.0
_SAME_CLOCK_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedCursor:
    """The position at another server that corresponds to the cursor."""

    offset: SourceOffset
    lost: tuple[Fingerprint, ...] = ()
    """Published transactions that the server lacks permanently, if the settings accept that."""
    loss: LostInReplication | None = None
    """The error that reports the lost transactions."""
    skipped: int = 0
    """The number of transactions at the server that are skipped as published, by their fingerprints."""
    clock_skew_ms: int = 0
    """The difference of the server's clock from the clock of the server that was read."""
    is_same_binlog: bool = False
    """Whether the server's binlog is the one that was read, byte for byte, under another server_uuid."""

    def log(self, destination: str, source: SourceAddress) -> None:
        """Log the findings once the destination resumes at the server; a mere check logs nothing."""
        if abs(self.clock_skew_ms) > _SAME_CLOCK_MS:
            log.warning(
                "%s: the clocks of the sources differ by %d ms",
                destination,
                self.clock_skew_ms,
            )
        if self.loss is not None:
            log.error("%s: %s", destination, self.loss)
            for one in self.lost[_MOST_LISTED:]:
                log.error("%s: lost in replication: %s", destination, one)
        if self.skipped:
            log.warning(
                "%s: %d transaction(s) of %s were published already, and it resumes after %s",
                destination, self.skipped, source, self.offset.coordinates,
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorTranslation:
    """The translation of a cursor to a server. Blocks while it queries."""

    cursor: Cursor
    facts: ServerFacts
    address: SourceAddress
    failover: Failover
    rules: PublishingRules
    other: SourceAddress | None
    """The source that was read, if at another address."""
    compares: bool = True
    """Whether the last published transactions are compared; not every check of a server needs that."""
    clocks: dict[str, int]
    """Milliseconds by which each server's clock exceeded ours when it last answered."""

    def moved(self, kept: Fingerprints) -> TranslatedCursor:
        """The position at the server.

        Raise StandbyLags, StandbyFiltered, SourceDiverged, SourceUnproven, PositionGone, NoAlignment or
        LostInReplication.
        """
        if (same := self._same_binlog()) is not None:
            return same
        self._refuse_filters()
        gtids = self.cursor.offset.gtid_set
        if gtids is None:
            return self._by_fingerprints(kept)
        if not self.facts.has_gtids:
            raise SourceDiverged(
                f"the cursor is at {gtids}, and {self.address} has gtid_mode=OFF",
                source=self.address,
                remedy=(
                    "Turn GTIDs on there; or resume from its end with `python -m app cursor set DEST --latest "
                    "--why REASON`, and reload the tables."
                ),
            )
        return self._by_gtids(gtids)

    def _by_gtids(self, gtids: Gtids) -> TranslatedCursor:
        try:
            check(self.cursor.offset, self.facts, self.address)
        except SourceDiverged as error:
            self._refuse_missing(gtids, error)
        if not self.failover.accept_errant:
            self._refuse_errant(gtids)
        self._compare(gtids)
        position = position_after(gtids, self.facts, self.address)
        return TranslatedCursor(offset=self._offset(position, gtids))

    def _same_binlog(self) -> TranslatedCursor | None:
        """The cursor's own position, if this binlog is the one that was read; else None.

        That is the case on a copy of the disk, or if the server's server_uuid was changed.
        """
        landmark, offset = self.cursor.proof.landmark, self.cursor.offset
        if landmark is None or landmark.last is None or self.cursor.prepared:
            return None
        if self.facts.has_gtids != (offset.gtid_set is not None):
            return None
        if not find_landmark(landmark, self.facts, self.address).is_there:
            return None
        check(self._offset(offset.coordinates, offset.gtid_set), self.facts, self.address)
        return TranslatedCursor(
            offset=self._offset(offset.coordinates, offset.gtid_set), is_same_binlog=True
        )

    def _refuse_filters(self) -> None:
        """Raise StandbyFiltered if the server may have filtered changes of captured tables."""
        if self.failover.accept_filters:
            return
        with connected(self.address) as cursor:
            filters = replication_filters(cursor, self.facts)
            if not filters:
                return
            captured = captured_there(cursor, self.rules.routes.include, self._captures())
        if found := concerning(filters, captured):
            raise StandbyFiltered(", ".join(map(str, found)), source=self.address)

    def _compare(self, gtids: Gtids) -> None:
        """Raise SourceDiverged if published transactions differ, SourceUnproven if none can be compared."""
        copies = Copies(facts=self.facts, address=self.address, captures=self._captures())
        copies.refuse_unlogged(gtids)
        proof = self.cursor.proof
        if self.failover.accept_unproven or proof.landmark is None or not self.compares:
            return
        if not copies.compared(proof.landmark, proof.recent):
            raise SourceUnproven(
                f"its binlog has none of the last published transactions, up to {proof.landmark}",
                source=self.address,
            )

    def _offset(self, position: Coordinates, gtids: Gtids | None) -> SourceOffset:
        return SourceOffset(
            server_uuid=self.facts.server_uuid, coordinates=position, gtid_set=gtids
        )

    def _refuse_missing(self, gtids: Gtids, error: SourceDiverged) -> None:
        """Raise StandbyLags if the missing transactions may still arrive, SourceDiverged if not."""
        if isinstance(gtids, GtidSet) != (not self.facts.is_mariadb):
            raise error
        if isinstance(gtids, GtidSet):
            missing = str(subtracted(str(gtids), str(self.facts.gtid_executed), self.address))
        else:
            # Only sequence numbers of the same server are comparable.
            missing = ", ".join(mariadb_start.missing(gtids, self.facts))
        channel = self._followed()
        group = follows_group(self.address) if isinstance(gtids, GtidSet) else ""
        if group or channel is not None:
            raise StandbyLags(
                f"it lacks {missing}, and {group or channel}",
                source=self.address,
            ) from error
        raise SourceDiverged(
            f"it lacks {missing} for good, which were published: it is not a replica of any server",
            source=self.address,
            remedy=(
                "Take another source; or resume from its end with `python -m app cursor set DEST --latest "
                "--why REASON`, and reload the tables that differ."
            ),
        ) from error

    def _refuse_errant(self, gtids: Gtids) -> None:
        """Raise SourceDiverged if a replica has errant transactions."""
        found = errant(gtids, self.facts, self.address, self.other) if self._followed() else ""
        if found:
            raise SourceDiverged(
                f"it has transactions of its own that its source lacks: {found}",
                source=self.address,
                remedy="Reload what they changed and make them on the source too (as empty transactions), "
                "or set failover.errant to accept, and they are published.",
            )

    def _by_fingerprints(self, ring: Fingerprints) -> TranslatedCursor:
        cursor = self.cursor
        if cursor.resume is not None or cursor.prepared:
            raise NoAlignment(
                "the cursor is within a transaction that is published in parts, or has prepared XA "
                "transactions, which only GTIDs identify on another server",
                source=self.address,
            )
        kept = ring.last(cursor.offset)
        if not kept:
            raise NoAlignment(
                f"the cursor is of server {cursor.offset.server_uuid}, this one is {self.facts.server_uuid}, "
                "and no fingerprints of published transactions were kept",
                source=self.address,
            )
        clock_skew = self._clock_skew()
        fallback = self.failover.fallback_ms + abs(clock_skew)
        since = kept[-1].ts_ms - fallback
        recent = [
            one for at, one in enumerate(kept) if one.ts_ms >= since or len(kept) - at <= _FEWEST
        ]
        scanned, found = self._searched(recent, fallback)
        if found.lacking and self._followed() is None:
            # The server does not send transactions that are written but not yet synced.
            time.sleep(_SYNCS)
            # A server that lags by more than the window has only earlier transactions of those kept.
            recent = kept if found.last_match is None else recent
            scanned, found = self._searched(recent, fallback)
        if found.last_match is None or found.lost:
            remaining = recent[self._purged(recent, scanned, clock_skew) :]
            if len(remaining) < len(recent):
                recent, found = remaining, align(remaining, scanned.found)
        return self._judged(recent, scanned, found, clock_skew)

    def _searched(self, prints: list[Fingerprint], fallback: int) -> tuple[Scan, Aligned]:
        """The server's transactions since ``fallback`` ms before the first fingerprint, and their alignment."""
        begin = min(one.ts_ms for one in prints) - fallback
        try:
            position = offset_at_time(begin, self.facts, self.address)
        except PositionGone:
            # The remaining binlog may hold the sequence; if not, that is reported.
            position = first_offset(Earliest(), self.facts, self.address)
        scanned = scan(position, self.facts, self.address, self._captures())
        return scanned, align(prints, scanned.found)

    def _purged(self, prints: list[Fingerprint], scanned: Scan, clock_skew: int) -> int:
        """The number of fingerprints from before the server's binlog, if that continues with the next one.

        Raise PositionPurged if the binlog begins after all of them.
        """
        oldest = self.facts.binlogs[0][0]
        spans = Spans(self.address, oldest)
        first = next(iter(spans), None)
        if first is not None and scanned.begin.order > first.start.order:
            return 0
        # Transactions of that second may have been written before the file began.
        begins = (spans.created + 1) * 1000
        before = sum(one.ts_ms + clock_skew < begins for one in prints)
        purged = count_before_start(prints, scanned.found)
        if purged is not None and purged <= before:
            rest = prints[purged:]
            if len(rest) >= _FEWEST or all(one.original_us for one in rest):
                return purged
        channel = self._followed()
        if channel is not None and channel.lag_seconds != 0:
            # The missing transactions may still arrive.
            return 0
        if before == len(prints) or (purged is not None and purged <= before):
            raise PositionPurged(
                f"its oldest binlog file, {oldest}, begins at {utc(spans.created * 1000)}, and the last "
                f"published transaction is of {utc(prints[-1].ts_ms)}",
                source=self.address,
            )
        return 0

    def _captures(self) -> Callable[[str, str], bool]:
        return self.rules.routes.captures

    def _judged(
        self, recent: list[Fingerprint], scanned: Scan, found: Aligned, clock_skew: int
    ) -> TranslatedCursor:
        if found.matches > 1:
            raise NoAlignment(
                f"the last {len(recent)} are there at {found.matches} positions, so the right one is not known",
                source=self.address,
            )
        if found.own:
            raise NoAlignment(
                f"between published transactions it has {len(found.own)} that were not: {_listed(found.own)}",
                source=self.address,
            )
        lost = found.lost
        if found.lacking:
            if (channel := self._followed()) is not None:
                raise StandbyLags(
                    f"it lacks the last {len(found.lacking)} of {len(recent)} transactions, and {channel}",
                    source=self.address,
                )
            lost += found.lacking
        if found.last_match is None:
            raise NoAlignment(
                f"none of the last {len(recent)} published transactions is among the {len(scanned.found)} "
                f"that it has since then; the first is {recent[0]}, the last {recent[-1]}{_apart(clock_skew)}",
                source=self.address,
            )
        loss = self._loss(lost) if lost else None
        position = found.last_match.end
        gtids = gtids_before(position, self.facts, self.address) if self.facts.has_gtids else None
        return TranslatedCursor(
            offset=self._offset(position, gtids),
            lost=lost,
            loss=loss,
            skipped=found.skipped,
            clock_skew_ms=clock_skew,
        )

    def _loss(self, lost: tuple[Fingerprint, ...]) -> LostInReplication:
        """The error that reports lost transactions; it is raised unless the settings accept the loss."""
        error = LostInReplication(
            f"{len(lost)} transaction(s) of server {self.cursor.offset.server_uuid}: {_listed(lost)}",
            source=self.address,
        )
        if not self.failover.report_lost:
            raise error
        return error

    def _followed(self) -> Channel | None:
        """The channel that the server replicates from, if any; then missing transactions may still arrive."""
        return next(iter(channels(self.address)), None)

    def _clock_skew(self) -> int:
        """Milliseconds by which this server's clock exceeds the clock of the server read, as last seen."""
        mine = self.clocks[self.facts.server_uuid] = clock_ms(self.address)
        if self.other is not None:
            try:
                self.clocks[self.cursor.offset.server_uuid] = clock_ms(self.other)
            except SourceLost:
                log.debug("its clock is no longer known")
        return mine - self.clocks.get(self.cursor.offset.server_uuid, 0)


def _apart(clock_skew_ms: int) -> str:
    """The part of an error that reports differing clocks."""
    return (
        f", and its clock is {clock_skew_ms} ms ahead"
        if abs(clock_skew_ms) > _SAME_CLOCK_MS
        else ""
    )


def _listed(prints: tuple[Fingerprint, ...]) -> str:
    text = ", ".join(map(str, prints[:_MOST_LISTED]))
    return text + (f" and {len(prints) - _MOST_LISTED} more" if len(prints) > _MOST_LISTED else "")


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
    """The same on MariaDB: it reports one GTID per domain and server, so only the standby's own are checked."""
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
