"""What a decoder does with a chunk: gather, number, encode.

The law: gathering and encoding need nothing of other chunks and may run in any process; numbering runs in the
order of the chunks, and takes as long as there are tables, not as there are rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.pipeline.encode.encode import Encoder
from app.pipeline.encode.transaction_markers import Begun
from app.pipeline.formats.registry import value_counter
from app.pipeline.gather.captured_tables import Schema, TableBook
from app.pipeline.gather.gather import Gathering, weight
from app.pipeline.gather.items import Ddl, End, Item, Rows, values_of
from app.pipeline.gather.shares import Share, Sharing
from app.pipeline.gather.statement_changes import Passing
from app.pipeline.number.numbers import Numbers, Progress
from app.pipeline.number.table_versions import Name, VersionBook
from app.pipeline.piece import Aside, Piece
from app.pipeline.portions.captured_chunk import CapturedChunk
from app.pipeline.portions.portion import Portion
from app.pipeline.rules import Rules
from app.pipeline.statement_effect import Applied
from connectors.errors import AqueductError
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.event_names import HARMLESS
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Server
from connectors.mysql.landmark import Landmark, landmark_in
from connectors.mysql.lookup.fingerprint.fingerprint import Prints
from connectors.mysql.lookup.fingerprint.recent import Recents
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from tables.cursor import Resume
from tables.cursor_proof import FileHead
from tables.schema_history.record import SchemaRecord
from tables.table_version import TableVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """All that a decoder needs to know; it travels to a decoder's process."""

    rules: Rules
    server_uuid: str
    charsets: Charsets
    mariadb: bool
    epoch: int
    versions: Mapping[Name, TableVersion]
    server: Server
    told: bool = True
    """Whether the binlog tells the columns' names, so that a table without history can be read."""
    fingerprints: bool = False
    """Whether transactions are to be known again on another server."""
    has_gtids: bool = False
    """Whether the server gives its transactions GTIDs."""
    known: Mapping[Name, Schema] = field(default_factory=dict)
    """Captured tables as their history has them where this run begins; empty where none is kept."""

    def make(self) -> ChunkStage:
        """The stage itself."""
        return ChunkStage(self)


class ChunkStage:
    """Decodes chunk after chunk, for one run of a destination."""

    def __init__(self, spec: StageSpec) -> None:
        rules = self.rules = spec.rules
        self._captures = rules.routes.captures
        self._has_prints, self._has_gtids = spec.fingerprints, spec.has_gtids
        self.tables = TableBook(
            rules.routes,
            spec.charsets,
            server=spec.server,
            told=spec.told,
            shadows=rules.shadow_rules(),
            known=spec.known,
        )
        self._passing = Passing(self.tables, spec.server, rules.trusted)
        self.book = VersionBook(rules.destination, known=spec.versions)
        connector = "mariadb" if spec.mariadb else "mysql"
        self.encoder = Encoder(
            rules, connector=connector, epoch=spec.epoch, spread=self.book.partitions
        )
        self._reader = TransactionReader(spec.server_uuid, spec.charsets, mariadb=spec.mariadb)

    def decode(self, portion: Portion, learned: Sequence[Applied]) -> DecodedShares:
        """The first step: everything in the chunk, up to the first event that cannot be read or carried.

        ``learned``: what the statements before it did, as far as this stage does not know it yet.
        """
        for applied in learned:
            if applied.record is not None:
                self.tables.learn(applied.record)
        assert isinstance(portion, CapturedChunk)
        chunk, effect = portion.chunk, portion.effect
        reader = self._reader
        gathering = Sharing(
            self.tables,
            self.rules,
            value_counter,
            effect,
            self._digests(is_cut=bool(chunk.context) or chunk.place is not None),
            self._passing,
            digests=self._digests,
            landmark=lambda last: landmark_in(chunk, reader.ended, last),
        )
        try:
            reader.read(chunk, gathering)
        except AqueductError as error:
            gathering.stopped(error)
        shares = gathering.all(reader.open)
        events = _events(reader.seen, [share.gathered for share in shares], chunk.passed)
        reader.seen = [0] * 256
        parts = [self._part(chunk, share, Counter()) for share in shares[:-1]]
        return DecodedShares([*parts, self._part(chunk, shares[-1], events, effect)])

    def _part(
        self,
        chunk: Chunk,
        share: Share,
        events: Counter[tuple[int, str]],
        schema: Applied | None = None,
    ) -> DecodedChunk:
        return DecodedChunk(
            self,
            chunk,
            share.gathered,
            open_=share.open,
            events=events,
            landmark=share.landmark,
            schema=schema,
        )

    def _digests(self, *, is_cut: bool) -> Prints | Recents | None:
        if self._has_gtids:
            return Recents(self._captures, is_cut)
        return Prints(self._captures) if self._has_prints else None


