"""The stage of a decoder: gather, number and encode a portion.

Invariant: gathering and encoding are independent of other portions and may run in any process; numbering runs
in the order of the portions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.worker.pipeline.changed_keys import ChangedKeys, Name
from app.worker.pipeline.decoded import (
    DecodedDeletes,
    DecodedItems,
    DecodedPortion,
    DecodedRead,
    DecodedWatch,
)
from app.worker.pipeline.encode import Encoder
from app.worker.pipeline.gather.captured_tables import CapturedTables, Schema
from app.worker.pipeline.gather.gather import Gathering
from app.worker.pipeline.gather.inserted_events import Inserting
from app.worker.pipeline.gather.items import Gathered
from app.worker.pipeline.gather.selected import SelectGathering
from app.worker.pipeline.gather.statement_changes import StatementJudge
from app.worker.pipeline.number import Numbers, Progress
from app.worker.pipeline.piece import Piece, QuarantinedTable, TableChanges, UnloggedChange
from app.worker.pipeline.portions import (
    CapturedChunk,
    Effect,
    InsertedRows,
    KeyWatch,
    Portion,
    RemovedRows,
    SelectedRows,
)
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.version_book import VersionBook
from connectors.errors import AqueductError
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.mariadb_events import HARMLESS
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table
from connectors.mysql.landmark import landmark_in
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from tables.history.record import SchemaRecord
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor, FileHead


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """The parameters of a decoder, which are sent to its process."""

    rules: PublishingRules
    server_uuid: str
    charsets: Charsets
    mariadb: bool
    epoch: int
    versions: Mapping[Name, TableVersion]
    server: Server
    has_column_names: bool = True
    """Whether the binlog has column names, so that a table without history can be read."""
    fingerprints: bool = False
    """Whether fingerprints are kept, to recognize transactions on another server."""
    has_gtids: bool = False
    """Whether the server's transactions have GTIDs."""
    known: Mapping[Name, Schema] = field(default_factory=dict)
    """Captured tables as in their history at the start of this run; empty if no history is kept."""

    def make(self) -> ChunkStage:
        """Make the stage."""
        return ChunkStage(self)


