"""The checkpoint as a Faust table: the journal folded on every worker, backed by Faust's own
changelog.

Invariant: the rows of a partition are used only while they are the fold of its records up to some
offset. A global table alone does not ensure that. Faust writes rows of the changelog into it later
than a worker writes its own rows, and at each rebalance from the beginning, over newer rows. A worker
that has lost a partition may still send rows. So a partition is folded outside the table too, and each
row contains the sum of all rows that the partition then has. If the sum of a partition's rows in the
table is not the sum in the newest row, the rows are ignored, which only makes the journal's replay
longer.

A partition's first row states that the partition was folded from the journal's beginning, and from
which topic, as a journal may be restored. If the changelog did not accept a row, all rows of the
partition are sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import faust

from connectors.kafka.reading import StoredRecord
from tables.state.journal.checkpoint import Row, take

log = logging.getLogger(__name__)

_BEGINS = "begins/"
"""The prefix of the key of a partition's first row."""
_ENDS = "ends/"
"""The prefix of the key of a row that has a partition's sum if the record itself leaves no row."""
_SUMS = 1 << 64
_AGAIN_SECONDS = 1.0


class FaustCheckpoint:
    """A global table: a row for each key of the journal that is still needed."""

    def __init__(self, app: faust.App, *, partitions: int) -> None:
        # recovery_buffer_size=1: with the default a global table shows rows only in steps of 1000.
        self._table: Any = app.GlobalTable(
            "checkpoint", partitions=partitions, recovery_buffer_size=1
        )
        self._folds: dict[int, _Fold] = {}
        """The folds of the partitions that this worker folds, or folded before another worker did."""
        self._restarted: set[int] = set()
        """Partitions that are to be folded from the journal's beginning."""
        self._times: defaultdict[int, int] = defaultdict(int)
        """How often a partition was assigned to this worker."""
        self._sent = _Sent(self._table, self._rows_to_send)
        self.journal = ""
        """The id of the journal's topic; empty if no broker reports it."""

    @property
    def changelogs(self) -> list[str]:
        """The names of the topics that keep the table."""
        return [self._table.changelog_topic_name]

    def begin(self, partition: int) -> bool:
        """Whether a partition is to be folded from the journal's beginning; call it before each fold."""
        self._times[partition] += 1
        found = self._whole().get(partition)
        if found is None:
            self._restarted.add(partition)
            self._folds.pop(partition, None)
            return True
        self._restarted.discard(partition)
        self._folds[partition] = found
        return False

    def assignment(self, partition: int) -> int:
        """How often a partition was assigned; if the count grows while a fold waits, that fold is outdated."""
        return self._times[partition]

    def next_offset(self, partition: int) -> int:
        """The offset after the last record that is folded."""
        fold = self._folds.get(partition)
        return 0 if fold is None else fold.end + 1

    def fold(self, record: StoredRecord, partition: int = 0) -> None:
        """Add a journal record; call it only while Faust iterates the journal's stream.

        A record that the rows already include changes nothing: its content may have been removed
        since. A record that comes before ``begin`` changes nothing either: it comes again afterwards.
        """
        if partition in self._restarted:
            self._restarted.discard(partition)
            self._restart(partition, record)
        fold = self._folds.get(partition)
        if fold is None or record.offset <= fold.end:
            return
        changes = _Changes(fold.rows)
        take(changes, record)
        for key in changes.removed:
            row = fold.remove(key)
            # The table may lack the row for a moment, and then would not send its removal.
            self._table.setdefault(key, row)
            del self._table[key]
        # The record's own row is the last: with this row the sum is right again.
        for key, row in changes.added.items():
            self._table[key] = fold.put(key, row, partition)
        fold.end = record.offset
        if changes.removed and not changes.added:
            self._table[f"{_ENDS}{partition}"] = fold.stated(partition)

    def _restart(self, partition: int, record: StoredRecord) -> None:
        for key in [key for key, row in self._table.items() if row["partition"] == partition]:
            del self._table[key]
        self._table[f"{_BEGINS}{partition}"] = self._first_row(partition)
        self._folds[partition] = _Fold(end=record.offset - 1)

    def _first_row(self, partition: int) -> Row:
        return {"offset": -1, "value": self.journal, "partition": partition}

    @property
    def rows(self) -> Mapping[str, Row]:
        """All rows of the partitions that were folded from the journal's beginning, each up to an offset."""
        whole = self._whole()
        for partition, fold in self._folds.items():
            if partition not in whole or fold.end > whole[partition].end:
                whole[partition] = fold
        return {key: row for one in whole.values() for key, row in one.rows.items()}

    def _rows_to_send(self, partition: int) -> dict[str, Row]:
        """All rows of a partition, its first row included."""
        held = {key: row for key, row in self._table.items() if row["partition"] == partition}
        fold = self._folds.get(partition)
        if fold is None:
            return held
        # The table lacks the first row if Faust has read that this row was removed.
        first = {f"{_BEGINS}{partition}": self._first_row(partition)}
        ends = {key: row for key, row in held.items() if key.startswith(_ENDS)}
        return {**first, **ends, **fold.rows}

    def _whole(self) -> dict[int, _Fold]:
        """The partitions whose rows in the table are a fold of this journal."""
        found: defaultdict[int, _Fold] = defaultdict(_Fold)
        newest: dict[int, str | None] = {}
        begun: set[int] = set()
        for key, row in self._table.items():
            partition = row["partition"]
            if key.startswith(_BEGINS):
                if row["value"] == self.journal:
                    begun.add(partition)
                continue
            fold = found[partition]
            if row["offset"] > fold.end:
                fold.end, newest[partition] = row["offset"], row.get("sum")
            if not key.startswith(_ENDS):
                fold.add(key, row)
        return {
            partition: fold
            for partition, fold in found.items()
            if partition in begun and newest[partition] == fold.sum
        }


