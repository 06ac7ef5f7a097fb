"""The last step of a decoder: records, in finished batches.

Invariant: numbers, versions and the progress of an open transaction are given; nothing is decided here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from app.worker.pipeline.formats.protocol import Emitted, Marker, RecordFormat, Records, WriteRows
from app.worker.pipeline.formats.registry import format_named
from app.worker.pipeline.gather.items import (
    REMOVED,
    SELECTED,
    Ddl,
    Item,
    ParkedRows,
    Replacement,
    Rows,
)
from app.worker.pipeline.gather.parked_event import Record as ParkedRecord
from app.worker.pipeline.gather.parked_event import (
    key_of,
    position_fields,
    record_of_rows,
    record_of_statement,
    sealed_record,
)
from app.worker.pipeline.gather.undecodable_rows import DeadRows
from app.worker.pipeline.number import Progress
from app.worker.pipeline.oversize_records import OversizeRecords, claim_store
from app.worker.pipeline.piece import DeadLetter
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import JournalTooNew
from connectors.kafka.record_batches import (
    BatchWriter,
    FinishedBatch,
    Headers,
    PlacedWriter,
    RecordWriter,
    Shrink,
)
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.rows.decoder import ROWS_EVENTS, UPDATES, WRITES
from tables.rules.mapping.rules import DEBEZIUM
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.changes import change_id
from wire.records import HEADER_CHANGE_ID, HEADER_META, HEADER_SEALED, HEADER_TABLE_MAP, HEADER_TAGS
from wire.topics import ddl_topic, dead_letters_topic, quarantine_topic, transactions_topic

_ENOUGH = 8 * 1024 * 1024
"""Bytes of keys and values that become batches at once."""
_OPS = {
    int(kind): "c" if kind in WRITES else "u" if kind in UPDATES else "d" for kind in ROWS_EVENTS
} | {SELECTED: "r", REMOVED: "d"}


class Encoder:
    """Encodes piece after piece; holds the state that lasts."""

    def __init__(
        self,
        rules: PublishingRules,
        *,
        connector: str,
        epoch: int,
        spread: Callable[[str], int | None] | None = None,
    ) -> None:
        """``spread`` returns the partition count of a topic's keys; None if the route's applies."""
        self.spread = spread
        self.rules = rules
        self.connector = connector
        """The kind of the source server: ``mysql`` or ``mariadb``."""
        self.epoch = epoch
        self.claims = claim_store(rules)
        """Kept for the run, since it may hold a connection."""
        self.envelopes_only = False
        """Whether all rows are written as envelopes, whatever their routes' format: to compare two mappings."""
        self._formats: dict[str, RecordFormat] = {}

    def format(self, name: str) -> RecordFormat:
        """Return a record format for this run."""
        if self.envelopes_only:
            name = DEBEZIUM
        found = self._formats.get(name)
        if found is None:
            factory = format_named(name)
            found = factory(self.rules, connector=self.connector, epoch=self.epoch)
            self._formats[name] = found
        return found


