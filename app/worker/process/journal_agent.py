"""The Faust agent that folds the journal into the tables of every worker.

Invariant: only committed records are folded, each after all before it, and a record that cannot be folded ends
the process. Faust would acknowledge it all the same, commit it on an orderly stop, and it would be lost.

Where a partition is assigned, Faust continues after the offset that its group has committed. The rows of
records before it may be lost, as it commits an offset though the changelog has not accepted them yet; and what
it fetched before it was sent to the right offset may come first. So what is between the rows and the first
record is read here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterable, Callable
from contextlib import aclosing
from typing import Any

import faust

from app import metrics
from app.failpoints import point
from connectors.errors import AqueductError, Retry
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.state.journal.faust_checkpoint import FaustCheckpoint

log = logging.getLogger(__name__)

EXIT_JOURNAL = 70
_AGAIN_SECONDS = 1.0

Pieces = Callable[[int, int], Any]
"""Returns the records of a partition from an offset on, in pieces: an asynchronous generator of lists."""


def install(
    app: faust.App, topic: faust.Topic, checkpoint: FaustCheckpoint, pieces: Pieces
) -> None:
    """Add the agent. It notifies nothing: a partition is folded by one worker of the group only."""

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
                # Else the partition was assigned again meanwhile, and all of this comes once more.
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
    """Fold the records between the partition's rows and an offset, which must be committed.

    It ends early if the partition is assigned again. While Kafka does not answer, it waits.
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
