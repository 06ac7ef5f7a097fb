"""Every worker's own reading of the journal: requests of people, and the epochs of other leaders.

Invariant: each worker receives each of them once committed, whichever worker Faust gives the partition to. A
record that cannot be read is logged with its error and offset and passed by here; a destination's run decides
what it means.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.errors import AqueductError
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.tail import Tail
from tables.cursor import Claimed
from tables.journal.state import decoded
from tables.operator.control import Control, control_in
from tables.operator.request_outcome import KIND as APPLIED
from tables.operator.request_outcome import Applied, applied_in
from tables.operator.source_choice import Asked, asked_in, is_asked
from tables.quarantine import Resolution, resolution_in

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearers:
    """Who is given what."""

    cursor: Callable[[Claimed], object]
    resolution: Callable[[Resolution], object]
    asked: Callable[[Asked], object]
    control: Callable[[Control], object]
    applied: Callable[[Applied], object]

    def take(self, partition: int, record: StoredRecord) -> None:
        """Pass on a record of the journal."""
        key = record.key
        try:
            if key.startswith(b"cursor/"):
                self.cursor(Claimed.from_json(decoded(record)))
            elif key.startswith(b"control/"):
                self.control(control_in(record))
            elif key.startswith(b"resolution/"):
                self.resolution(resolution_in(record))
            elif is_asked(key):
                self.asked(asked_in(record))
            elif key.startswith(APPLIED):
                self.applied(applied_in(record))
        except AqueductError as error:
            error.where |= {"partition": partition, "offset": record.offset}
            log.error("a record of the journal is passed by here: %s: %s", error.name, error)
        except Exception:
            # One record must not end every worker that reads it.
            log.exception(
                "a record of the journal is passed by here [partition=%d, offset=%d]",
                partition, record.offset,
            )  # fmt: skip


def journal_tail(
    topic: str, partitions: int, *, options: Mapping[str, Any], hearers: Hearers
) -> Tail:
    """All partitions of the journal, from what is committed now on."""
    return Tail(options=options, topic=topic, partitions=range(partitions), take=hearers.take)