class Encoding:
    """Encodes one piece."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        seq: int,
        first: Transaction | None,
        earlier: Progress | None,
        cut: Transaction | None,
    ) -> None:
        """``earlier``: the progress of ``first`` before this piece; ``cut``: the transaction cut at its end."""
        rules = self._rules = encoder.rules
        self._encoder = encoder
        self._now = time.time_ns() // 1_000_000
        self._emitted = Emitted(seq)
        self._formats: dict[str, Records] = {}
        self._own = self._records(rules.routes.format)
        """Writes statements and transaction markers, which belong to no single table."""
        self._writers: dict[str, BatchWriter] = {}
        self._tables: dict[int, WriteRows] = {}
        self._first, self._first_earlier, self._cut = first, earlier, cut
        self._transaction: Transaction | None = None
        self._ordinal = self._order = 0
        self._marker_writer: MarkerWriter | None = None
        if rules.markers or rules.part_markers:
            topic = transactions_topic(rules.prefix, rules.destination)
            self._marker_writer = MarkerWriter(rules, self._single(topic), self._own)
        self._markers: MarkerWriter | None = None
        """Writes transaction markers, where any may be published."""
        self._oversize = (
            None if rules.oversize == "stop" else OversizeRecords(rules, encoder.claims)
        )
        self.partitions: dict[str, int] = {}
        """The partition count of the keys of each row topic that was written to."""
        self._finished: list[FinishedBatch] = []
        self._enough = _ENOUGH
        self._counts = dict.fromkeys(_OPS, 0)
        self._truncated = 0
        self.parked: Counter[tuple[str, str]] = Counter()
        """Events of quarantined tables, by table."""
        self.dead_letters: list[DeadLetter] = []
        """Undecodable rows."""

    @property
    def size(self) -> int:
        """Bytes of keys and values so far."""
        more = self._marker_writer.size if self._marker_writer is not None else 0
        less = self._oversize.saved if self._oversize is not None else 0
        return self._emitted.size + more - less

    @property
    def oversize_counts(self) -> Counter[str]:
        """Oversize records, by outcome."""
        return self._oversize.counts if self._oversize is not None else Counter()

    @property
    def rows(self) -> Counter[str]:
        """Changes by kind."""
        found: Counter[str] = Counter()
        for event_type, count in self._counts.items():
            found[_OPS[event_type]] += count
        found["t"] = self._truncated
        return +found

    def write(self, items: list[Item], latest: Mapping[TableName, TableVersion]) -> None:
        """Encode all items in order; ``latest`` has the versions of emptied tables.

        Items are consumed, and records are made into batches early: a piece has up to a hundred thousand small
        rows, and the records of each take a kilobyte of memory.
        """
        items.reverse()
        while items:
            item = items.pop()
            if self._emitted.size > self._enough:
                self._finish()
            if item.transaction is not self._transaction:
                self._start_transaction(item.transaction)
            if type(item) is Rows:
                self._rows(item)
            elif type(item) is Ddl:
                self._statement(item, latest)
            elif type(item) is ParkedRows:
                record = record_of_rows(item, self._ordinal)
                self._park(self._discreet(record, item.name), item.name)
            elif type(item) is DeadRows:
                self._write_dead_rows(item)
            else:
                self.close_part(last=True)

    def close_part(self, *, last: bool) -> None:
        """Write the END marker of the transaction, or of this part, if any of it was published."""
        if self._markers is not None and self._transaction is not None:
            self._markers.end(self._transaction, last=last)

    def finished(self) -> list[FinishedBatch]:
        """Return the batches, in order within each partition."""
        self._finish()
        return self._finished

    def _finish(self) -> None:
        for writer in self._writers.values():
            self._finished += writer.finished()
        self._enough = self._emitted.size + _ENOUGH

    def _start_transaction(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._ordinal = self._order = 0
        earlier = self._first_earlier if transaction is self._first else None
        if earlier is not None:
            self._ordinal, self._order = earlier.ordinal, earlier.order
        needs_markers = self._rules.markers or earlier is not None or transaction is self._cut
        self._markers = self._marker_writer if needs_markers else None
        if self._markers is not None:
            self._markers.start_transaction(earlier)

    def _rows(self, item: Rows) -> None:
        use = item.use
        write = self._tables.get(id(use))
        if write is None:
            version, route = use.version, use.table.route
            writer = self._row_writer(version.topic, route)
            write = self._tables[id(use)] = self._records(route.format).rows(version, writer)
        order = self._order
        self._order = write(item, self._ordinal + item.ordinal, order)
        self._counts[item.event_type] += len(item.rows)
        if self._markers is not None:
            self._markers.published(item.transaction, use.version.topic, self._order - order)

    def _statement(self, item: Ddl, latest: Mapping[TableName, TableVersion]) -> None:
        rules = self._rules
        if item.is_published:
            topic = ddl_topic(rules.prefix, rules.destination)
            self._own.ddl(item, self._single(topic))
        for name in item.parks:
            record = record_of_statement(item, name, self._ordinal)
            if rules.routes.masks_any:
                record = sealed_record(record, rules.routes.keys)
            self._park(record, name)
        for at, route in enumerate(item.emptied):
            # A DDL statement is a transaction of its own, so no row has any of these ordinals.
            self._truncation(item, route, latest.get(route.table), item.ordinal + at)

    def _truncation(
        self, item: Ddl, route: Route, version: TableVersion | None, ordinal: int
    ) -> None:
        """Write to a table's row topic that all of its rows are gone, or that their replacement ends.

        A version with another topic belongs to rows from before the mapping changed.
        """
        topic = route.topic
        if item.replacement is Replacement.ENDS:
            self._records(route.format).replaced(item, route, self._many(topic, route, topic))
            return
        if version is not None and version.topic != topic:
            version = None
        if self._markers is not None:
            self._markers.published(item.transaction, topic, 1)
        self._order += 1
        self._truncated += 1
        self._records(route.format).truncate(
            item,
            route,
            self._row_writer(topic, route),
            schema=version.version if version is not None else None,
            ordinal=self._ordinal + ordinal,
            order=self._order,
        )

    def _park(self, record: tuple[bytes, bytes, Headers], name: tuple[str, str]) -> None:
        key, value, headers = record
        topic = quarantine_topic(self._rules.prefix, self._rules.destination)
        self._single(topic).append(key, value, headers)
        self._emitted.size += len(value)
        self.parked[name] += 1

    def _discreet(self, record: ParkedRecord, name: TableName) -> ParkedRecord:
        """Return a record of raw rows, sealed if their table has masked columns."""
        routes = self._rules.routes
        route = routes.of(name)
        # A table that is no longer captured, or whose rule is not certain, may be a masked one.
        is_masked = routes.masks_any and (route is None or route.masks)
        return sealed_record(record, routes.keys) if is_masked else record

    def _write_dead_rows(self, item: DeadRows) -> None:
        ordinal = self._ordinal + item.ordinal
        key, value, headers = self._discreet(dead_letter_record(item, ordinal), item.name)
        topic = dead_letters_topic(self._rules.prefix, self._rules.destination)
        self._single(topic).append(key, value, headers)
        self._emitted.size += len(value)
        transaction = item.transaction
        position = f"{transaction.file}:{item.pos}"
        self.dead_letters.append(
            DeadLetter(".".join(item.name), transaction.gtid, position, ordinal, item.reason)
        )

    def _records(self, name: str) -> Records:
        found = self._formats.get(name)
        if found is None:
            found = self._encoder.format(name).records(self._emitted, self._now)
            self._formats[name] = found
        return found

    def _row_writer(self, topic: str, route: Route) -> RecordWriter:
        """Return the writer of a table's records to its topic and to the topics of its tags."""
        own = self._placed_writer(topic, route, topic)
        if not route.tag_topics:
            return own
        names = route.tag_topics.items()
        tagged = {tag: self._placed_writer(name, route, topic) for tag, name in names}
        return TaggedWriter(own, tagged, self._emitted)

    def _placed_writer(self, topic: str, route: Route, spread_as: str) -> RecordWriter:
        writer = self._many(topic, route, spread_as)
        return PlacedWriter(writer) if route.partition_by else writer

    def _single(self, topic: str) -> BatchWriter:
        return self._writers.get(topic) or self._writer(topic, 1)

    def _many(self, topic: str, route: Route, spread_as: str) -> BatchWriter:
        """Return the batch writer of a row topic; only records of rows can be made smaller.

        ``spread_as``: the topic over whose partitions the same keys are spread.
        """
        writer = self._writers.get(topic)
        if writer is not None:
            return writer
        spread, rules = self._encoder.spread, self._rules
        partitions = (spread(spread_as) if spread else None) or route.partitions
        self.partitions[topic] = partitions
        shrink: Shrink | None = None
        if self._oversize is not None:
            shrink = self._oversize.of(self._encoder.format(route.format))
        return self._writer(topic, partitions, shrink, keyed=rules.compacted)

    def _writer(
        self,
        topic: str,
        partitions: int,
        shrink: Shrink | None = None,
        *,
        keyed: bool = False,
    ) -> BatchWriter:
        writer = self._writers[topic] = BatchWriter(
            topic,
            partitions=partitions,
            compression=self._rules.compression,
            max_bytes=self._rules.max_batch_bytes,
            timestamp_ms=self._now,
            largest=self._rules.largest,
            shrink=shrink,
            keyed=keyed,
        )
        return writer


