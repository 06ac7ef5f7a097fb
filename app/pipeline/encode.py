"""The last step of a decoder: records, in finished batches.

The law: numbers, versions and the place in an open transaction are given; nothing is decided here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.pipeline.envelope import Envelope, TableText
from app.pipeline.gather import Ddl, Item, ParkedRows, Rows
from app.pipeline.parked import record_of_rows, record_of_statement
from app.pipeline.rules import Rules
from connectors.kafka.batches import BatchWriter, FinishedBatch
from connectors.mysql.changes import Transaction
from connectors.mysql.rows import ROWS_EVENTS, UPDATES, WRITES
from connectors.wire import ddl_topic, quarantine_topic, row_topic, transactions_topic
from tables.version import TableVersion

Headers = list[tuple[str, bytes]]

_OPS = {
    int(kind): "c" if kind in WRITES else "u" if kind in UPDATES else "d" for kind in ROWS_EVENTS
}


@dataclass(slots=True, kw_only=True)
class Begun:
    """How far a transaction was before this chunk."""

    ordinal: int = 0
    """Source rows of it."""
    order: int = 0
    """Row records of it."""
    part: int = 1
    begun: bool = False
    """Whether any of it was published."""
    counts: Counter[str] = field(default_factory=Counter)
    """Published values by topic, of this part."""


class Encoder:
    """Encodes chunk after chunk with what is the same for all of them."""

    def __init__(self, rules: Rules, *, connector: str, epoch: int) -> None:
        self.rules = rules
        self.connector = connector
        """What kind of server the source is: ``mysql`` or ``mariadb``."""
        self.epoch = epoch
        self._texts: dict[tuple[str, str], TableText] = {}

    def text(self, version: TableVersion) -> TableText:
        """The constant parts of a version's envelopes."""
        name = (version.database, version.table)
        text = self._texts.get(name)
        if text is None or text.version is not version:
            text = TableText(version, connector=self.connector, epoch=self.epoch)
            self._texts[name] = text
        return text

    def encoding(self, seq: int, first: Transaction | None, begun: Begun) -> Encoding:
        """What encodes one chunk, whose first transaction is this far."""
        return Encoding(self, seq=seq, first=first, begun=begun)


