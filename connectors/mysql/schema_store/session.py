"""A connection to a central schema store, and its reads and writes.

Invariant: a row is identified by destination, server, file and offset. Writing the same row twice
changes nothing; other content under the same key replaces the old content. Other programs' rows with
other keys are left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from connectors.errors import StoreUnfit
from connectors.mysql.schema_store.rows import (
    PART,
    HistoryRow,
    Mark,
    Row,
    RowKey,
    SnapshotRow,
    Stored,
    is_aqueducts,
)
from connectors.mysql.schema_store.tables import COLUMNS, HISTORY, KEY, SNAPSHOT

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
