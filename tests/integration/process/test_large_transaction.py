"""One transaction much larger than a Kafka transaction, with the worker killed during it."""

from __future__ import annotations

from pathlib import Path

from bench.large import prove
from devstack import Stack

ROWS = 50_000
MOST_MIB = 400


def test_it_comes_in_parts_exactly_once_though_the_worker_is_killed_in_its_midst(
    stack: Stack, tmp_path: Path
) -> None:
    # Ten megabytes, and a part ends with each chunk of one.
    publish = {"max_bytes": 65536, "interval_ms": 5}
    outcome = prove(stack, tmp_path, rows=ROWS, width=200, publish=publish)
    assert outcome.faults == []
    assert 0 < outcome.killed_at < ROWS
    assert outcome.parts > 3
    assert outcome.peak_mib < MOST_MIB
