"""A topic folded as a subscriber folds it: the last record of each key, in an SQLite file.

Invariant: for each key, the record with the greatest (epoch, seq) counts. During a look, all versions that a
key has are kept, since the row that a SELECT returned meanwhile is one of them. Memory does not grow with the
topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from app.audit.topics.topics import Claims, is_whole
from app.operator.validation.errors import NotComparable
from app.operator.validation.present_images import PresentImages, VersionImages, digest_of, stored
from app.worker.pipeline.formats.protocol import Image, ReadRecord, RecordForm
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from connectors.scratch_file import scratch
from tables.rules.mapping.rules import DEBEZIUM
from wire.records import HEADER_FORMAT, origin_in

_BATCH = 2000
_TABLES = """
CREATE TABLE folded (key BLOB PRIMARY KEY, owner INTEGER NOT NULL, live INTEGER NOT NULL, digest BLOB,
  doubt INTEGER, part INTEGER NOT NULL, at INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
  seen INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE version (key BLOB NOT NULL, live INTEGER NOT NULL, digest BLOB, doubt INTEGER);
CREATE INDEX version_key ON version (key);
CREATE TABLE selected (key BLOB PRIMARY KEY, digest BLOB NOT NULL, image BLOB NOT NULL, literals TEXT NOT NULL)
  WITHOUT ROWID;
"""
_PUT = """
INSERT INTO folded VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, live = excluded.live, digest = excluded.digest,
  doubt = excluded.doubt, part = excluded.part, at = excluded.at, epoch = excluded.epoch, seq = excluded.seq
WHERE (excluded.epoch, excluded.seq) > (folded.epoch, folded.seq)"""
_BEFORE = "INSERT INTO version SELECT key, live, digest, doubt FROM folded WHERE key = ?"
_TOMBSTONE = "UPDATE folded SET live = 0 WHERE key = ? AND part = ? AND at < ?"
_EMPTIED = """
UPDATE folded SET live = 0, epoch = ?, seq = ? WHERE owner = ? AND (epoch, seq) < (?, ?)"""
_UNEQUAL = """
SELECT s.key, s.digest, s.image, s.literals, f.live, f.digest, f.doubt, f.part, f.at FROM selected s
  LEFT JOIN folded f ON f.key = s.key AND f.owner = ?
  WHERE f.live IS NOT 1 OR f.digest IS NOT s.digest ORDER BY s.key"""
_UNSEEN = "SELECT key, part, at FROM folded WHERE owner = ? AND live = 1 AND seen <> ? ORDER BY key"


PARTIAL = "rows whose last record is a partial image"
VERSIONLESS = "rows whose last record does not state the version of its columns"


Order = tuple[int, int]
"""Epoch and seq of a record."""


class UnknownVersion(LookupError):
    """A record has a version of its table that is not known."""

    def __init__(self, table: TableName, number: int) -> None:
        super().__init__(table, number)
        self.table, self.number = table, number


class SelectedRow(NamedTuple):
    """A row of the source as it would be published."""

    key: bytes
    image: bytes
    """See ``stored``."""
    literals: tuple[str, ...]
    """The row's key as SQL; empty if the key is masked."""


class Unequal(NamedTuple):
    """A selected row whose image is none of the versions that the topic had of its key meanwhile."""

    row: SelectedRow
    is_missing: bool
    """Whether the topic had no row with the key at all."""
    doubt: str | None
    """Why this is not known to be a difference."""
    at: tuple[int, int] | None
    """Partition and offset of the key's last record, if there is one."""


@dataclass(slots=True)
class _Owner:
    """A real table whose records are folded."""

    number: int
    name: TableName
    images: PresentImages
    floor: tuple[int, int] = (0, 0)
    """Epoch and seq of its last TRUNCATE: earlier rows are gone."""
    is_emptied: bool = False
    """Whether the table was truncated in this look."""


def _unknown_form(name: str) -> RecordForm:
    raise KeyError(name)


def _in_format(name: str) -> str:
    return f"rows whose last record is in another format than the table's now: {name}"


class FoldedTopic:
    """The rows that a destination published to a topic."""

    def __init__(
        self,
        destination: str,
        images: Mapping[TableName, PresentImages],
        claims: Claims,
        form: Callable[[str], RecordForm] = _unknown_form,
    ) -> None:
        """``images`` has the real tables whose records are folded; records of other tables are ignored.
        ``form`` returns the form of a format other than the envelope."""
        self.destination, self._claims = destination, claims
        self.reached: dict[int, Order] = {}
        """The greatest epoch and seq of the destination's records in each partition."""
        self._owners = {name: _Owner(n, name, one) for n, (name, one) in enumerate(images.items())}
        forms = [(one.images.form, one) for one in self._owners.values()]
        self._by_logical = {form.logical: one for form, one in forms if not form.names_real}
        self._shared = {form.logical for form, _ in forms if form.names_real}
        self._form, self._forms = form, dict[str, RecordForm]()
        self._db = scratch(_TABLES)
        self._doubts: list[str] = []
        self._records: list[tuple[Any, ...]] = []
        """Buffered records, which are written at once with the tombstones."""
        self._tombstones: list[tuple[bytes, int, int]] = []
        self._looks = False
        self.records = 0
        """Count of the records that were read."""

    def close(self) -> None:
        """Remove the file."""
        self._db.close()

    def take(self, part: int, record: StoredRecord) -> None:
        """Fold a record.

        Raise NotComparable for a record that cannot be folded, UnknownVersion for an unknown table version.
        """
        self.records += 1
        try:
            key, headers = record.key, dict(record.headers)
            if not record.value:
                if key:
                    self._tombstones.append((key, part, record.offset))
            elif HEADER_FORMAT in headers:
                self._in_form(record, headers, part)
            else:
                self._value(key, orjson.loads(record.value), part, record.offset)
        except (ValueError, KeyError, TypeError) as error:
            # The text of the error is omitted, since it may contain values.
            raise NotComparable(
                f"its topic has a record that no worker wrote, in partition {part} at offset {record.offset}"
            ) from error
        if len(self._records) + len(self._tombstones) >= _BATCH:
            self.flush()

    def _value(self, key: bytes | None, value: dict[str, Any], part: int, at: int) -> None:
        source = value["source"]
        if source["name"] != self.destination:
            return
        order = source["epoch"], source["seq"]
        self._reach(part, order)
        owner = self._owners.get((source["db"], source["table"]))
        if owner is None:
            return
        if value["op"] == "t":
            self._empty(owner, order)
        elif key and order > owner.floor:
            live, digest, doubt = (0, None, None)
            if value["op"] != "d":
                live, (digest, doubt) = 1, self._image(owner, value)
            record = (key, owner.number, live, digest, doubt, part, at, *order)
            self._records.append(record)

    def _reach(self, part: int, order: Order) -> None:
        if order > self.reached.get(part, (0, 0)):
            self.reached[part] = order

    def _in_form(self, record: StoredRecord, headers: Mapping[str, bytes], part: int) -> None:
        """Fold a record in another format than the envelope."""
        name = headers[HEADER_FORMAT].decode()
        try:
            origin = origin_in(headers)
        except KeyError:
            why = f"a record in the format {name} does not name its destination"
            raise NotComparable(why) from None
        if origin.destination != self.destination:
            return
        order = origin.order
        self._reach(part, order)
        found = self._read(name, record, headers)
        owner = self._owner(found)
        if owner is None:
            return
        if found.op == "t":
            self._empty(owner, order)
        elif record.key and order > owner.floor:
            live, digest, doubt = (0, None, None)
            if found.op != "d":
                live, (digest, doubt) = 1, self._image_in_form(owner, name, found)
            row = (record.key, owner.number, live, digest, doubt, part, record.offset, *order)
            self._records.append(row)

    def _read(self, name: str, record: StoredRecord, headers: Mapping[str, bytes]) -> ReadRecord:
        form = self._forms.get(name)
        if form is None:
            try:
                form = self._forms[name] = self._form(name)
            except KeyError:
                raise NotComparable(f"its topic has records in the format {name}") from None
        try:
            return form.read(record.key, record.value, headers)
        except (ValueError, KeyError, TypeError) as error:
            why = f"a record in the format {name} cannot be read: {error}"
            raise NotComparable(why) from error

    def _owner(self, found: ReadRecord) -> _Owner | None:
        """Return the table of a record in another format; None if it is not folded."""
        real, logical = self._owners.get(found.table), self._by_logical.get(found.table)
        if found.is_real:
            return real
        is_named = found.op == "t" and real is not None and real.images.form.names_real
        if (is_named and logical is not None) or (found.op != "t" and found.table in self._shared):
            name = ".".join(found.table)
            raise NotComparable(f"a record of {name} in its topic does not name its real table")
        return real if is_named else logical

    def _image_in_form(
        self, owner: _Owner, name: str, found: ReadRecord
    ) -> tuple[bytes | None, int | None]:
        if owner.images.form.format != name:
            return None, self._doubt(_in_format(name))
        images = self._version(owner, found.schema)
        if images is None:
            return None, self._doubt(VERSIONLESS)
        if found.image is None:
            return None, self._doubt(found.absent or PARTIAL)
        if images.lacks_any(found.image):
            return None, self._doubt(PARTIAL)
        return self._digest(images, found.image)

    def _version(self, owner: _Owner, number: int | None) -> VersionImages | None:
        """Return the images of a version; None if the record states no version and the table has several."""
        if number is None:
            return owner.images.only()
        images = owner.images.of(number)
        if images is None:
            raise UnknownVersion(owner.name, number)
        return images

    def image_of(self, table: TableName, record: StoredRecord) -> Image | None:
        """Return the image of a table's record in the present columns; None if the record determines none."""
        owner, headers = self._owners[table], dict(record.headers)
        if HEADER_FORMAT in headers:
            found = self._read(headers[HEADER_FORMAT].decode(), record, headers)
            image, images = found.image, self._version(owner, found.schema)
        else:
            value = orjson.loads(record.value)
            image, images = value["after"], owner.images.of(value["source"]["schema"])
        return None if image is None or images is None else images.image(image)

    def _image(self, owner: _Owner, value: dict[str, Any]) -> tuple[bytes | None, int | None]:
        """Return the digest of a record's image, None if it determines none, and the doubt about the image."""
        if owner.images.form.format != DEBEZIUM:
            return None, self._doubt(_in_format(DEBEZIUM))
        images = self._version(owner, value["source"]["schema"])
        assert images is not None
        why = self._claims.redeem(value)
        if why is None and not is_whole(value):
            why = "rows without their images"
        if why is None and "absent" in value:
            why = PARTIAL
        if why is not None:
            return None, self._doubt(why)
        return self._digest(images, value["after"])

    def _digest(self, images: VersionImages, values: Image) -> tuple[bytes | None, int | None]:
        if images.undetermined is not None:
            return None, self._doubt(images.undetermined)
        doubt = None if images.doubt is None else self._doubt(images.doubt)
        return digest_of(stored(images.image(values))), doubt

    def _doubt(self, why: str) -> int:
        if why not in self._doubts:
            self._doubts.append(why)
        return self._doubts.index(why)

    def _empty(self, owner: _Owner, order: tuple[int, int]) -> None:
        self.flush()
        owner.floor, owner.is_emptied = max(owner.floor, order), True
        self._db.execute(_EMPTIED, (*order, owner.number, *order))

    def flush(self) -> None:
        """Write the buffered records and tombstones."""
        records, tombstones, db = self._records, self._tombstones, self._db
        if not records and not tombstones:
            return
        self._records, self._tombstones = [], []
        db.execute("BEGIN")
        if self._looks:
            keys = [(one[0],) for one in (*records, *tombstones)]
            db.executemany(_BEFORE, keys)
            versions = [(one[0], *one[2:5]) for one in records]
            db.executemany("INSERT INTO version VALUES (?, ?, ?, ?)", versions)
        db.executemany(_PUT, records)
        db.executemany(_TOMBSTONE, tombstones)
        db.execute("COMMIT")

    def begin_look(self) -> None:
        """Keep all versions from now on; drop the versions and the selected rows of the last look."""
        self.flush()
        self._looks = True
        self._db.execute("DELETE FROM version")
        self._db.execute("DELETE FROM selected")
        for owner in self._owners.values():
            owner.is_emptied = False

    def select(self, rows: Iterable[SelectedRow]) -> None:
        """Add rows that a SELECT returned in this look."""
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR REPLACE INTO selected VALUES (?, ?, ?, ?)",
            ((one.key, digest_of(one.image), one.image, "\0".join(one.literals)) for one in rows),
        )
        self._db.execute("COMMIT")

    def is_emptied(self, table: TableName) -> bool:
        """Return whether a table was truncated in this look, so that the look has to be repeated."""
        return self._owners[table].is_emptied

    def compare(self, table: TableName, run: int) -> Iterator[Unequal]:
        """Mark the selected rows as seen in a run, and yield those that differ, in the order of their keys."""
        self.flush()
        number = self._owners[table].number
        marked = "UPDATE folded SET seen = ? WHERE key IN (SELECT key FROM selected)"
        self._db.execute(marked, (run,))
        for found in self._db.execute(_UNEQUAL, (number,)):
            key, digest, image, literals, live, last, doubt, part, at = found
            query = "SELECT live, digest, doubt FROM version WHERE key = ?"
            versions = [(live, last, doubt), *self._db.execute(query, (key,)).fetchall()]
            present = [one for one in versions if one[0]]
            if any(one[1] == digest for one in present):
                continue
            doubts = [one[2] for one in present if one[2] is not None]
            row = SelectedRow(key, image, tuple(literals.split("\0")) if literals else ())
            yield Unequal(
                row,
                is_missing=not present,
                doubt=self._doubts[doubts[0]] if doubts else None,
                at=None if part is None else (part, at),
            )

    def unseen(self, table: TableName, run: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield key, partition and offset of the rows that were not selected in a run, ordered by key."""
        self.flush()
        yield from self._db.execute(_UNSEEN, (self._owners[table].number, run))
