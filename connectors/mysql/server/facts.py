"""Facts about a MySQL server: settings, position, privileges, character sets, other replicas.

Invariant: facts are read once, over one short-lived connection, and then evaluated by pure
functions.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from connectors.mysql.charsets import Charsets
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Gtids
from connectors.mysql.server.connection import SourceAddress, _is_mariadb, _rows, connected, uuid_of
from connectors.mysql.server.database_filters import BinlogFilters
from connectors.mysql.server.privileges import Privileges, inactive_roles

PARTIAL_REVOKES = "partial_revokes"
"""The variable with which databases in grants have no wildcards; MySQL has it from 8.0.16 on."""
REPORTED_HOST = 60
"""Characters of a replica's own host name that a server stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Another replica registered at the server."""

    server_id: int
    host: str
    uuid: str
    """Empty for MariaDB, which does not store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts about a server at one moment."""

    variables: dict[str, str]
    grants: tuple[str, ...]
    replicas: tuple[Replica, ...]
    binlogs: tuple[tuple[str, int], ...]
    """Name and size of each binlog file, oldest first; empty if the server has no binlog."""
    charsets: Charsets
    is_replica: bool
    """Whether it is set up to replicate."""
    binlog_filters: BinlogFilters = field(default_factory=BinlogFilters)
    was_replica: bool = False
    """Whether a MariaDB has ever replicated by GTIDs: RESET SLAVE ALL keeps its position."""
    excluded: tuple[str, ...] = ()
    """Captured databases whose changes ``binlog_filters`` excludes from the binlog."""
    gtids_before_binlogs: str = ""
    """MariaDB's position before its oldest binlog file."""
    current_user: str = ""
    """The account that the server selected at the login, from ``CURRENT_USER()``."""
    inactive_roles: tuple[str, ...] = ()
    """Roles granted to the account whose privileges its sessions lack, in the form of GRANT."""

    @property
    def privileges(self) -> Privileges:
        """The tables visible to the account."""
        is_literal = self.variables.get(PARTIAL_REVOKES, "OFF").upper() == "ON"
        return Privileges(self.grants, is_literal=is_literal)

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is a MariaDB."""
        return _is_mariadb(self.variables)

    @property
    def server_uuid(self) -> str:
        """The server's identity."""
        return uuid_of(self.variables)

    @property
    def has_gtids(self) -> bool:
        """Whether each transaction has a GTID."""
        return self.is_mariadb or self.variables.get("gtid_mode", "OFF").upper() == "ON"

    @property
    def gtids_at_end(self) -> Gtids | None:
        """The position after all of the server's transactions; None if they have no GTIDs."""
        if self.is_mariadb:
            return MariadbGtidList.parse(self.variables.get("gtid_binlog_pos", ""))
        return self.gtid_executed if self.has_gtids else None

    @property
    def gtids_at_head(self) -> Gtids | None:
        """The position after all transactions that are no longer in the binlog; None without GTIDs."""
        if self.is_mariadb:
            return MariadbGtidList.parse(self.gtids_before_binlogs)
        return self.gtid_purged if self.has_gtids else None

    @property
    def gtid_executed(self) -> GtidSet:
        """All transactions of the server."""
        return GtidSet.parse(self.variables.get("gtid_executed", ""))

    @property
    def gtid_purged(self) -> GtidSet:
        """The transactions that are no longer in its binlog."""
        return GtidSet.parse(self.variables.get("gtid_purged", ""))


def read_facts(address: SourceAddress) -> ServerFacts:
    """Query the server; raise SourceLost or SourceRefused if it does not answer."""
    with connected(address) as cursor:
        return facts_of(cursor)


