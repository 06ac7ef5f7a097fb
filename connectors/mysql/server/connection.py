"""Connections to a MySQL server: its address, TLS, and Aqueduct's errors for those of PyMySQL and the server.

Invariant: a connection has the session variables of ``connectors.mysql.server.session_variables`` before its
first statement, and is of the server that answered before, if one has.
"""

from __future__ import annotations

import re
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor

from connectors.errors import (
    AnonymousTransaction,
    AqueductError,
    BinlogFileMissing,
    CorruptEvent,
    PositionGone,
    ServerIdConflict,
    SourceDiverged,
    SourceLost,
    SourceRefused,
)
from connectors.mysql.server.parsec import Parsec
from connectors.mysql.server.session_variables import (
    Value,
    as_text,
    begin_session,
    session_variables,
)
from connectors.secret import text_of


def dump_error(text: str, address: object, server_id: int) -> AqueductError:
    """Return Aqueduct's error for a server's text; ``server_id``: the id with which the dump was requested."""
    lowered = text.lower()
    if "same server_uuid/server_id" in lowered or "same server_id" in lowered:
        return ServerIdConflict(text, source=address, server_id=server_id)
    if "could not open log file" in lowered:
        return BinlogFileMissing(f"{text}: it is in the index, and is gone", source=address)
    if re.search(r"purged|could not find|impossible position|> file size", lowered):
        return PositionGone(text, source=address)
    if "cannot replicate anonymous transaction" in lowered:
        return AnonymousTransaction(text, source=address)
    if "not in the master's binlog" in lowered:
        return SourceDiverged(text, source=address)
    if _UNREADABLE.search(lowered):
        return CorruptEvent(
            f"the server cannot read its binlog: {text}", source=address, remedy=AFTER_DAMAGE
        )
    return SourceRefused(text, source=address)


_UNREADABLE = re.compile(
    r"bogus|corrupt|\bcrc\b|truncated|invalid event|invalid format_description|bad magic|i/o error"
    r"|decryption|exceeded max_allowed_packet|event too big"
)
"""Texts about damage that the server itself finds; an event with a damaged length may seem too large."""
AFTER_DAMAGE = (
    "Aqueduct reads it again; if this persists, see the server's error log, and check its disk with "
    "mysqlbinlog. No transaction can be skipped there, as the file is not read past the damage: put it back "
    "from a copy; or resume from the next file, or from the end: `python -m app cursor set DEST --file FILE "
    "--pos 4 --why REASON` (or --latest). Then reload the tables concerned."
)
"""What to do if more than one transaction cannot be read."""


