"""A server as a source or a replica: whether it is alive, what it follows, and which changes it excludes.

Invariant: the state is only queried, never changed; a state or a filter that the account may not see counts
as unknown. The changes that such a filter excludes are found when rows are compared. Depending on the
version, the filters are in the status of the server's channels, in tables of ``performance_schema``, or in
MariaDB's variables; all of these are read. A server that no longer replicates keeps its global filters.

An operator's heartbeat statement may write. Nothing is written to a read-only server, even if the account
may write: the write would be a transaction that the server's own source lacks. A server that becomes
read-only between checks is no longer a source.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pymysql
from pymysql.cursors import Cursor

from connectors.errors import SourceRefused
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.database_filters import SYSTEM, Captured, Captures, ReplicationFilter
from connectors.mysql.server.facts import REPLICA_STATUS, ServerFacts
from connectors.mysql.server.privileges import account, grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One replication channel of a replica."""

    source: str
    """``host:port``"""
    receives: str
    """``Yes``, ``Connecting`` or ``No``."""
    applies: bool
    lag_seconds: int | None
    error: str

    def __str__(self) -> str:
        applies = "applies" if self.applies else "applies nothing"
        text = f"follows {self.source}: receives {self.receives}, {applies}"
        if self.lag_seconds is not None:
            text += f", lags by {self.lag_seconds} s"
        return f"{text} ({self.error})" if self.error else text


