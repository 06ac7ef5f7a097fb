"""The rows that a topic has of one table: its records folded by key, in an SQLite file.

Invariant: of a key the record with the greatest (epoch, seq) counts, and a key that another table wrote last is
not this table's. Memory does not grow with the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from app.auditing.sqlite import scratch
from app.pipeline.formats.protocol import RecordForm
from app.pipeline.gather.removed_rows import RemovedRow
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.wire import (
    HEADER_CHANGE_ID,
    HEADER_DESTINATION,
    HEADER_EPOCH,
    HEADER_FORMAT,
    HEADER_SEQ,
    shard_head,
)
from tables.routes.routes import Route

_BATCH = 2000
_TABLES = """
CREATE TABLE row (key BLOB PRIMARY KEY, live INTEGER NOT NULL, image BLOB, part INTEGER NOT NULL,
  at INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;
"""
_PUT = """
INSERT INTO row VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET live = excluded.live, image = excluded.image, part = excluded.part,
  at = excluded.at, epoch = excluded.epoch, seq = excluded.seq
WHERE (excluded.epoch, excluded.seq) > (row.epoch, row.seq)"""
_TOMBSTONE = "UPDATE row SET live = 0 WHERE key = ? AND part = ? AND at < ?"
_IMAGE = "SELECT image FROM row WHERE key = ? AND live = 1"
_LIVE = "SELECT key, image FROM row WHERE live = 1 AND (epoch, seq) > (?, ?) AND key > ? ORDER BY key LIMIT ?"


class _Record(NamedTuple):
    """What counts of a record with a value."""

    order: tuple[int, int]
    op: str
    is_own: bool
    """Whether it is of the table."""
    image: dict[str, Any] | None = None
    absent: bool = False
    """Whether the image lacks columns, which keep their values."""


class LiveRows:
    """The rows of one real table."""

    def __init__(
        self, destination: str, route: Route, name: str, form: Callable[[str], RecordForm]
    ) -> None:
        """``name``: the id of the transaction that deletes them. ``form``: that of a format by name."""
        self._destination, self._route, self._form = destination, route, form
        self._forms: dict[str, RecordForm] = {}
        self._head = shard_head(route.shard).encode()
        self._prefix = f"{name}#".encode()
        self._floor = (0, 0)
        self._records: list[tuple[Any, ...]] = []
        self._tombstones: list[tuple[bytes, int, int]] = []
        self._db = scratch(_TABLES)
        self.deleted = 0
        """Rows that the transaction has deleted so far."""

    def close(self) -> None:
        """Remove the file."""
        self._db.close()

    def take(self, part: int, record: StoredRecord) -> None:
        """Fold a record; raise ValueError, KeyError or TypeError for one that no worker wrote."""
        key, headers = record.key, dict(record.headers)
        if not record.value:
            if key:
                self._tombstones.append((key, part, record.offset))
        else:
            found = self._read(record, headers)
            if found is not None:
                self._fold(key, found, (part, record.offset))
                self._count(headers)
        if len(self._records) + len(self._tombstones) >= _BATCH:
            self._flush()

    def _read(self, record: StoredRecord, headers: Mapping[str, bytes]) -> _Record | None:
        if HEADER_FORMAT in headers:
            return self._in_form(record, headers)
        value = orjson.loads(record.value)
        source = value["source"]
        is_own = source["name"] == self._destination and (
            (source["db"], source["table"]) == self._route.table
        )
        order = source["epoch"], source["seq"]
        return _Record(order, value["op"], is_own, value["after"], "absent" in value)

    def _in_form(self, record: StoredRecord, headers: Mapping[str, bytes]) -> _Record:
        name = headers[HEADER_FORMAT].decode()
        form = self._forms.get(name) or self._forms.setdefault(name, self._form(name))
        found = form.read(record.key, record.value, headers)
        named = {self._route.table if found.is_real else self._route.logical}
        if found.op == "t":
            # Where keys name the real table, its TRUNCATE does too.
            named = {self._route.table} if self._route.shard else {*named, self._route.table}
        is_own = headers[HEADER_DESTINATION].decode() == self._destination and found.table in named
        return _Record((int(headers[HEADER_EPOCH]), int(headers[HEADER_SEQ])), found.op, is_own)

    def _fold(self, key: bytes, found: _Record, at: tuple[int, int]) -> None:
        if found.op == "t":
            if found.is_own:
                self._floor = max(self._floor, found.order)
        elif key.startswith(self._head):
            live = found.is_own and found.op != "d"
            image = self._image(key, found) if live and found.image is not None else None
            self._records.append((key, int(live), image, *at, *found.order))

    def _image(self, key: bytes, found: _Record) -> bytes | None:
        """Return the whole image of a row after a record; None if it is not known."""
        image = found.image
        if found.absent:
            self._flush()
            before = self._db.execute(_IMAGE, (key,)).fetchone()
            if before is None or before[0] is None:
                return None
            image = {**orjson.loads(before[0]), **(image or {})}
        return orjson.dumps(image)

    def _count(self, headers: Mapping[str, bytes]) -> None:
        """Count the deletes of the transaction, by the last ordinal."""
        change_id = headers.get(HEADER_CHANGE_ID, b"")
        if change_id.startswith(self._prefix):
            ordinal = int(change_id[len(self._prefix) :])
            self.deleted = max(self.deleted, ordinal + 1)

    def _flush(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(_PUT, self._records)
        self._db.executemany(_TOMBSTONE, self._tombstones)
        self._db.execute("COMMIT")
        self._records.clear()
        self._tombstones.clear()

    def rows(self) -> Iterator[RemovedRow]:
        """Yield the rows in the order of their keys."""
        self._flush()
        after = b""
        while found := self._db.execute(_LIVE, (*self._floor, after, _BATCH)).fetchall():
            after = found[-1][0]
            for key, image in found:
                yield RemovedRow(key.decode(), None if image is None else image.decode())
