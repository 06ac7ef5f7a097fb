"""Every worker's own reading of the journal: operators' requests, and the epochs of other leaders.

Invariant: each worker receives every record once it is committed, whichever worker Faust assigns the
partition to. A record that cannot be read is logged with its error and offset, and skipped here; a
destination's run decides what follows from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.errors import AqueductError
from connectors.kafka.reading import StoredRecord, Tail
from tables.journal_kind import Addressed, Kind
from tables.state.journal.kinds import KINDS, Kinds

log = logging.getLogger(__name__)


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
