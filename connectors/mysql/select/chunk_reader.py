"""Reads the rows of a table in chunks, each between two positions of the binlog; without a key, into a spool.

Invariant: a chunk's SELECT sees every required transaction, as the server has proven, and no transaction
after the high position. The required privileges are SELECT and the privilege to show the end of the binlog.

A server writes a transaction to the binlog before it makes the transaction visible. So a SELECT sees nothing
that is past the end of the binlog, if this end is queried after the SELECT.

A table without a key is read with one SELECT, because no key divides it. Rows of a large table do not stay
locked. If all rows have to be one Kafka transaction, the reading is abandoned once they are too large for
that.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from connectors.errors import SnapshotUnsupported, SourceLost, TableUnreadable
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.server_columns import end_of_binlog
from connectors.mysql.select.chunk_query import (
    chunk_query,
    data_bytes,
    estimated_rows,
    key_order,
    last_row_query,
    row_bytes,
)
from connectors.mysql.select.load_limits import LoadGate
from connectors.mysql.select.prepared_select import Block, Check, PreparedSelect, SelectedPackets
from connectors.mysql.select.read_views import (
    ROW_LOCKED,
    VISIBLE_SECONDS,
    ReadClock,
    ReadViews,
    RowLocked,
    Seen,
    TooManyLocked,
    WorkerClock,
    locked_rows,
)
from connectors.mysql.select.selected_table import SESSION, SelectedTable, as_printed, read_labels
from connectors.mysql.select.spool import Spool, Spools
from connectors.mysql.select.table_checks import (
    UNLOCK,
    WITHOUT_TABLE,
    check_condition,
    error_of_read,
    is_interrupted,
    text_of,
    without_values,
)
from connectors.mysql.server.connection import SourceAddress, connection_to

_UNDIVIDED_BYTES = 64 * 1024 * 1024
"""Maximum size, in bytes, of a table whose rows are all one portion, or stay locked while they are read."""


class KeylessReader:
    """Fills spools with the rows of one table; used by one thread at a time."""

    def __init__(
        self,
        address: SourceAddress,
        name: TableName,
        *,
        is_divided: bool,
        gate: LoadGate | None,
        clock: ReadClock,
    ) -> None:
        """``is_divided``: whether the rows may be several portions. ``gate``, ``clock``: see ChunkReader."""
        self._address, self._name = address, name
        self._is_divided, self._gate, self._clock = is_divided, gate, clock
        self._may_lock = True
        self._is_closed = False
        self._asking: Any = None
        """A connection that queries the source's load during a SELECT."""

    def close(self) -> None:
        """Query the source's load no more, from any thread."""
        self._is_closed = True
        self._rest()

    def _rest(self) -> None:
        asking = self._asking
        if asking is not None:
            asking._force_close()

    def fill(
        self,
        spool: Spool,
        connection: Any,
        views: ReadViews,
        *,
        sees: Seen,
        select_list: str,
        check: Check,
        prove: Callable[[bytes], None] | None = None,
        portion: tuple[int, int],
    ) -> int:
        """Spool all rows, within the load limits; return when the SELECT began, in milliseconds since 1970.

        ``check``, ``prove``: see PreparedSelect. ``portion``: the maximum bytes and rows of a portion. After
        an error other than RowLocked itself, the server may still be sending rows.
        """
        with connection.cursor() as cursor:
            spool.expect(data_bytes(cursor, self._name))
            cursor.execute(_PATIENCE)
        most_bytes, most_rows = portion
        spooling = Spooling(
            spool, most_bytes=most_bytes if self._is_divided else None, most_rows=most_rows
        )
        query = chunk_query(self._name, select_list, key=(), after=None, limit=None)
        try:
            with locked_rows(views, self._clock):
                clause = views.prove(sees, has_key=False, may_lock=self._may_lock)

                def pause(rows: int) -> None:
                    self._check_size(spooling.bytes, is_locking=bool(clause))
                    self._pause(rows)

                with connection.cursor() as cursor:
                    began_ms = self._clock.asked(cursor)
                blocks = PreparedSelect(connection, prove).blocks(f"{query} {clause}", check)
                some = most_rows if self._gate is None else self._gate.most_rows(most_rows)
                spooling.all(blocks, some=some, pause=pause)
        finally:
            self._rest()
            self._asking = None
        return began_ms

    def _check_size(self, size: int, *, is_locking: bool) -> None:
        """Abandon a SELECT whose rows are too large for one portion, or too large to stay locked."""
        if size <= _UNDIVIDED_BYTES:
            return
        if not self._is_divided:
            raise self._undivided()
        if is_locking:
            self._may_lock = False
            raise TooManyLocked

    def _pause(self, rows: int) -> None:
        """Count rows of a SELECT, and wait until it may continue."""
        if self._gate is None:
            return
        self._gate.read(rows)
        if self._asking is None:
            self._asking = connection_to(self._address, use_unicode=False, conv={})
        if self._is_closed:
            # There may have been no connection yet for ``close`` to end.
            self._rest()
            raise SourceLost("the reader was closed", source=self._address)
        with self._asking.cursor() as cursor:
            self._gate.wait(cursor)

    def _undivided(self) -> SnapshotUnsupported:
        return SnapshotUnsupported(
            f"it has no primary key, and more than {_UNDIVIDED_BYTES >> 20} MiB of rows, which are one Kafka "
            "transaction, as nothing is published that removes all of them (truncates: omit, or operations "
            "without delete): rows could not be replaced after a part of them",
            table=".".join(self._name),
            remedy="Set truncates to record and publish deletes, or give it a primary key, or exclude it.",
        )


