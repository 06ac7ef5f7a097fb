"""Views of the data that certainly contain everything that the stream has sent, on each kind of server.

While a transaction commits, it is in the binlog, and sent to replicas, before it is visible.

Invariant: a SELECT begins only once the server has proven that the SELECT sees all these transactions;
elapsed time is no proof. Nothing is written, and the SELECT privilege suffices. By the clock that gives the
time of a SELECT, the time is not after its view of the data. A SELECT never waits for a row's lock, and
waits some seconds for a table's lock; then it fails and is repeated with fewer rows.

* MySQL with GTIDs adds a GTID to gtid_executed once the transaction is visible.
* MySQL without GTIDs counts transactions from before they are in the binlog until they are visible. At a moment
  when the count is 0, everything in the binlog is visible; this need not be the moment of the SELECT.
* MariaDB has at most three groups of transactions that are in the binlog and not visible yet. It counts the
  visible groups, in binlog order. Once four more groups are visible, everything that was in the binlog before
  is visible. The commit of an XA transaction is in no such group.
* If a server proves neither, rows are read with shared locks. The server grants these locks on rows that a
  transaction has changed only once the transaction is visible. A SELECT does not wait for a lock, so it makes
  no transaction the victim of a deadlock. The locks end with the SELECT.

MariaDB's binlog position of a consistent snapshot is no proof: a new binlog file, or a binlog checkpoint,
moves it past transactions that are not visible yet.

Source: MySQL's sql/binlog.cc, process_flush_stage_queue, process_commit_stage_queue and finish_commit, and
sql/rpl_gtid_state.cc, generate_automatic_gtid and update_commit_group; MariaDB's sql/log.cc,
trx_group_commit_leader and open, and sql/handler.cc, ha_commit_or_rollback_by_xid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pymysql

from connectors.errors import SnapshotUnsupported, SourceLost, TableUnreadable
from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server_version import since


class ReadClock(Protocol):
    """Gives the time at which a SELECT begins; called in the reader's thread."""

    def asked(self, cursor: Any, /) -> int:
        """Return the time, in milliseconds since 1970; called right before the SELECT, in its session."""

    def drop(self) -> None:
        """Discard the last time: its SELECT failed because of locks, and will be repeated."""


class WorkerClock:
    """This machine's clock."""

    def asked(self, _cursor: Any, /) -> int:
        return time.time_ns() // 1_000_000

    def drop(self) -> None:
        """See ReadClock."""


Seen = GtidSet | Coordinates
"""What a SELECT must see: all of these transactions, or all transactions before a position in the binlog."""

VISIBLE_SECONDS = 60.0
"""Seconds to wait for a proof, before its absence is an error."""
_GLANCE_SECONDS = 0.005
_QUIET_SECONDS, _GROUPS_SECONDS, _MOST_SECONDS = 1.0, 0.1, 5.0
"""Seconds to wait for a proof without locks if locks can be a proof too: initially on MySQL, initially on
MariaDB, and at most, after other sessions had locked rows."""

FIRST_COUNTED = (5, 7, 6)
"""The first version of MySQL that counts transactions without GTIDs."""
_FOR_SHARE = (8, 0, 22)
"""The first version of MySQL whose ``FOR SHARE`` requires only the SELECT privilege."""
ROW_LOCKED = {1205, 3572}
"""Errors of a SELECT whose rows other sessions lock: 1205 on MariaDB and for a locked table, 3572 on MySQL."""

_COMMITS = (
    "SHOW GLOBAL STATUS LIKE 'Ongoing_anonymous_transaction_count'",
    # Transactions with GTIDs, for example replicated transactions, if gtid_mode is between ON and OFF.
    "SELECT @@GLOBAL.gtid_owned",
)
"""Queries whose last column is 0 or empty at a moment when every transaction of their kind that is in the
binlog is visible."""
_GROUPS = "SHOW GLOBAL STATUS LIKE 'Binlog_group_commits'"
_MOST_GROUPS = 3
_GROUPS_IN_ORDER = {b"binlog_optimize_thread_scheduling": b"ON", b"wsrep_on": b"OFF"}
"""The settings with which a group is visible before the next group is counted."""
_AT_ONCE = {"aria", "myisam", "memory", "csv", "archive"}
"""Engines whose rows are visible before they are in the binlog."""


def seen_at(offset: SourceOffset) -> Seen:
    """Return what a SELECT must see to see all transactions up to an offset."""
    gtids = offset.gtid_set
    return gtids if isinstance(gtids, GtidSet) else offset.coordinates


def shows_what_is_visible(server: Server, *, has_gtids: bool) -> bool:
    """Whether a server proves without locks that a SELECT sees everything that the server has sent."""
    return has_gtids or server.version >= FIRST_COUNTED


class ReadViews:
    """The proofs for SELECTs of one table over one connection; used by one thread at a time."""

    def __init__(
        self, connection: Any, address: SourceAddress, server: Server, name: TableName
    ) -> None:
        self._connection, self._address = connection, address
        self._server, self._name = server, name
        self._patience = _GROUPS_SECONDS if server.mariadb else _QUIET_SECONDS
        self._known_engine: str | None = None

    def was_locked(self) -> None:
        """Record that other sessions had locked rows of a SELECT; later proofs may take longer."""
        self._patience = min(2 * self._patience, _MOST_SECONDS)

    def prove(self, sees: Seen, *, has_key: bool, may_lock: bool = True) -> str:
        """Wait until a SELECT sees everything up to ``sees``; return the clause to append to the SELECT.

        With a clause, the SELECT fails with an error of ROW_LOCKED while other sessions change its rows. On
        MySQL, a table without a key gets no clause, because the clause would lock all rows; on MariaDB, a table
        gets a clause only with ``may_lock``. Raise SourceLost without a proof in time, TableUnreadable if only
        tables like this one lack a proof, SnapshotUnsupported if the server never proves it.
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
        """Return the error for a table whose rows cannot be locked, unlike those of other tables."""
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
        """Whether, within the given seconds, more groups become visible than could be on their way."""
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
        """Wait for a proof; raise SourceLost if it does not come in time."""
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
        """Whether shared locks are a proof, and an account that may only read is permitted to take them."""
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
        # At higher isolation levels, the gaps between the rows would be locked too.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return clause


def _until(is_reached: Callable[[], bool], seconds: float) -> bool:
    """Wait until ``is_reached``, for at most ``seconds``; return whether it was reached."""
    deadline = time.monotonic() + seconds
    while not is_reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(_GLANCE_SECONDS)
    return True


def _is_executed(cursor: Any, gtids: GtidSet) -> bool:
    return _value(cursor, f"SELECT GTID_SUBSET('{gtids}', @@GLOBAL.gtid_executed)") == b"1"


def _value(cursor: Any, query: str) -> bytes | None:
    """Return the last column of a query's only row; None without a row."""
    cursor.execute(query)
    row = cursor.fetchone()
    return None if row is None else row[-1]


class RowLocked(Exception):
    """Another session locks the table, or changes a row of a SELECT that has to lock its rows."""


class TooManyLocked(RowLocked):
    """A SELECT has locked more rows than it may; the server is still sending them."""


@contextmanager
def locked_rows(views: ReadViews, clock: ReadClock) -> Iterator[None]:
    """Raise RowLocked for the server's errors of ROW_LOCKED."""
    try:
        yield
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in ROW_LOCKED:
            views.was_locked()
            clock.drop()
            code, *text = error.args
            raise RowLocked(f"{''.join(map(str, text))} (error {code})") from None
        raise
