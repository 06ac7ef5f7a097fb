"""The Faust agent that folds the journal into the tables of every worker.

Invariant: only committed records are folded, in order, and a record that cannot be folded ends the process.
Otherwise Faust would acknowledge the record and commit its offset on an orderly stop, and it would be lost.

When a partition is assigned, Faust continues at the offset that its group has committed. Rows of records before
that offset may be lost, since Faust commits an offset before the changelog has accepted its rows. Records that
Faust fetched before it was set to the right offset may come first. So the records between the table's rows and
the first record received are read here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import faust

from app import metrics
from app.failpoints import point
from connectors.errors import AqueductError, Retry
from connectors.kafka.reading import StoredRecord, Tail
from tables.journal_kind import Addressed, Kind
from tables.state.journal.faust_checkpoint import FaustCheckpoint
from tables.state.journal.kinds import KINDS, Kinds

# Every worker's own reading of the journal: operators' requests, and the epochs of other leaders.
#
# Invariant: each worker receives every record once it is committed, whichever worker Faust
# assigns the partition to. A record that cannot be read is logged with its error and offset, and
# skipped here; a destination's run decides what follows from it.


Notify = Callable[[Kind[Any], Addressed], object]
"""Passes a notice on to the audience of its kind."""


@dataclass(frozen=True, slots=True)
class Notices:
    """The notices of the journal's records, as their kinds define them."""

    notify: Notify
    kinds: Kinds = KINDS

    def take(self, partition: int, record: StoredRecord) -> None:
        """Pass on the notice of a journal record, if its kind has notices."""
        try:
            self._take(record)
        except AqueductError as error:
            error.context |= {"partition": partition, "offset": record.offset}
            log.error("a record of the journal is passed by here: %s: %s", error.name, error)
        except Exception:
            # One record must not end every worker that reads it.
            log.exception(
                "a record of the journal is passed by here [partition=%d, offset=%d]",
                partition, record.offset,
            )  # fmt: skip

    def _take(self, record: StoredRecord) -> None:
        kind = self.kinds.of(record.key)
        if kind is None or kind.notice is None:
            return
        notice = kind.notice(record)
        if notice is not None:
            self.notify(kind, notice)


def journal_tail(
    topic: str, partitions: int, *, options: Mapping[str, Any], notify: Notify
) -> Tail:
    """Return the reader of all partitions of the journal, from the committed end on."""
    return Tail(
        options=options, topic=topic, partitions=range(partitions), take=Notices(notify).take
    )


log = logging.getLogger(__name__)

EXIT_JOURNAL = 70
_AGAIN_SECONDS = 1.0

Pieces = Callable[[int, int], Any]
"""Takes a partition and an offset; returns an asynchronous generator of lists of the records from there on."""


def install(
    app: faust.App, topic: faust.Topic, checkpoint: FaustCheckpoint, pieces: Pieces
) -> None:
    """Add the agent. It passes on no notices, since only one worker of the group folds a partition."""

    @app.agent(topic, name="journal")  # type: ignore[untyped-decorator]  # faust has no types
    async def fold(stream: Any) -> None:
        caught_up: dict[int, int] = {}
        async for event in stream.events():
            try:
                message = event.message
                partition = message.partition
                record = StoredRecord(message.key, message.value, message.offset)
                point("fold.before")
                assignment = checkpoint.assignment(partition)
                if caught_up.get(partition) != assignment:
                    await catch_up(checkpoint, pieces, partition, upto=record.offset)
                    caught_up[partition] = assignment
                # Else the partition was assigned again meanwhile, and its records come once more.
                if checkpoint.assignment(partition) == assignment:
                    checkpoint.fold(record, partition)
                point("fold.after")
                metrics.JOURNAL_FOLDED.inc()
            except Exception as error:
                log.critical("the journal cannot be folded: %s: %s", type(error).__name__, error)
                logging.shutdown()
                os._exit(EXIT_JOURNAL)


async def catch_up(
    checkpoint: FaustCheckpoint, pieces: Pieces, partition: int, *, upto: int
) -> None:
    """Fold the records between the partition's rows and ``upto``, the offset of a committed record.

    End early if the partition is assigned again. Wait while Kafka does not answer.
    """
    assignment, reported = checkpoint.assignment(partition), ""
    while (
        checkpoint.assignment(partition) == assignment and checkpoint.next_offset(partition) < upto
    ):
        start = checkpoint.next_offset(partition)
        try:
            async with aclosing(pieces(partition, start)) as found:
                await _fold_each(found, checkpoint, partition, upto=upto)
            return
        except AqueductError as error:
            if error.retry is not Retry.TIMED:
                raise
            if reported != error.name:
                log.warning("the journal is not folded yet: %s: %s", error.name, error)
            reported = error.name
            await asyncio.sleep(_AGAIN_SECONDS)


async def _fold_each(
    pieces: AsyncIterable[list[StoredRecord]],
    checkpoint: FaustCheckpoint,
    partition: int,
    *,
    upto: int,
) -> None:
    assignment = checkpoint.assignment(partition)
    async for records in pieces:
        for record in records:
            if record.offset >= upto or checkpoint.assignment(partition) != assignment:
                return
            checkpoint.fold(record, partition)
