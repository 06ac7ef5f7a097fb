"""Outcome of a large transaction: measurements of the worker, and verification by a consumer.

Invariant: the worker is not trusted: each row is counted, and each number compared with the
previous.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import orjson

from devstack.topics import batches


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of a run."""

    rows: int
    peak_mib: float = 0.0
    """The peak of the worker's proportional set sizes, all processes together."""
    at_peak: list[float] = field(default_factory=list)
    """The sizes of each process at the peak, the worker's own first."""
    killed_at: int = 0
    """Rows published when the worker was killed; 0 if it was not."""
    seconds: float = 0.0
    parts: int = 0
    faults: list[str] = field(default_factory=list)
    """The faults that a consumer found."""
    lags: list[float] = field(default_factory=list)
    """Seconds from each commit in the other source until it was found published."""

    def look_at_memory(self, held: list[float]) -> None:
        """Record a memory sample, if it is the maximum."""
        if sum(held) > self.peak_mib:
            self.peak_mib, self.at_peak = sum(held), held


async def verify(outcome: Outcome, kafka: str, prefix: str) -> None:
    """Read as a consumer, and record each fault as a line."""
    seen = bytearray(outcome.rows)
    numbers: list[int] = []
    faults = outcome.faults
    last = count = 0
    async for value in _values(kafka, f"{prefix}.large.t"):
        record = orjson.loads(value)
        seen[record["after"]["id"]] += 1
        seq, order = record["source"]["seq"], record["transaction"]["total_order"]
        count += 1
        if (last and seq != last + 1) or order != count:
            numbers.append(seq)
        last = seq
    if numbers:
        faults.append(
            f"{len(numbers)} numbers do not follow the one before, the first is {numbers[0]}"
        )
    if lost := seen.count(0):
        faults.append(f"{lost} rows are lost")
    if repeated := sum(1 for times in seen if times > 1):
        faults.append(f"{repeated} rows are repeated")
    markers = [
        orjson.loads(value) async for value in _values(kafka, f"{prefix}.__transactions.large")
    ]
    ends = [marker for marker in markers if marker["status"] == "END"]
    outcome.parts = len(ends)
    if sum(end["event_count"] for end in ends) != outcome.rows:
        faults.append("the parts do not count all rows")
    if [end["part"] for end in ends] != list(range(1, len(ends) + 1)):
        faults.append("the parts are not numbered one after another")
    if [end["last"] for end in ends] != [False] * (len(ends) - 1) + [True]:
        faults.append("not the last part alone says that it is the last")
    if [marker["status"] for marker in markers].count("BEGIN") != 1:
        faults.append("it does not begin once")


async def _values(kafka: str, topic: str) -> AsyncIterator[bytes]:
    async for records in batches(kafka, [topic], max_partition_fetch_bytes=8 * 1024 * 1024):
        for record in records:
            yield record.value
