"""A central schema store in a MySQL server: its two tables, in Canal's form, and a connection to them.

Invariant: names, types and keys are Canal's, including its spelling of ``binlog_offest``, so that
readers of Canal's tables can read these. A table of another shape is refused by name and never altered.
A row is identified by destination, server, file and offset: writing the same row twice changes nothing, other
content under the same key replaces the old content, and rows with other keys are left unchanged. MySQL's
errors become named errors, and the caller reconnects after an error.
Source: the TSDB's ``meta_snapshot`` and ``meta_history`` in Canal's documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

import pymysql
from pymysql.cursors import Cursor, SSCursor

from connectors.errors import (
    AqueductError,
    SourceLost,
    SourceRefused,
    StoreLost,
    StoreRefused,
    StoreUnfit,
)
from connectors.mysql.server.connection import SourceAddress, connection_to, translated

SNAPSHOT, HISTORY = "meta_snapshot", "meta_history"

KEY = ("destination", "binlog_master_id", "binlog_file", "binlog_offest")
"""The columns that identify a row."""
_POSITION = ("destination", "binlog_file", "binlog_offest", "binlog_master_id", "binlog_timestamp")
COLUMNS = {
    SNAPSHOT: (*_POSITION, "data", "extra"),
    HISTORY: (*_POSITION, "use_schema", "sql_schema", "sql_table", "sql_text", "sql_type", "extra"),
}
"""All columns except the id and the two times."""

_BEGIN = """\
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'primary key',
  `gmt_create` datetime NOT NULL COMMENT 'when this was written, UTC',
  `gmt_modified` datetime NOT NULL COMMENT 'when this changed last, UTC',
  `destination` varchar(128) DEFAULT NULL COMMENT 'destination',
  `binlog_file` varchar(64) DEFAULT NULL COMMENT 'binlog file',
  `binlog_offest` bigint(20) DEFAULT NULL COMMENT 'offset in that file',
  `binlog_master_id` varchar(64) DEFAULT NULL COMMENT 'the server, by its UUID',
  `binlog_timestamp` bigint(20) DEFAULT NULL COMMENT 'when it happened, milliseconds since 1970',
"""
_KEYS = """\
  PRIMARY KEY (`id`),
  UNIQUE KEY `binlog_file_offest` (`destination`,`binlog_master_id`,`binlog_file`,`binlog_offest`),
  KEY `destination` (`destination`),
  KEY `destination_timestamp` (`destination`,`binlog_timestamp`),
  KEY `gmt_modified` (`gmt_modified`)
"""
_OWN = {
    SNAPSHOT: """\
  `data` longtext COMMENT 'of each schema the statements that make it',
  `extra` text COMMENT 'what else is known',
""",
    HISTORY: """\
  `use_schema` varchar(1024) DEFAULT NULL COMMENT 'default schema of the session',
  `sql_schema` varchar(1024) DEFAULT NULL COMMENT 'schemas that it touched',
  `sql_table` varchar(1024) DEFAULT NULL COMMENT 'tables that it touched',
  `sql_text` longtext COMMENT 'the statement',
  `sql_type` varchar(256) DEFAULT NULL COMMENT 'its type',
  `extra` text COMMENT 'what else is known',