class Tls(Enum):
    """Encryption of the connection to a source, in MySQL's terms."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    """Encrypted if the server offers it; its certificate is not verified."""
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAddress:
    """A source's network address, and Aqueduct's identity there."""

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
    """Seconds of silence after which the server sends a heartbeat."""
    statements: bool = False
    """Whether a MariaDB server sends the statements that changed rows; MySQL always sends what it logs."""
    tls: Tls = Tls.PREFERRED
    tls_ca: str | None = None
    """A file of certificate authorities for verification; None means the system's."""
    server: str = ""
    """The server_uuid of the only accepted server, once a server has answered; empty: any server.

    A host name, or the address of a proxy, may lead to different servers from connection to connection.
    """

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def connection_settings(self) -> dict[str, object]:
        """Arguments for PyMySQL's connection; a silence of three heartbeats counts as a lost connection."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            # UTF-8, as on the server; PyMySQL would encode text as latin1.
            "password": text_of(self.password).encode(),
            "database": self.default_database,
            "charset": self.charset,
            "auth_plugin_map": {"parsec": Parsec},
            "connect_timeout": min(10.0, 3 * self.heartbeat),
            "read_timeout": 3 * self.heartbeat,
            # PyMySQL uses the last write's timeout for the TLS handshake, which has no timeout by default.
            "write_timeout": 3 * self.heartbeat,
            **self._tls_settings(),
        }

    def _tls_settings(self) -> dict[str, object]:
        if self.tls is Tls.PREFERRED:
            return {}
        if self.tls is Tls.DISABLED:
            return {"ssl_disabled": True}
        if self.tls is Tls.REQUIRED:
            # Any content of "ssl" makes PyMySQL require TLS.
            return {"ssl": {"check_hostname": False, "verify_mode": False}}
        is_identity = self.tls is Tls.VERIFY_IDENTITY
        return {"ssl": {"ca": self.tls_ca, "check_hostname": is_identity, "verify_mode": True}}


def _is_mariadb(variables: Mapping[str, str]) -> bool:
    return "mariadb" in variables.get("version", "").lower()


def uuid_of(variables: Mapping[str, str]) -> str:
    """A server's identity, from its variables.

    MariaDB has no UUID. Its ``server_uid`` is derived from its host's network address and port, and
    may change with them; nothing depends on it, because all of MariaDB's transactions have GTIDs.
    MySQL 5.5 has only server_id, which is unique within a replication topology.
    """
    found = variables.get("server_uid" if _is_mariadb(variables) else "server_uuid")
    return found or f"server-{variables.get('server_id', '')}"


class _Connection(pymysql.Connection):  # type: ignore[misc]
    """Loads the system's certificate authorities, the slowest step of connecting, only if they are used."""

    def _create_ssl_ctx(self, wanted: dict[str, Any]) -> ssl.SSLContext:
        if wanted.get("ca") or wanted.get("verify_mode"):
            context: ssl.SSLContext = super()._create_ssl_ctx(wanted)
            return context
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def connection_to(
    address: SourceAddress,
    *,
    isolation: str = "READ-COMMITTED",
    session: Mapping[str, Value] | None = None,
    **more: object,
) -> _Connection:
    """Open a connection, which the caller closes; MySQL's errors are translated to Aqueduct's.

    The session has the variables of ``connectors.mysql.server.session_variables``, except where ``session``
    overrides them. ``more``: arguments for PyMySQL's connection that override the usual arguments.
    """
    # PyMySQL compares autocommit with the greeting, whose value may differ from the session's.
    settings = {**address.connection_settings(), "autocommit": None, **more}
    try:
        connection = _Connection(**settings)
        try:
            wanted = session_variables(
                connection.get_server_info(), time_zone=address.time_zone, isolation=isolation
            )
            begin_session(connection, {**wanted, **(session or {})}, address)
            _refuse_another(connection, address)
        except BaseException:
            connection._force_close()
            raise
    except pymysql.MySQLError as error:
        raise translated(error, address) from error
    except OSError as error:
        # PyMySQL raises network errors as MySQL's errors; other errors concern the file of certificates.
        what = f"{address.tls_ca} cannot be used to check its certificate: {error}"
        raise SourceRefused(what, source=address, remedy=_AUTHORITY) from error
    except _OF_THE_LIBRARY as error:
        what = f"PyMySQL cannot log in: {type(error).__name__}: {error}"
        raise SourceRefused(what, source=address, remedy=_PLUGINS) from error
    return connection


def _refuse_another(connection: _Connection, address: SourceAddress) -> None:
    """Raise SourceLost if a server other than ``address.server`` answers."""
    if not address.server:
        return
    with connection.cursor() as cursor:
        named = {as_text(name).lower(): as_text(value) for name, value in _rows(cursor, _IDENTITY)}
    found = uuid_of(named)
    if found != address.server:
        raise SourceLost(
            f"server {found} answers there now, and {address.server} did before", source=address
        )


@contextmanager
def connected(address: SourceAddress) -> Iterator[Cursor]:
    """Open a connection for a block, and yield its cursor; MySQL's errors are translated to Aqueduct's."""
    connection = connection_to(address)
    try:
        with connection.cursor() as cursor:
            yield cursor
    except pymysql.MySQLError as error:
        raise translated(error, address) from error
    finally:
        connection.close()