def _events(
    seen: list[int], gathered: list[Gathering], passed: dict[int, int]
) -> Counter[tuple[int, str]]:
    """Events by type and by what was done with them."""
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


class DecodedShares:
    """A chunk's shares, which are numbered and encoded one after the other."""

    def __init__(self, shares: list[DecodedChunk]) -> None:
        self._shares = shares

    def number(
        self, numbers: Numbers, news: list[TableVersion]
    ) -> tuple[Numbers, list[TableVersion]]:
        """The second step: the numbers behind this chunk, and the versions that it announces."""
        announced: list[TableVersion] = []
        for share in self._shares:
            numbers, own = share.number(numbers, news)
            announced += own
            news = []
        return numbers, announced

    def encode(self) -> list[Piece]:
        """The third step: the pieces, at least one, in their order."""
        return [share.encode() for share in self._shares]


class DecodedChunk:
    """What a chunk holds, or a share of it, on its way to records."""

    def __init__(
        self,
        stage: ChunkStage,
        chunk: Chunk,
        gathered: Gathering,
        *,
        open_: Transaction | None,
        events: Counter[tuple[int, str]],
        landmark: Landmark | None = None,
        schema: Applied | None = None,
    ) -> None:
        """``schema``: what the statement did to tables with which it ends."""
        self._stage = stage
        self._landmark = landmark
        self._file = chunk.start.file
        self._head: FileHead | None = None
        if chunk.begun:
            self._head = FileHead(file=chunk.start.file, created=chunk.begun)
        self._gathered = gathered
        self._history: list[SchemaRecord] = []
        self._lost: list[Aside] = []
        if schema and schema.record and gathered.error is None:
            self._note(schema.record)
        self._open = None if gathered.error else open_
        self._events = events
        self._seq = self._seq_after = self._version_count = 0
        self._safe = chunk.start
        self._begun = Begun(counts=Counter())
        self._resume: Resume | None = None
        self._is_whole = True
        self._announced: list[TableVersion] = []
        self._truncated: dict[Name, TableVersion] = {}

    def _note(self, record: SchemaRecord) -> None:
        """Keep what the statement did, and the tables that can be read no longer for it."""
        self._history.append(record)
        why = record.reason or ""
        lost = self._stage.tables.lost(record)
        self._lost += [Aside(name=name, why=why, since=record.place) for name in lost]

    def number(
        self, numbers: Numbers, news: list[TableVersion]
    ) -> tuple[Numbers, list[TableVersion]]:
        """The second step: the numbers behind this chunk, and the versions that it announces."""
        for version in news:
            self._stage.book.learn(version)
        gathered = self._gathered
        if isinstance(gathered.prints, Prints):
            numbers.prints = gathered.prints.follow(numbers.prints)
        progress = self._first_progress(numbers)
        if progress is not None:
            self._begun = Begun(
                ordinal=progress.ordinal,
                order=progress.order,
                part=progress.part,
                begun=progress.begun,
                counts=progress.counts.copy(),
            )
            if progress.skip > progress.ordinal:
                _trim(gathered, progress.skip - progress.ordinal)
        self._name_versions()
        self._version_count = self._stage.book.count
        self._seq = numbers.seq
        numbers.seq += gathered.values
        self._seq_after = numbers.seq
        if gathered.end_pos is not None:
            numbers.safe = Coordinates(self._file, gathered.end_pos)
        elif self._head is not None:
            self._begin_file(numbers)
        self._safe = numbers.safe
        numbers.open = self._advanced(progress)
        if numbers.resume is not None:
            # Nothing was told yet of the transaction that an earlier run has published a part of.
            self._resume = numbers.resume
        return numbers, self._announced

    def encode(self) -> Piece:
        """The third step: the piece."""
        gathered, digests, last = self._gathered, self._gathered.prints, self._gathered.last
        cut = self._open if self._resume is not None else None
        encoding = self._stage.encoder.encoding(self._seq, gathered.first, self._begun, cut)
        encoding.write(gathered.items, self._truncated)
        if self._resume is not None:
            encoding.close_part(last=False)
        batches = encoding.finished()
        return Piece(
            batches=batches,
            partitions=encoding.partitions,
            records=sum(batch.records for batch in batches),
            size=encoding.size,
            versions=self._announced,
            history=self._history,
            set_aside=self._lost,
            parked=encoding.parked,
            dead_letters=encoding.dead_letters,
            oversize=encoding.lightened,
            gtids=gathered.gtids,
            decisions=gathered.decisions,
            fingerprints=digests.done if isinstance(digests, Prints) else [],
            landmark=self._landmark,
            head=self._head,
            recent=digests.found() if isinstance(digests, Recents) else [],
            coordinates=self._safe,
            resume=self._resume,
            whole=self._is_whole,
            seq=self._seq_after,
            version_count=self._version_count,
            rows=encoding.rows,
            events=self._events,
            statements=gathered.statements,
            committed_ms=last.committed_ms if last is not None else 0,
            error=gathered.error,
        )

    def _begin_file(self, numbers: Numbers) -> None:
        """Go on after the head of a file, unless the server begins before the place that was asked for."""
        if numbers.safe.order <= self._safe.order:
            numbers.safe = self._safe
        else:
            self._head = None

    def _first_progress(self, numbers: Numbers) -> Progress | None:
        """How far the first transaction is, if it began before this chunk or in an earlier run."""
        first = self._gathered.first
        if numbers.open is None and numbers.resume is not None and first is not None:
            return numbers.take_up(first.id, first.start)
        return numbers.open

    def _advanced(self, progress: Progress | None) -> Progress | None:
        """How far the transaction is in which the chunk ends; it is cut here where it has become too large."""
        gathered, open_ = self._gathered, self._open
        if gathered.error is not None:
            self._is_whole = progress is None or gathered.end_pos is not None
            return progress
        if open_ is None:
            return None
        if progress is None or gathered.end_pos is not None:
            progress = Progress(transaction_id=open_.id, start=open_.start)
        self._advance(progress, gathered.items[gathered.whole_items :])
        progress.ordinal += gathered.ordinal
        self._is_whole = progress.size >= self._stage.rules.max_bytes
        if self._is_whole:
            self._resume = progress.cut()
            # A run that starts anew reads the whole transaction again, so its beginning is the place.
            self._safe = progress.start
        return progress

    def _advance(self, progress: Progress, items: list[Item]) -> None:
        """Add what is published of an open transaction."""
        for item in items:
            values = values_of(item)
            progress.size += weight(item, values)
            if isinstance(item, Rows):
                progress.counts[item.use.version.topic] += values
                progress.order += values
                progress.begun = True
            elif isinstance(item, Ddl) and item.truncated is not None:
                progress.order += 1
                progress.begun = True

    def _name_versions(self) -> None:
        book = self._stage.book
        for use in self._gathered.uses:
            table = use.table
            version, is_new = book.at(
                table.route,
                table.definition,
                use.transaction,
                use.pos,
                shows_not_null=table.shows_not_null,
            )
            use.version = version
            if is_new:
                self._announced.append(version)
        for item in self._gathered.items:
            if isinstance(item, Ddl) and item.truncated is not None:
                latest = book.latest(*item.truncated.table)
                if latest is not None:
                    self._truncated[item.truncated.table] = latest


def _trim(gathered: Gathering, skip: int) -> None:
    """Drop the first rows of the first transaction: an earlier run has published them."""
    kept: list[Item] = []
    for item in gathered.items:
        if item.transaction is gathered.first and not isinstance(item, End):
            if isinstance(item, Rows) and item.ordinal < skip < item.ordinal + len(item.rows):
                rest = item.rows[skip - item.ordinal :]
                item = item._replace(rows=rest, ordinal=skip)
            elif item.ordinal < skip:
                continue
        kept.append(item)
    dropped = len(gathered.items) - len(kept)
    gathered.items = kept
    gathered.whole_items = max(0, gathered.whole_items - dropped)
    gathered.values = sum(map(values_of, kept))
    held = {item.use for item in kept if isinstance(item, Rows)}
    gathered.uses = [use for use in gathered.uses if use in held]