""",
}
_COMMENTS = {SNAPSHOT: "schemas as of a place", HISTORY: "statements that changed schemas"}

_LENGTHS = {
    "destination": 128, "binlog_file": 64, "binlog_master_id": 64, "use_schema": 1024,
    "sql_schema": 1024, "sql_table": 1024, "sql_text": 2**32 - 1, "sql_type": 256,
    "data": 2**32 - 1, "extra": 2**16 - 1,
}  # fmt: skip
_NUMBERS = {"id", "binlog_offest", "binlog_timestamp"}


def creation(table: str) -> str:
    """Return the statement that creates a table.

    It sets the collation, because names must compare exactly and the server's default may not be UTF-8.
    """
    return (
        f"CREATE TABLE IF NOT EXISTS `{table}` (\n{_BEGIN}{_OWN[table]}{_KEYS}) ENGINE=InnoDB "
        f"DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='{_COMMENTS[table]}'"
    )


def exists(cursor: Cursor, database: str, table: str) -> bool:
    """Whether the table exists and the account may see it."""
    cursor.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        (database, table),
    )
    return bool(cursor.fetchall())


def faults(cursor: Cursor, database: str, table: str) -> Iterator[str]:
    """Yield the differences of a table from the expected table; a larger capacity is accepted."""
    cursor.execute(_SHAPE, (database, table))
    found = {row[0].lower(): row[1:] for row in cursor.fetchall()}
    for name in ("id", "gmt_create", "gmt_modified", *COLUMNS[table]):
        if name not in found:
            yield f"{table} has no column {name}"
        elif not _fits(name, *found[name][:2]):
            yield f"{table}.{name} is {found[name][0]}({found[name][1]})"
    known = {"id", "gmt_create", "gmt_modified", *COLUMNS[table]}
    for name, (_, _, nullable, default, extra) in found.items():
        if name not in known and nullable == "NO" and default is None and "auto" not in extra:
            yield f"{table}.{name} demands a value"
    if "auto_increment" not in found.get("id", ("", 0, "", None, "auto_increment"))[4]:
        yield f"{table}.id is not AUTO_INCREMENT"
    if not _has_key(cursor, database, table):
        yield f"{table} has no UNIQUE KEY ({', '.join(KEY)})"


_SHAPE = """SELECT column_name, data_type, character_maximum_length, is_nullable, column_default, extra
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"""


def _fits(name: str, kind: str, length: int | None) -> bool:
    if name in _NUMBERS:
        return kind == "bigint"
    if name in _LENGTHS:
        return length is not None and length >= _LENGTHS[name]
    return kind in ("datetime", "timestamp")


def _has_key(cursor: Cursor, database: str, table: str) -> bool:
    cursor.execute(
        "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = %s "
        "AND table_name = %s AND non_unique = 0 AND sub_part IS NULL",
        (database, table),
    )
    keys: dict[str, set[str]] = {}
    for index, column in cursor.fetchall():
        keys.setdefault(index, set()).add(str(column).lower())
    return set(KEY) in keys.values()


PART = "#part-"
"""The beginning of the suffix that ``master_id`` has in a row that continues another row."""


class RowKey(NamedTuple):
    """A row's key within its destination."""

    master_id: str
    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A row of ``meta_snapshot``; its fields are the columns in order."""

    table: ClassVar[str] = SNAPSHOT
    destination: str
    file: str
    offset: int
    master_id: str
    ts_ms: int
    data: str | None = None
    extra: str | None = None

    @property
    def key(self) -> RowKey:
        """The row's key."""
        return RowKey(self.master_id, self.file, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A row of ``meta_history``; its fields are the columns in order."""

    table: ClassVar[str] = HISTORY
    destination: str
    file: str
    offset: int
    master_id: str
    ts_ms: int
    use_schema: str | None = None
    sql_schema: str | None = None
    sql_table: str | None = None
    sql_text: str | None = None
    sql_type: str | None = None
    extra: str | None = None

    @property
    def key(self) -> RowKey:
        """The row's key."""
        return RowKey(self.master_id, self.file, self.offset)


Row = SnapshotRow | HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An existing row, by its key and the numbers in its ``extra``."""

    key: RowKey
    number: int
    count: int
    """For a snapshot: the number of records before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All rows that Aqueduct stored for a destination, except forgotten rows."""

    history: list[HistoryRow]
    snapshots: list[SnapshotRow]


def is_aqueducts(extra: str | None) -> bool:
    """Whether Aqueduct wrote a row, and the row is still part of the history."""
    try:
        value = json.loads(extra or "null")
    except ValueError:
        return False
    return isinstance(value, dict) and "format" in value and "forgotten" not in value


_ROW_OVERHEAD = 4096


class MetaSession:
    """One connection to a store."""

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        *,
        limit: int,
        now: Callable[[], datetime],
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._now = now

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows of one table in one transaction; equal existing rows are left unchanged."""
        if not rows:
            return
        at = self._time()
        values = [(at, at, *astuple(row)) for row in rows]
        for row in rows:
            self._check_size(row)
        with self._connection.cursor() as cursor:
            cursor.executemany(_UPSERT[rows[0].table], values)
        self._connection.commit()

    def _time(self) -> datetime:
        return self._now().astimezone(UTC).replace(tzinfo=None, microsecond=0)

    def _check_size(self, row: Row) -> None:
        """Raise StoreUnfit if a row is too large; a server would close the connection without a reason."""
        size = sum(2 * len(one) for one in astuple(row) if isinstance(one, str))
        if size + _ROW_OVERHEAD < self._limit:
            return
        escaped = (self._connection.escape(one) for one in astuple(row) if one is not None)
        size = sum(len(one.encode()) for one in map(str, escaped)) + _ROW_OVERHEAD
        if size > self._limit:
            raise StoreUnfit(
                f"a row of {row.table} takes {size} bytes, max_allowed_packet is {self._limit}",
                destination=row.destination,
            )

    def marks(self, table: str, destination: str) -> list[Mark]:
        """Return the keys and numbers of the rows that Aqueduct wrote, except forgotten rows."""
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(_MARKS.format(table=table), (destination,))
            return [
                Mark(key=RowKey(*row[:3]), number=int(row[3]), count=int(row[4] or 0))
                for row in cursor
                if row[3] is not None and row[5] is None
            ]

    def forget(self, table: str, destination: str, keys: Iterable[RowKey]) -> None:
        """Mark rows as removed from the history: the destination went back to a position before them."""
        at = self._time()
        with self._connection.cursor() as cursor:
            cursor.executemany(
                _FORGET.format(table=table), [(at, destination, *key) for key in keys]
            )
        self._connection.commit()

    def expire(self, destination: str, before_ms: int) -> None:
        """Remove snapshots older than ``before_ms``, except the newest of them: later history builds on it."""
        with self._connection.cursor() as cursor:
            cursor.execute(_NEWEST_BEFORE, (destination, before_ms))
            ((newest,),) = cursor.fetchall()
            if newest is not None:
                cursor.execute(_EXPIRE, (destination, newest))
        self._connection.commit()

    def read(self, destination: str) -> Stored:
        """Return all rows that Aqueduct stored for a destination, in the order of their last change."""
        return Stored(
            history=[HistoryRow(**one) for one in self._rows(HISTORY, destination)],
            snapshots=[SnapshotRow(**one) for one in self._rows(SNAPSHOT, destination)],
        )

    def _rows(self, table: str, destination: str) -> Iterator[dict[str, Any]]:
        columns = ", ".join(COLUMNS[table])
        fields = [_FIELDS.get(name, name) for name in COLUMNS[table]]
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(
                f"SELECT {columns} FROM {table} WHERE destination = %s ORDER BY gmt_modified, id",  # noqa: S608
                (destination,),
            )
            for row in cursor:
                found = dict(zip(fields, row, strict=True))
                if is_aqueducts(found["extra"]):
                    yield found


_FIELDS = {
    "binlog_file": "file",
    "binlog_offest": "offset",
    "binlog_master_id": "master_id",
    "binlog_timestamp": "ts_ms",
}


def _upsert(table: str) -> str:
    columns = COLUMNS[table]
    names = ", ".join(("gmt_create", "gmt_modified", *columns))
    others = [name for name in columns if name not in KEY]
    same = " AND ".join(f"{name} <=> VALUES({name})" for name in others)
    changes = ", ".join(f"{name} = VALUES({name})" for name in others)
    return (
        f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * (2 + len(columns)))}) "  # noqa: S608
        f"ON DUPLICATE KEY UPDATE gmt_modified = IF({same}, gmt_modified, VALUES(gmt_modified)), {changes}"
    )


