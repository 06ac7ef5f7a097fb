"""Reads all rows of a table without a key: with one SELECT, because no key divides them, and into a spool.

Invariant: rows of a large table do not stay locked. If all rows have to be one Kafka transaction, the reading
is abandoned once they are too large for that. The source's load is checked while the rows arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from connectors.errors import SnapshotUnsupported, SourceLost
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.chunk_query import chunk_query, data_bytes
from connectors.mysql.select.load_limits import LoadGate
from connectors.mysql.select.prepared_select import Block, Check, PreparedSelect
from connectors.mysql.select.read_views import (
    ReadClock,
    ReadViews,
    Seen,
    TooManyLocked,
    locked_rows,
)
from connectors.mysql.select.spool import Spool
from connectors.mysql.server.facts import SourceAddress, connection_to

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
            cursor.execute(SESSION)
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


SESSION = "SET SESSION net_write_timeout = 86400"
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
