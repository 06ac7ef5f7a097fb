"""From steps of transactions to pieces that can be published: numbered, enveloped, whole.

The law: a piece ends where a MySQL transaction ends, or within one that is too large, and then says so; its
rows, its table versions and the place after it belong together and are published in one Kafka transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.pipeline.envelope import Envelope, Outgoing, Place
from app.pipeline.filter import TableFilter
from app.pipeline.versions import VersionBook
from connectors.errors import AqueductError, ResumeMismatch, UnsupportedEvent
from connectors.mysql.position import Coordinates
from connectors.mysql.skipping import row_count
from connectors.mysql.statements import Kind, truncated_table, type_of
from connectors.mysql.transactions import End, Rows, Statement, Step, Transaction
from connectors.wire import ddl_topic, row_topic, transactions_topic
from tables.cursor import Cursor, Resume
from tables.version import TableVersion


@dataclass(slots=True, kw_only=True)
class Piece:
    """What is published at once: one or more whole transactions, or a part of one."""

    records: list[Outgoing] = field(default_factory=list)
    versions: list[TableVersion] = field(default_factory=list)
    gtids: list[str] = field(default_factory=list)
    """Of the transactions that end here, filtered ones too."""
    coordinates: Coordinates
    """Where reading goes on: after the last whole transaction."""
    resume: Resume | None = None
    seq: int
    version_count: int
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Published changes by table and kind: ``c``, ``u``, ``d``, ``t``."""
    committed_ms: int = 0
    size: int = 0
    """Bytes of keys and values."""

    def absorb(self, later: Piece) -> None:
        """Add the piece that comes right after this one."""
        self.records += later.records
        self.versions += later.versions
        self.gtids += later.gtids
        self.rows.update(later.rows)
        self.coordinates, self.resume = later.coordinates, later.resume
        self.seq, self.version_count = later.seq, later.version_count
        self.committed_ms = later.committed_ms or self.committed_ms
        self.size += later.size


@dataclass(slots=True)
class _Progress:
    """Of the transaction that is being read."""

    transaction: Transaction
    ordinal: int = 0
    order: int = 0
    part: int = 1
    skip: int = 0
    """Source rows at its beginning that an earlier run has published."""
    begun: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """Published values by topic, of this part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the settings say about publishing."""

    prefix: str
    destination: str
    filter: TableFilter
    borders: bool
    """Whether transactions' borders are published."""
    max_bytes: int
    """Above this, a transaction is cut."""


