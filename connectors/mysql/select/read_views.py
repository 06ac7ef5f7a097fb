"""Views of the data that certainly hold all that the stream has sent, on each kind of server.

A transaction is in the binlog, and sent to replicas, before it is visible: for as long as a commit takes.

Invariant: a SELECT begins only once the server has shown that it sees them all; that time has passed proves
nothing. Nothing is written, and SELECT is enough.

* MySQL with GTIDs adds a GTID to gtid_executed once the transaction is visible.
* MySQL without GTIDs counts the transactions from before they are in the binlog until they are visible. At a
  moment without any, all that is in the binlog is visible; it need not be the moment of the SELECT.
* MariaDB has at most three groups of transactions between the binlog and what is visible, in the order of the
  binlog, and counts those that are visible. Once four more are, so is all that was in the binlog before. An XA
  transaction is in no such group when it is committed.
* From a server that shows neither, rows are read with shared locks. On rows that a transaction has changed
  they are granted only once it is visible. A lock is never waited for, so no transaction becomes the victim of
  a deadlock because of it, and it ends with the SELECT.

The position that MariaDB states of a consistent snapshot is no proof: a new file of the binlog, and a binlog
checkpoint, move it past transactions that are not visible yet.

Source: MySQL's sql/binlog.cc, process_flush_stage_queue, process_commit_stage_queue and finish_commit, and
sql/rpl_gtid_state.cc, generate_automatic_gtid and update_commit_group; MariaDB's sql/log.cc,
trx_group_commit_leader and open, and sql/handler.cc, ha_commit_or_rollback_by_xid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from connectors.errors import SnapshotUnsupported, SourceLost, TableUnreadable
from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.server_version import since

Seen = GtidSet | Coordinates
"""What a SELECT is to see: all of these transactions, or all before a position of the server's binlog."""

VISIBLE_SECONDS = 60.0
"""How long a proof is waited for, before its lack is reported."""
_GLANCE_SECONDS = 0.005
_QUIET_SECONDS, _GROUPS_SECONDS, _MOST_SECONDS = 1.0, 0.1, 5.0
"""How long a proof without locks is waited for, where there is one with locks: at first, of MySQL and of
MariaDB; and at most, once rows were locked by others."""

FIRST_COUNTED = (5, 7, 6)
"""The first MySQL that counts transactions without GTIDs."""
_FOR_SHARE = (8, 0, 22)
"""The first MySQL whose ``FOR SHARE`` needs no privilege but SELECT."""
ROW_LOCKED = {1205, 3572}
"""Errors of a SELECT whose rows are locked by others: of MariaDB, and of a locked table; of MySQL."""

_COMMITS = (
    "SHOW GLOBAL STATUS LIKE 'Ongoing_anonymous_transaction_count'",
    # Transactions with GTIDs, such as replicated ones, if gtid_mode is between ON and OFF.
    "SELECT @@GLOBAL.gtid_owned",
)
"""Each is 0 or empty, in its last column, at a moment without a transaction of its kind between the binlog and
what is visible."""
_GROUPS = "SHOW GLOBAL STATUS LIKE 'Binlog_group_commits'"
_MOST_GROUPS = 3
_GROUPS_IN_ORDER = {b"binlog_optimize_thread_scheduling": b"ON", b"wsrep_on": b"OFF"}
"""The settings with which a group is visible before the next one is counted."""
_AT_ONCE = {"aria", "myisam", "memory", "csv", "archive"}
"""Engines whose rows are visible before they are in the binlog."""


def seen_at(offset: SourceOffset) -> Seen:
    """All transactions up to an offset, as views take it."""
    gtids = offset.gtid_set
    return gtids if isinstance(gtids, GtidSet) else offset.coordinates


def shows_what_is_visible(server: Server, *, has_gtids: bool) -> bool:
    """Whether a server shows that a SELECT sees what it has sent."""
    return has_gtids or server.version >= FIRST_COUNTED