_PATIENCE = "SET SESSION net_write_timeout = 86400"
"""While reading waits, the server waits too; by default, it would end the connection after a minute."""
_PAUSE_BYTES = 4 * 1024 * 1024


class Spooling:
    """Fills a spool.

    Invariant: memory contains only the rows of a few packets and the portion that is being filled.
    """

    def __init__(self, spool: Spool, *, most_bytes: int | None, most_rows: int) -> None:
        """``most_bytes``, ``most_rows``: maximum of a portion; without bytes, all rows are one portion."""
        self._spool, self._most_bytes, self._most_rows = spool, most_bytes, most_rows
        self._blocks: list[bytes] = []
        self._size = self._rows = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of the rows that were added."""
        return self._spool.bytes + self._size

    def all(self, blocks: Iterable[Block], *, some: int, pause: Callable[[int], None]) -> None:
        """Add all rows; ``pause`` is called after ``some`` rows, or some MiB, with their number."""
        count, size = 0, self.bytes
        for block in blocks:
            self._add(block)
            count += block.rows
            if count >= some or self.bytes - size > _PAUSE_BYTES:
                pause(count)
                count, size = 0, self.bytes
        pause(count)
        if self._blocks or not len(self._spool):
            self._end_portion()

    def _add(self, block: Block) -> None:
        self._blocks.append(block.packets)
        self._size += len(block.packets)
        self._rows += block.rows
        most = self._most_bytes
        if most is not None and (self._size >= most or self._rows >= self._most_rows):
            self._end_portion()

    def _end_portion(self) -> None:
        self._spool.add(tuple(self._blocks), self._rows)
        self._blocks, self._size, self._rows = [], 0, 0


TARGET_BYTES = 1536 * 1024
"""Target size of a chunk's rows, in bytes as the server sends them."""
_MOST_BYTES = 4 * TARGET_BYTES
"""Size in bytes at which a chunk ends; further rows of the same SELECT are read again with the next chunk."""
_FIRST_ROWS, MOST_ROWS, _GROWTH = 1_000, 20_000, 16
"""Rows of the first chunk if the server does not report a row's size; maximum rows of any chunk; factor by
which the next chunk may have more rows than the last chunk."""
_MOST_AT_ONCE = 1_000_000
"""Maximum rows of a reading whose rows all have to be one chunk."""
_ANSWER_SECONDS = 600.0


