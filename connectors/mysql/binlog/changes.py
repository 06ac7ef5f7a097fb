"""What a binlog tells: transactions, their rows and statements, and who is told.

The law: all is told within a transaction, in the order of the binlog, and the transaction's end last.
"""

from __future__ import annotations

from typing import Protocol

from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.position import Coordinates


class Transaction:
    """Who a transaction is."""

    __slots__ = (
        "committed_ms",
        "file",
        "gtid",
        "id",
        "number",
        "original_us",
        "pos",
        "server_id",
        "source",
        "thread",
    )

    def __init__(
        self,
        file: str,
        pos: int,
        source: str | None,
        number: int,
        name: str,
        committed_ms: int,
        server_id: int,
    ) -> None:
        self.file = file
        self.pos = pos
        """Where its first event begins."""
        self.source = source
        """What its GTID begins with; None on a server without GTIDs."""
        self.number = number
        """What its GTID ends with."""
        self.id = name
        """Its GTID, else ``<server_uuid>:<file>:<pos>``."""
        self.gtid = None if source is None else name
        self.committed_ms = committed_ms
        """When it was committed at its source, milliseconds since 1970."""
        self.server_id = server_id
        self.thread: int | None = None
        self.original_us = 0
        """When its first server committed it, microseconds since 1970; told only of one without a GTID."""

    @property
    def start(self) -> Coordinates:
        """Where it begins."""
        return Coordinates(self.file, self.pos)


class Changes(Protocol):
    """Who is told what happens, in the order of the binlog."""

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """A rows event, not yet decoded nor unpacked where MariaDB compressed it, which begins at ``pos``."""

    def query(self, text: str) -> None:
        """The text of the statement whose rows follow, where the server writes it."""

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        """A statement that is DDL or TRUNCATE."""

    def change(self, transaction: Transaction, query: Query) -> None:
        """A change that is written as a statement; raise StatementBasedChange if it cannot be skipped."""

    def undone(self, what: str, *, earlier: bool) -> None:
        """Rows of the open transaction are taken back; raise UnsupportedEvent if they may be published.

        ``earlier``: whether chunks before this one hold some of its rows.
        """

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """An XA transaction is prepared by this transaction, else decided."""

    def end(self, transaction: Transaction, pos: int) -> None:
        """The end of a transaction, at ``pos``; everything before it holds."""


class Nobody:
    """Takes note only of the statement that is under way: the rest was told with the chunk before."""

    def __init__(self) -> None:
        self.text: str | None = None

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Not noted."""

    def query(self, text: str) -> None:
        """The rows that come next are its rows."""
        self.text = text

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        """Not noted."""

    def change(self, transaction: Transaction, query: Query) -> None:
        """Not noted."""

    def undone(self, what: str, *, earlier: bool) -> None:
        """Not noted."""

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """Not noted."""

    def end(self, transaction: Transaction, pos: int) -> None:
        """Not noted."""
