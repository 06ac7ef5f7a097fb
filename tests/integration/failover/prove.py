"""The cursor of who has published all that a server has, and what it proves there and elsewhere."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.worker.destination.failover.cursor_translation import CursorTranslation, TranslatedCursor
from app.worker.destination.plan import Failover
from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.errors import AqueductError
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.landmark import landmark_in
from connectors.mysql.lookup.fingerprint import RecentTransactions
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import Earliest, first_offset
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from devstack.mysql import Mysql
from tables.state.cursor import Cursor, CursorProof
from tests.integration.worker.source import address_of, facts_of
from tests.integration.worker.streams import at, opened
from tests.unit.app.worker.pipeline.runs import RULES


def published(mysql: Mysql) -> Cursor:
    """With its proof, as a run makes it chunk by chunk."""
    facts, address = facts_of(mysql), address_of(mysql)
    begin = first_offset(Earliest(), facts, address)
    proof, listener = CursorProof(), _Listener()
    reader = TransactionReader(facts.server_uuid, facts.charsets, mariadb=facts.is_mariadb)
    stream = opened(address, at(begin.coordinates))
    try:
        for chunk in stream.chunks(lambda: True):
            listener = _Listener()
            reader.read(chunk, listener)
            proof = _after(proof, reader, chunk, listener)
            if _is_all(proof, facts):
                break
    finally:
        stream.close()
    assert proof.landmark is not None
    offset = SourceOffset(
        server_uuid=facts.server_uuid,
        coordinates=proof.landmark.end,
        gtid_set=facts.gtids_at_end,
    )
    return Cursor(
        destination="shop", installation="i", epoch=1, seq=9, versions=0, offset=offset, proof=proof
    )


def _is_all(proof: CursorProof, facts: ServerFacts) -> bool:
    file, size = facts.binlogs[-1]
    end = proof.landmark.end if proof.landmark is not None else None
    return end is not None and (end.file, end.pos) == (file, size)


class _Listener:
    """The transactions that a decoder records."""

    def __init__(self) -> None:
        self.recents = RecentTransactions(lambda database, _: database == "shop")
        self.last: Transaction | None = None

    def rows(self, _: Any, table_map: Any, event_type: int, body: bytes, pos: int) -> None:  # noqa: ARG002
        self.recents.rows(table_map, event_type, body)

    def query(self, text: str) -> None:
        pass

    def statement(self, _: Any, kind: Any, query: Any, pos: int) -> None:  # noqa: ARG002
        self.recents.statement(query)

    def change(self, transaction: Any, query: Any) -> None:
        pass

    def savepoint(self, name: str) -> None:
        pass

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        pass

    def undone_rows(self, _: Any, table_map: Any, event_type: int, body: bytes) -> None:
        self.recents.rows(table_map, event_type, body)

    def xa(self, transaction: Any, xid: str, *, is_prepared: bool) -> None:
        pass

    def end(self, transaction: Transaction, pos: int) -> None:
        self.recents.end(transaction, pos)
        self.last = transaction


def _after(
    proof: CursorProof, reader: TransactionReader, chunk: Chunk, listener: _Listener
) -> CursorProof:
    landmark = landmark_in(chunk, reader.ended, listener.last) if listener.last else None
    return proof.after(landmark, listener.recents.found())


def moved(cursor: Cursor, server: Mysql, **failover: Any) -> TranslatedCursor:
    """The position to resume from at a server."""
    return CursorTranslation(
        cursor=cursor,
        facts=facts_of(server),
        address=address_of(server),
        failover=Failover(**failover),
        rules=RULES,
        other=None,
        clocks={},
    ).moved(cast(Any, None))


def refused(cursor: Cursor, server: Mysql, kind: type[AqueductError], text: str) -> None:
    with pytest.raises(kind, match=text):
        moved(cursor, server)


def at_home(cursor: Cursor, server: Mysql) -> CursorProof:
    """The position that a run finds at the server read before."""
    facts, address = facts_of(server), address_of(server)
    check(cursor.offset, facts, address)
    return CursorVerification(destination="shop", facts=facts, address=address).at_home(
        cursor.offset, cursor.proof
    )
