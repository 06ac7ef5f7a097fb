"""The rows that a TRUNCATE removes, deleted one by one if the rules require it (``truncates: deletes``).

The deletes enter before the statement, once everything before it is published: the topic then has the rows that
subscribers have. If a run ends before the statement is published too, the next run reads the topic again and
deletes the remaining rows.

Invariant: nothing else of the stream is between the deletes and the statement, so the stream waits while a
topic is read.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

import orjson

from app.worker.pipeline.capture.reader_thread import ReaderClosed
from app.worker.pipeline.formats.protocol import Image, RecordForm, RestoredImage
from app.worker.pipeline.formats.registry import form_named
from app.worker.pipeline.gather.captured_tables import CapturedTable, Unpublished
from app.worker.pipeline.gather.delete_records import RemovedRow, key_values
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import RemovedRows
from app.worker.pipeline.stage import StageSpec
from app.worker.pipeline.version_book import masked_since
from app.worker.status import DestinationStatus
from connectors.errors import KafkaLost, MalformedEvent, RuleImpossible, SnapshotUnsupported
from connectors.kafka.reading import (
    Follower,
    Partition,
    StoredRecord,
    read_each,
    read_to_ends,
)
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.select.described_table import described_table, table_map_body
from connectors.scratch_file import scratch
from tables.history.history import SchemaHistory
from tables.history.impact.type_change import Relation, charset_relation, kind_of, relation
from tables.history.present_columns import Described, Followed, PresentColumns
from tables.history.record import Unresolved
from tables.history.resolved_statement import ResolvedStatement
from tables.journal_format import Entry
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.snapshots.snapshot_progress import TableSnapshot
from wire.changes import TRUNCATE, reading_id
from wire.records import HEADER_CHANGE_ID, HEADER_FORMAT, origin_in, shard_head
from wire.table_version import Column, Definition
from wire.topics import schemas_topic

log = logging.getLogger(__name__)

PART_ROWS = 1000
"""The number of rows that are deleted in one Kafka transaction, at least."""
_GLANCE_SECONDS = 0.2
_WARNINGS = "truncates"


@dataclass(slots=True, kw_only=True)
class EmptiedTables:
    """The deletes of one run, made in the reader's thread; takes part in the run's commits."""

    spec: StageSpec
    history: SchemaHistory
    kafka_options: Mapping[str, Any]
    status: DestinationStatus
    _numbers: Iterator[int] = field(default_factory=lambda: count(-1, -1))
    """Numbers of portions, negative to differ from the numbers of portions that are handed in."""
    _reached: dict[int, threading.Event] = field(default_factory=dict)
    _closing: threading.Event = field(default_factory=threading.Event)
    _warned: dict[TableName, list[str]] = field(default_factory=dict)
    """The warnings about the last deletes of each table that has any."""

    def before(self, _piece: Piece, _cursor: Cursor, /) -> Iterable[Entry]:
        """Return no records: the published records show which rows remain."""
        return ()

    def committed(self, piece: Piece, _cursor: Cursor, /) -> None:
        """Record which portions are published; the reader's thread may wait for one."""
        for entered in piece.entered:
            if (reached := self._reached.get(entered.id)) is not None:
                reached.set()

    def close(self) -> None:
        """Make no more deletes; if the reader's thread waits for a portion, ReaderClosed is raised there."""
        self._closing.set()

    def deletes(
        self, start: Coordinates, transaction: Transaction, effect: ResolvedStatement
    ) -> Iterator[RemovedRows]:
        """Yield the deletes for a statement that begins at ``start``."""
        for number, (route, table) in enumerate(self._emptied(effect)):
            name = f"{TRUNCATE}{transaction.id}:{number}"
            time_and_server = transaction.committed_ms, transaction.server_id
            yield from self._of_table(start, route, table, name, time_and_server)

    def replaced(
        self, start: Coordinates, snapshot: TableSnapshot, time_and_server: tuple[int, int]
    ) -> Iterator[RemovedRows]:
        """Yield the deletes of the rows that a snapshot replaces; nothing if a TRUNCATE record is published."""
        route, table = self.spec.rules.routes.of(snapshot.name), self.history.find(*snapshot.name)
        if route is None or table is None or not route.deletes_rows or self._waits(route.table):
            return
        name = f"{TRUNCATE}{reading_id(snapshot.id, snapshot.name, snapshot.chunks)}"
        yield from self._of_table(start, route, table, name, time_and_server)

    def _of_table(
        self,
        start: Coordinates,
        route: Route,
        table: Table | None,
        name: str,
        time_and_server: tuple[int, int],
    ) -> Iterator[RemovedRows]:
        """Yield the deletes of all rows that a table's topic has, as a transaction with this name.

        Raise RuleImpossible if its rows cannot be deleted, ReaderClosed if the run ends, and errors of Kafka.
        """
        if table is None:
            why = "truncates is deletes, and the schema history does not have the table; choose record or omit"
            raise RuleImpossible.of(route.table, why)
        yield from self._published(start)
        self._warned.pop(route.table, None)
        self._show_warnings()
        body, described = self._described(route, table)
        destination, rules = self.spec.rules.destination, self.spec.rules
        began, versions = time.monotonic(), list[TableVersion]()
        self._wait_for(self._read_versions(route.table, versions))
        rows = LiveRows(
            destination,
            route,
            name,
            form=lambda one: form_named(one, rules),
            images=RowImages(route, versions, described.definition),
        )
        with _fault_of_the_machine(route.table), closing(rows):
            try:
                self._wait_for(self._fold(route, rows))
            except KafkaLost as error:
                error.topics = {route.topic: route.partitions}
                raise
            seconds = time.monotonic() - began
            known = self._known(route, described, rows)
            done, number = rows.deleted, -(-rows.deleted // PART_ROWS) + 1
            part = tuple(islice(known, PART_ROWS))
            while part:
                following = tuple(islice(known, PART_ROWS))
                yield RemovedRows(
                    start=start,
                    id=next(self._numbers),
                    name=name,
                    removed_ms=time_and_server[0],
                    server_id=time_and_server[1],
                    table_map=body,
                    rows=part,
                    ordinal=done,
                    part=number,
                    is_last=not following,
                )
                done, number, part = done + len(part), number + 1, following
            log.info(
                "%s: %d row(s) of %s are deleted, as all of them are gone; its topic was read in %.1f s",
                self.status.name, done - rows.deleted, ".".join(route.table), seconds,
            )  # fmt: skip

    def _known(self, route: Route, table: CapturedTable, rows: LiveRows) -> Iterator[RemovedRow]:
        """Yield the rows whose keys have the columns of the table's present key; warn about all other rows."""
        others = 0
        for one in rows.rows():
            if key_values(table, one.key) is not None:
                yield one
            else:
                others += 1
        if others:
            self._warn(
                route.table,
                f"{others} row(s) of {'.'.join(route.table)} are not deleted though they are gone, as the keys "
                "of their records have other columns than the table's key now",
            )

    def _emptied(self, effect: ResolvedStatement) -> list[tuple[Route, Table | None]]:
        """The tables whose rows a statement removes, with their definitions before it."""
        if effect.is_noise:
            return []
        is_truncate = effect.type == "TRUNCATE TABLE"
        found: list[tuple[TableName, Table | None]] = []
        if is_truncate:
            found = [(name, self.history.find(*name)) for name in effect.emptied]
        else:
            found = [(one.name, one.old) for one in effect.departed()]
        routes = [(self.spec.rules.routes.of(name), table) for name, table in found]
        return [
            (route, table)
            for route, table in routes
            if route is not None
            and route.deletes_rows
            and (is_truncate or route.deletes_on_drop)
            and not self._waits(route.table)
        ]

    def _waits(self, name: TableName) -> bool:
        """Whether a table is quarantined or given up, so that statements on it wait or have no effect."""
        known = self.spec.known.get(name)
        is_marked = isinstance(known, Unpublished)
        return is_marked or isinstance(self.history.state(*name), Unresolved)

    def _described(self, route: Route, table: Table) -> tuple[bytes, CapturedTable]:
        """The table map of a table in the form of an event, and the table in the form for decoders."""
        charsets, server = self.spec.charsets, self.spec.server
        try:
            described = described_table(route.table, table, charsets, server=server)
        except SnapshotUnsupported as error:
            raise RuleImpossible.of(route.table, f"truncates is deletes: {error.detail}") from error
        captured = CapturedTable(described, charsets, route=route, known=table)
        return table_map_body(described, mariadb=server.mariadb), captured

    def _published(self, start: Coordinates) -> Iterator[RemovedRows]:
        """Yield a portion, and wait until it and everything before it are committed."""
        number, reached = next(self._numbers), threading.Event()
        self._reached[number] = reached
        yield RemovedRows(start=start, id=number)
        while not reached.wait(_GLANCE_SECONDS):
            if self._closing.is_set():
                raise ReaderClosed
        del self._reached[number]

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work in this thread, as it takes long and other destinations share the run's event loop."""

        async def until_closed() -> None:
            task = asyncio.ensure_future(work)
            while not (await asyncio.wait([task], timeout=_GLANCE_SECONDS))[0]:
                if self._closing.is_set():
                    task.cancel()
                    await asyncio.wait([task])
                    raise ReaderClosed
            task.result()

        asyncio.run(until_closed())

    async def _read_versions(self, table: TableName, versions: list[TableVersion]) -> None:
        """Read the published versions of a table, which have the columns that its records may have."""

        def take(record: StoredRecord) -> None:
            value = orjson.loads(record.value) if record.value else {}
            owner = value.get("destination"), value.get("database"), value.get("table")
            if owner == (self.spec.rules.destination, *table):
                versions.append(TableVersion.from_json(value))

        await read_each(self.kafka_options, schemas_topic(self.spec.rules.prefix), 0, take=take)

    async def _fold(self, route: Route, rows: LiveRows) -> None:

        def take(partition: Partition, record: StoredRecord) -> None:
            if self._closing.is_set():
                raise ReaderClosed
            try:
                rows.take(partition[1], record)
            except (ValueError, KeyError, TypeError) as error:
                # The text of the original error is omitted, as it may contain values.
                what = f"{partition[0]} [{partition[1]}] has a record that no worker wrote, at {record.offset}"
                raise MalformedEvent(what, table=".".join(route.table)) from error

        async with Follower.opened(self.kafka_options) as follower:
            counts = await follower.partitions([route.topic])
            partitions = [(route.topic, number) for number in range(counts.get(route.topic, 0))]
            beginnings = await follower.beginnings(partitions)
            await follower.follow(beginnings)
            await read_to_ends(follower, partitions, take)
        expired = sum(beginnings.values())
        if expired and not self.spec.rules.compacted:
            self._warn(
                route.table,
                f"the first {expired} offset(s) of {route.topic} have expired: rows of "
                f"{'.'.join(route.table)} whose last records those were are not deleted though they are gone",
            )

    def _warn(self, table: TableName, text: str) -> None:
        log.warning("%s: %s", self.status.name, text)
        self._warned.setdefault(table, []).append(text)
        self._show_warnings()

    def _show_warnings(self) -> None:
        self.status.warnings[_WARNINGS] = [one for own in self._warned.values() for one in own]


@contextmanager
def _fault_of_the_machine(name: TableName) -> Iterator[None]:
    """Raise OSError for a fault of the file that rows are collected in, such as a full disk."""
    try:
        yield
    except sqlite3.Error as error:
        what = f"rows of {'.'.join(name)} are collected in a file below {tempfile.gettempdir()}"
        raise OSError(f"{what}: {error}") from error


# The rows of one table in a topic: the topic's records folded by key, in an SQLite file.
#
# Invariant: for each key the record with the greatest (epoch, seq) counts; a key that another
# table wrote last is not this table's. An image has a column only if the table still has it and
# no statement may have changed its values, and has no value that a mask is to hide. Memory does
# not grow with the topic.

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
                # Count the deletes of the transaction, by their greatest ordinal.
                change_id = headers.get(HEADER_CHANGE_ID, b"")
                if change_id.startswith(self._prefix):
                    ordinal = int(change_id[len(self._prefix) :])
                    self.deleted = max(self.deleted, ordinal + 1)
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