def channels(address: SourceAddress) -> list[Channel]:
    """Return a server's channels; empty if it is not a replica. Raise SourceLost or SourceRefused."""
    with connected(address) as cursor:
        for statement in REPLICA_STATUS:
            try:
                cursor.execute(statement)
            except pymysql.MySQLError as error:
                if error.args[0] in _NOT_KNOWN:
                    continue
                raise
            names = [column[0].lower() for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            return [_channel(row) for row in rows]
    raise SourceRefused(
        "it does not report whether it is a replica",
        source=address,
        remedy=_remedy(address),
    )


_MEMBER = (
    "SELECT member_state, member_role FROM performance_schema.replication_group_members "
    "WHERE member_id = @@GLOBAL.server_uuid"
)
_STILL_APPLY = {("ONLINE", "SECONDARY"), ("RECOVERING", "SECONDARY"), ("RECOVERING", "")}


def follows_group(address: SourceAddress) -> str:
    """Return the state of a group replication member that still applies the group's writes; else empty text."""
    try:
        with connected(address) as cursor:
            cursor.execute(_MEMBER)
            found = [(str(state), str(role)) for state, role in cursor.fetchall()]
    except SourceRefused:
        # The table does not exist, or the account may not see it.
        return ""
    if not found or found[0] not in _STILL_APPLY:
        return ""
    return f"it follows its group: {found[0][0]}"


def _remedy(address: SourceAddress) -> str:
    """Return the GRANT of the privilege to query replication, by the server's name for the privilege."""
    with connected(address) as cursor:
        cursor.execute("SELECT CURRENT_USER(), VERSION()")
        user, version = cursor.fetchone() or ("", "")
    privilege = "SLAVE MONITOR" if "mariadb" in str(version).lower() else "REPLICATION CLIENT"
    return grant(privilege, "*.*", account(str(user), address.user))


_NOT_KNOWN = {pymysql.constants.ER.PARSE_ERROR, pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR}


def _channel(row: dict[str, object]) -> Channel:
    def value_of(*names: str) -> str:
        return next((str(row[name]) for name in names if row.get(name) is not None), "")

    lag = value_of("seconds_behind_source", "seconds_behind_master")
    return Channel(
        source=f"{value_of('source_host', 'master_host')}:{value_of('source_port', 'master_port')}",
        receives=value_of("replica_io_running", "slave_io_running"),
        applies=value_of("replica_sql_running", "slave_sql_running") == "Yes",
        lag_seconds=int(lag) if lag.isdigit() else None,
        error=value_of("last_io_error") or value_of("last_sql_error"),
    )


def clock_ms(address: SourceAddress) -> int:
    """Return a server's clock minus this machine's clock, in milliseconds.

    A clock that was set to local time shows as an offset too; binlogs contain no time zones.
    """
    with connected(address) as cursor:
        sent_at = time.time()
        cursor.execute("SELECT ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000)")
        return int(cursor.fetchall()[0][0]) - round(1000 * (sent_at + time.time()) / 2)


_RULES = (
    "do_db", "ignore_db", "do_table", "ignore_table", "wild_do_table", "wild_ignore_table", "rewrite_db",
    "ignore_server_ids",
)  # fmt: skip
_TABLES = (
    "SELECT filter_name, filter_rule FROM performance_schema.replication_applier_filters",
    "SELECT filter_name, filter_rule FROM performance_schema.replication_applier_global_filters",
)
_SKIPS = ("replica_skip_errors", "slave_skip_errors")
_NO_SUCH_FILTERS = {
    pymysql.constants.ER.PARSE_ERROR,
    pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR,
    pymysql.constants.ER.TABLEACCESS_DENIED_ERROR,
    pymysql.constants.ER.NO_SUCH_TABLE,
    pymysql.constants.ER.BAD_DB_ERROR,
}


def replication_filters(cursor: Cursor, facts: ServerFacts) -> list[ReplicationFilter]:
    """All replication filters of a server, each once."""
    # After a filter is removed, performance_schema may show wrong names for the other filters; the
    # status does not.
    of_channels = _of_channels(cursor)
    found = [
        *(_of_schema(cursor) if of_channels is None else of_channels),
        *_of_variables(facts),
    ]
    return list(dict.fromkeys(found))


def _of_channels(cursor: Cursor) -> list[ReplicationFilter] | None:
    """The filters of the channels; None if the server has no channel."""
    for statement in REPLICA_STATUS:
        rows = _rows(cursor, statement)
        if rows is None:
            continue
        return (
            None
            if not rows
            else [
                _rule(f"REPLICATE_{name.upper()}", rule)
                for row in rows
                for name in _RULES
                for rule in _split(row.get(f"replicate_{name}"), whole=name == "rewrite_db")
            ]
        )
    return None


def _of_schema(cursor: Cursor) -> list[ReplicationFilter]:
    rows: list[dict[str, object]] = []
    for statement in _TABLES:
        rows += _rows(cursor, statement) or []
    return [
        _rule(str(row["filter_name"]), rule)
        for row in rows
        for rule in _split(row["filter_rule"], whole=row["filter_name"] == "REPLICATE_REWRITE_DB")
    ]


def _of_variables(facts: ServerFacts) -> list[ReplicationFilter]:
    """Return MariaDB's filters, and any server's variables by which it skips events that it cannot apply."""
    found = [
        _rule(f"REPLICATE_{name.upper()}", rule)
        for name in _RULES
        for rule in _split(facts.variables.get(f"replicate_{name}"), whole=name == "rewrite_db")
    ]
    for name in _SKIPS:
        value = facts.variables.get(name, "")
        if value.upper() not in ("", "OFF"):
            return [*found, ReplicationFilter(name, value)]
    return found


def _rule(name: str, rule: str) -> ReplicationFilter:
    return ReplicationFilter(name, rule.replace("`", ""))


def _split(value: object, *, whole: bool) -> list[str]:
    text = str(value or "").strip()
    if whole:
        return [text] if text else []
    return [one.strip() for one in text.split(",") if one.strip()]


def _rows(cursor: Cursor, statement: str) -> list[dict[str, object]] | None:
    """The rows of a statement; None if the server does not support or permit it."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _NO_SUCH_FILTERS:
            return None
        raise
    names = [column[0].lower() for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def captured_there(cursor: Cursor, include: str, captures: Captures) -> Captured:
    """The captured databases and tables of a server."""
    cursor.execute("SELECT table_schema, table_name FROM information_schema.tables")
    tables = frozenset((str(row[0]), str(row[1])) for row in cursor.fetchall())
    cursor.execute("SHOW DATABASES")
    databases = {str(row[0]) for row in cursor.fetchall()}
    return Captured(
        include=include,
        captures=captures,
        tables=frozenset(one for one in tables if one[0] not in SYSTEM),
        databases=frozenset(databases - {*SYSTEM}),
    )


def with_excluded_databases(
    facts: ServerFacts, cursor: Cursor, include: str, captures: Captures
) -> ServerFacts:
    """The facts with the captured databases that the server's binlog excludes."""
    filters = facts.binlog_filters
    if not filters:
        return facts
    captured = captured_there(cursor, include, captures)
    captured = replace(captured, databases=captured.databases | {*filters.ignore})
    return replace(facts, excluded=tuple(filters.excluded(captured.known)))


_READS = ("SELECT", "SHOW")


@dataclass(slots=True)
class HeartbeatCheck:
    """Checks one server repeatedly."""

    statement: str
    _is_standby: bool | None = None
    """Whether the server was read-only at the last check; None before the first check."""
    _was_let_in: bool = False
    _was_done: bool = False
    """Whether the connection, and the statement, have succeeded at least once."""

    def ask(self, address: SourceAddress) -> SourceRefused | None:
        """Check once, over a new connection, because a server that accepts no connection is not usable.

        Raise SourceLost if there is no answer, and SourceRefused if the server refuses something that it
        accepted before. A refusal of something that it never accepted is returned: the operator must
        correct the cause, and the server has not failed. A standby to which nothing was written has not
        shown that it accepts the statement.
        """
        is_tried = False
        try:
            with connected(address) as cursor:
                may_ask = self._may_ask(cursor, address)
                self._was_let_in = True
                if may_ask:
                    is_tried = True
                    cursor.execute(self.statement)
                    cursor.fetchall()
                    self._was_done = True
        except SourceRefused as error:
            worked_before = self._was_done if is_tried else self._was_let_in
            if worked_before:
                raise
            return error
        return None

    def _may_ask(self, cursor: Cursor, address: SourceAddress) -> bool:
        """Whether the statement may be sent to this server in its current state."""
        if self.statement.lstrip().upper().startswith(_READS):
            return True
        cursor.execute("SELECT @@GLOBAL.read_only")
        is_standby = str(cursor.fetchall()[0][0]).upper() not in ("0", "OFF")
        if is_standby and self._is_standby is False:
            raise SourceRefused("it has become read-only", source=address)
        self._is_standby = is_standby
        return not is_standby