class _Fold:
    """The rows of one partition, up to an offset."""

    def __init__(self, end: int = -1) -> None:
        self.rows: dict[str, Row] = {}
        self.end = end
        """The offset of the last record."""
        self._total = 0

    @property
    def sum(self) -> str:
        """The sum of all rows of the partition, whatever their order."""
        return f"{self._total % _SUMS:x}"

    def add(self, key: str, row: Row) -> None:
        """Add a row as it is."""
        self.rows[key] = row
        self._total += _part(key, row)

    def put(self, key: str, row: Row, partition: int) -> Row:
        """Add or replace a row; return it with the sum."""
        if key in self.rows:
            self.remove(key)
        self._total += _part(key, row)
        found = self.rows[key] = {**row, "partition": partition, "sum": self.sum}
        return found

    def remove(self, key: str) -> Row:
        """Remove a row, and return it."""
        row = self.rows.pop(key)
        self._total -= _part(key, row)
        return row

    def stated(self, partition: int) -> Row:
        """The row that has the sum if a record leaves no row."""
        return {"offset": self.end, "value": "", "partition": partition, "sum": self.sum}


def _part(key: str, row: Row) -> int:
    """A row's part of the sum. Its key and its offset are enough: a journal's record never changes."""
    text = f"{key} {row['offset']}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


class _Changes(MutableMapping[str, Row]):
    """Rows with the changes that one record makes, before they are written."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self.added: dict[str, Row] = {}
        self.removed: set[str] = set()

    def __getitem__(self, key: str) -> Row:
        if key in self.removed:
            raise KeyError(key)
        return self.added[key] if key in self.added else self._rows[key]

    def __setitem__(self, key: str, row: Row) -> None:
        self.removed.discard(key)
        self.added[key] = row

    def __delitem__(self, key: str) -> None:
        if self.added.pop(key, None) is None:
            self[key]
        if key in self._rows:
            self.removed.add(key)

    def __iter__(self) -> Iterator[str]:
        return iter([key for key in {**self._rows, **self.added} if key not in self.removed])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Sent:
    """Sends a partition's rows again if its changelog did not accept one of them.

    Faust only logs such a failure, and the row would be missing after the next start. The
    partition's first row is removed before and sent last, so that its rows are ignored in between.
    """

    def __init__(self, table: Any, rows: Callable[[int], dict[str, Row]]) -> None:
        self._table = table
        self._rows = rows
        self._send: Callable[..., Any] = table.send_changelog
        self._failed: dict[int, asyncio.Task[None]] = {}
        table.send_changelog = self._followed

    def _followed(self, partition: int, *args: Any, **options: Any) -> Any:
        sent = self._send(partition, *args, **options)
        sent.add_done_callback(lambda future: self._check(partition, future))
        return sent

    def _check(self, partition: int, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is None or partition in self._failed:
            return
        log.warning(
            "the changelog of partition %d took no row: %r; all of its rows are sent again",
            partition,
            future.exception(),
        )
        self._failed[partition] = asyncio.ensure_future(self._again(partition))

    async def _again(self, partition: int) -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._send_all(partition)
            except Exception as error:
                log.warning("rows of partition %d cannot be sent yet: %r", partition, error)
            else:
                del self._failed[partition]
                return

    async def _send_all(self, partition: int) -> None:
        first = f"{_BEGINS}{partition}"
        await self._send(partition, first, None)
        rows = self._rows(partition)
        begins = rows.pop(first, None)
        await asyncio.gather(*(self._send(partition, key, row) for key, row in rows.items()))
        if begins is not None:
            await self._send(partition, first, begins)
