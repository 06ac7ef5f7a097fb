"""The checkpoint as a Faust table: the journal folded on every worker, backed by Faust's own
changelog.

Invariant: the rows of a partition are the fold of its records up to some offset. So there is one
table, whose changelog has one order; a partition's first row states that it was folded from the
journal's beginning, and from which topic, as a journal may be restored; rows without it are
ignored; and a row that the changelog did not accept is sent again with all others. Rows that are
not yet recovered only make the journal's replay longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import faust

from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal.checkpoint import Row, take

log = logging.getLogger(__name__)

_BEGINS = "begins/"
"""The prefix of the key of a partition's first row."""
_AGAIN_SECONDS = 1.0


class FaustCheckpoint:
    """A global table: a row for each key of the journal that is still needed."""

    def __init__(self, app: faust.App, *, partitions: int) -> None:
        # recovery_buffer_size=1: with the default a global table shows rows only in steps of 1000.
        self._table: Any = app.GlobalTable(
            "checkpoint", partitions=partitions, recovery_buffer_size=1
        )
        self._restarted: set[int] = set()
        """Partitions that are to be folded from the journal's beginning."""
        self._folded: dict[int, int] = {}
        """The offset of the last record that a partition's rows hold."""
        self._sent = _Sent(self._table)
        self.journal = ""
        """The id of the journal's topic; empty if no broker reports it."""

    @property
    def changelogs(self) -> list[str]:
        """The names of the topics that keep the table."""
        return [self._table.changelog_topic_name]

    def begin(self, partition: int) -> bool:
        """Whether a partition is to be folded from the journal's beginning; call it before each fold of it."""
        self._folded.pop(partition, None)
        if self._is_whole(self._table.get(f"{_BEGINS}{partition}")):
            self._restarted.discard(partition)
            return False
        self._restarted.add(partition)
        return True

    def fold(self, record: StoredRecord, partition: int = 0) -> None:
        """Add a journal record; call it only while Faust iterates the journal's stream.

        A record that the rows already include changes nothing: its content may have been removed
        since.
        """
        rows = _Rows(self._table, partition)
        if partition in self._restarted:
            self._restarted.discard(partition)
            self._restart(rows, record)
        if partition not in self._folded:
            offsets = (row["offset"] for _, row in rows.own())
            self._folded[partition] = max(offsets, default=-1)
        if record.offset <= self._folded[partition]:
            return
        take(rows, record)
        self._folded[partition] = record.offset

    def _is_whole(self, first: Row | None) -> bool:
        """Whether a partition's first row is of this journal."""
        return first is not None and first["value"] == self.journal

    def _restart(self, rows: _Rows, record: StoredRecord) -> None:
        for key, _ in list(rows.own()):
            del rows[key]
        rows[f"{_BEGINS}{rows.partition}"] = {
            "offset": record.offset - 1,
            "value": self.journal,
        }
        self._folded[rows.partition] = record.offset - 1

    @property
    def rows(self) -> Mapping[str, Row]:
        """All rows of partitions that were folded from the journal's beginning."""
        table = self._table
        whole = {
            row["partition"]
            for key, row in table.items()
            if key.startswith(_BEGINS) and self._is_whole(row)
        }
        return {
            key: row
            for key, row in table.items()
            if row["partition"] in whole and not key.startswith(_BEGINS)
        }


class _Rows(MutableMapping[str, Row]):
    """A Faust table as a mapping with types, which writes rows of one partition."""

    def __init__(self, table: Any, partition: int) -> None:
        self._table, self.partition = table, partition

    def own(self) -> Iterator[tuple[str, Row]]:
        """The rows of the partition."""
        return (
            (key, row) for key, row in self._table.items() if row["partition"] == self.partition
        )

    def __getitem__(self, key: str) -> Row:
        row: Row = self._table[key]
        return row

    def __setitem__(self, key: str, row: Row) -> None:
        self._table[key] = {**row, "partition": self.partition}

    def __delitem__(self, key: str) -> None:
        del self._table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._table.keys()))

    def __len__(self) -> int:
        return len(self._table)


class _Sent:
    """Sends a partition's rows again if its changelog did not accept one of them.

    Faust only logs such a failure, and the row would be missing after the next start. The
    partition's first row is removed before and sent last, so that its rows are ignored in between.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
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
        rows = {key: row for key, row in self._table.items() if row["partition"] == partition}
        begins = rows.pop(first, None)
        await asyncio.gather(*(self._send(partition, key, row) for key, row in rows.items()))
        if begins is not None:
            await self._send(partition, first, begins)