class ReadViews:
    """The proofs of one connection, for a table; used by one thread at a time."""

    def __init__(
        self, connection: Any, address: SourceAddress, server: Server, name: TableName
    ) -> None:
        self._connection, self._address = connection, address
        self._server, self._name = server, name
        self._patience = _GROUPS_SECONDS if server.mariadb else _QUIET_SECONDS
        self._known_engine: str | None = None

    def was_locked(self) -> None:
        """Take note that others had locked rows of a SELECT."""
        self._patience = min(2 * self._patience, _MOST_SECONDS)

    def prove(self, sees: Seen, *, has_key: bool, may_lock: bool = True) -> str:
        """Wait until a SELECT sees all that was sent before, up to ``sees``; return the clause that ends it.

        With a clause it fails with one of ROW_LOCKED while others change its rows. Where the table has no key,
        and all rows would be locked, that is the last resort; there is none unless it ``may_lock`` them. Raise
        SourceLost without a proof in time; TableUnreadable if only tables like this one have none.
        """
        with self._connection.cursor() as cursor:
            if self._server.mariadb:
                return self._at_mariadb(cursor, may_lock=may_lock)
            return self._at_mysql(cursor, sees, has_key=has_key)

    def _at_mysql(self, cursor: Any, sees: Seen, *, has_key: bool) -> str:
        if isinstance(sees, GtidSet):
            self._await(lambda: _is_executed(cursor, sees), f"transactions that it sent: {sees}")
            if _value(cursor, "SELECT @@GLOBAL.gtid_mode") == b"ON":
                return ""
        left = list(_COMMITS)

        def is_quiet() -> bool:
            left[:] = [one for one in left if self._count(cursor, one) not in (b"", b"0")]
            return not left

        if has_key and self._can_share(cursor):
            is_proven = _until(is_quiet, self._patience)
            return "" if is_proven else self._sharing(cursor, "FOR SHARE NOWAIT")
        try:
            self._await(is_quiet, "what is in its binlog, as there is no moment without a commit")
        except SourceLost as error:
            if self._has_clause():
                raise self._of_table(error) from error
            raise
        return ""

    def _of_table(self, error: SourceLost) -> TableUnreadable:
        """The error of a table whose rows cannot be locked, where those of others can."""
        return TableUnreadable(
            f"{error.detail}, and its rows cannot be locked",
            table=".".join(self._name),
            source=self._address,
            remedy="Read it while less is written, or set gtid_mode to ON.",
        )

    def _at_mariadb(self, cursor: Any, *, may_lock: bool) -> str:
        if self._engine(cursor) in _AT_ONCE or self._have_groups_passed(cursor):
            return ""
        if self._can_share(cursor) and not may_lock:
            what = "what is in its binlog, as it commits too seldom, and the table is too large to be locked"
            self._await(lambda: self._have_groups_passed(cursor, VISIBLE_SECONDS), what)
            return ""
        if self._can_share(cursor):
            return self._sharing(cursor, "LOCK IN SHARE MODE NOWAIT")
        raise SnapshotUnsupported(
            f"its engine, {self._engine(cursor)}, shows no transactions that are not visible yet",
            table=".".join(self._name),
            remedy="Load its rows by another way.",
        )

    def _have_groups_passed(self, cursor: Any, patience: float | None = None) -> bool:
        """Whether more groups have become visible than there were on their way; waits for so many seconds."""
        if cursor.execute("XA RECOVER"):
            return False
        names = ", ".join(f"'{name.decode()}'" for name in _GROUPS_IN_ORDER)
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        if any(_GROUPS_IN_ORDER[name.lower()] != value for name, value in cursor.fetchall()):
            return False
        first = int(self._count(cursor, _GROUPS))
        return _until(
            lambda: int(self._count(cursor, _GROUPS)) > first + _MOST_GROUPS,
            self._patience if patience is None else patience,
        )

    def _await(self, is_reached: Callable[[], bool], what: str) -> None:
        """Wait until something is visible."""
        if not _until(is_reached, VISIBLE_SECONDS):
            raise SourceLost(
                f"it has not shown within {VISIBLE_SECONDS:.0f} s that a SELECT sees {what}",
                source=self._address,
            )

    def _count(self, cursor: Any, query: str) -> bytes:
        found = _value(cursor, query)
        if found is None:
            raise SnapshotUnsupported(
                f"nothing shows what a SELECT sees, as the server has no answer to {query}",
                source=self._address,
                remedy="Set gtid_mode to ON, or load the rows by another way.",
            )
        return found

    def _can_share(self, cursor: Any) -> bool:
        """Whether shared locks are a proof, and may be taken by an account that may only read."""
        return self._has_clause() and self._engine(cursor) == "innodb"

    def _has_clause(self) -> bool:
        return since(self._server, mysql=_FOR_SHARE, mariadb=(0, 0, 0))

    def _engine(self, cursor: Any) -> str:
        if self._known_engine is None:
            cursor.execute(
                "SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                self._name,
            )
            row = cursor.fetchone()
            self._known_engine = "innodb" if row is None else (row[0] or b"").decode().lower()
        return self._known_engine

    def _sharing(self, cursor: Any, clause: str) -> str:
        # Of other isolation levels the gaps between the rows would be locked too.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return clause


def _until(is_reached: Callable[[], bool], seconds: float) -> bool:
    """Wait for something, for at most so many seconds; return whether it was reached."""
    deadline = time.monotonic() + seconds
    while not is_reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(_GLANCE_SECONDS)
    return True


def _is_executed(cursor: Any, gtids: GtidSet) -> bool:
    return _value(cursor, f"SELECT GTID_SUBSET('{gtids}', @@GLOBAL.gtid_executed)") == b"1"


def _value(cursor: Any, query: str) -> bytes | None:
    """The last column of a query's only row; None without one."""
    cursor.execute(query)
    row = cursor.fetchone()
    return None if row is None else row[-1]
