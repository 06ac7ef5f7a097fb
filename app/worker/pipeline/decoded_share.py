"""A decoded portion, or a share of it, which is then numbered and encoded.

Invariant: numbering runs in the order of the portions, and its cost grows with tables, not with rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from app.worker.pipeline.encode.encode import Encoder
from app.worker.pipeline.encode.transaction_markers import EarlierProgress
from app.worker.pipeline.gather.gather import weight
from app.worker.pipeline.gather.gathered import Gathered
from app.worker.pipeline.gather.items import Ddl, Item, Rows, values_of
from app.worker.pipeline.number.changed_keys import Changed, ChangedKeys, KeyNews
from app.worker.pipeline.number.numbers import Numbers, Progress
from app.worker.pipeline.number.table_versions import Name, VersionBook
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.piece_parts import (
    Counts,
    QuarantinedTable,
    SourceTrace,
    TableChanges,
    UnloggedChange,
)
from connectors.errors import RuleImpossible
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.position import Coordinates
from connectors.mysql.rows.decoder import WRITES
from tables.history.record import SchemaRecord
from tables.rules.table_version import TableVersion
from tables.state.cursor import FileHead, Resume

News = TableVersion | KeyNews
"""What a portion announces to the decoders of later ones."""


class DecodedShares:
    """The shares of a portion, numbered and encoded one after the other."""

    def __init__(self, shares: Sequence[DecodedShare]) -> None:
        self._shares = shares

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Return the numbers after this portion, and what it announces (second step)."""
        announced: list[News] = []
        for share in self._shares:
            numbers, own = share.number(numbers, news)
            announced += own
            news = []
        return numbers, announced

    def encode(self) -> list[Piece]:
        """Return the pieces in their order, at least one (third step)."""
        return [share.encode() for share in self._shares]


class DecodedShare:
    """One share; it becomes a piece."""

    def __init__(
        self,
        encoder: Encoder,
        book: VersionBook,
        keys: ChangedKeys,
        gathered: Gathered,
        start: Coordinates,
        *,
        open_: Transaction | None = None,
        events: Counter[tuple[int, str]] | None = None,
        landmark: Landmark | None = None,
        head: FileHead | None = None,
        history: list[SchemaRecord] | None = None,
        lost: list[QuarantinedTable] | None = None,
        unlogged: list[UnloggedChange] | None = None,
    ) -> None:
        """``start``: the start of its portion. ``head``: that of the file that begins with it, if one does.

        ``history``: the effect of its last statement. ``lost``: tables that can no longer be read.
        ``unlogged``: those of which it changed rows without row events.
        """
        self._encoder, self._book, self._keys = encoder, book, keys
        self._gathered, self._start = gathered, start
        self._open = None if gathered.error else open_
        self._events = events or Counter()
        self._landmark, self._head = landmark, head
        self._history, self._lost = history or [], lost or []
        self._unlogged = unlogged or []
        self._seq = self._seq_after = self._version_count = 0
        self._safe = start
        self._earlier = EarlierProgress(counts=Counter())
        self._resume: Resume | None = None
        self._is_whole = True
        self._announced: list[TableVersion] = []
        self._emptied: dict[Name, TableVersion] = {}

    def _learn(self, news: list[News]) -> None:
        """Learn what earlier portions announced."""
        for one in news:
            if isinstance(one, TableVersion):
                self._book.learn(one)
            else:
                self._keys.learn(one)

    def _key_news(self) -> list[KeyNews]:
        """Return what this share announces of the keys of watched tables."""
        changed = self._gathered.changed
        return [Changed(changed)] if changed else []

    def number(self, numbers: Numbers, news: list[News]) -> tuple[Numbers, list[News]]:
        """Return the numbers after this share, and what it announces (second step)."""
        self._learn(news)
        gathered = self._gathered
        if isinstance(gathered.prints, FingerprintWindow):
            numbers.prints = gathered.prints.follow(numbers.prints)
        progress = self._first_progress(numbers)
        if progress is not None:
            self._earlier = EarlierProgress(
                ordinal=progress.ordinal,
                order=progress.order,
                part=progress.part,
                is_published=progress.is_published,
                counts=progress.counts.copy(),
            )
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
            self._begin_file(numbers)
        self._safe = numbers.safe
        numbers.open = self._advanced(progress)
        if numbers.resume is not None:
            # An earlier run published a part of this transaction; this run published nothing of it yet.
            self._resume = numbers.resume
        of_keys = self._key_news()
        for one in of_keys:
            self._keys.learn(one)
        return numbers, [*self._announced, *of_keys]

    def encode(self) -> Piece:
        """Return the piece (third step)."""
        gathered, last = self._gathered, self._gathered.last
        cut = self._cut()
        encoding = self._encoder.encoding(self._seq, gathered.first, self._earlier, cut)
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
            tables=TableChanges(
                versions=self._announced,
                history=self._history,
                quarantined=self._lost,
                unlogged=self._unlogged,
            ),
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

    def _cut(self) -> Transaction | None:
        """Return the transaction of which a part ends with this share, and others follow."""
        return self._open if self._resume is not None else None

    def _trace(self) -> SourceTrace:
        gathered, prints = self._gathered, self._gathered.prints
        return SourceTrace(
            gtids=gathered.gtids.found(),
            decisions=gathered.decisions,
            fingerprints=prints.done if isinstance(prints, FingerprintWindow) else [],
            landmark=self._landmark,
            head=self._head,
            recent=prints.found() if isinstance(prints, RecentTransactions) else [],
        )

    def _signals(self) -> list[str]:
        """Return the rows that were inserted into the signal table; before they are encoded."""
        wanted = self._encoder.rules.signals
        if wanted is None:
            return []
        return [
            after
            for item in self._gathered.items
            if isinstance(item, Rows) and item.event_type in WRITES
            if item.use.table.name == wanted
            for _, after, *_ in item.rows
            if after is not None
        ]

    def _begin_file(self, numbers: Numbers) -> None:
        """Continue after the head of a file, unless the server starts before the requested position."""
        if numbers.safe.order <= self._safe.order:
            numbers.safe = self._safe
        else:
            self._head = None

    def _first_progress(self, numbers: Numbers) -> Progress | None:
        """Return the progress of the first transaction, if it began before this share or in an earlier run."""
        first = self._gathered.first
        if numbers.open is None and numbers.resume is not None and first is not None:
            return numbers.take_up(first.id, first.start)
        return numbers.open

    def _advanced(self, progress: Progress | None) -> Progress | None:
        """Return the progress of the transaction open at the end of the share; cut it if too large."""
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
        book = self._book
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
            if not isinstance(item, Ddl):
                continue
            for route in item.emptied:
                latest = book.latest(*route.table)
                if latest is not None:
                    self._emptied[route.table] = latest
            self._name_altered(item)

    def _name_altered(self, item: Ddl) -> None:
        """Announce the versions of published tables that a statement altered, though no row may follow.

        Rows from before have other values since, perhaps, even if a later statement alters the table back.
        """
        for one in item.altered:
            route = one.table.route
            if self._book.latest(*one.was) is None and self._book.latest(*route.table) is None:
                continue
            # The first row of such a table reports the fault.
            with suppress(RuleImpossible):
                version, is_new = self._book.at(
                    route, one.table.definition, item.transaction, item.pos
                )
                one.number = version.version
                if is_new:
                    self._announced.append(version)
