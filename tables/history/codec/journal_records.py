"""The schema history's journal records: their keys, and the contents of one transaction.

Invariant: a record's key is its position, so that a statement read again replaces its own record. A
checkpoint is valid only with its head, which follows all its parts. A removed record has a value
that marks it as removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import orjson

from tables.history.checkpoint import CheckpointHead, SchemaCheckpoint
from tables.history.codec.fold import BASELINE, CHECKPOINT, HEAD, HISTORY, RESOLVED
from tables.history.codec.record_json import head_json, items_json, record_json
from tables.history.definition_json import PACK_BYTES
from tables.history.record import SchemaRecord
from tables.history.steps import RewoundHistory
from tables.journal_format import Entry, encoded, tombstone

_KINDS = {"statement": HISTORY, "baseline": BASELINE, "resolution": RESOLVED}


def record_key(record: SchemaRecord) -> bytes:
    """The key of a record; of a statement, ``history/<destination>/<server>/<file>/<offset>``.

    A baseline's key also has its number; a resolution's key its table, and a time if it gives no definition.
    """
    server, file, offset = record.position.identity
    parts = [record.destination, server, file, str(offset)]
    if record.kind == "baseline":
        parts.append(str(record.number))
    elif record.kind == "resolution":
        parts += [name for table in record.concerned for name in table]
        if record.unchanged and record.given is not None:
            # It gives no definition, so it must not replace a record that gave a definition there.
            parts.append(str(record.given.ts_ms))
    return _KINDS[record.kind].key(*parts)


def checkpoint_key(destination: str, number: int, part: int | str) -> bytes:
    """``checkpoint/<destination>/<number>/<part>``; the last part is called ``head``."""
    return CHECKPOINT.key(destination, str(number), str(part))


def history_records(record: SchemaRecord, *, limit: int = PACK_BYTES) -> list[Entry]:
    """A record for the journal, in the transaction of its position.

    One statement may change very many tables, as DROP DATABASE does: changes that do not fit into the
    first entry follow under the same key with a number appended.
    """
    key, value = record_key(record), record_json(record)
    first, *others = _packed([orjson.dumps(change) for change in value["changes"]], limit) or [
        b"[]"
    ]
    value["changes"] = orjson.Fragment(first)
    if others:
        value["more"] = len(others)
    found = [(key, encoded(value))]
    for part, pack in enumerate(others, start=1):
        header = {"number": record.number, "ts_ms": record.position.ts_ms, "part": part}
        more = encoded({**header, "changes": orjson.Fragment(pack)})
        found.append((key + f"/{part}".encode(), more))
    return found


def checkpoint_records(checkpoint: SchemaCheckpoint, *, limit: int = PACK_BYTES) -> list[Entry]:
    """A checkpoint for the journal: parts, then the head, which makes it valid."""
    head = checkpoint.head
    packs = _packed([orjson.dumps(item) for item in items_json(checkpoint)], limit)
    found = []
    for part, pack in enumerate(packs):
        value = {"checkpoint": head.number, "part": part, "items": orjson.Fragment(pack)}
        found.append((checkpoint_key(head.destination, head.number, part), encoded(value)))
    last = replace(head, parts=len(packs))
    found.append((checkpoint_key(head.destination, head.number, HEAD), encoded(head_json(last))))
    return found


def _packed(items: list[bytes], limit: int) -> list[bytes]:
    packs: list[list[bytes]] = []
    room = 0
    for item in items:
        if not packs or len(item) >= room:
            packs.append([])
            room = limit
        packs[-1].append(item)
        room -= len(item) + 1
    return [b"[" + b",".join(pack) + b"]" for pack in packs]


def tombstones(
    records: Iterable[SchemaRecord] = (), heads: Iterable[CheckpointHead] = ()
) -> list[Entry]:
    """Journal entries that remove records and checkpoints."""
    keys = [key for record in records for key, _ in history_records(record)]
    for head in heads:
        parts: list[int | str] = [HEAD, *range(head.parts)]
        keys += [checkpoint_key(head.destination, head.number, part) for part in parts]
    return [tombstone(key) for key in keys]


def rewound_records(rewound: RewoundHistory) -> list[Entry]:
    """The journal entries of a rollback, for the transaction of the cursor that goes back."""
    found = tombstones(rewound.forgotten, rewound.heads)
    for record in rewound.records:
        found += history_records(record)
    return found
