"""Reads the rows of a table in chunks, each between two positions of the binlog.

Invariant: a chunk's SELECT sees every transaction that it was to see, as the server has shown, and none after
the high position. It needs no privilege but SELECT and that to show the end of the binlog.

A server writes a transaction to the binlog before it makes it visible: so the SELECT sees nothing past the end
of the binlog after it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pymysql
from pymysql.constants import ER

from connectors.errors import SnapshotUnsupported, SourceLost
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.server_columns import end_of_binlog
from connectors.mysql.server.facts import SourceAddress, connection_to, translated
from connectors.mysql.snapshot.chunk_query import chunk_query, key_order, quoted
from connectors.mysql.snapshot.load_limits import LoadGate
from connectors.mysql.snapshot.prepared_select import PreparedSelect, SelectedPackets
from connectors.mysql.snapshot.read_views import ROW_LOCKED, VISIBLE_SECONDS, ReadViews, Seen
from connectors.mysql.snapshot.row_condition import check_condition
from connectors.mysql.snapshot.select_list import SESSION
from connectors.mysql.snapshot.selected_table import SelectedTable

TARGET_BYTES = 1536 * 1024
"""Bytes of a chunk's rows to aim for, as the server sends them."""
_MOST_BYTES = 4 * TARGET_BYTES
"""Bytes after which a chunk ends, whatever the size of its rows; the rows that were read too are read again."""
_FIRST_ROWS, _MOST_ROWS, _GROWTH = 1_000, 20_000, 16
"""Rows of the first chunk where the server does not state their size, of any, and how many times as many as the
last one the next may have."""
_KEYLESS_BYTES = 64 * 1024 * 1024
"""Most bytes of a table without a key, which is one chunk."""
_MOST_AT_ONCE = 1_000_000
"""Most rows of a chunk that has to be whole."""
_ANSWER_SECONDS = 600.0

_ROW_BYTES = (
    "SELECT avg_row_length FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s"
)
_GONE = {1051, 1054, 1146, 1049}
"""Errors of a SELECT that was made of an older definition: no such table, column or database."""
_WITHOUT_VALUES = {*_GONE, ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR,
                   ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}  # fmt: skip
"""Errors whose texts have names alone."""
_OF_CLIENT = range(2000, 3000)
"""PyMySQL's own."""


class DefinitionChanged(Exception):
    """The table at the server is no longer what the definition says."""


class _RowLocked(Exception):
    """A row of a SELECT that has to lock its rows is being changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChunk:
    """The rows of one SELECT."""

    table_map: bytes
    blocks: tuple[bytes, ...]
    """The rows, as SelectedPackets has them."""
    rows: int
    last: tuple[str, ...] | None
    """The order of the key, and literals of the last row's key; None without rows or a key."""
    is_last: bool
    """Whether no rows come after it."""
    high: Coordinates
    """A position that is not before any change that the SELECT saw."""
    began_ms: int
    """When the SELECT began, milliseconds since 1970."""
    is_keyless: bool = False
    """Whether the table has no primary key, so that these are all its rows."""
    estimate: int | None = None
    """The server's estimate of the rows to read in all; with the first chunk of a reader only."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Literals of the key of each row, if the reader was to keep them."""


class ReadClock(Protocol):
    """The time at which a SELECT begins; called in the reader's thread."""

    def asked(self, cursor: Any, /) -> int:
        """Return it, in milliseconds since 1970, right before the SELECT in the same session."""

    def drop(self) -> None:
        """Take note that the SELECT has no rows for now."""


