"""Whether a server's binlog contains transactions after a position.

Invariant: the answer depends only on the end that the server reports, so it is valid even if
nothing is captured or read. The head of a file does not count as a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymysql.cursors import Cursor

from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress, connected, uuid_of
from connectors.mysql.server.facts import binlog_files, whole_gtids

_VARIABLES = (
    "gtid_executed",
    "gtid_binlog_pos",
    "server_uuid",
    "server_uid",
    "server_id",
    "version",
)
_HEAD = 240
"""Usual maximum size of a file's head, in bytes; a file with a transaction is larger."""
_TAIL = 100
"""Maximum size, in bytes, of the end of a file that only names the next file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogEnd:
    """The end of a server's binlog at one moment."""

    server_uuid: str
    binlogs: tuple[tuple[str, int], ...]
    """Name and size of each file, oldest first."""
    gtids: Gtids | None
    """All transactions of the server; None without GTIDs."""

    def is_past(self, offset: SourceOffset) -> bool:
        """Whether a transaction is after an offset, according to GTIDs and coordinates alike."""
        return self._has_bytes(offset) and not self._has_gtids_of(offset)

    def may_be_past(self, offset: SourceOffset) -> bool:
        """Whether a transaction may be after an offset, even a transaction that is only written so far.

        MySQL writes a transaction under the lock that ``SHOW BINARY LOGS`` takes, and adds its GTID to
        gtid_executed only once the file is synchronised. So in the last file, bytes alone count.
        """
        if self.server_uuid != offset.server_uuid:
            return not self._has_gtids_of(offset)
        is_last = offset.coordinates.file in [name for name, _ in self.binlogs[-1:]]
        if is_last and not isinstance(self.gtids, MariadbGtidList):
            return self._has_bytes(offset)
        return self.is_past(offset)

    def is_before(self, offset: SourceOffset) -> bool:
        """Whether the binlog ends before an offset that was read from it, after a reset or a restore.

        Only coordinates are compared: a server sends a transaction to replicas before it adds its GTID
        to gtid_executed.
        """
        if self.server_uuid != offset.server_uuid or not self.binlogs:
            return False
        end, position = Coordinates(*self.binlogs[-1]), offset.coordinates
        return _base(end) == _base(position) and end.order < position.order

    def _has_bytes(self, offset: SourceOffset) -> bool:
        position, names = offset.coordinates, [name for name, _ in self.binlogs]
        if position.file not in names:
            return bool(names)
        at = names.index(position.file)
        remaining = self.binlogs[at][1] - position.pos
        is_last = at + 1 == len(names)
        return remaining > (0 if is_last else _TAIL) or any(
            size > _HEAD for _, size in self.binlogs[at + 1 :]
        )

    def _has_gtids_of(self, offset: SourceOffset) -> bool:
        read = offset.gtid_set
        if isinstance(self.gtids, GtidSet) and isinstance(read, GtidSet):
            return self.gtids.issubset(read)
        if isinstance(self.gtids, MariadbGtidList) and isinstance(read, MariadbGtidList):
            return read.holds_all(self.gtids)
        return False


def _base(position: Coordinates) -> str:
    """The name of a binlog's files, without the number."""
    return position.file.rpartition(".")[0]


def read_end(address: SourceAddress) -> BinlogEnd:
    """Query the server; raise SourceLost or SourceRefused if it does not answer."""
    with connected(address) as cursor:
        return _end(cursor)


def read_clock_and_end(address: SourceAddress) -> tuple[int, BinlogEnd]:
    """Return the server's clock, in milliseconds since 1970, and the binlog's end a moment later.

    Raise the errors of ``read_end``.
    """
    with connected(address) as cursor:
        # In another time zone, an hour may be ambiguous.
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("SELECT CAST(1000 * UNIX_TIMESTAMP(NOW(3)) AS UNSIGNED)")
        row = cursor.fetchone()
        assert row is not None
        return int(row[0]), _end(cursor)


def seconds_unread(address: SourceAddress, offset: SourceOffset) -> float:
    """Return the age of the first transaction after an offset, by the server's clock; 0 if there is none.

    Raise the errors of ``read_end``, also if the binlog that begins there is gone.
    """
    now_ms, end = read_clock_and_end(address)
    if not end.is_past(offset):
        return 0.0
    at = offset.coordinates
    first_ms = Spans(address, at.file, at.pos).first_ms()
    return 0.0 if first_ms is None else max(0.0, (now_ms - first_ms) / 1000)


def _end(cursor: Cursor) -> BinlogEnd:
    cursor.execute("SHOW GLOBAL VARIABLES WHERE variable_name IN %s", (_VARIABLES,))
    variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    variables |= whole_gtids(cursor, variables)
    binlogs = binlog_files(cursor)
    gtids: Gtids | None = None
    if "gtid_binlog_pos" in variables:
        gtids = MariadbGtidList.parse(variables["gtid_binlog_pos"])
    elif variables.get("gtid_executed"):
        gtids = GtidSet.parse(variables["gtid_executed"])
    return BinlogEnd(server_uuid=uuid_of(variables), binlogs=binlogs, gtids=gtids)
