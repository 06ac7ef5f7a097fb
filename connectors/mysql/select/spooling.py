"""All rows of a table in one SELECT, put into the portions of a spool while the server sends them.

Invariant: the rows of a few packets are in memory, and the spool's portion that is being filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from connectors.mysql.select.prepared_select import Block
from connectors.mysql.select.spool import Spool

SESSION = "SET SESSION net_write_timeout = 86400"
"""While reading waits, so does the server, which would otherwise end the connection after a minute."""
_PAUSE_BYTES = 4 * 1024 * 1024


class Spooling:
    """Fills a spool."""

    def __init__(self, spool: Spool, *, most_bytes: int | None, most_rows: int) -> None:
        """``most_bytes``, ``most_rows``: of a portion; None: all rows are one."""
        self._spool, self._most_bytes, self._most_rows = spool, most_bytes, most_rows
        self._blocks: list[bytes] = []
        self._size = self._rows = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of the rows that were added."""
        return self._spool.bytes + self._size

    def all(self, blocks: Iterable[Block], *, some: int, pause: Callable[[int], None]) -> None:
        """Add rows until there are no more; ``pause`` gets their number after ``some`` of them, or some MiB."""
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
