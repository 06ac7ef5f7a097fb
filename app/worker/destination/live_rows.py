"""The rows of one table in a topic: the topic's records folded by key, in an SQLite file.

Invariant: for each key the record with the greatest (epoch, seq) counts; a key that another table wrote last is
not this table's. An image has a column only if the table still has it and no statement may have changed its
values, and has no value that a mask is to hide. Memory does not grow with the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from app.worker.pipeline.formats.protocol import Image, RecordForm, RestoredImage
from app.worker.pipeline.gather.removed_rows import RemovedRow
from app.worker.pipeline.number.table_versions import masked_since
from connectors.kafka.reading import StoredRecord
from connectors.scratch_file import scratch
from tables.history.impact.type_change import Relation, charset_relation, kind_of, relation
from tables.history.present_columns import Described, Followed, PresentColumns
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import HEADER_CHANGE_ID, HEADER_FORMAT, origin_in, shard_head
from wire.table_version import Column, Definition

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
    """The relevant parts of a record with a value."""

    order: tuple[int, int]
    op: str
    is_own: bool
    """Whether the record is of the table."""
    image: dict[str, Any] | None = None
    """The image that RowImages returns."""
    is_partial: bool = False
    """Whether the record's image lacks columns, which keep their values."""


class RowImages:
    """Images of a table's rows in the columns that it has now."""

    def __init__(self, route: Route, versions: Iterable[TableVersion], now: Definition) -> None:
        """``versions``: the published versions; ``now``: the columns as they would be published now."""
        self._table, stated = route.table, route.stated
        own = {one.version: one for one in versions}
        self._published = own.keys()
        self._last = last = 1 + max(own, default=0)
        if own:
            now = masked_since(now, own[last - 1], stated)
        self._definitions = {number: one.definition for number, one in own.items()} | {last: now}
        # An older worker did not record whether it masked a column: the values may be in the clear.
        masked = frozenset(stated.get("masked", ()))
        self._hidden = {number: masked for number, one in own.items() if one.stated is None}
        self._names = {one.name.lower(): one.name for one in now.columns}
        self._present = PresentColumns(
            {(*self._table, number): Described.of(one) for number, one in self._definitions.items()}
        )
        self._followed = Followed({self._table: last}, is_apart=True)
        self._read: dict[int, dict[str, str]] = {}
        self._restored: dict[int, RestoredImage | None] = {}

    def of(
        self, version: int | None, image: Image | None, form: RecordForm | None = None
    ) -> dict[str, Any] | None:
        """Return an image of a record of a version in present columns; None if it is not known.

        ``form`` is the form of the record's format, the same object at each call; None for the envelope.
        """
        if image is None or version not in self._published:
            return None
        if version not in self._read:
            self._read[version] = self._kept(version)
        names = self._read[version]
        if form is not None:
            if version not in self._restored:
                self._restored[version] = form.restored(self._definitions[version])
            restored = self._restored[version]
            if restored is None:
                return None
            image = restored(image)
        return {names[own]: one for name, one in image.items() if (own := name.lower()) in names}

    def is_partial(self, version: int | None, image: Image | None) -> bool:
        """Whether an image lacks columns of its version."""
        if image is None or version not in self._published:
            return False
        return len(image) < len(self._definitions[version].columns)

    def _kept(self, version: int) -> dict[str, str]:
        """The present names, by name, of a version's columns whose values have not changed since."""
        later = sorted(number for number in self._definitions if number >= version)
        steps = [self._columns(number) for number in later]
        hidden = self._hidden.get(version, frozenset())
        own = self._present.of((*self._table, version), self._table, self._followed).names
        return {
            name: self._names[present]
            for name, present in own.items()
            if present in self._names
            and present not in hidden
            and all(
                present in one and present in other and _keeps(one[present], other[present])
                for one, other in pairwise(steps)
            )
        }

    def _columns(self, version: int) -> dict[str, Column]:
        """The columns of a version by their present names in lower case."""
        key = (*self._table, version)
        names = self._present.of(key, self._table, self._followed).names
        columns = self._definitions[version].columns
        return {names[own]: one for one in columns if (own := one.name.lower()) in names}


def _keeps(one: Column, other: Column) -> bool:
    """Whether a statement that changed a column from ``one`` to ``other`` left all values as they were."""
    return (
        relation(kind_of(one), kind_of(other)) in _KEPT
        and charset_relation(one.charset, other.charset) in _KEPT
        and (other.nullable or not one.nullable)
    )


_KEPT = (Relation.SAME, Relation.WIDER)


class LiveRows:
    """The rows of one real table."""

    def __init__(
        self,
        destination: str,
        route: Route,
        name: str,
        *,
        form: Callable[[str], RecordForm],
        images: RowImages,
    ) -> None:
        """``name``: the id of the transaction that deletes the rows. ``form`` returns the form of a format."""
        self._destination, self._route, self._form = destination, route, form
        self._images = images
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
        """Fold a record; raise ValueError, KeyError or TypeError if no worker wrote it."""
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
        image = self._images.of(source["schema"], value["after"]) if is_own else None
        return _Record(order, value["op"], is_own, image, "absent" in value)

    def _in_form(self, record: StoredRecord, headers: Mapping[str, bytes]) -> _Record:
        name = headers[HEADER_FORMAT].decode()
        form = self._forms.get(name) or self._forms.setdefault(name, self._form(name))
        found = form.read(record.key, record.value, headers)
        named = {self._route.table if found.is_real else self._route.logical}
        if found.op == "t":
            # If keys name the real table, a TRUNCATE names it too.
            named = {self._route.table} if self._route.shard else {*named, self._route.table}
        origin = origin_in(headers)
        is_own = origin.destination == self._destination and found.table in named
        image = None
        if is_own and name == self._route.format:
            # Not every format can be converted to another: Canal's geometries have an SRID, Maxwell's do not.
            image = self._images.of(found.schema, found.image, form)
        is_partial = self._images.is_partial(found.schema, found.image)
        return _Record(origin.order, found.op, is_own, image, is_partial)

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
        if found.is_partial:
            self._flush()
            before = self._db.execute(_IMAGE, (key,)).fetchone()
            if before is None or before[0] is None:
                return None
            image = {**orjson.loads(before[0]), **(image or {})}
        return orjson.dumps(image)

    def _count(self, headers: Mapping[str, bytes]) -> None:
        """Count the deletes of the transaction, by their greatest ordinal."""
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
