"""The Faust agent that folds the journal into the tables of every worker.

The law: only committed records are folded, and a record that cannot be folded ends the process: Faust would
acknowledge it all the same, commit it on an orderly stop, and it would be lost.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import faust

from app import metrics
from app.faults import point
from connectors.kafka.reading import StoredRecord
from tables import journal
from tables.control import Control, control_in
from tables.cursor import Cursor
from tables.faust_tables import FaustCheckpoint
from tables.quarantine import Resolution, resolution_in
from tables.source_choice import Asked, asked_in, is_asked

log = logging.getLogger(__name__)

EXIT_JOURNAL = 70


def install(
    app: faust.App,
    topic: faust.Topic,
    checkpoint: FaustCheckpoint,
    *,
    on_cursor: Callable[[Cursor], None],
    on_resolution: Callable[[Resolution], None],
    on_wish: Callable[[Asked], None],
    on_control: Callable[[Control], None],
) -> None:
    """Add the agent; who gives the functions is told of each cursor and resolution that is folded."""

    @app.agent(topic, name="journal")  # type: ignore[untyped-decorator]  # faust has no types
    async def fold(stream: Any) -> None:
        async for event in stream.events():
            try:
                message = event.message
                record = StoredRecord(message.key, message.value, message.offset)
                point("fold.before")
                checkpoint.fold(record, message.partition)
                point("fold.after")
                if record.key.startswith(b"cursor/"):
                    on_cursor(Cursor.from_json(journal.decoded(record)))
                elif record.key.startswith(b"resolution/"):
                    on_resolution(resolution_in(record))
                elif is_asked(record.key):
                    on_wish(asked_in(record))
                elif record.key.startswith(b"control/"):
                    on_control(control_in(record))
                metrics.JOURNAL_FOLDED.inc()
            except Exception as error:
                log.critical("the journal cannot be folded: %s: %s", type(error).__name__, error)
                logging.shutdown()
                os._exit(EXIT_JOURNAL)
