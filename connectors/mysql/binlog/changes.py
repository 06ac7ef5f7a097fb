"""The contents of a binlog: transactions with their rows and statements, and the interface that receives them.

Invariant: every call belongs to a transaction, calls come in the order of the binlog, and the
transaction's end comes last.
"""

# ruff: noqa: ARG002 - a receiver ignores what it does not define

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.position import Coordinates


class Transaction:
    """A transaction's identity."""

    __slots__ = (
        "committed_ms",
        "file",
        "gtid",
        "id",
        "is_settled",
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
        """Offset of its first event."""
        self.source = source
        """The part of its GTID before the number; None on a server without GTIDs."""
        self.number = number
        """The number in its GTID."""
        self.id = name
        """Its GTID, else ``<server_uuid>:<file>:<pos>``."""
        self.gtid = None if source is None else name
        self.committed_ms = committed_ms
        """Commit time at the server that is read, in milliseconds since 1970; the first event's time if
        the server writes no commit time."""
        self.server_id = server_id
        self.thread: int | None = None
        self.original_us = 0
        """Commit time at the server that first committed it, in microseconds since 1970; set only for
        transactions without a GTID."""
        self.is_settled = False
        """Whether its undone rows are already known when its rows are reported."""

    @property
    def start(self) -> Coordinates:
        """The coordinates of its first event."""
        return Coordinates(self.file, self.pos)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that are stored in addition to its start."""
        return {
            "source": self.source,
            "number": self.number,
            "id": self.id,
            "ts_ms": self.committed_ms,
            "server_id": self.server_id,
            "thread": self.thread,
        }

    @classmethod
    def of(cls, start: Coordinates, identity: Mapping[str, Any]) -> Transaction:
        """Return the transaction at ``start``; ``identity`` has the property's members, and may have more."""
        source, number, name = identity["source"], identity["number"], identity["id"]
        committed_ms, server_id = identity["ts_ms"], identity["server_id"]
        found = cls(start.file, start.pos, source, number, name, committed_ms, server_id)
        found.thread = identity["thread"]
        return found


class Changes(Protocol):
    """Receiver of the binlog's contents, called in the order of the binlog.

    A class that names it as its base ignores what it does not define.
    """

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """A rows event at ``pos``, not yet decoded; if MariaDB compressed it, not yet unpacked."""
        return

    def query(self, text: str) -> None:
        """The text of the statement whose rows follow, if the server writes it."""
        return

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:
        """A statement that is DDL or TRUNCATE."""
        return

    def change(self, transaction: Transaction, query: Query) -> None:
        """A change written as a statement; raise StatementBasedChange if it cannot be skipped."""
        return

    def savepoint(self, name: str) -> None:
        """A savepoint of the open transaction, set by this name."""
        return

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        """Rows of the open transaction are undone: all rows, or only the rows since ``savepoint``.

        ``earlier``: whether earlier chunks contain some of the transaction's rows. Raise UnsupportedEvent
        if undone rows may already be published.
        """
        return

    def undone_rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes
    ) -> None:
        """A rows event that is already known to be undone."""
        return

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """The transaction prepares an XA transaction, or else commits it or rolls it back."""
        return

    def end(self, transaction: Transaction, pos: int) -> None:
        """The end of a transaction, at ``pos``; everything before it is final."""
        return


class QueryTextOnly(Changes):
    """A receiver that keeps only the current statement's text: all else was reported with an earlier chunk."""

    def __init__(self) -> None:
        self.text: str | None = None

    def query(self, text: str) -> None:
        """Keep the text of the statement whose rows follow."""
        self.text = text
