"""Mutants that damage the records of one batch, or send them to another partition.

Invariant: each mutant names the kind of record that it changes. A missing row and a missing tombstone affect
different subscribers and are found by different checks; an accidental effect of a batch is no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connectors.kafka import record_batches
from tests.crash.done import say_done

_STEADY = 25
"""Batches of rows after which it is done."""

# They are changed: what they are said to hold does not count here.
_batches: Any = record_batches
Records = list[Any]


def _records(change: Callable[[Records], None], *, rows: int = 0, deletes: int = 0) -> None:
    """Change the records of one batch, once: the first with so many of these, after some others."""
    real, calls = _batches.BatchWriter.finished, [0]
    done: list[bool] = []

    def finished(self: Any) -> Any:
        if ".__" not in self._topic:
            calls[0] += 1
            tombstones = sum(_is_tombstone(one) for one in self._records)
            fits = len(self._records) - tombstones >= rows and tombstones >= deletes
            if calls[0] > _STEADY and fits and not done:
                done.append(True)
                change(self._records)
                say_done()
        return real(self)

    _batches.BatchWriter.finished = finished


def _is_tombstone(record: Any) -> bool:
    return record[1] is None


def _last(records: Records, *, tombstone: bool = False) -> int:
    """The index of the last row, or of the last tombstone, which are different faults."""
    return max(n for n, one in enumerate(records) if _is_tombstone(one) == tombstone)


def row_skipped() -> None:
    """One record is omitted."""
    _records(lambda records: records.pop(_last(records)), rows=2)


def row_repeated() -> None:
    """One record is written twice."""
    _records(lambda records: records.append(records[_last(records)]), rows=1)


def tombstone_skipped() -> None:
    """A delete's tombstone is omitted, so compaction would keep the row."""
    _records(lambda records: records.pop(_last(records, tombstone=True)), deletes=1)


def tombstone_repeated() -> None:
    """A delete's tombstone is written twice."""
    _records(lambda records: records.append(records[_last(records, tombstone=True)]), deletes=1)


def order_turned() -> None:
    """The records of one batch are sent in reverse order."""
    # With one row more than partitions, two are in one of them.
    _records(lambda records: records.reverse(), rows=4)


def partition_by_chance() -> None:
    """After a number of batches, keys are sent to other partitions."""
    real, calls = _batches.partitions_of, [0]

    def partitions_of(keys: Any, count: int) -> list[int]:
        calls[0] += 1
        if calls[0] == _STEADY + 1:
            say_done()
        return [(position + (calls[0] > _STEADY)) % count for position in real(keys, count)]

    _batches.partitions_of = partitions_of


PATCHES: dict[str, Callable[[], None]] = {
    "row-skipped": row_skipped,
    "row-repeated": row_repeated,
    "tombstone-skipped": tombstone_skipped,
    "tombstone-repeated": tombstone_repeated,
    "order-turned": order_turned,
    "partition-by-chance": partition_by_chance,
}
