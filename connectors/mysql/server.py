"""What a MySQL server says of itself: settings, position, grants, character sets, other replicas.

The law: facts are read once, over one short-lived connection, and then judged by pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pymysql
from pymysql.charset import charset_by_name
from pymysql.constants import ER
from pymysql.cursors import Cursor

from connectors.errors import (
    AqueductError,
    PositionGone,
    ServerIdConflict,
    SourceLost,
    SourceRefused,
)
from connectors.mysql.charsets import Charsets
from connectors.mysql.gtid import GtidSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAddress:
    """How to reach a source, and who we are there."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    server_id: int
    replica_uuid: str
    report_host: str = ""
    default_database: str | None = None
    charset: str = "utf8mb4"
    time_zone: str = "+00:00"
    heartbeat: float = 5.0
    """Seconds of silence after which the server says that it lives."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def connection_settings(self) -> dict[str, object]:
        """Arguments for ``pymysql.connect``; a silence of three heartbeats is a lost connection."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.default_database,
            "charset": self.charset,
            "connect_timeout": 10,
            "read_timeout": 3 * self.heartbeat,
            "init_command": f"SET time_zone = {pymysql.converters.escape_string(self.time_zone)!r}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Another replica that is registered at the server."""

    server_id: int
    host: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A server at one moment."""

    variables: dict[str, str]
    grants: tuple[str, ...]
    replicas: tuple[Replica, ...]
    binlogs: tuple[tuple[str, int], ...]
    """Name and size of each binlog file, oldest first; empty where the server has no binlog."""
    charsets: Charsets
    is_replica: bool

    @property
    def server_uuid(self) -> str:
        """The server's own UUID; empty before MySQL 5.6."""
        return self.variables.get("server_uuid", "")

    @property
    def has_gtids(self) -> bool:
        """Whether each transaction has a GTID."""
        return self.variables.get("gtid_mode", "OFF").upper() == "ON"

    @property
    def gtid_executed(self) -> GtidSet:
        """All transactions that the server has."""
        return GtidSet.parse(self.variables.get("gtid_executed", ""))

    @property
    def gtid_purged(self) -> GtidSet:
        """Those of them that are no longer in its binlog."""
        return GtidSet.parse(self.variables.get("gtid_purged", ""))


def is_connection_charset(name: str) -> bool:
    """Whether a connection can be made in this character set."""
    return charset_by_name(name) is not None


def read_facts(address: SourceAddress) -> ServerFacts:
    """Ask the server; raise SourceLost or SourceRefused where it does not answer."""
    with connected(address) as cursor:
        variables = {row[0]: row[1] for row in _rows(cursor, "SHOW GLOBAL VARIABLES")}
        return ServerFacts(
            variables=variables,
            grants=tuple(grant for (grant,) in _rows(cursor, "SHOW GRANTS")),
            replicas=tuple(_replicas(cursor)),
            binlogs=tuple(_binlogs(cursor, variables)),
            charsets=_charsets(cursor),
            is_replica=_is_replica(cursor),
        )


@contextmanager
def connected(address: SourceAddress) -> Iterator[Cursor]:
    """A cursor of a connection that ends with the block; MySQL's errors become ours."""
    try:
        connection = pymysql.connect(**address.connection_settings(), autocommit=True)
    except pymysql.MySQLError as error:
        raise translated(error, address) from error
    try:
        with connection.cursor() as cursor:
            yield cursor
    except pymysql.MySQLError as error:
        raise translated(error, address) from error
    finally:
        connection.close()


def translated(error: pymysql.MySQLError, address: SourceAddress) -> AqueductError:
    """What one of PyMySQL's errors means to us."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = f"{error.args[1] if len(error.args) > 1 else error}"
    if code == _DUMP_FAILED:
        return _dump_error(text, address)
    if code == 0 or code in _LOST:
        return SourceLost(text, source=address)
    return SourceRefused(f"{text} (error {code})", source=address)


_DUMP_FAILED = 1236
_LOST = {2002, 2003, 2006, 2013, 2014, 2055, ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR}


def _dump_error(text: str, address: SourceAddress) -> AqueductError:
    lowered = text.lower()
    if "same server_uuid/server_id" in lowered or "same server_id" in lowered:
        return ServerIdConflict(text, source=address, server_id=address.server_id)
    if re.search(r"purged|could not find|impossible position|> file size", lowered):
        return PositionGone(text, source=address)
    return SourceRefused(text, source=address)


def _rows(cursor: Cursor, sql: str) -> tuple[tuple[str, ...], ...]:
    cursor.execute(sql)
    return tuple(cursor.fetchall())


def _first_that_parses(cursor: Cursor, *statements: str) -> tuple[dict[str, str], ...]:
    """The rows of the first statement that this version of the server knows and permits."""
    for sql in statements:
        try:
            cursor.execute(sql)
        except pymysql.MySQLError as error:
            if error.args[0] not in (ER.PARSE_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR):
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
        yield str(row["log_name"]), int(row["file_size"])


def _is_replica(cursor: Cursor) -> bool:
    return bool(_first_that_parses(cursor, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"))


def _charsets(cursor: Cursor) -> Charsets:
    collations = _rows(
        cursor, "SELECT id, character_set_name FROM information_schema.collations WHERE id > 0"
    )
    widths = _rows(
        cursor, "SELECT character_set_name, maxlen FROM information_schema.character_sets"
    )
    return Charsets(
        {int(number): name for number, name in collations},
        {name: int(width) for name, width in widths},
    )
