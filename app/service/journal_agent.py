"""The Faust agent that folds the journal into the tables of every worker.

Invariant: only committed records are folded, and a record that cannot be folded ends the process.
Faust would acknowledge it all the same, commit it on an orderly stop, and it would be lost.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import faust

from app import metrics
from app.failpoints import point
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal.faust_checkpoint import FaustCheckpoint

log = logging.getLogger(__name__)

EXIT_JOURNAL = 70


def install(app: faust.App, topic: faust.Topic, checkpoint: FaustCheckpoint) -> None:
    """Add the agent. It notifies nothing: a partition is folded by one worker of the group only."""

    @app.agent(topic, name="journal")  # type: ignore[untyped-decorator]  # faust has no types
    async def fold(stream: Any) -> None:
        async for event in stream.events():
            try:
                message = event.message
                record = StoredRecord(message.key, message.value, message.offset)
                point("fold.before")
                checkpoint.fold(record, message.partition)
                point("fold.after")
                metrics.JOURNAL_FOLDED.inc()
            except Exception as error:
                log.critical("the journal cannot be folded: %s: %s", type(error).__name__, error)
                logging.shutdown()
                os._exit(EXIT_JOURNAL)