_UPSERT = {table: _upsert(table) for table in COLUMNS}
_MARKS = """SELECT binlog_master_id, binlog_file, binlog_offest,
        IF(JSON_VALID(extra), JSON_UNQUOTE(JSON_EXTRACT(extra, '$.number')), NULL),
        IF(JSON_VALID(extra), JSON_UNQUOTE(JSON_EXTRACT(extra, '$.count')), NULL),
        IF(JSON_VALID(extra), JSON_EXTRACT(extra, '$.forgotten'), NULL)
    FROM {table} WHERE destination = %s"""
_FORGET = """UPDATE {table} SET extra = JSON_SET(extra, '$.forgotten', 1), gmt_modified = %s
    WHERE destination = %s AND binlog_master_id = %s AND binlog_file = %s AND binlog_offest = %s"""
_NEWEST_BEFORE = f"""SELECT MAX(binlog_timestamp) FROM {SNAPSHOT} WHERE destination = %s
    AND binlog_timestamp <= %s AND binlog_master_id NOT LIKE '%%{PART}%%'
    AND IF(JSON_VALID(extra), JSON_EXTRACT(extra, '$.forgotten'), NULL) IS NULL"""  # noqa: S608
_EXPIRE = f"""DELETE FROM {SNAPSHOT} WHERE destination = %s AND binlog_timestamp < %s
    AND IF(JSON_VALID(extra), JSON_EXTRACT(extra, '$.format'), NULL) IS NOT NULL"""  # noqa: S608


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
