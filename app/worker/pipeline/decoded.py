"""The decoded items of a portion, which are then numbered and encoded.

The items become one piece, or several if they are too many for one Kafka transaction. If the owner of a portion
waits for it, its piece reports the outcome.

Invariant: numbering runs in the order of the portions, and its cost grows with tables, not with rows. Before
rows of a SELECT are numbered, they are compared with the keys that changed up to here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from app.worker.pipeline.changed_keys import (
    Changed,
    ChangedKeys,
    GenerationBegun,
    KeyNews,
    Name,
    Refused,
    Watched,
)
from app.worker.pipeline.encode import Encoder, Encoding
from app.worker.pipeline.gather.gather import weight
from app.worker.pipeline.gather.items import (
    REMOVED,
    Ddl,
    Gathered,
    Item,
    Rows,
    TableUse,
    values_of,
)
from app.worker.pipeline.gather.selected import SelectGathering
from app.worker.pipeline.number import Numbers, Progress
from app.worker.pipeline.piece import Counts, Entered, Piece, SignalRow, SourceTrace, TableChanges
from app.worker.pipeline.portions import KeyWatch, RemovedRows, SelectedRows
from app.worker.pipeline.version_book import VersionBook
from connectors.errors import RuleImpossible
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.position import Coordinates
from connectors.mysql.rows.decoder import WRITES
from tables.rules.table_version import TableVersion
from tables.state.cursor import FileHead, Resume

News = TableVersion | KeyNews
"""What a portion announces to the decoders of later portions."""


class DecodedPortion:
    """The decoded items of a portion, piece by piece."""

    def __init__(self, pieces: Sequence[DecodedItems | OwnedItems]) -> None:
        self._pieces = pieces

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Return the numbers after this portion, and what it announces (second step)."""
        announced: list[News] = []
        for items in self._pieces:
            numbers, own = items.number(numbers, news)
            announced += own
            news = []
        return numbers, announced

    def encode(self) -> list[Piece]:
        """Return the pieces in their order, at least one (third step)."""
        return [items.encode() for items in self._pieces]


