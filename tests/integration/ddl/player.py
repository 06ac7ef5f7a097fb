"""Statements run on a real server one by one, with each one's session, binlog events and resulting tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import pymysql
from pymysql.constants import ER

from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.position import Coordinates
from devstack.mysql import Mysql
from tests.golden.load import steps_of
from tests.harness.sql import connected
from tests.integration.ddl.truth import Seen, truth
from tests.integration.old_mysql.source import charsets_of
from tests.steps import Statement

_UNKNOWN_VARIABLE = 1193
_VARIABLES = {
    "database": "DATABASE()",
    "sql_mode": "@@sql_mode",
    "server_collation": "@@collation_server",
    "utf8mb4_collation": "@@default_collation_for_utf8mb4",
    "charset_collations": "@@character_set_collations",
    "explicit_timestamps": "@@explicit_defaults_for_timestamp",
    "thread": "CONNECTION_ID()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A statement as the binlog has it."""

    sql: str
    session: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The outcome of one statement."""

    session: Session
    """The session that it ran in."""
    error: str | None
    """The server's error, if it refused it."""
    written: tuple[Written, ...]
    after: Seen


class Player:
    """One server with any number of connections; its databases are dropped at the beginning."""

    def __init__(self, mysql: Mysql) -> None:
        self._mysql = mysql
        self._open = contextlib.ExitStack()
        self._cursors: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._looking = self._cursor("looks")
        self._variables = dict(self._known_variables())
        for name in truth(self._looking).databases:
            self._looking.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
        self._end = self._end_of_binlog()
        # MySQL 5.6 has it for the whole server, and no word of it in the binlog.
        self._tells_timestamps = self.server().mariadb or self.server().version >= (5, 7, 0)
        self._explicit = self._session(self._looking).explicit_timestamps
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def server(self) -> Server:
        """The server's settings that the model needs."""
        self._looking.execute("SELECT @@version, @@lower_case_table_names")
        version, lower = self._looking.fetchone()
        first, second, third = version.split("-")[0].split(".")
        return Server(
            version=(int(first), int(second), int(third)),
            mariadb="mariadb" in version.lower(),
            lower_case_table_names=int(lower),
        )

    def databases(self) -> dict[str, str]:
        """The databases that are there, with their collations."""
        return truth(self._looking).databases

    def play(self, sql: str, session: str = "a") -> Played:
        """Run one statement through a connection of that name."""
        cursor = self._cursor(session)
        under = self._session(cursor)
        error = self._error(cursor, sql)
        tries = 50 if "NOWAIT" in sql else 0
        # InnoDB's purge locks a table for a moment, which a statement with NOWAIT does not wait for.
        while tries and error is not None and error.startswith(f"{ER.LOCK_WAIT_TIMEOUT}:"):
            time.sleep(0.1)
            tries, error = tries - 1, self._error(cursor, sql)
        return Played(
            session=under,
            error=error,
            written=tuple(self._written()),
            after=truth(self._looking),
        )

    @staticmethod
    def _error(cursor: Any, sql: str) -> str | None:
        try:
            cursor.execute(sql)
            while cursor.nextset():
                pass
        except pymysql.MySQLError as refused:
            return f"{refused.args[0]}: {refused.args[1]}"
        return None

    def _cursor(self, name: str) -> Any:
        if name not in self._cursors:
            self._cursors[name] = self._open.enter_context(connected(self._mysql))
        return self._cursors[name]

    def _known_variables(self) -> Iterator[tuple[str, str]]:
        for name, expression in _VARIABLES.items():
            try:
                self._looking.execute(f"SELECT {expression}")
            except pymysql.MySQLError as error:
                if error.args[0] != _UNKNOWN_VARIABLE:
                    raise
            else:
                yield name, expression

    def _session(self, cursor: Any) -> Session:
        cursor.execute(f"SELECT {', '.join(self._variables.values())}")
        result = dict(zip(self._variables, cursor.fetchone(), strict=True))
        timestamps, own = result.get("explicit_timestamps"), result.get("charset_collations")
        return Session(
            database=result["database"],
            sql_mode=frozenset(mode for mode in result["sql_mode"].split(",") if mode),
            server_collation=result["server_collation"],
            utf8mb4_collation=result.get("utf8mb4_collation"),
            charset_collations=None if own is None else tuple(_pairs(own)),
            explicit_timestamps=None if timestamps is None else bool(timestamps),
            thread=result["thread"],
        )

    def _end_of_binlog(self) -> Coordinates:
        try:
            self._looking.execute("SHOW MASTER STATUS")
        except pymysql.MySQLError:
            self._looking.execute("SHOW BINARY LOG STATUS")
        file, pos, *_ = self._looking.fetchone()
        return Coordinates(file, int(pos))

    def _written(self) -> Iterator[Written]:
        """The statements between the last end of the binlog and this one."""
        begin, self._end = self._end, self._end_of_binlog()
        charsets = charsets_of(self._mysql)
        for position, end in _stretches(begin, self._end):
            path = self._mysql.data / position.file
            mariadb = "mariadb" in self._mysql.data.parent.name
            for step in steps_of(path, charsets, begin=position.pos, end=end, mariadb=mariadb):
                if isinstance(step, Statement):
                    query = step.query
                    under = session_of(
                        query.status,
                        database=query.database,
                        thread=query.thread,
                        charsets=charsets,
                        mariadb=mariadb,
                    )
                    if not self._tells_timestamps:
                        under = replace(under, explicit_timestamps=self._explicit)
                    yield Written(sql=query.sql, session=under)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """``latin1=latin1_bin,…``"""
    for one in text.split(",") if text else ():
        charset, _, collation = one.partition("=")
        yield charset, collation


def _stretches(begin: Coordinates, end: Coordinates) -> Iterator[tuple[Coordinates, int | None]]:
    """The parts of files between two positions, in order."""
    stem, first = begin.file.rsplit(".", 1)
    for number in range(int(first), int(end.file.rsplit(".", 1)[1]) + 1):
        file = f"{stem}.{number:0{len(first)}d}"
        yield (
            Coordinates(file, begin.pos if file == begin.file else 4),
            end.pos if file == end.file else None,
        )
