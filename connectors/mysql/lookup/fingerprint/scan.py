"""The fingerprints of all transactions in a server's binlog after a position.

Invariant: the binlog is read as for capture, to its current end, and nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from connectors.errors import SourceLost
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint, FingerprintWindow, Sums
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.stream import dump_command
from connectors.mysql.stream.replica import BinlogStream
from connectors.mysql.transaction_reader import TransactionReader


@dataclass(slots=True)
class Scan:
    """The transactions of a server after a position."""

    begin: Coordinates
    """The position from which it was read."""
    found: list[Fingerprint] = field(default_factory=list)
    """In the order of the binlog."""
    end: Coordinates | None = None
    """The position after the last whole transaction; None if there was none."""


def scan(
    begin: SourceOffset,
    facts: ServerFacts,
    address: SourceAddress,
    captures: Callable[[str, str], bool],
) -> Scan:
    """Read on from a position between transactions; raise our errors on failure."""
    # With this id the server sends what it has and ends, and disconnects no other replica.
    stream = BinlogStream(replace(address, server_id=dump_command.UNREGISTERED_ID), begin)
    stream.open()
    reader = TransactionReader(facts.server_uuid, facts.charsets, mariadb=facts.is_mariadb)
    scanned, before = Scan(begin=begin.coordinates), Sums()
    try:
        for chunk in stream.chunks(lambda: True):
            listener = _Listener(FingerprintWindow(captures))
            reader.read(chunk, listener)
            before = listener.prints.follow(before)
            scanned.found += listener.prints.done
            scanned.end = listener.end_ or scanned.end
    except SourceLost as error:
        if not _is_the_end(error):
            raise
    finally:
        stream.close()
    return scanned


def _is_the_end(error: SourceLost) -> bool:
    return error.detail == "it ended the stream"


class _Listener:
    """Collects fingerprints, and the end of the last transaction."""

    def __init__(self, prints: FingerprintWindow) -> None:
        self.prints = prints
        self.end_: Coordinates | None = None

    def rows(
        self,
        transaction: Transaction,  # noqa: ARG002
        table_map: TableMap,
        event_type: int,
        body: bytes,
        pos: int,  # noqa: ARG002
    ) -> None:
        """Its rows are part of the fingerprint."""
        self.prints.rows(table_map, event_type, body)

    def query(self, text: str) -> None:
        """Ignored."""

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:  # noqa: ARG002
        """Its text is part of the fingerprint."""
        self.prints.statement(query)

    def change(self, transaction: Transaction, query: Query) -> None:
        """Ignored."""

    def savepoint(self, name: str) -> None:
        """Ignored."""

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        """Ignored."""

    def undone_rows(
        self,
        transaction: Transaction,  # noqa: ARG002
        table_map: TableMap,
        event_type: int,
        body: bytes,
    ) -> None:
        """They are part of the fingerprint too, as another reader may not know that they were undone."""
        self.prints.rows(table_map, event_type, body)

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """Ignored."""

    def end(self, transaction: Transaction, pos: int) -> None:
        """The transaction is complete."""
        self.prints.end(transaction, pos)
        self.end_ = Coordinates(transaction.file, pos)