def translated(error: pymysql.MySQLError, address: SourceAddress) -> AqueductError:
    """Return Aqueduct's error for an error of PyMySQL."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = f"{error.args[1] if len(error.args) > 1 else error}"
    if code == _DUMP_FAILED:
        return dump_error(text, address, address.server_id)
    if _OTHER_NAME.search(text):
        what = f"its certificate is for another name than {address.host}: {text}"
        return SourceRefused(what, source=address, remedy=_NAME)
    if _EXPIRED.search(text):
        what = f"its certificate is not valid at this time: {text}"
        return SourceRefused(what, source=address, remedy=_VALID)
    if _UNTRUSTED.search(text):
        what = f"its certificate is not trusted: {text}"
        return SourceRefused(what, source=address, remedy=_AUTHORITY)
    if "SSL is required but" in text:
        return SourceRefused(f"it offers no TLS: {text}", source=address, remedy=_OFFER)
    if _NO_COMMON_TLS.search(text):
        return SourceRefused(
            f"no TLS version or cipher is common: {text}", source=address, remedy=_VERSION
        )
    if code == 0 or code in _LOST:
        return SourceLost(text, source=address)
    return SourceRefused(f"{text} (error {code})", source=address, remedy=_REMEDIES.get(code, ""))


_IDENTITY = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid', 'server_id', 'version')"
_DUMP_FAILED = 1236
_AUTHORITY = "Set source.tls_ca to the authority that signed it (PEM), or see source.tls in docs/settings.md."
_NAME = (
    "Set source.host to a name that the certificate has, or source.tls to verify_ca, which checks only the "
    "authority."
)
_VALID = "Renew the server's certificate, and check the clocks of both machines."
_OFFER = (
    "Give the server a certificate, or set source.tls to disabled where the network is trusted."
)
_VERSION = (
    "Let the server offer TLS 1.2 or later (tls_version, and its OpenSSL), or set source.tls to disabled where "
    "the network is trusted."
)
_OTHER_NAME = re.compile(r"(Hostname|IP address) mismatch", re.IGNORECASE)
_EXPIRED = re.compile(r"certificate (has expired|is not yet valid)", re.IGNORECASE)
_NO_COMMON_TLS = re.compile(
    r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION|WRONG_VERSION_NUMBER|WRONG_SSL_VERSION|HANDSHAKE_FAILURE|NO_CIPHERS"
    r"|NO_SHARED_CIPHER|(KEY|MD)_TOO_(SMALL|WEAK)|LEGACY_RENEGOTIATION|unsupported protocol",
)
_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", re.IGNORECASE)
_LOST = {
    2002, 2003, 2006, 2013, 2014, 2055, ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR,
    # A session was killed (MySQL, MariaDB), or was idle for too long.
    3169, 1927, 4031,
}  # fmt: skip
_OF_THE_LIBRARY = (RuntimeError, ValueError, LookupError, TypeError, AttributeError, struct.error)
"""Exceptions that PyMySQL raises for unexpected packets, for example of a plugin that asks questions."""
_PLUGINS = (
    "Let the account authenticate by caching_sha2_password, sha256_password or mysql_native_password; of "
    "MariaDB's plugins also by ed25519 or parsec."
)
_FOR_MORE_CONNECTIONS = (
    "Let the account have more connections: raise max_user_connections, or ALTER USER … WITH "
    "MAX_USER_CONNECTIONS 0 MAX_CONNECTIONS_PER_HOUR 0 MAX_QUERIES_PER_HOUR 0; Aqueduct retries by itself."
)
_REMEDIES = {
    1203: _FOR_MORE_CONNECTIONS,
    1226: _FOR_MORE_CONNECTIONS,
    ER.LOCK_WAIT_TIMEOUT: (
        "End the session that holds the lock (SHOW PROCESSLIST), or wait: Aqueduct retries by itself."
    ),
    ER.NEW_ABORTING_CONNECTION: (
        "The server's init_connect fails for the account: correct it; Aqueduct retries by itself."
    ),
    ER.ACCESS_DENIED_ERROR: (
        "Check the account and its password. The server says the same where the account demands TLS (REQUIRE "
        "SSL: set source.tls to required) or a client's certificate (REQUIRE X509: remove that, as Aqueduct "
        "has none). Aqueduct retries by itself."
    ),
    CR.CR_AUTH_PLUGIN_CANNOT_LOAD: _PLUGINS,
    1290: "Name a server that may be written to; Aqueduct retries by itself.",
    3159: (
        "The server demands TLS (require_secure_transport): set source.tls to required; see docs/settings.md."
    ),
}
"""What to do after particular errors, by their numbers."""


def _rows(cursor: Cursor, sql: str) -> tuple[tuple[str, ...], ...]:
    cursor.execute(sql)
    return tuple(cursor.fetchall())
