"""Reads the rows of a table in chunks, each between two positions of the binlog.

Invariant: a chunk's SELECT sees every transaction that it was to see, and none after the high
position. It takes no lock, and needs no privilege but SELECT and that to show the end of the binlog.

The server writes a transaction to the binlog first, then makes it visible, and adds its GTID to gtid_executed
last: so the SELECT sees all of a set that is in gtid_executed before it, and nothing past the end of the binlog
after it. Source: MySQL's sql/binlog.cc, the ordered commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from connectors.errors import SnapshotUnsupported, SourceLost
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.server_columns import end_of_binlog
from connectors.mysql.server.facts import SourceAddress, connection_to, translated
from connectors.mysql.snapshot.chunk_query import chunk_query
from connectors.mysql.snapshot.row_encoder import RowEncoder
from connectors.mysql.snapshot.select_list import SESSION

TARGET_BYTES = 768 * 1024
"""Bytes of a chunk's rows to aim for, as the binlog has them."""
_FIRST_ROWS, _MOST_ROWS = 1_000, 20_000
_KEYLESS_BYTES = 64 * 1024 * 1024
"""Most bytes of a table without a key, which is one chunk."""
_KEYLESS_ROWS = 1_000_000
_ANSWER_SECONDS = 600.0
_GLANCE_SECONDS = 0.005
_VISIBLE_SECONDS = 60.0

_GONE = {1051, 1054, 1146, 1049}
"""Errors of a SELECT that was made of an older definition: no such table, column or database."""


class DefinitionChanged(Exception):
    """The table at the server is no longer what the definition says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChunk:
    """The rows of one SELECT."""

    table_map: bytes
    bodies: tuple[bytes, ...]
    rows: int
    last: tuple[str, ...] | None
    """Literals of the last row's key; None without rows or a key."""
    is_last: bool
    """Whether no rows come after it."""
    high: Coordinates
    """A position that is not before any change that the SELECT saw."""
    began_ms: int
    """When the SELECT began, milliseconds since 1970."""


class ChunkReader:
    """A connection that reads the chunks of one table; used by one thread at a time."""

    def __init__(
        self,
        address: SourceAddress,
        name: TableName,
        *,
        charsets: Charsets,
        server: Server,
        definition: Callable[[], Table | None],
        hidden: Collection[str] = (),
    ) -> None:
        """``definition``: the table as its history has it now; None if it does not exist.

        ``hidden``: columns whose values must not be stored, as ``ReadChunk.last`` is; names in lower case.
        """
        self._address, self._name, self._charsets, self._server = address, name, charsets, server
        self._definition, self._hidden = definition, hidden
        self._connection: Any = None
        self._limit = _FIRST_ROWS
        self._made: tuple[Table, RowEncoder] | None = None

    def close(self) -> None:
        """End the connection, from any thread; a SELECT that runs ends with SourceLost."""
        if self._connection is not None:
            self._connection._force_close()

    def read(self, after: Sequence[str] | None, sees: GtidSet) -> ReadChunk | None:
        """Read the rows after a key, by a SELECT that sees these transactions; None without such a table.

        Raises DefinitionChanged if the server's table differs from the definition, SnapshotUnsupported if its
        rows cannot be read exactly, SourceLost and related errors.
        """
        table = self._definition()
        if table is None:
            return None
        try:
            if self._connection is None:
                self._connect()
            self._await_visible(sees)
            return self._read(table, after)
        except pymysql.MySQLError as error:
            self._drop_if_broken(error)
            if error.args and error.args[0] in _GONE:
                raise DefinitionChanged(str(error)) from error
            raise translated(error, self._address) from error
        except (OSError, AttributeError, ValueError) as error:
            # A connection that was closed meanwhile raises any of these.
            self._connection = None
            raise SourceLost(str(error), source=self._address) from error

    def _drop_if_broken(self, error: pymysql.MySQLError) -> None:
        """Forget a connection that cannot be used again."""
        if isinstance(error, pymysql.InterfaceError) or not error.args or error.args[0] >= 2000:
            self.close()
            self._connection = None

    def _connect(self) -> None:
        self._connection = connection_to(
            self._address, use_unicode=False, conv={}, read_timeout=_ANSWER_SECONDS
        )
        with self._connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)

    def _await_visible(self, sees: GtidSet) -> None:
        """Wait until all of these transactions are visible."""
        deadline = time.monotonic() + _VISIBLE_SECONDS
        with self._connection.cursor() as cursor:
            while True:
                cursor.execute(f"SELECT GTID_SUBSET('{sees}', @@GLOBAL.gtid_executed)")
                if cursor.fetchone()[0] == b"1":
                    return
                if time.monotonic() > deadline:
                    raise SourceLost(
                        f"transactions that it sent are not visible after {_VISIBLE_SECONDS:.0f} s: {sees}",
                        source=self._address,
                    )
                time.sleep(_GLANCE_SECONDS)

    def _encoder(self, table: Table) -> RowEncoder:
        if self._made is None or self._made[0] is not table:
            encoder = RowEncoder(self._name, table, self._charsets, server=self._server)
            self._made = table, encoder
        return self._made[1]

    def _read(self, table: Table, after: Sequence[str] | None) -> ReadChunk:
        encoder = self._encoder(table)
        key = table.primary_key
        if masked := [name for name in key if name.lower() in self._hidden]:
            raise SnapshotUnsupported(
                f"column {masked[0]!r} of its key is masked, and its values would be stored to resume from",
                table=".".join(self._name),
                remedy="Leave the key as it is, or load the rows by another way.",
            )
        limit = self._limit if key else _KEYLESS_ROWS
        began_ms = time.time_ns() // 1_000_000
        query = chunk_query(self._name, encoder.select_list, key=key, after=after, limit=limit)
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows = cursor.fetchall()
            high, _ = end_of_binlog(cursor)
        bodies = tuple(encoder.bodies(rows))
        size = sum(map(len, bodies))
        if not key and (len(rows) == limit or size > _KEYLESS_BYTES):
            raise SnapshotUnsupported(
                f"it has no primary key, and more than {_KEYLESS_BYTES >> 20} MiB or {_KEYLESS_ROWS:,} rows, "
                "which would have to be read at once",
                table=".".join(self._name),
                remedy="Give it a primary key, or leave it out with a filter.",
            )
        if rows and key:
            self._limit = max(1, min(_MOST_ROWS, limit * TARGET_BYTES // size, 2 * limit))
        return ReadChunk(
            table_map=encoder.table_map,
            bodies=bodies,
            rows=len(rows),
            last=encoder.key_literals(rows[-1], key) if rows and key else None,
            is_last=len(rows) < limit,
            high=Coordinates(_text(high.file), high.pos),
            began_ms=began_ms,
        )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