class WorkerClock:
    """This machine's clock."""

    def asked(self, _cursor: Any, /) -> int:
        """See ReadClock."""
        return time.time_ns() // 1_000_000

    def drop(self) -> None:
        """See ReadClock."""


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
        is_masked: bool = False,
        where: str | None = None,
        gate: LoadGate | None = None,
        keeps_keys: bool = False,
        is_whole: bool = False,
        clock: ReadClock | None = None,
    ) -> None:
        """``definition``: the table as its history has it now; None if it does not exist.

        ``is_masked``: whether some of its values are hidden, so that errors have no texts of the server.
        ``where``: an operator's condition in SQL on the rows. ``gate``: where a read waits for its turn.
        ``keeps_keys``: whether chunks have the key of each row. ``is_whole``: whether all rows are one chunk.
        ``clock``: that of ``ReadChunk.began_ms``; None: this machine's.
        """
        self._clock = clock or WorkerClock()
        self._keeps_keys, self._is_whole = keeps_keys, is_whole
        self._address, self._name, self._charsets, self._server = address, name, charsets, server
        self._definition, self._is_masked, self._where = definition, is_masked, where
        self._gate = gate
        self._is_estimated = False
        self._connection: Any = None
        self._views: ReadViews | None = None
        self._limit: int | None = None
        """The rows of the next chunk; None: before the first one."""
        self._made: tuple[Table, SelectedTable] | None = None

    def close(self) -> None:
        """End the connection, from any thread; a SELECT that runs ends with SourceLost."""
        if self._connection is not None:
            self._connection._force_close()

    def rest(self) -> None:
        """End the connection until the next read, from the thread that reads."""
        self.close()
        self._connection = None

    def read(self, after: Sequence[str] | None, sees: Seen) -> ReadChunk | None:
        """Read the rows after a key, by a SELECT that sees these transactions; None without such a table.

        ``after``: the ``last`` of the chunk before. If a statement has changed the table's key or its order
        since, the first rows are read again: another order has other rows after that one.

        Raises DefinitionChanged if the server's table differs from the definition, SnapshotUnsupported if its
        rows cannot be read exactly, SourceLost and related errors.
        """
        table = self._definition()
        if table is None:
            return None
        try:
            if self._connection is None:
                self._connect()
            chunk = self._read_unlocked(table, after, sees)
            if self._gate is not None:
                self._gate.read(chunk.rows)
            return chunk
        except DefinitionChanged:
            # Rows of its result are still to come.
            self.rest()
            raise
        except pymysql.MySQLError as raised:
            self._drop_if_broken(raised)
            error = _without_values(raised) if self._is_masked else raised
            if self._where is not None and self._can_read_all():
                raise self._bad_condition(error) from error
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
            self.rest()

    def _connect(self) -> None:
        self._connection = connection_to(
            self._address, use_unicode=False, conv={}, read_timeout=_ANSWER_SECONDS
        )
        with self._connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
        self._views = ReadViews(self._connection, self._address, self._server, self._name)

    def _read_unlocked(self, table: Table, after: Sequence[str] | None, sees: Seen) -> ReadChunk:
        """Read the rows after a key, fewer of them while others change some."""
        deadline = time.monotonic() + VISIBLE_SECONDS
        while True:
            if self._gate is not None:
                with self._connection.cursor() as cursor:
                    self._gate.wait(cursor)
            try:
                return self._read(table, after, sees)
            except _RowLocked:
                self._limit = max(1, (self._limit or _FIRST_ROWS) // 2)
                if time.monotonic() > deadline:
                    raise SourceLost(
                        f"for {VISIBLE_SECONDS:.0f} s rows of {'.'.join(self._name)} were locked by "
                        "transactions that had not ended",
                        source=self._address,
                    ) from None

    def _bad_condition(self, error: pymysql.MySQLError) -> SnapshotUnsupported:
        return SnapshotUnsupported(
            f"its condition cannot be evaluated: {error.args[1] if error.args[1:] else error}",
            table=".".join(self._name),
            remedy="Start its snapshot again with another condition.",
        )

    def _can_read_all(self) -> bool:
        """Whether the table can be read without the operator's condition."""
        if self._connection is None or self._made is None:
            return False
        query = chunk_query(
            self._name,
            self._made[1].select_list,
            key=self._made[0].primary_key,
            after=None,
            limit=0,
        )
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(query)
        except pymysql.MySQLError:
            return False
        return True

    def _first_limit(self, cursor: Any) -> int:
        """The rows of the first chunk, by the size of a row as the server states it."""
        cursor.execute(_ROW_BYTES, self._name)
        row = cursor.fetchone()
        size = 0 if row is None else int(row[0] or 0)
        return max(1, min(_MOST_ROWS, TARGET_BYTES // size)) if size else _FIRST_ROWS

    def _estimate(self, cursor: Any) -> int | None:
        """The server's estimate of the rows to read, once."""
        if self._is_estimated:
            return None
        self._is_estimated = True
        name = ".".join(map(quoted, self._name))
        condition = f" WHERE ({self._where}\n)" if self._where is not None else ""
        form = "" if self._server.mariadb else "FORMAT=TRADITIONAL "
        cursor.execute(f"EXPLAIN {form}SELECT 1 FROM {name}{condition}")  # noqa: S608 - quoted names
        names = [column[0] for column in cursor.description]
        # The share that a condition lets through is not estimated where no index has its columns.
        return int(dict(zip(names, cursor.fetchone(), strict=True))["rows"] or 0)

    def _selected_table(self, table: Table) -> SelectedTable:
        if self._made is None or self._made[0] is not table:
            selected = SelectedTable(self._name, table, self._charsets, server=self._server)
            self._made = table, selected
        return self._made[1]

    def _read(self, table: Table, after: Sequence[str] | None, sees: Seen) -> ReadChunk:
        selected = self._selected_table(table)
        key = table.primary_key
        if self._where is not None and not key:
            raise SnapshotUnsupported(
                "it has no primary key, so its rows replace all that were published of it before, and a "
                "condition would leave the others out",
                table=".".join(self._name),
                remedy="Read all its rows, without a condition.",
            )
        is_part = bool(key) and not self._is_whole
        if self._limit is None:
            with self._connection.cursor() as cursor:
                self._limit = self._first_limit(cursor)
        limit = self._limit if is_part else _MOST_AT_ONCE
        if is_part and self._gate is not None:
            limit = self._gate.most_rows(limit)
        order = key_order(table)
        after = after[1:] if after is not None and after[0] == order else None
        query = chunk_query(
            self._name, selected.select_list, key=key, after=after, limit=limit, where=self._where
        )
        with self._connection.cursor() as cursor:
            if self._where is not None and not self._is_estimated:
                check_condition(cursor, self._name, self._where)
            estimate = self._estimate(cursor)
        most_bytes = _MOST_BYTES if is_part else None if key else _KEYLESS_BYTES
        began_ms, found = self._packets(query, sees, selected, most_bytes, has_key=bool(key))
        high = self._end(sees)
        if not key and (found.rows == limit or found.is_cut):
            raise SnapshotUnsupported(
                f"it has no primary key, and more than {_KEYLESS_BYTES >> 20} MiB or {_MOST_AT_ONCE:,} rows, "
                "which would have to be read at once",
                table=".".join(self._name),
                remedy="Give it a primary key, or leave it out with a filter.",
            )
        if found.rows and key:
            size = sum(map(len, found.blocks))
            by_size = found.rows * TARGET_BYTES // size
            self._limit = max(1, min(_MOST_ROWS, by_size, _GROWTH * limit))
        keys = self._keys(selected, key, found)
        return ReadChunk(
            table_map=selected.table_map,
            blocks=found.blocks,
            rows=found.rows,
            last=(order, *keys[-1]) if keys else None,
            is_last=found.rows < limit and not found.is_cut,
            high=high,
            began_ms=began_ms,
            is_keyless=not key,
            estimate=estimate,
            keys=tuple(keys) if self._keeps_keys else (),
        )

    def _keys(
        self, selected: SelectedTable, key: Sequence[str], found: SelectedPackets
    ) -> list[tuple[str, ...]]:
        """Literals of the last row's key, or of each row's if they are to be kept; none without a key."""
        if not key:
            return []
        blocks = found.blocks if self._keeps_keys else (found.last,)
        try:
            rows = [row for block in blocks for row in selected.texts.rows(block)]
        except (ValueError, IndexError, struct.error):
            # The error may contain row data.
            raise SnapshotUnsupported(
                "a row is not in the form of its columns", table=".".join(self._name)
            ) from None
        return [selected.key_literals(row, key) for row in rows]

    def _packets(
        self,
        query: str,
        sees: Seen,
        selected: SelectedTable,
        most_bytes: int | None,
        *,
        has_key: bool,
    ) -> tuple[int, SelectedPackets]:
        """When the SELECT began, and its rows."""
        assert self._views is not None, "_connect() comes first"

        def check(types: list[int]) -> None:
            if difference := selected.difference(types):
                raise DefinitionChanged(difference)

        try:
            clause = self._views.prove(sees, has_key=has_key)
            with self._connection.cursor() as cursor:
                began_ms = self._clock.asked(cursor)
            select = PreparedSelect(self._connection)
            return began_ms, select.packets(f"{query} {clause}", check, most_bytes=most_bytes)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in ROW_LOCKED:
                self._views.was_locked()
                self._clock.drop()
                raise _RowLocked from None
            raise

    def _end(self, sees: Seen) -> Coordinates:
        """The end of the binlog, which is not before what was read from it."""
        with self._connection.cursor() as cursor:
            found, _ = end_of_binlog(cursor)
        high = Coordinates(_text(found.file), found.pos)
        if isinstance(sees, Coordinates) and high.order < sees.order:
            raise SourceLost(
                f"its binlog ends at {high}, before {sees}, which was read from it: it was reset",
                source=self._address,
            )
        return high


def _without_values(error: pymysql.MySQLError) -> pymysql.MySQLError:
    """The error without a text that may quote a key or a row, as that of a wrong date does."""
    code = error.args[0] if error.args else None
    if not isinstance(code, int) or code in _OF_CLIENT or code in _WITHOUT_VALUES:
        return error
    return type(error)(code, "the server's text is hidden, since the table has masked columns")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