class ChunkStage:
    """Decodes portion after portion, for one run of a destination."""

    def __init__(self, spec: StageSpec) -> None:
        self._spec = spec
        self._has_prints, self._has_gtids = spec.fingerprints, spec.has_gtids
        self._reader = TransactionReader(spec.server_uuid, spec.charsets, mariadb=spec.mariadb)
        self._inserting = Inserting(mariadb=spec.mariadb)
        self.book = VersionBook(
            spec.rules.destination, known=spec.versions, spread=spec.rules.spread
        )
        self._keys = ChangedKeys()
        self._watched: frozenset[Name] = frozenset()
        rules = self.rules = spec.rules
        self._captures = rules.routes.captures
        self.tables = CapturedTables(
            rules.routes,
            spec.charsets,
            server=spec.server,
            has_column_names=spec.has_column_names,
            shadows=rules.shadow_rules(),
            known=spec.known,
        )
        self._passing = StatementJudge(self.tables, spec.server, rules.trusted)
        connector = "mariadb" if spec.mariadb else "mysql"
        self.encoder = Encoder(
            rules, connector=connector, epoch=spec.epoch, spread=self.book.partitions
        )
        self._items = partial(DecodedItems, encoder=self.encoder, book=self.book, keys=self._keys)

    def decode(self, portion: Portion, learned: Sequence[Effect]) -> DecodedPortion:
        """Decode the portion up to the first event that cannot be read or published (first step).

        ``learned``: the effects of earlier portions that this stage does not know yet.
        """
        self.rules.routes.rest()
        for effect in learned:
            if isinstance(effect, KeyWatch):
                self._watched = effect.tables
            elif effect.record is not None:
                self.tables.learn(effect.record)
        if isinstance(portion, CapturedChunk):
            return self._chunk(portion.chunk, portion.effect)
        if isinstance(portion, InsertedRows):
            gathering = Gathering(self.tables, self.rules, watched=self._watched)
            try:
                self._inserting.transactions(portion.events, gathering)
            except AqueductError as error:
                gathering.gathered.stop(error)
            return DecodedPortion([self.inserted(gathering.gathered, portion.start)])
        if isinstance(portion, SelectedRows):
            return DecodedPortion([self._selected(portion)])
        if isinstance(portion, RemovedRows):
            return DecodedPortion([self._removed(portion)])
        # It has no changes of its own.
        assert isinstance(portion, KeyWatch)
        nothing = self.inserted(Gathered(), portion.start)
        return DecodedPortion([DecodedWatch(portion, nothing, self._keys)])

    def _chunk(self, chunk: Chunk, effect: ResolvedStatement | None) -> DecodedPortion:
        reader = self._reader
        gathering = Gathering(
            self.tables,
            self.rules,
            limit=self.rules.max_bytes,
            resolved=effect,
            passing=self._passing,
            digests=self._digests,
            landmark=lambda last: landmark_in(chunk, reader.ended, last),
            is_cut=not chunk.begins_between,
            watched=self._watched,
        )
        try:
            reader.read(chunk, gathering)
        except AqueductError as error:
            gathering.gathered.stop(error)
        found = gathering.finished(reader.open)
        events = _events(reader.seen, found, chunk.passed)
        reader.seen = [0] * 256
        head = FileHead(file=chunk.start.file, created=chunk.created) if chunk.created else None
        *earlier, last = found
        return DecodedPortion(
            [
                *(self._items(gathered, chunk.start, head=head) for gathered in earlier),
                self._items(
                    last,
                    chunk.start,
                    head=head,
                    events=events,
                    tables=self._changed(chunk, last, effect),
                ),
            ]
        )

    def _changed(
        self, chunk: Chunk, gathered: Gathered, effect: ResolvedStatement | None
    ) -> TableChanges:
        if effect is None or gathered.error is not None:
            return TableChanges()
        changed = TableChanges(unlogged=_unlogged(chunk, gathered, effect))
        if effect.record is not None:
            changed.history = [effect.record]
            changed.quarantined = self._lost(effect.record)
        return changed

    def _lost(self, record: SchemaRecord) -> list[QuarantinedTable]:
        why = record.reason or ""
        return [
            QuarantinedTable(name=name, why=why, since=record.position)
            for name in self.tables.lost(record)
        ]

    def inserted(self, gathered: Gathered, start: Coordinates) -> DecodedItems:
        """Return items from outside a chunk, which neither begin nor end a transaction of the source."""
        gathered.first = None
        return self._items(gathered, start)

    def piece(self, gathered: Gathered, cursor: Cursor) -> Piece:
        """Return the piece of what was gathered before a run reads its source, numbered after its cursor."""
        decoded = self.inserted(gathered, cursor.offset.coordinates)
        decoded.number(Numbers.of(cursor), [])
        return decoded.encode()

    def is_other(self, name: Name, table: Table) -> bool:
        """Whether the published version of a table has other columns for subscribers than this definition."""
        found = self.tables.defined(name, table)
        return found is not None and self.book.is_other(found.route, found.definition)

    def _selected(self, portion: SelectedRows) -> DecodedRead:
        start = portion.start
        transaction = Transaction(
            start.file, start.pos, None, 0, portion.read, portion.read_ms, portion.server_id
        )
        gathering = SelectGathering(self.tables, self.rules)
        try:
            if portion.empties:
                gathering.empty(transaction, portion.table, start.pos)
            if portion.blocks or portion.removes:
                table_map = self._inserting.mapped(portion.table_map)
                gathering.all(transaction, table_map, portion.blocks, start.pos)
                gathering.remove(transaction, table_map, portion.removes, start.pos)
            gathering.finish(transaction)
            if portion.replaced:
                gathering.replaced(transaction, portion.table, start.pos)
        except AqueductError as error:
            gathering.gathered.stop(error)
        items = self.inserted(gathering.gathered, start)
        return DecodedRead(portion, gathering, items, self._keys)

    def _removed(self, portion: RemovedRows) -> DecodedDeletes:
        start = portion.start
        transaction = Transaction(
            start.file, start.pos, None, 0, portion.name, portion.removed_ms, portion.server_id
        )
        gathering = SelectGathering(self.tables, self.rules)
        try:
            if portion.rows:
                table_map = self._inserting.mapped(portion.table_map)
                gathering.delete(transaction, table_map, portion.rows, start.pos)
                if portion.is_last:
                    gathering.end_of_parts(transaction, is_first=portion.ordinal == 0)
        except AqueductError as error:
            gathering.gathered.stop(error)
        # Only a later part continues a transaction that is already published in part.
        is_first = portion.ordinal == 0
        gathering.gathered.first = None if is_first else transaction
        earlier = Progress(
            transaction_id=portion.name,
            start=start,
            ordinal=portion.ordinal,
            order=portion.ordinal,
            part=portion.part,
            is_published=True,
        )
        items = self._items(
            gathering.gathered,
            start,
            earlier=None if is_first else earlier,
            cut=None if portion.is_last else transaction,
        )
        return DecodedDeletes(portion, items)

    def _digests(self, *, is_cut: bool) -> FingerprintWindow | RecentTransactions | None:
        if self._has_gtids:
            return RecentTransactions(self._captures, is_cut)
        return FingerprintWindow(self._captures) if self._has_prints else None


def _events(
    seen: list[int], gathered: list[Gathered], passed: dict[int, int]
) -> Counter[tuple[int, str]]:
    """Return the counts of events by type and outcome."""
    filtered = sum((one.filtered for one in gathered), Counter[int]())
    given_up = sum((one.given_up for one in gathered), Counter[int]())
    events: Counter[tuple[int, str]] = Counter()
    for kind, count in enumerate(seen):
        if (rest := count - filtered[kind] - given_up[kind]) > 0:
            handling = "passed" if kind in HARMLESS else "decoded"
            events[kind, handling] = rest
    for kind, count in filtered.items():
        events[kind, "filtered"] += count
    for kind, count in given_up.items():
        events[kind, "given up"] += count
    for kind, count in passed.items():
        events[kind, "passed"] += count
    return events


def _unlogged(chunk: Chunk, gathered: Gathered, effect: ResolvedStatement) -> list[UnloggedChange]:
    """Return the tables whose rows the statement at a chunk's end changed without row events."""
    gtid = gathered.last.gtid if gathered.last is not None else None
    at = (
        chunk.start if gathered.end_pos is None else Coordinates(chunk.start.file, gathered.end_pos)
    )
    return [UnloggedChange(name, what, gtid, at) for name, what in effect.unlogged]