def facts_of(cursor: Cursor) -> ServerFacts:
    """Query the server over an open connection."""
    variables = {row[0]: row[1] for row in _rows(cursor, "SHOW GLOBAL VARIABLES")}
    variables |= whole_gtids(cursor, variables)
    binlogs = tuple(_binlogs(cursor, variables))
    is_mariadb = "mariadb" in variables.get("version", "").lower()
    grants = tuple(grant for (grant,) in _rows(cursor, "SHOW GRANTS"))
    return ServerFacts(
        variables=variables,
        grants=grants,
        replicas=tuple(_replicas(cursor)),
        binlogs=binlogs,
        charsets=_charsets(cursor),
        binlog_filters=BinlogFilters.parse(
            _first_that_parses(cursor, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
        ),
        is_replica=_is_replica(cursor),
        was_replica=bool(variables.get("gtid_slave_pos")),
        gtids_before_binlogs=_before(cursor, binlogs) if is_mariadb else "",
        current_user="".join(name for (name,) in _rows(cursor, "SELECT CURRENT_USER()")),
        inactive_roles=_inactive_roles(cursor, grants),
    )


def whole_gtids(cursor: Cursor, variables: Container[str]) -> dict[str, str]:
    """Query those of these global variables that have GTIDs; SHOW VARIABLES cuts values after 1 KiB or 2."""
    names = [name for name in _GTIDS if name in variables]
    if not names:
        return {}
    ((*values,),) = _rows(cursor, f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
    return {name: str(value or "") for name, value in zip(names, values, strict=True)}


def _inactive_roles(cursor: Cursor, grants: tuple[str, ...]) -> tuple[str, ...]:
    if not inactive_roles(grants, ""):
        # Without granted roles, nothing is queried, because an old server lacks CURRENT_ROLE().
        return ()
    active = "".join(name or "" for (name,) in _rows(cursor, "SELECT CURRENT_ROLE()"))
    return tuple(inactive_roles(grants, active))


def gtids_but(gtid: str, address: SourceAddress) -> GtidSet:
    """All transactions of the server except one."""
    with connected(address) as cursor:
        cursor.execute("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (gtid,))
        return GtidSet.parse(cursor.fetchall()[0][0])


_GTIDS = ("gtid_executed", "gtid_purged", "gtid_binlog_pos", "gtid_binlog_state", "gtid_slave_pos")
REPLICA_STATUS = ("SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
"""The statement for all channels of a replica: the first that the server knows.

MariaDB knows all of them, and shows only the connection without a name by the others.
"""
_UNKNOWN_OR_DENIED = {ER.PARSE_ERROR, ER.BAD_FIELD_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}


def _first_that_parses(cursor: Cursor, *statements: str) -> tuple[dict[str, str], ...]:
    """The rows of the first statement that this server version supports and permits."""
    for sql in statements:
        try:
            cursor.execute(sql)
        except pymysql.MySQLError as error:
            if error.args[0] not in _UNKNOWN_OR_DENIED:
                raise
            continue
        names = [column[0].lower() for column in cursor.description or ()]
        return tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return ()


def _replicas(cursor: Cursor) -> Iterator[Replica]:
    for row in _first_that_parses(cursor, "SHOW REPLICAS", "SHOW SLAVE HOSTS"):
        yield Replica(
            server_id=int(row["server_id"]),
            host=str(row.get("host", "")),
            uuid=str(row.get("replica_uuid") or row.get("slave_uuid") or ""),
        )


def _binlogs(cursor: Cursor, variables: dict[str, str]) -> Iterator[tuple[str, int]]:
    if variables.get("log_bin", "OFF").upper() != "ON":
        return
    for row in _first_that_parses(cursor, "SHOW BINARY LOGS"):
        yield str(row["log_name"]), end_of_file(int(row["file_size"]), row.get("encrypted", "No"))


_ENCRYPTION_HEADER = 512


def end_of_file(size: int, encrypted: str) -> int:
    """Return the end position of a binlog file, from its size in ``SHOW BINARY LOGS``.

    An encrypted file has a header on disk that positions do not count.
    """
    return max(size - _ENCRYPTION_HEADER, 0) if encrypted == "Yes" else size


def binlog_files(cursor: Cursor) -> tuple[tuple[str, int], ...]:
    """Name and size of each binlog file, oldest first."""
    cursor.execute("SHOW BINARY LOGS")
    return tuple(
        (str(row[0]), end_of_file(int(row[1]), "".join(map(str, row[2:3]))))
        for row in cursor.fetchall()
    )


def _before(cursor: Cursor, binlogs: tuple[tuple[str, int], ...]) -> str:
    """MariaDB's position before the first of these files."""
    if not binlogs:
        return ""
    cursor.execute("SELECT BINLOG_GTID_POS(%s, 4)", (binlogs[0][0],))
    (found,) = cursor.fetchone() or (None,)
    return found or ""


def _is_replica(cursor: Cursor) -> bool:
    return bool(_first_that_parses(cursor, *REPLICA_STATUS))


_COLLATIONS = """SELECT id, character_set_name, collation_name
    FROM information_schema.collations WHERE id > 0"""


# Since 10.10 a collation such as uca1400_ai_ci belongs to several character sets, with a number for each.
_MARIADB_COLLATIONS = """SELECT id, character_set_name, full_collation_name AS collation_name
    FROM information_schema.collation_character_set_applicability WHERE id > 0"""


def _charsets(cursor: Cursor) -> Charsets:
    collations = [
        (int(row["id"]), row["character_set_name"], row["collation_name"])
        for row in _first_that_parses(cursor, _MARIADB_COLLATIONS, _COLLATIONS)
    ]
    widths = _rows(
        cursor, "SELECT character_set_name, maxlen FROM information_schema.character_sets"
    )
    return Charsets(
        {number: charset for number, charset, _ in collations},
        {name: int(width) for name, width in widths},
        {number: name for number, _, name in collations},
    )