class DecodedItems:
    """The decoded items of one piece."""

    def __init__(
        self,
        gathered: Gathered,
        start: Coordinates,
        *,
        encoder: Encoder,
        book: VersionBook,
        keys: ChangedKeys,
        tables: TableChanges | None = None,
        events: Counter[tuple[int, str]] | None = None,
        head: FileHead | None = None,
        earlier: Progress | None = None,
        cut: Transaction | None = None,
    ) -> None:
        """``start`` is the start of the portion; ``head`` is the head of the file that begins there, if any.

        ``tables`` is what the last statement changed, and ``events`` counts events by type and outcome. For a
        transaction that is not the source's, ``earlier`` is its progress before these items, and ``cut`` is the
        transaction itself if more of its items follow.
        """
        self._gathered, self._start = gathered, start
        self._encoder, self._book, self._keys = encoder, book, keys
        self._tables = tables or TableChanges()
        """The changes of tables, with the versions that these items announce."""
        self._events = events or Counter()
        self._head = head
        self._seq = self._seq_after = self._version_count = 0
        self._safe = start
        self._earlier, self._cut = earlier, cut
        self._resume: Resume | None = None
        self._is_whole = True
        self._emptied: dict[Name, TableVersion] = {}

    def learn(self, news: list[News]) -> None:
        """Learn what earlier portions announced."""
        for one in news:
            if isinstance(one, TableVersion):
                self._book.learn(one)
            else:
                self._keys.learn(one)

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Return the numbers after these items, and what they announce."""
        self.learn(news)
        gathered = self._gathered
        if isinstance(gathered.prints, FingerprintWindow):
            numbers.prints = gathered.prints.follow(numbers.prints)
        progress = None if self._earlier is not None else self._first_progress(numbers)
        if progress is not None:
            self._earlier = replace(progress, counts=progress.counts.copy())
            if progress.skip > progress.ordinal:
                gathered.trim(progress.skip - progress.ordinal)
        self._name_versions()
        self._version_count = self._book.count
        self._seq = numbers.seq
        numbers.seq += gathered.values
        self._seq_after = numbers.seq
        if gathered.end_pos is not None:
            numbers.safe = Coordinates(self._start.file, gathered.end_pos)
        elif self._head is not None:
            # Continue after the head of a file, unless the server starts before the requested
            # position.
            if numbers.safe.order <= self._safe.order:
                numbers.safe = self._safe
            else:
                self._head = None
        self._safe = numbers.safe
        numbers.open = self._advanced(progress)
        if numbers.resume is not None:
            # An earlier run published a part of this transaction; this run published nothing of it yet.
            self._resume = numbers.resume
        announced: list[News] = [*self._tables.versions]
        if gathered.changed:
            changed = Changed(gathered.changed)
            self._keys.learn(changed)
            announced.append(changed)
        return numbers, announced

    def encode(self) -> Piece:
        """Return the piece."""
        gathered, last = self._gathered, self._gathered.last
        # A part of the open transaction ends here if another run can resume within it.
        cut = self._cut or (gathered.open if self._resume is not None else None)
        encoding = Encoding(
            self._encoder, seq=self._seq, first=gathered.first, earlier=self._earlier, cut=cut
        )
        signals = self._signals()
        encoding.write(gathered.items, self._emptied)
        if cut is not None:
            encoding.close_part(last=False)
        batches = encoding.finished()
        return Piece(
            batches=batches,
            partitions=encoding.partitions,
            records=sum(batch.records for batch in batches),
            size=encoding.size,
            tables=self._tables,
            dead_letters=encoding.dead_letters,
            trace=self._trace(),
            counts=Counts(
                rows=encoding.rows,
                events=self._events,
                statements=gathered.statements,
                parked=encoding.parked,
                oversize=encoding.oversize_counts,
            ),
            coordinates=self._safe,
            resume=self._resume,
            whole=self._is_whole,
            seq=self._seq_after,
            version_count=self._version_count,
            committed_ms=last.committed_ms if last is not None else 0,
            signals=signals,
            error=gathered.error,
        )

    def _trace(self) -> SourceTrace:
        gathered, prints = self._gathered, self._gathered.prints
        return SourceTrace(
            gtids=gathered.gtids.found(),
            decisions=gathered.decisions,
            fingerprints=prints.done if isinstance(prints, FingerprintWindow) else [],
            landmark=gathered.landmark,
            head=self._head,
            recent=prints.found() if isinstance(prints, RecentTransactions) else [],
        )

    def _signals(self) -> list[SignalRow]:
        """Return the rows that were inserted into the signal table; encoding consumes the items."""
        wanted = self._encoder.rules.signals
        if wanted is None:
            return []
        # The statement of a portion is at its end.
        return [
            SignalRow(after)
            for item in self._gathered.items
            if isinstance(item, Rows) and item.event_type in WRITES
            if item.use.table.name == wanted
            for _, after, *_ in item.rows
            if after is not None
        ]

    def _first_progress(self, numbers: Numbers) -> Progress | None:
        """Return the progress of the first transaction, if it began before these items or in an earlier run."""
        # A chunk may have only the start of a transaction, such as an XA START whose rows are read again.
        first = self._gathered.first or self._gathered.open
        if numbers.open is None and numbers.resume is not None and first is not None:
            return numbers.take_up(first.id, first.start)
        return numbers.open

    def _advanced(self, progress: Progress | None) -> Progress | None:
        """Return the progress of the transaction open at the end; cut it if too large."""
        gathered, open_ = self._gathered, self._gathered.open
        if gathered.error is not None:
            self._is_whole = progress is None or gathered.end_pos is not None
            return progress
        if open_ is None:
            return None
        if progress is None or gathered.end_pos is not None:
            progress = Progress(transaction_id=open_.id, start=open_.start)
        self._advance(progress, gathered.items[gathered.whole_items :])
        progress.ordinal += gathered.ordinal
        self._is_whole = progress.size >= self._encoder.rules.max_bytes
        if self._is_whole:
            self._resume = progress.cut()
            # A new run reads the whole transaction again, so the position is its beginning.
            self._safe = progress.start
        return progress

    def _advance(self, progress: Progress, items: list[Item]) -> None:
        """Add the published part of an open transaction."""
        for item in items:
            values = values_of(item)
            progress.size += weight(item, values)
            if isinstance(item, Rows):
                progress.counts[item.use.version.topic] += values
                progress.order += values
                progress.is_published = True
            elif isinstance(item, Ddl) and item.emptied:
                progress.order += len(item.emptied)
                progress.is_published = True

    def _name_versions(self) -> None:
        """Announce the versions of tables in the order of the items; a release has statements between rows."""
        book = self._book
        unnamed = {id(use): use for use in self._gathered.uses}
        for item in self._gathered.items:
            if isinstance(item, Rows):
                if unnamed and (use := unnamed.pop(id(item.use), None)) is not None:
                    self._name_use(use)
                continue
            if not isinstance(item, Ddl):
                continue
            for route in item.emptied:
                latest = book.latest(*route.table)
                if latest is not None:
                    self._emptied[route.table] = latest
            self._name_altered(item)
        for use in unnamed.values():
            self._name_use(use)

    def _name_use(self, use: TableUse) -> None:
        table = use.table
        use.version, is_new = self._book.at(
            table.route,
            table.definition,
            use.transaction,
            use.pos,
            shows_not_null=table.shows_not_null,
            left_out=table.left_out,
        )
        if is_new:
            self._tables.versions.append(use.version)

    def _name_altered(self, item: Ddl) -> None:
        """Announce the versions of published tables that a statement altered, whether or not rows follow.

        The statement may have changed values of existing rows, even if a later statement alters the table back.
        """
        for one in item.altered:
            route = one.table.route
            if self._book.latest(*one.was) is None and self._book.latest(*route.table) is None:
                continue
            # The first row of such a table reports the fault.
            with suppress(RuleImpossible):
                version, is_new = self._book.at(
                    route,
                    one.table.definition,
                    item.transaction,
                    item.pos,
                    left_out=one.table.left_out,
                )
                one.number = version.version
                if is_new:
                    self._tables.versions.append(version)


class DecodedWatch:
    """A KeyWatch, which has no items: its owner learns that the stream is published up to here."""

    def __init__(self, portion: KeyWatch, items: DecodedItems, keys: ChangedKeys) -> None:
        self._portion, self._items, self._keys = portion, items, keys

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Announce the tables whose keys are recorded from here on."""
        numbers, announced = self._items.number(numbers, news)
        watched = Watched(self._portion.tables)
        self._keys.learn(watched)
        return numbers, [*announced, watched]

    def encode(self) -> Piece:
        """Return the piece, with the journal's records of states that begin here."""
        piece = self._items.encode()
        piece.notes += self._portion.notes
        piece.entered.append(Entered(self._portion.id))
        return piece


