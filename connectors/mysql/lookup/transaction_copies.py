"""Comparison of the last published transactions with another server's copies of them.

A listed GTID only means that the server counts the transaction as executed. After a reset, it may be
another transaction; a replica with a filter has it without its rows. So the last published
transactions are read on the server.

Invariant: a transaction that is listed but cannot be read does not count as compared; if nothing
could be compared, the server is not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from connectors.errors import PositionGone, SourceDiverged
from connectors.mysql.binlog.changes import Changes, Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.gtid import GtidSet
from connectors.mysql.landmark import Landmark, Mark
from connectors.mysql.lookup.fingerprint import Part, Recent, digest_of
from connectors.mysql.lookup.landmark_search import first_event_of, transactions_before
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.mariadb_gtid import MariadbGtidList, MariadbGtidState
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.replica import unregistered
from connectors.mysql.transaction_reader import TransactionReader

_REMEDY = (
    "Take another source, or rebuild this one and reload the tables that differ. If it writes the same rows in "
    "another form (other columns, or row images), add unproven to the destination's `accept` in the settings."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Compares published transactions with their copies on one server. Its methods block while they read."""

    facts: ServerFacts
    address: SourceAddress
    captures: Callable[[str, str], bool]

    def compared(self, landmark: Landmark | None, recent: Iterable[Recent]) -> int:
        """Return the number of transactions that are the same there; raise SourceDiverged if one differs."""
        count = self._landmark(landmark) if landmark is not None else 0
        wanted = {one.gtid: one for one in recent if not self._is_absent(one.gtid)}
        if not wanted and self.facts.is_mariadb and landmark is not None:
            wanted = {
                gtid: one
                for gtid, one in _by_its_time(landmark).items()
                if not self._is_absent(gtid)
            }
        if not wanted:
            return count
        try:
            found = self._digests(wanted)
        except PositionGone:
            return count
        for gtid, one in wanted.items():
            self._judge(one, found.get(gtid))
        return count + len(wanted)

    def refuse_unlogged(self, known: Gtids) -> None:
        """Raise SourceDiverged if the server has executed unknown transactions that its binlog lacks."""
        if isinstance(known, MariadbGtidList):
            unlogged = self._unlogged_by_mariadb(known)
        else:
            unlogged = self._unlogged(known)
        if unlogged:
            raise SourceDiverged(
                f"it has executed {unlogged} and has not written it into its binlog "
                "(log_replica_updates or log_slave_updates is OFF, or was)",
                source=self.address,
                remedy="Take another source; or rebuild this one with log_replica_updates=ON.",
            )

    def _is_purged(self, gtid: str) -> bool:
        if self.facts.is_mariadb:
            return MariadbGtidList.parse(self.facts.gtids_before_binlogs).holds(gtid)
        return gtid in self.facts.gtid_purged

    def _is_absent(self, gtid: str) -> bool:
        """Whether the binlog cannot have a transaction: it was purged, or replicated without being logged."""
        updates = self.facts.variables.get("log_slave_updates", "ON").upper()
        if self._is_purged(gtid) or not self.facts.is_mariadb or updates in ("ON", "1"):
            # With log_slave_updates, a filter may have omitted a transaction: its absence is a difference.
            return self._is_purged(gtid)
        state = MariadbGtidState.parse(self.facts.variables.get("gtid_binlog_state", ""))
        applied = MariadbGtidList.parse(self.facts.variables.get("gtid_slave_pos", ""))
        return applied.holds(gtid) and bool(MariadbGtidList.parse(gtid).unknown_to(state))

    def _landmark(self, landmark: Landmark) -> int:
        if self.facts.is_mariadb or landmark.gtid is None or landmark.first is None:
            return 0
        if self._is_purged(landmark.gtid):
            return 0
        event = first_event_of(landmark.gtid, self.address)
        if event is None:
            self._not_logged(landmark.gtid)
        elif not Mark.of(event).is_copy_of(landmark.first):
            raise SourceDiverged(
                f"{landmark.gtid} is another transaction there than the one that was published",
                source=self.address,
                remedy=_REMEDY,
            )
        return 1

    def _judge(self, one: Recent, found: str | None) -> None:
        if found is None:
            self._not_logged(one.gtid)
        if found == one.digest or not one.digest:
            return
        what = "no rows of captured tables" if found == "" else "other rows"
        raise SourceDiverged(
            f"{one.gtid}, which was published, has {what} there",
            source=self.address,
            remedy=_REMEDY,
        )

    def _not_logged(self, gtid: str) -> None:
        raise SourceDiverged(
            f"it counts {gtid} as executed, and its binlog does not have it",
            source=self.address,
            remedy=_REMEDY,
        )

    def _digests(self, wanted: dict[str, Recent]) -> dict[str, str]:
        """Return the digests of the wanted transactions that are in the server's binlog."""
        listener = _Listener(self.captures, set(wanted))
        facts = self.facts
        reader = TransactionReader(facts.server_uuid, facts.charsets, mariadb=facts.is_mariadb)
        with unregistered(self._begin(wanted), self.address) as stream:
            for chunk in stream.chunks_there_are():
                reader.read(chunk, listener)
                if len(listener.found) == len(wanted):
                    break
        return listener.found

    def _begin(self, wanted: dict[str, Recent]) -> SourceOffset:
        """Return the offset to read from; from it, MySQL sends only the requested transactions."""
        if self.facts.is_mariadb:
            first = min(one.ts_ms for one in wanted.values())
            try:
                return replace(offset_at_time(first, self.facts, self.address), gtid_set=None)
            except PositionGone:
                # The binlog begins within that second, and no requested transaction was purged.
                head = Coordinates(self.facts.binlogs[0][0], FIRST_EVENT)
                return SourceOffset(server_uuid="", coordinates=head)
        with connected(self.address) as cursor:
            cursor.execute("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (",".join(wanted),))
            known = GtidSet.parse(cursor.fetchall()[0][0])
        position = Coordinates(self.facts.binlogs[0][0], FIRST_EVENT)
        return SourceOffset(server_uuid="", coordinates=position, gtid_set=known)

    def _unlogged(self, known: GtidSet) -> str:
        variables = self.facts.variables
        updates = variables.get("log_replica_updates", variables.get("log_slave_updates", "ON"))
        if updates.upper() in ("ON", "1"):
            # After a restart with this setting, every transaction that is in no file counts as purged.
            return ""
        logged = transactions_before(Coordinates(*self.facts.binlogs[-1]), self.address).gtids
        with connected(self.address) as cursor:
            cursor.execute(
                "SELECT GTID_SUBTRACT(GTID_SUBTRACT(%s, %s), %s)",
                (str(self.facts.gtid_executed), str(logged), str(known)),
            )
            return str(cursor.fetchall()[0][0])

    def _unlogged_by_mariadb(self, known: MariadbGtidList) -> str:
        variables = self.facts.variables
        state = MariadbGtidState.parse(variables.get("gtid_binlog_state", ""))
        applied = MariadbGtidList.parse(variables.get("gtid_slave_pos", ""))
        return ", ".join(one for one in applied.unknown_to(state) if not known.holds(one))


def _by_its_time(landmark: Landmark) -> dict[str, Recent]:
    """Return the landmark as a transaction whose presence is compared, but not its rows."""
    if landmark.gtid is None or landmark.first is None:
        return {}
    return {landmark.gtid: Recent(landmark.gtid, "", landmark.first.timestamp * 1000)}


@dataclass(slots=True)
class _Listener(Changes):
    """Digests the requested transactions."""

    captures: Callable[[str, str], bool]
    wanted: set[str]
    found: dict[str, str] = field(default_factory=dict)
    _parts: list[Part] = field(default_factory=list)

    def rows(
        self,
        transaction: Transaction,
        table_map: TableMap,
        event_type: int,
        body: bytes,
        pos: int,  # noqa: ARG002
    ) -> None:
        """Include the rows in the digest."""
        if transaction.gtid in self.wanted and self.captures(table_map.database, table_map.table):
            self._parts.append((table_map, event_type, body))

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:  # noqa: ARG002
        """Include the statement's text in the digest."""
        if transaction.gtid in self.wanted:
            self._parts.append(query)

    def undone_rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes
    ) -> None:
        """Include undone rows in the digest: another reader may not know that they were undone."""
        self.rows(transaction, table_map, event_type, body, 0)

    def end(self, transaction: Transaction, pos: int) -> None:  # noqa: ARG002
        """Complete the transaction's digest."""
        parts, self._parts = self._parts, []
        if transaction.gtid in self.wanted and transaction.gtid is not None:
            self.found[transaction.gtid] = digest_of(transaction, parts) if parts else ""
