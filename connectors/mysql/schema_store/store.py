"""A schema store in a MySQL server shared by many workers: created if missing, checked, and connected to.

Invariant: existing objects are never altered. MySQL's errors become named errors, and the caller
reconnects after an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from connectors.errors import (
    AqueductError,
    SourceLost,
    SourceRefused,
    StoreLost,
    StoreRefused,
    StoreUnfit,
)
from connectors.mysql.schema_store.rows import Stored
from connectors.mysql.schema_store.session import MetaSession
from connectors.mysql.schema_store.tables import HISTORY, SNAPSHOT, creation, exists, faults
from connectors.mysql.server.facts import SourceAddress, connection_to, translated

_WRITE_SECONDS = 30.0


class MetaStore:
    """The store in one database of one server."""

    def __init__(
        self,
        address: SourceAddress,
        database: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.address = address
        self.database = database
        self._now = now
        self._is_prepared = False

    @contextmanager
    def session(self, *, makes: bool = True) -> Iterator[MetaSession]:
        """Connect for a block; this and the session's calls raise StoreLost, StoreRefused or StoreUnfit.

        The first session, and the first session after an error, checks the database and the tables. With
        ``makes``, it creates what is missing.
        """
        try:
            connection = self._connection()
            try:
                with connection.cursor() as cursor:
                    if not self._is_prepared:
                        self._prepare(cursor, makes=makes)
                    cursor.execute(f"USE {_quoted(self.database)}")
                    cursor.execute("SELECT @@max_allowed_packet")
                    ((limit,),) = cursor.fetchall()
                self._is_prepared = True
                yield MetaSession(connection, limit=int(limit), now=self._now)
            finally:
                connection.close()
        except pymysql.MySQLError as error:
            self._is_prepared = False
            raise self._named(error) from error
        except AqueductError:
            self._is_prepared = False
            raise

    def _connection(self) -> pymysql.Connection[Any]:
        """Connect, in strict mode and without autocommit."""
        try:
            return connection_to(
                self.address,
                write_timeout=_WRITE_SECONDS,
                # With a statement-based binlog, InnoDB refuses writes at a lower isolation level.
                isolation="REPEATABLE-READ",
                session={"autocommit": 0, "sql_mode": _STRICT},
            )
        except SourceLost as error:
            raise StoreLost(error.detail, store=self.address, database=self.database) from error
        except SourceRefused as error:
            raise StoreRefused(
                error.detail,
                store=self.address,
                database=self.database,
                remedy=_remedy(error, StoreRefused),
            ) from error

    def read(self, destination: str) -> Stored:
        """Return all rows that Aqueduct stored for a destination; create nothing."""
        with self.session(makes=False) as session:
            return session.read(destination)

    def _prepare(self, cursor: Cursor, *, makes: bool) -> None:
        name = self.database
        cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (name,))
        if not cursor.fetchall():
            if not makes:
                raise StoreUnfit("there is no such database", store=self.address, database=name)
            cursor.execute(
                f"CREATE DATABASE IF NOT EXISTS {_quoted(name)} DEFAULT CHARACTER SET utf8mb4"
            )
        cursor.execute(f"USE {_quoted(name)}")
        for table in (SNAPSHOT, HISTORY):
            if makes and not exists(cursor, name, table):
                cursor.execute(creation(table))
            found = list(faults(cursor, name, table))
            if found:
                raise StoreUnfit("; ".join(found), store=self.address, database=name)

    def _named(self, error: pymysql.MySQLError) -> AqueductError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        found = translated(error, self.address)
        named: type[AqueductError] = StoreRefused
        if isinstance(found, SourceLost) or code in _PASSING:
            named = StoreLost
        elif code in _UNFIT:
            named = StoreUnfit
        return named(
            found.detail, store=self.address, database=self.database, remedy=_remedy(found, named)
        )


def _remedy(error: AqueductError, named: type[AqueductError]) -> str:
    """Return an error's advice, if it differs from the usual advice of its class; else empty text."""
    if named is StoreUnfit or error.advice == type(error).remedy:
        return ""
    # The advice names settings of a source; the store has settings of the same names.
    advice = re.sub(r"\bsource\.(?=(?:host|tls|tls_ca)\b)", "schema_history.mysql.", error.advice)
    return f"Capture continues. {advice}"


_STRICT = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""Text that does not fit is an error, and a table cannot get another engine than InnoDB."""
_PASSING = {1205, 1213, 1317, 3024, 4031}
"""A lock wait timeout, a deadlock, a killed or timed-out statement, a connection closed for idleness."""
_UNFIT = {1054, 1118, 1153, 1364, 1366, 1406}
"""An unknown column, rows or packets that are too large, a column without a value, text that does not fit."""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
