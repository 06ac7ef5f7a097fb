"""Comparison of Kafka's records with the binlog: pure functions over records.

Each check finds one kind of fault and reports the first ones; finding none is the proof.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record with a value, of a row topic or of the DDL topic (those have no `change_id`)."""

    topic: str
    partition: int
    offset: int
    change_id: str | None
    seq: int
    epoch: int
    committed_ms: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset} seq {self.seq} {self.change_id or ''}"


def lost(expected: Iterable[str], records: Iterable[Record]) -> set[str]:
    """ChangeIds of the binlog that the topic lacks."""
    return set(expected) - {r.change_id for r in records if r.change_id is not None}


def invented(expected: Iterable[str], records: Iterable[Record]) -> list[Record]:
    """Records whose ChangeId no row of the binlog has."""
    known = set(expected)
    return [record for record in records if record.change_id not in known]


def duplicated(records: Iterable[Record]) -> dict[str, int]:
    """ChangeIds seen more than once, with the number of records too many."""
    seen = Counter(record.change_id for record in records if record.change_id is not None)
    return {change_id: n - 1 for change_id, n in seen.items() if n > 1}


def seq_faults(records: Sequence[Record]) -> list[str]:
    """Positions at which the numbers of a destination's records are not exactly 1, 2, 3 …"""
    by_seq = sorted(records, key=lambda record: record.seq)
    faults = [
        f"seq {a.seq + 1} to {b.seq - 1} are missing before {b}"
        if b.seq > a.seq
        else f"seq {b.seq} is in {a} and in {b}"
        for a, b in pairwise(by_seq)
        if b.seq != a.seq + 1
    ]
    if by_seq and by_seq[0].seq != 1:
        faults.insert(0, f"the first seq is {by_seq[0].seq}, not 1: {by_seq[0]}")
    return faults


def epoch_regressions(records: Iterable[Record]) -> list[str]:
    """Positions at which a partition has a record of an older leader after one of a newer."""
    partitions: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        partitions[record.topic, record.partition].append(record)
    return [
        f"epoch goes back from {a.epoch} to {b.epoch} at {b}"
        for held in partitions.values()
        for a, b in pairwise(sorted(held, key=lambda record: record.offset))
        if b.epoch < a.epoch
    ]


def published(expected: Iterable[str], records: Iterable[Record]) -> int:
    """The number of row changes of the binlog that are in the topic, a key change counting as one."""
    seen = {record.change_id for record in records}
    whole: dict[str, bool] = {}
    for change_id in expected:
        row = change_id.partition("/")[0]
        whole[row] = whole.get(row, True) and change_id in seen
    return sum(whole.values())


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent of the values do not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Applied:
    """A range of offsets, excluding the last one, and the time when the warehouse had it."""

    first: int
    until: int
    at_ms: int


Batches = Mapping[tuple[str, int], Sequence[Applied]]


def lags(records: Iterable[Record], applied: Batches) -> list[float]:
    """Seconds from the commit in MySQL to the warehouse, of each record that a batch holds."""
    times = ((record, applied_at(record, applied)) for record in records)
    return [(at - record.committed_ms) / 1000 for record, at in times if at is not None]


def applied_at(record: Record, applied: Batches) -> int | None:
    """When a record was first in the warehouse; None if no batch holds it."""
    batches = applied.get((record.topic, record.partition), ())
    holding = (batch.at_ms for batch in batches if batch.first <= record.offset < batch.until)
    return min(holding, default=None)