class DefinitionChanged(Exception):
    """The table at the server no longer matches its definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChunk:
    """The rows of one SELECT."""

    table_map: bytes
    blocks: tuple[bytes, ...]
    """The rows, in the form of ``SelectedPackets.blocks``."""
    rows: int
    last: tuple[str, ...] | None
    """The order of the key, and literals of the last row's key; None without rows or a key."""
    is_last: bool
    """Whether no rows come after this chunk."""
    high: Coordinates
    """A position that is after every change that the SELECT saw."""
    began_ms: int
    """When the SELECT began, milliseconds since 1970."""
    spool: Spool | None = None
    """For a table without a primary key: all its rows, instead of ``blocks``; the receiver closes it."""
    estimate: int | None = None
    """The server's estimate of the total number of rows to read; only in a reader's first chunk."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Literals of each row's key, if the reader keeps them (``keeps_keys``)."""


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
        most_rows: int = MOST_ROWS,
        clock: ReadClock | None = None,
        spools: Spools | None = None,
        is_divided: bool = True,
        is_bounded: bool = False,
    ) -> None:
        """``definition``: returns the table's current definition in its history; None without a table.

        ``is_masked``: whether some of the table's values are hidden, so that errors omit the server's texts.
        ``where``: an operator's SQL condition on the rows. ``gate``: the load limits for which a read waits.
        ``keeps_keys``: whether chunks have the key of each row. ``is_whole``: whether all rows are one chunk;
        otherwise, a chunk has up to ``most_rows`` rows. ``clock``: the clock for ``ReadChunk.began_ms``; None:
        this machine's clock. ``spools``: where rows of a table without a key are kept; ``is_divided``: whether
        they may be several portions. ``is_bounded``: whether reading ends with the row that is the last row in
        the order of the key after the first chunk.
        """
        self._clock = clock or WorkerClock()
        self._spools = spools or Spools()
        self._keyless = KeylessReader(
            address, name, is_divided=is_divided, gate=gate, clock=self._clock
        )
        self._keeps_keys, self._is_whole, self._most_rows = keeps_keys, is_whole, most_rows
        self._is_bounded = is_bounded
        self._until: tuple[str, ...] | None = None
        """The order of the key, and literals of the key of the last row to read; None: not known yet."""
        self._address, self._name, self._charsets, self._server = address, name, charsets, server
        self._definition, self._is_masked, self._where = definition, is_masked, where
        self._gate = gate
        self._is_estimated = False
        self._connection: Any = None
        self._is_closed = False
        self._views: ReadViews | None = None
        self._limit: int | None = None
        """The number of rows of the next chunk; None before the first chunk."""
        self._made: tuple[Table, SelectedTable] | None = None

    def close(self) -> None:
        """Read no more, from any thread; a read that is running or connecting fails with SourceLost."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection._force_close()
        self._keyless.close()

    def rest(self) -> None:
        """Close the connection until the next read; only the reading thread may call this."""
        if self._connection is not None:
            self._connection._force_close()
        self._connection = None

    def read(self, after: Sequence[str] | None, sees: Seen) -> ReadChunk | None:
        """Read the rows after a key, with a SELECT that sees the transactions ``sees``; None without a table.

        ``after``: the previous chunk's ``last``. If a statement has changed the table's key or its order since,
        reading starts again with the first rows, because in another order, other rows follow a key.

        Raise DefinitionChanged if the server's table differs from the definition, SnapshotUnsupported if its
        rows cannot be read exactly, TableUnreadable if they cannot be read now, SourceLost and related errors.
        """
        table = self._definition()
        if table is None:
            return None
        try:
            chunk = self._read_unlocked(table, after, sees)
            if self._gate is not None and chunk.spool is None:
                self._gate.read(chunk.rows)
            return chunk
        except DefinitionChanged:
            # The server may still be sending rows of the result.
            self.rest()
            raise
        except pymysql.MySQLError as raised:
            self._drop_if_broken(raised)
            error = without_values(raised) if self._is_masked else raised
            if self._where is not None and not is_interrupted(error) and self._can_read_all():
                raise self._bad_condition(error) from error
            if error.args and error.args[0] in WITHOUT_TABLE:
                raise DefinitionChanged(text_of(error)) from error
            # After some errors the server ends the connection.
            self.rest()
            raise error_of_read(error, self._name, self._address) from error
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
        if self._is_closed:
            # There was no connection yet for ``close`` to end.
            self.rest()
            raise SourceLost("the reader was closed", source=self._address)
        with self._connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
        self._views = ReadViews(self._connection, self._address, self._server, self._name)

    def _read_unlocked(self, table: Table, after: Sequence[str] | None, sees: Seen) -> ReadChunk:
        """Read the rows after a key; while other sessions lock some of them, try again with fewer rows."""
        deadline = time.monotonic() + VISIBLE_SECONDS
        while True:
            if self._connection is None:
                self._connect()
            if self._gate is not None:
                with self._connection.cursor() as cursor:
                    self._gate.wait(cursor)
            assert self._views is not None, "_connect() comes first"
            try:
                with locked_rows(self._views, self._clock):
                    return self._read(table, after, sees)
            except RowLocked as locked:
                self._limit = max(1, (self._limit or _FIRST_ROWS) // 2)
                if time.monotonic() > deadline:
                    raise self._still_locked(locked) from None

    def _still_locked(self, locked: RowLocked) -> TableUnreadable:
        return TableUnreadable(
            f"for {VISIBLE_SECONDS:.0f} s other sessions had locked it, or rows of it: {locked}",
            table=".".join(self._name),
            source=self._address,
            remedy=UNLOCK,
        )

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
        """Return the number of rows of the first chunk, by the size of a row that the server reports."""
        size = row_bytes(cursor, self._name)
        return max(1, min(MOST_ROWS, TARGET_BYTES // size)) if size else _FIRST_ROWS

    def _estimate(self, cursor: Any) -> int | None:
        """Return the server's estimate of the number of rows to read; None after the first call."""
        if self._is_estimated:
            return None
        found = estimated_rows(cursor, self._name, self._where, self._server)
        self._is_estimated = True
        return found

    def _selected_table(self, table: Table) -> SelectedTable:
        if self._made is None or self._made[0] is not table:
            with self._connection.cursor() as cursor:
                labelled, unknown = read_labels(cursor, self._name, table)
            selected = SelectedTable(
                self._name, labelled, self._charsets, server=self._server, unknown=unknown
            )
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
        if not key:
            return self._read_spooled(selected, sees)
        is_part = not self._is_whole
        if self._limit is None:
            with self._connection.cursor() as cursor:
                self._limit = self._first_limit(cursor)
        limit = min(self._limit, self._most_rows) if is_part else _MOST_AT_ONCE
        if is_part and self._gate is not None:
            limit = self._gate.most_rows(limit)
        order = key_order(table)
        query = chunk_query(
            self._name,
            selected.select_list,
            key=key,
            after=_in_order(after, order),
            limit=limit,
            until=_in_order(self._until, order),
            where=self._where,
        )
        with self._connection.cursor() as cursor:
            if self._where is not None and not self._is_estimated:
                check_condition(cursor, self._name, self._where)
            estimate = self._estimate(cursor)
        most_bytes = _MOST_BYTES if is_part else None
        began_ms, clause, found = self._packets(query, sees, selected, most_bytes)
        high = self._end(sees)
        if found.rows:
            size = sum(map(len, found.blocks))
            by_size = found.rows * TARGET_BYTES // size
            self._limit = max(1, min(MOST_ROWS, by_size, _GROWTH * limit))
        keys = self._keys(selected, key, found)
        is_last = found.rows < limit and not found.is_cut
        if self._is_bounded and not is_last and _in_order(self._until, order) is None:
            self._until = self._bound(selected, key, order, clause)
        return ReadChunk(
            table_map=selected.table_map,
            blocks=found.blocks,
            rows=found.rows,
            last=(order, *keys[-1]) if keys else None,
            is_last=is_last,
            high=high,
            began_ms=began_ms,
            estimate=estimate,
            keys=tuple(keys) if self._keeps_keys else (),
        )

    def _prove(self, packets: bytes) -> None:
        """Raise DefinitionChanged if rows have a label that no row had before; labels are then read again."""
        assert self._made is not None
        try:
            column = self._made[1].unknown_label(packets)
        except (ValueError, IndexError, struct.error):
            return  # the rows' decoder reports it
        if column is not None:
            self._made = None
            raise DefinitionChanged(f"the first row has a label of column {column!r}")

    def _keys(
        self, selected: SelectedTable, key: Sequence[str], found: SelectedPackets
    ) -> list[tuple[str, ...]]:
        """Return literals of the last row's key, or with ``keeps_keys``, of every row's key."""
        blocks = found.blocks if self._keeps_keys else (found.last,)
        try:
            rows = [row for block in blocks for row in selected.values.rows(block)]
        except (ValueError, IndexError, struct.error):
            # The error may contain row data.
            raise SnapshotUnsupported(
                "a row is not in the form of its columns", table=".".join(self._name)
            ) from None
        return [selected.key_literals(row, key) for row in rows]

    def _bound(
        self, selected: SelectedTable, key: Sequence[str], order: str, clause: str
    ) -> tuple[str, ...] | None:
        """Return the order and the last row's key, read with the chunk's ``clause``; None if not known yet.

        Rows that are not visible yet are in the stream, so reading ends even if the table grows as fast as it
        is read. If visibility is proven by locks, a last row that is not visible yet is locked. Then the end is
        queried again after the next chunk.
        """
        select = PreparedSelect(self._connection)
        query = last_row_query(self._name, selected.select_list, key=key)
        try:
            found = select.packets(f"{query} {clause}", _types_of(selected))
        except pymysql.MySQLError as error:
            if clause and error.args and error.args[0] in ROW_LOCKED:
                return None
            raise
        keys = self._keys(selected, key, found)
        return (order, *keys[-1]) if keys else None

    def _packets(
        self, query: str, sees: Seen, selected: SelectedTable, most_bytes: int | None
    ) -> tuple[int, str, SelectedPackets]:
        """Execute the SELECT; return when it began (milliseconds since 1970), its clause, and its rows."""
        assert self._views is not None, "_connect() comes first"
        with locked_rows(self._views, self._clock):
            clause = self._views.prove(sees, has_key=True)
            with self._connection.cursor() as cursor:
                began_ms = self._clock.asked(cursor)
            select = PreparedSelect(self._connection, self._prove)
            check = _types_of(selected)
            found = select.packets(f"{query} {clause}", check, most_bytes=most_bytes)
            return began_ms, clause, found

    def _read_spooled(self, selected: SelectedTable, sees: Seen) -> ReadChunk:
        """Read all rows of a table without a key."""
        assert self._views is not None, "_connect() comes first"
        spool = Spool(self._spools, self._name)
        try:
            with self._connection.cursor() as cursor:
                estimate = self._estimate(cursor)
            began_ms = self._keyless.fill(
                spool,
                self._connection,
                self._views,
                sees=sees,
                select_list=selected.select_list,
                check=_types_of(selected),
                prove=self._prove,
                portion=(TARGET_BYTES, MOST_ROWS),
            )
            high = self._end(sees)
        except BaseException as error:
            spool.close()
            if type(error) is not RowLocked:
                # The server may still be sending rows.
                self.rest()
            raise
        return ReadChunk(
            table_map=selected.table_map,
            blocks=(),
            rows=spool.rows,
            last=None,
            is_last=True,
            high=high,
            began_ms=began_ms,
            spool=spool,
            estimate=estimate,
        )

    def _end(self, sees: Seen) -> Coordinates:
        """Return the end of the binlog; raise SourceLost if it is before a position that was read."""
        with self._connection.cursor() as cursor:
            found, _ = end_of_binlog(cursor)
        high = Coordinates(_text(found.file), found.pos)
        if isinstance(sees, Coordinates) and high.order < sees.order:
            raise SourceLost(
                f"its binlog ends at {high}, before {sees}, which was read from it: it was reset",
                source=self._address,
            )
        return high


