"""What came of a large transaction: what was seen of the worker, and what a consumer finds.

The law: nothing of the worker is trusted: each row is counted, and each number compared with the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was seen."""

    rows: int
    peak_mib: float = 0.0
    """Proportional set sizes of all the worker's processes together, at their most."""
    at_peak: list[float] = field(default_factory=list)
    """Of each of them then, the worker's own first."""
    killed_at: int = 0
    """Rows that were published when the worker was killed; 0: it never was."""
    seconds: float = 0.0
    parts: int = 0
    faults: list[str] = field(default_factory=list)
    """What a consumer found wrong."""
    lags: list[float] = field(default_factory=list)
    """Seconds from a commit in the other source to a look that found it published."""

    def look_at_memory(self, held: list[float]) -> None:
        """Keep it, if it is the most that was seen."""
        if sum(held) > self.peak_mib:
            self.peak_mib, self.at_peak = sum(held), held


async def verify(outcome: Outcome, kafka: str, prefix: str) -> None:
    """Read what a consumer reads; each fault as a line."""
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
    borders = [
        orjson.loads(value) async for value in _values(kafka, f"{prefix}.__transactions.large")
    ]
    ends = [border for border in borders if border["status"] == "END"]
    outcome.parts = len(ends)
    if sum(end["event_count"] for end in ends) != outcome.rows:
        faults.append("the parts do not count all rows")
    if [end["part"] for end in ends] != list(range(1, len(ends) + 1)):
        faults.append("the parts are not numbered one after another")
    if [end["last"] for end in ends] != [False] * (len(ends) - 1) + [True]:
        faults.append("not the last part alone says that it is the last")
    if [border["status"] for border in borders].count("BEGIN") != 1:
        faults.append("it does not begin once")


async def _values(kafka: str, topic: str) -> Any:
    """The values of a topic's only partition."""
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=8 * 1024 * 1024,
    ) as consumer:
        ends = await consumer.end_offsets(list(consumer.assignment()))
        ((place, end),) = ends.items()
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    yield record.value
