"""The commands of a replica to its source: session settings, registration and the request for the binlog.

Invariant: mysql-replication is used for everything that it does correctly (registration). The request
for the binlog is built here, because the package's request cannot express a set of tagged GTIDs, and
sets a flag by which servers since 8.3 omit transactions with tagged GTIDs. Nothing here reads or
writes a socket.
Source: MySQL's sql/rpl_source.cc, com_binlog_dump and com_binlog_dump_gtid, and
sql/rpl_constants.h; MariaDB's documentation, "COM_BINLOG_DUMP".
"""

from __future__ import annotations

import struct

from pymysql.constants.COMMAND import COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID
from pymysqlreplication.binlogstream import ReportSlave

from connectors.errors import PositionGone
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import REPORTED_HOST

UNREGISTERED_ID = 0
"""The server_id of a client that is not a replica: the server sends what it has, ends the stream, and
disconnects no other client with this id. mysqlbinlog uses this id, which is never registered."""
_UP_TO_THE_END = 1
_HEARTBEAT_V2 = 2
"""Heartbeats may contain offsets beyond 4 GiB; older servers ignore this flag."""
_ANNOTATIONS = 2
"""MariaDB sends the statements of rows only on request."""
_LARGEST = 0xFFFFFFFF
_KNOWS_GTIDS = 4
"""MariaDB's @mariadb_slave_capability of a replica that understands its GTID events."""


def settings(address: SourceAddress, offset: SourceOffset, *, mariadb: bool) -> dict[str, object]:
    """Return the user variables that the session sets: the requested form of events, and its identity.

    Old servers know the names with slave and master; new servers also know the names with replica and
    source.
    """
    heartbeat = int(address.heartbeat * 1_000_000_000)
    found: dict[str, object] = {
        "master_heartbeat_period": heartbeat,
        "source_heartbeat_period": heartbeat,
    }
    if address.server_id != UNREGISTERED_ID:
        found["slave_uuid"] = found["replica_uuid"] = address.replica_uuid
    if mariadb:
        found["mariadb_slave_capability"] = _KNOWS_GTIDS
        if offset.gtid_set:
            found["slave_connect_state"] = str(offset.gtid_set)
            # The server then refuses a position it lacks, instead of starting after it.
            found["slave_gtid_strict_mode"] = 1
            found["slave_gtid_ignore_duplicates"] = 0
    return found


def registration(address: SourceAddress) -> bytes:
    """The packet that registers this client as a replica, with its header."""
    report = ReportSlave({"hostname": address.report_host[:REPORTED_HOST], "port": address.port})
    packet: bytes = report.encoded(address.server_id)
    return packet


def request(address: SourceAddress, offset: SourceOffset, *, mariadb: bool) -> tuple[int, bytes]:
    """The command that requests the binlog from an offset, and its arguments."""
    gtids = offset.gtid_set
    if mariadb:
        # With @slave_connect_state set, the server finds the position itself.
        position = Coordinates("", FIRST_EVENT) if gtids else offset.coordinates
        return _by_coordinates(address, position, flags=_ANNOTATIONS if address.statements else 0)
    if isinstance(gtids, GtidSet) and gtids:
        return _by_gtids(address, gtids)
    return _by_coordinates(address, offset.coordinates, flags=_HEARTBEAT_V2)


def _by_coordinates(
    address: SourceAddress, position: Coordinates, *, flags: int
) -> tuple[int, bytes]:
    if position.pos > _LARGEST:
        raise PositionGone(
            "without GTIDs, a server sends nothing from an offset beyond 4 GiB in a file",
            coordinates=position,
        )
    flags |= _flags(address)
    head = struct.pack("<IHI", position.pos, flags, address.server_id)
    return COM_BINLOG_DUMP, head + position.file.encode()


def _by_gtids(address: SourceAddress, gtids: GtidSet) -> tuple[int, bytes]:
    """A request for everything that is not in a set; the server finds the file itself."""
    encoded = gtids.encode()
    no_file = 0
    head = struct.pack("<HII", _HEARTBEAT_V2 | _flags(address), address.server_id, no_file)
    return COM_BINLOG_DUMP_GTID, head + struct.pack("<QI", FIRST_EVENT, len(encoded)) + encoded


def _flags(address: SourceAddress) -> int:
    return _UP_TO_THE_END if address.server_id == UNREGISTERED_ID else 0