def _in_order(key: Sequence[str] | None, order: str) -> Sequence[str] | None:
    """Return the literals of a key that is stored with its order; None if the order has changed since."""
    return key[1:] if key is not None and key[0] == order else None


def _types_of(selected: SelectedTable) -> Check:
    """Return a check that raises DefinitionChanged if a result's types differ from the table's."""

    def check(types: list[int]) -> None:
        if difference := selected.difference(types):
            raise DefinitionChanged(difference)

    return check


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


_COUNT = (
    "SELECT COALESCE(MAX(table_rows), 0) FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s"
)


def random_keys(
    address: SourceAddress,
    name: TableName,
    table: Table,
    *,
    charsets: Charsets,
    server: Server,
    is_masked: bool = False,
    count: int,
    chance: random.Random,
) -> list[tuple[str, ...] | None]:
    """Return keys to read after, in the form of ``ReadChunk.last``, unordered; None: the table's beginning.

    ``is_masked``: see ChunkReader. Raise the errors of ChunkReader.
    """
    selected = SelectedTable(name, as_printed(table), charsets, server=server)
    query = chunk_query(name, selected.select_list, key=table.primary_key, after=None, limit=1)
    found: list[tuple[str, ...] | None] = []
    connection = connection_to(address, use_unicode=False, conv={}, read_timeout=_ANSWER_SECONDS)
    select = PreparedSelect(connection)

    def check(types: list[int]) -> None:
        if difference := selected.difference(types):
            raise DefinitionChanged(difference)

    try:
        with connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            cursor.execute(_COUNT, name)
            # The number is an estimate; the last of these rows may not exist.
            rows = int(cursor.fetchall()[0][0])
            for _ in range(count):
                number = chance.randrange(rows + 1)
                # A sample begins after the key of the previous row; the first row has no previous row.
                packets = select.packets(f"{query} OFFSET {max(0, number - 1)}", check)
                row = next(selected.values.rows(packets.last), None) if number else None
                if row is None:
                    found.append(None)
                else:
                    literals = selected.key_literals(row, table.primary_key)
                    found.append((key_order(table), *literals))
    except pymysql.MySQLError as raised:
        error = without_values(raised) if is_masked else raised
        if error.args and error.args[0] in WITHOUT_TABLE:
            raise DefinitionChanged(text_of(error)) from error
        raise error_of_read(error, name, address) from error
    finally:
        connection.close()
    return found