class DecodedDeletes:
    """Deletes of rows that are all removed at once: a part of a transaction of their own."""

    def __init__(self, portion: RemovedRows, items: DecodedItems) -> None:
        self._portion, self._items = portion, items

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Return the numbers after these deletes, and what they announce."""
        return self._items.number(numbers, news)

    def encode(self) -> Piece:
        """Return the piece, which reports that the stream is published up to here."""
        piece = self._items.encode()
        if piece.error is None:
            piece.entered.append(Entered(self._portion.id))
        return piece


class DecodedRead:
    """The rows of one read, without those of which the stream has published newer images."""

    def __init__(
        self,
        portion: SelectedRows,
        selected: SelectGathering,
        items: DecodedItems,
        keys: ChangedKeys,
    ) -> None:
        self._portion, self._selected, self._items, self._keys = portion, selected, items, keys
        self._dropped = self._rows = self._removed = 0

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Drop the rows that changed, and number the other rows."""
        self._items.learn(news)
        portion, selected = self._portion, self._selected
        if self._keys.is_refused(portion.table, portion.attempt):
            selected.refuse("an earlier read of it was refused")
        if selected.gathered.error is None and portion.is_read:
            changed = self._keys.since(portion.table, portion.since)
            if portion.empties and changed:
                # Even if a unique key that the server promotes identifies its rows: subscribers remove all
                # earlier rows, and so the published changes too.
                selected.refuse("rows of it changed, and all of them are to be replaced")
            else:
                self._dropped = selected.drop(changed)
        found = [item for item in selected.gathered.items if isinstance(item, Rows)]
        self._rows = sum(len(item.rows) for item in found if item.event_type != REMOVED)
        self._removed = sum(len(item.rows) for item in found if item.event_type == REMOVED)
        numbers, announced = self._items.number(numbers, [])
        own: list[KeyNews] = [GenerationBegun(portion.table, portion.begins, portion.kept)]
        if selected.refused is not None:
            own.append(Refused(portion.table, portion.attempt))
        for one in own:
            self._keys.learn(one)
        return numbers, [*announced, *own]

    def encode(self) -> Piece:
        """Return the piece, with the journal's record unless the rows were refused."""
        piece = self._items.encode()
        if piece.error is None:
            refused = self._selected.refused
            piece.entered.append(
                Entered(
                    self._portion.id,
                    self._rows,
                    self._dropped,
                    refused=refused,
                    removed=self._removed,
                    unreadable=refused if self._selected.unreadable is not None else None,
                    is_last=self._portion.is_last,
                )
            )
            if refused is None:
                piece.notes.append(self._portion.note)
        return piece


OwnedItems = DecodedWatch | DecodedDeletes | DecodedRead
"""The items of a portion whose owner waits for it."""
