"""Dead letter records of undecodable rows, written and read.

Invariant: a record keeps the raw bytes, their TABLE_MAP, the transaction, the row's ordinal in it, and the
error. Bytes stay bytes; their description is JSON with a format number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from app.worker.pipeline.gather.parked_event import Record, key_of, position_fields
from app.worker.pipeline.gather.undecodable_rows import DeadRows
from app.worker.pipeline.piece import DeadLetter
from connectors.errors import JournalTooNew
from wire.changes import change_id
from wire.records import HEADER_CHANGE_ID, HEADER_META, HEADER_SEALED, HEADER_TABLE_MAP

FORMAT = 1


def dead_letter_record(item: DeadRows, ordinal: int) -> Record:
    """Return the dead letter's record; ``ordinal`` is that of the first row in its transaction."""
    meta = {
        "format": FORMAT,
        "kind": item.kind,
        "event_type": item.event_type,
        "query": item.query,
        "gtid": item.transaction.gtid,
        "reason": item.reason,
        **position_fields(item.transaction, item.pos, ordinal),
    }
    name = change_id(item.transaction.id, ordinal)
    headers = [
        (HEADER_CHANGE_ID, name.encode()),
        (HEADER_META, orjson.dumps(meta)),
        (HEADER_TABLE_MAP, item.table_map.raw),
    ]
    return key_of(item.name), item.body, headers


def letter_of(item: DeadRows, ordinal: int) -> DeadLetter:
    """Return the dead letter as it is reported to the run."""
    transaction = item.transaction
    position = f"{transaction.file}:{item.pos}"
    return DeadLetter(".".join(item.name), transaction.gtid, position, ordinal, item.reason)


def dead_letter_fields(
    key: bytes, value: bytes, headers: Mapping[str, bytes], offset: int
) -> dict[str, Any]:
    """Return the content of a dead letter's record, for operators and programs."""
    name, meta = orjson.loads(key), orjson.loads(headers[HEADER_META])
    if meta["format"] != FORMAT:
        raise JournalTooNew(f"a dead letter of format {meta['format']}", offset=offset)
    return {
        "offset": offset,
        "database": name["database"],
        "table": name["table"],
        "change_id": headers[HEADER_CHANGE_ID].decode(),
        "kind": meta["kind"],
        "gtid": meta["gtid"],
        "file": meta["file"],
        "pos": meta["pos"],
        "row": meta["ordinal"],
        "ts_ms": meta["ts_ms"],
        "event_type": meta["event_type"],
        "reason": meta["reason"],
        "bytes": value.hex(),
        "sealed": headers[HEADER_SEALED].decode() if HEADER_SEALED in headers else None,
        "table_map": headers[HEADER_TABLE_MAP].hex(),
    }
