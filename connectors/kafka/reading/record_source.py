"""The destination and numbers of published records, whatever their format.

Invariant: of a record in another format than the envelope, they are in headers; ``docs/formats.md``.
"""

from __future__ import annotations

from typing import Any

import orjson

from connectors.kafka.reading.partition_reader import StoredRecord
from wire.records import HEADER_FORMAT, HEADER_GTID, origin_in


def format_of(record: StoredRecord) -> str | None:
    """Return the format of a record or tombstone; None for the envelope."""
    found = dict(record.headers).get(HEADER_FORMAT)
    return None if found is None else found.decode()


def source_of(record: StoredRecord) -> dict[str, Any]:
    """Return ``source`` of a record, or what of it is in headers; empty for a tombstone.

    Raises KeyError or ValueError for a record in another format that lacks them.
    """
    if not record.value:
        return {}
    if format_of(record) is None:
        source = orjson.loads(record.value).get("source")
        return source if isinstance(source, dict) else {}
    headers = dict(record.headers)
    name, epoch, seq = origin_in(headers)
    gtid = headers[HEADER_GTID].decode() if HEADER_GTID in headers else None
    return {"name": name, "seq": seq, "epoch": epoch, "gtid": gtid}