class MarkerWriter:
    """Writes the transaction markers of one piece, which report the begin and end of transactions.

    Invariant: a transaction published in parts always has markers, from BEGIN to its last part. Markers of
    whole transactions cost extra records, so a setting enables them. Counts are of values in the same Kafka
    transaction.
    """

    __slots__ = (
        "_all",
        "_counts",
        "_has_begin_marker",
        "_is_published",
        "_part",
        "_records",
        "_writer",
        "size",
    )

    def __init__(self, rules: PublishingRules, writer: BatchWriter, records: Records) -> None:
        self._all = rules.markers
        self._writer = writer
        self._records = records
        self._is_published = self._has_begin_marker = False
        self._part = 1
        self._counts: dict[str, int] = {}
        self.size = 0
        """Bytes of keys and values so far."""

    def start_transaction(self, earlier: Progress | None) -> None:
        """Start another transaction; ``earlier``: its progress before this piece, None if it begins here."""
        if earlier is None:
            self._is_published = self._has_begin_marker = False
            self._part, self._counts = 1, {}
        else:
            self._is_published, self._part, self._counts = (
                earlier.is_published,
                earlier.part,
                dict(earlier.counts),
            )
            # Values that are published and not in the counts belong to an earlier part, which had markers.
            self._has_begin_marker = (
                earlier.is_published if self._all else earlier.order > sum(self._counts.values())
            )

    def published(self, transaction: Transaction, topic: str, values: int) -> None:
        """Count published values of the transaction."""
        counts = self._counts
        counts[topic] = counts.get(topic, 0) + values
        self._is_published = True
        if self._all and not self._has_begin_marker:
            self._begin(transaction)

    def end(self, transaction: Transaction, *, last: bool) -> None:
        """End the transaction, or a part of it."""
        is_whole = last and self._part == 1
        if not self._is_published or (is_whole and not self._all):
            return
        if not self._has_begin_marker:
            self._begin(transaction)
        self._write(self._records.end(transaction, self._counts, part=self._part, last=last))

    def _begin(self, transaction: Transaction) -> None:
        self._has_begin_marker = True
        self._write(self._records.begin(transaction))

    def _write(self, marker: Marker) -> None:
        key, value = marker
        self._writer.append(key, value, [])
        self.size += len(key) + len(value)


class TaggedWriter:
    """A writer of one table's records and of their copies.

    Invariant: a copy is the record byte for byte, in the partition of the same number and in the same Kafka
    transaction. A record with several of the tags is on the topic of each, once.
    """

    def __init__(
        self, writer: RecordWriter, tagged: Mapping[str, RecordWriter], emitted: Emitted
    ) -> None:
        """``tagged``: the writers of copies, by tag; ``emitted`` counts the bytes of copies too."""
        self._writer, self._tagged, self._emitted = writer, tagged, emitted

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record, also to the topics of its tags."""
        self._writer.append(key, value, headers)
        for name, text in headers:
            if name == HEADER_TAGS:
                for tag in text.decode().split(","):
                    if (copies := self._tagged.get(tag)) is not None:
                        copies.append(key, value, headers)
                        self._emitted.size += len(key or b"") + len(value or b"")


# Dead letter records of undecodable rows, written and read.
#
# Invariant: a record keeps the raw bytes, their TABLE_MAP, the transaction, the row's ordinal in
# it, and the error. Bytes stay bytes; their description is JSON with a format number.

FORMAT = 1


def dead_letter_record(item: DeadRows, ordinal: int) -> ParkedRecord:
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