class Encoding:
    """Encodes one chunk."""

    def __init__(
        self, encoder: Encoder, *, seq: int, first: Transaction | None, begun: Begun
    ) -> None:
        rules = self._rules = encoder.rules
        self._encoder = encoder
        self._now = time.time_ns() // 1_000_000
        self._envelope = Envelope(
            rules,
            connector=encoder.connector,
            epoch=encoder.epoch,
            seq=seq,
            now_ms=self._now,
        )
        self._writers: dict[str, BatchWriter] = {}
        self._tables: dict[int, tuple[TableText, BatchWriter]] = {}
        self._first, self._first_begun = first, begun
        self._transaction: Transaction | None = None
        self._ordinal = self._order = 0
        self._borders: _Borders | None = None
        if rules.borders:
            topic = transactions_topic(rules.prefix, rules.destination)
            self._borders = _Borders(self._envelope, self._single(topic))
        self._counts = dict.fromkeys(_OPS, 0)
        self._truncated = 0
        self.parked: Counter[tuple[str, str]] = Counter()
        """Events of tables that are set aside, by table."""

    @property
    def size(self) -> int:
        """Bytes of keys and values so far."""
        return self._envelope.size

    @property
    def rows(self) -> Counter[str]:
        """Changes by kind."""
        found: Counter[str] = Counter()
        for event_type, count in self._counts.items():
            found[_OPS[event_type]] += count
        found["t"] = self._truncated
        return +found

    def write(self, items: list[Item], latest: Mapping[tuple[str, str], int]) -> None:
        """Encode all that happened, in order; ``latest`` has the versions of tables that were emptied."""
        for item in items:
            if item.transaction is not self._transaction:
                self._turn_to(item.transaction)
            if type(item) is Rows:
                self._rows(item)
            elif type(item) is Ddl:
                self._statement(item, latest)
            elif type(item) is ParkedRows:
                self._park(record_of_rows(item, self._ordinal), item.name)
            else:
                self.close_part(last=True)

    def close_part(self, *, last: bool) -> None:
        """Say what was published of the transaction, or of this part of it, if anything was."""
        if self._borders is not None and self._transaction is not None:
            self._borders.end(self._transaction, last=last)

    def finished(self) -> list[FinishedBatch]:
        """The batches, those of a partition in order."""
        return [batch for writer in self._writers.values() for batch in writer.finished()]

    def _turn_to(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._ordinal = self._order = 0
        begun = None
        if transaction is self._first:
            begun = self._first_begun
            self._ordinal, self._order = begun.ordinal, begun.order
        if self._borders is not None:
            self._borders.turn_to(begun or Begun())

    def _rows(self, item: Rows) -> None:
        use = item.use
        held = self._tables.get(id(use))
        if held is None:
            version = use.version
            writer = self._many(version.topic)
            held = self._tables[id(use)] = (self._encoder.text(version), writer)
        order = self._order
        if self._borders is not None:
            self._borders.begin(item.transaction)
        self._order = self._envelope.rows(
            item, *held, ordinal=self._ordinal + item.ordinal, order=order
        )
        self._counts[item.event_type] += len(item.rows)
        if self._borders is not None:
            self._borders.count(use.version.topic, self._order - order)

    def _statement(self, item: Ddl, latest: Mapping[tuple[str, str], int]) -> None:
        rules = self._rules
        if item.told:
            topic = ddl_topic(rules.prefix, rules.destination)
            self._envelope.ddl(item, self._single(topic))
        for name in item.parks:
            self._park(record_of_statement(item, name, self._ordinal), name)
        if item.truncated is None:
            return
        topic = row_topic(rules.prefix, *item.truncated)
        if self._borders is not None:
            self._borders.begin(item.transaction)
            self._borders.count(topic, 1)
        self._order += 1
        self._truncated += 1
        self._envelope.truncate(
            item,
            latest.get(item.truncated),
            self._many(topic),
            ordinal=self._ordinal + item.ordinal,
            order=self._order,
        )

    def _park(self, record: tuple[bytes, bytes, Headers], name: tuple[str, str]) -> None:
        """Write an event of a table that is set aside to where it waits."""
        key, value, headers = record
        topic = quarantine_topic(self._rules.prefix, self._rules.destination)
        self._single(topic).append(key, value, headers)
        self._envelope.size += len(value)
        self.parked[name] += 1

    def _single(self, topic: str) -> BatchWriter:
        return self._writers.get(topic) or self._writer(topic, 1)

    def _many(self, topic: str) -> BatchWriter:
        return self._writers.get(topic) or self._writer(topic, self._rules.partitions)

    def _writer(self, topic: str, partitions: int) -> BatchWriter:
        writer = self._writers[topic] = BatchWriter(
            topic,
            partitions=partitions,
            compression=self._rules.compression,
            max_bytes=self._rules.max_batch_bytes,
            timestamp_ms=self._now,
        )
        return writer


class _Borders:
    """Publishes where transactions begin and end."""

    def __init__(self, envelope: Envelope, writer: BatchWriter) -> None:
        self._envelope = envelope
        self._writer = writer
        self._now = Begun()

    def turn_to(self, begun: Begun) -> None:
        """Another transaction follows."""
        self._now = begun

    def begin(self, transaction: Transaction) -> None:
        """Something is published of it: say so, if it is the first."""
        if not self._now.begun:
            self._now.begun = True
            self._envelope.border(transaction, "BEGIN", self._writer)

    def count(self, topic: str, values: int) -> None:
        """Values were published."""
        self._now.counts[topic] += values

    def end(self, transaction: Transaction, *, last: bool) -> None:
        """The transaction ends, or a part of it."""
        now = self._now
        if not now.begun:
            return
        counts = now.counts
        each = ",".join(
            f'{{"topic":"{topic}","event_count":{n}}}' for topic, n in sorted(counts.items())
        )
        more = (
            f',"event_count":{counts.total()},"data_collections":[{each}],'
            f'"part":{now.part},"last":{"true" if last else "false"}'
        )
        self._envelope.border(transaction, "END", self._writer, more=more)