class Assembler:
    """Numbers and envelopes the changes of one destination, from its cursor on."""

    def __init__(self, rules: Rules, *, cursor: Cursor, book: VersionBook) -> None:
        self._rules = rules
        self._book = book
        self._envelope = Envelope(rules.destination, cursor.epoch)
        self._seq = cursor.seq
        self._safe = cursor.offset.coordinates
        self._resume = cursor.resume
        self._now: _Progress | None = None
        self._piece = self._new_piece()

    def pieces(self, steps: Iterator[Step]) -> Iterator[Piece]:
        """A piece for each transaction, or several for a large one."""
        for step in steps:
            progress = self._progress(step.transaction)
            try:
                if isinstance(step, Rows):
                    yield from self._rows(step, progress)
                elif isinstance(step, Statement):
                    self._statement(step, progress)
                else:
                    yield self._end(step, progress)
            except AqueductError as error:
                error.where.setdefault("gtid", step.transaction.gtid or step.transaction.id)
                raise

    def _new_piece(self) -> Piece:
        return Piece(coordinates=self._safe, seq=self._seq, version_count=self._book.count)

    def _progress(self, transaction: Transaction) -> _Progress:
        if self._now is None:
            self._now = _Progress(transaction)
            if self._resume is not None:
                self._take_up(self._now, self._resume)
                self._resume = None
        return self._now

    def _take_up(self, progress: _Progress, resume: Resume) -> None:
        if progress.transaction.id != resume.transaction_id:
            raise ResumeMismatch(
                f"{resume.transaction_id} was published to row {resume.rows}, "
                f"but the source goes on with {progress.transaction.id}"
            )
        progress.skip, progress.order, progress.part = (
            resume.rows,
            resume.published,
            resume.part + 1,
        )

    def _rows(self, step: Rows, progress: _Progress) -> Iterator[Piece]:
        table_map = step.table_map
        if not self._rules.filter.captures(table_map.database, table_map.table):
            progress.ordinal += row_count(table_map, step.event_type, step.body)
            return
        if progress.ordinal < progress.skip:
            # Published whole: the table may have had other columns then, which are no new version now.
            count = row_count(table_map, step.event_type, step.body)
            if progress.ordinal + count <= progress.skip:
                progress.ordinal += count
                return
        table, announced = self._book.at(table_map, step.transaction, step.start)
        if announced is not None:
            self._piece.versions.append(announced)
        writer = self._envelope.rows(table, step.transaction, step.start)
        for row in table.decoder.decode(step.event_type, step.body):
            ordinal = progress.ordinal
            progress.ordinal += 1
            if ordinal < progress.skip:
                continue
            records = writer.records(row, ordinal, seq=self._seq + 1, order=progress.order + 1)
            self._publish(progress, records)
            kind = "c" if row.before is None else "d" if row.after is None else "u"
            self._piece.rows[table.version.topic, kind] += 1
            if self._piece.size >= self._rules.max_bytes:
                yield self._cut(progress)

    def _publish(self, progress: _Progress, records: list[Outgoing]) -> None:
        if not progress.begun:
            progress.begun = True
            if progress.part == 1:
                self._border(progress, "BEGIN")
        for record in records:
            self._add(record)
            if record.value is not None:
                self._seq += 1
                progress.order += 1
                progress.counts[record.topic] += 1

    def _add(self, record: Outgoing) -> None:
        self._piece.records.append(record)
        self._piece.size += len(record.key or b"") + len(record.value or b"")

    def _border(self, progress: _Progress, status: str, **more: Any) -> None:
        if self._rules.borders:
            topic = transactions_topic(self._rules.prefix, self._rules.destination)
            self._add(self._envelope.border(topic, progress.transaction, status, **more))

    def _close_part(self, progress: _Progress, *, last: bool) -> None:
        counts = progress.counts
        self._border(
            progress,
            "END",
            event_count=counts.total(),
            data_collections=[
                {"topic": name, "event_count": n} for name, n in sorted(counts.items())
            ],
            part=progress.part,
            last=last,
        )

    def _cut(self, progress: _Progress) -> Piece:
        """End a piece within a transaction; the next run could go on from its last row."""
        self._close_part(progress, last=False)
        self._piece.resume = Resume(
            transaction_id=progress.transaction.id,
            rows=progress.ordinal,
            published=progress.order,
            part=progress.part,
        )
        # A run that starts anew reads the whole transaction again, so its beginning is the place.
        self._piece.coordinates = progress.transaction.start
        progress.part += 1
        progress.counts.clear()
        return self._finished(progress.transaction)

    def _statement(self, step: Statement, progress: _Progress) -> None:
        query, rules = step.query, self._rules
        if progress.ordinal < progress.skip:
            return
        place = Place(step.transaction, step.start, None, self._seq + 1, None)
        record = self._envelope.ddl(
            ddl_topic(rules.prefix, rules.destination),
            place,
            database=query.database,
            ddl=query.sql,
            type=type_of(query.sql),
        )
        self._add(record)
        self._seq += 1
        if step.kind is Kind.TRUNCATE:
            self._truncate(step, progress)

    def _truncate(self, step: Statement, progress: _Progress) -> None:
        name = truncated_table(step.query.sql, step.query.database)
        if name is None:
            raise UnsupportedEvent("a TRUNCATE statement whose table cannot be told")
        if not self._rules.filter.captures(*name):
            return
        known = self._book.latest(*name)
        topic = row_topic(self._rules.prefix, *name)
        place = Place(
            step.transaction, step.start, progress.ordinal, self._seq + 1, progress.order + 1
        )
        version = known.version if known else None
        self._publish(progress, [self._envelope.truncate(name, topic, version, place)])
        self._piece.rows[topic, "t"] += 1

    def _end(self, step: End, progress: _Progress) -> Piece:
        if progress.begun or progress.part > 1:
            self._close_part(progress, last=True)
        self._now = None
        self._safe = step.end
        self._piece.coordinates = step.end
        if step.transaction.gtid:
            self._piece.gtids.append(step.transaction.gtid)
        return self._finished(step.transaction)

    def _finished(self, transaction: Transaction) -> Piece:
        piece = self._piece
        piece.seq, piece.version_count = self._seq, self._book.count
        piece.committed_ms = transaction.committed_ms
        self._piece = self._new_piece()
        return piece
