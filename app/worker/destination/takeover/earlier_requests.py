"""The requests from before a worker's start.

Invariant: a destination stays at rest only if the journal, read up to the position at which the worker's
tail began, holds no later request. Rows in Faust's tables may be older than the journal, and a
destination at rest begins no run that would read the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from connectors.kafka.reading import StoredRecord, read_each
from tables.state.journal.checkpoint import Checkpoint, records_of_kind
from tables.state.journal.state import partition_of
from tables.state.operator_requests import CONTROL, Control, DesiredState, control_in

log = logging.getLogger(__name__)

ReadPartition = Callable[[int, int, Callable[[StoredRecord], object]], Awaitable[object]]
"""Passes on the committed records of a partition of the journal, from an offset to its end."""


def reads_journal(topic: str, options: Mapping[str, Any]) -> ReadPartition:
    """Return the reader of a journal.

    Records after an open transaction are left to the tail, which began at the transaction's first offset or
    before it.
    """

    async def read(partition: int, start: int, take: Callable[[StoredRecord], object]) -> None:
        await read_each(options, topic, partition, start=start, take=take, waits_for_open=False)

    return read


async def earlier_requests(
    checkpoint: Checkpoint, *, partitions: int, read: ReadPartition
) -> list[Control]:
    """The last request of each destination; call it once the journal's tail has its position.

    Raise the error that prevents reading, or JournalDamaged.
    """
    known = {one.destination: one for one in map(control_in, records_of_kind(CONTROL, checkpoint))}
    # All other destinations run, and a run reads the journal itself.
    at_rest = [one for one in known.values() if one.desired is not DesiredState.RUN]
    for partition, controls in _by_partition(at_rest, partitions).items():
        names = {one.destination for one in controls}

        def take(record: StoredRecord, names: Collection[str] = names) -> None:
            if CONTROL.is_of(record.key):
                control = control_in(record)
                if control.destination in names:
                    log.info("%s: %s", control.destination, control.to_text())
                    known[control.destination] = control

        # From after the first of these requests on, as rows of later records may be missing.
        await read(partition, min(one.offset for one in controls) + 1, take)
    return list(known.values())


def _by_partition(controls: Collection[Control], partitions: int) -> dict[int, list[Control]]:
    found: dict[int, list[Control]] = {}
    for control in controls:
        found.setdefault(partition_of(control.destination, partitions), []).append(control)
    return found
