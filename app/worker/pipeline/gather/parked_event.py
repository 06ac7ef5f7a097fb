"""Records of the events of a quarantined table, written and read.

Invariant: a record keeps all that is needed to decode the event later: the raw bytes, their TABLE_MAP, the
transaction, and their ordinal in it. Bytes stay bytes; their description is JSON with a format number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.worker.pipeline.gather.inserted_events import RowsEvent
from app.worker.pipeline.gather.items import Ddl, ParkedRows
from connectors.errors import JournalTooNew
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.position import Coordinates
from tables.rules.masking import NO_KEYS, MaskingKeys, opened, sealed
from wire.records import HEADER_META, HEADER_SEALED, HEADER_TABLE_MAP

FORMAT = 1

Headers = list[tuple[str, bytes]]
Record = tuple[bytes, bytes, Headers]


def key_of(name: tuple[str, str]) -> bytes:
    """Return the key of all parked events of a table."""
    return orjson.dumps({"database": name[0], "table": name[1]})


def record_of_rows(item: ParkedRows, first_ordinal: int) -> Record:
    """Return the record of a rows event; ``first_ordinal``: its transaction's rows before its piece."""
    meta = {
        "format": FORMAT,
        "kind": "rows",
        "event_type": item.event_type,
        "rows": item.rows,
        "query": item.query,
        **position_fields(item.transaction, item.pos, first_ordinal + item.ordinal),
    }
    headers = [(HEADER_META, orjson.dumps(meta)), (HEADER_TABLE_MAP, item.table_map.raw)]
    return key_of(item.name), item.body, headers


def record_of_statement(item: Ddl, name: tuple[str, str], first_ordinal: int) -> Record:
    """Return the record of a statement that affects a quarantined table."""
    query = item.parked or item.query
    meta = {
        "format": FORMAT,
        "kind": "statement",
        "statement": item.kind.value,
        "database": query.database,
        "sql_mode": query.sql_mode,
        "status": query.status.hex(),
        "departed": _departed(item, name),
        **position_fields(item.transaction, item.pos, first_ordinal + item.ordinal),
    }
    return key_of(name), query.sql.encode(), [(HEADER_META, orjson.dumps(meta))]


def _departed(item: Ddl, name: tuple[str, str]) -> int | None:
    """The ordinal, from the statement's on, of the record that all rows of a quarantined table are gone.

    None unless the statement drops or renames the table. The tables that were not quarantined had the ordinals
    before.
    """
    if item.resolved is None or item.resolved.is_noise:
        return None
    names = [one.name for one in item.resolved.departed()]
    return len(names) + names.index(name) if name in names else None


def position_fields(transaction: Transaction, pos: int, ordinal: int) -> dict[str, Any]:
    """Return a position in a transaction, as part of an event's description."""
    return {
        "file": transaction.file,
        "start": transaction.pos,
        "pos": pos,
        **transaction.identity,
        "ordinal": ordinal,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEvent:
    """One parked event."""

    offset: int
    """Its offset in the quarantine topic."""
    name: tuple[str, str]
    transaction: Transaction
    pos: int
    ordinal: int
    event_type: int
    """The type of a rows event; 0 for a statement."""
    table_map: bytes
    body: bytes
    text: str | None
    """The statement that changed these rows, if it is published."""
    query: Query | None
    """A statement that affects the table."""
    statement: str
    """Its kind, a value of ``connectors.mysql.binlog.statement_kind.Kind``."""
    departed: int | None
    """If the statement drops or renames the table: the ordinal, from the statement's on, of the record that all
    of its rows are gone. None too in a record of an earlier version of the worker."""

    @property
    def rows(self) -> RowsEvent:
        """Return the rows event."""
        event = self.event_type, self.body, self.pos, self.ordinal, self.text
        return RowsEvent(self.transaction, self.table_map, *event)


def is_of_rows(headers: Iterable[tuple[str, bytes]]) -> bool:
    """Return whether a parked event has rows; a parked statement has no table map."""
    return any(name == HEADER_TABLE_MAP for name, _ in headers)


def sealed_record(record: Record, keys: MaskingKeys) -> Record:
    """Return a record with its value sealed, since it contains raw values of masked columns."""
    key, value, headers = record
    name, raw = sealed(keys, value, key)
    return key, raw, [*headers, (HEADER_SEALED, name.encode())]


def parked_of(
    key: bytes,
    value: bytes,
    headers: Mapping[str, bytes],
    offset: int,
    *,
    keys: MaskingKeys = NO_KEYS,
) -> ParkedEvent:
    """Read what ``record_of_rows`` and ``record_of_statement`` wrote.

    Raise MappingError if the value is sealed with a key that is not among ``keys``.
    """
    name, meta = orjson.loads(key), orjson.loads(headers[HEADER_META])
    if HEADER_SEALED in headers:
        value = opened(keys, headers[HEADER_SEALED].decode(), value, key)
    if meta["format"] != FORMAT:
        raise JournalTooNew(f"a parked event of format {meta['format']}", offset=offset)
    is_rows = meta["kind"] == "rows"
    return ParkedEvent(
        offset=offset,
        name=(name["database"], name["table"]),
        transaction=Transaction.of(Coordinates(meta["file"], meta["start"]), meta),
        pos=meta["pos"],
        ordinal=meta["ordinal"],
        event_type=meta["event_type"] if is_rows else 0,
        table_map=headers[HEADER_TABLE_MAP] if is_rows else b"",
        body=value if is_rows else b"",
        text=meta["query"] if is_rows else None,
        query=None if is_rows else _query(meta, value),
        statement="" if is_rows else meta["statement"],
        departed=None if is_rows else meta.get("departed"),
    )


def _query(meta: dict[str, Any], sql: bytes) -> Query:
    return Query(
        thread=meta["thread"] or 0,
        database=meta["database"],
        sql=sql.decode(),
        sql_mode=meta["sql_mode"],
        error_code=0,
        status=bytes.fromhex(meta["status"]),
    )
