"""One transaction much larger than a Kafka transaction, the worker killed in its midst, and another source."""

from __future__ import annotations

from pathlib import Path

from bench.large import prove
from devstack import Stack

ROWS = 120_000
MOST_MIB = 400


def test_it_comes_in_parts_exactly_once_though_the_worker_is_killed_and_holds_nobody_up(
    stack: Stack, tmp_path: Path
) -> None:
    outcome = prove(stack, tmp_path, rows=ROWS, publish={"max_bytes": 65536, "interval_ms": 5})
    assert outcome.faults == []
    assert 0 < outcome.killed_at < ROWS
    assert outcome.parts > 10
    assert outcome.peak_mib < MOST_MIB
    assert outcome.lags
    assert sorted(outcome.lags)[len(outcome.lags) // 2] < 5
