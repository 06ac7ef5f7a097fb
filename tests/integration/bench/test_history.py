"""A start from a long history on a real broker: it finds everything, in little memory."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from bench import history
from bench.history_start import Start
from devstack import Stack

TABLES = 1_000
DDLS = 10_000
BYTES_OF_A_STEP = 4_000
"""Memory limit of a statement with its versions; a table of the baseline may take four times that."""
MOST_MIB = (DDLS + 4 * TABLES) * BYTES_OF_A_STEP // 1024 // 1024 + 40


@pytest.fixture
def topic() -> str:
    return f"history-{uuid4().hex[:8]}"


@pytest.mark.long("a figure of size; the units have the rule")
async def test_the_whole_journal_is_read_in_little_memory(stack: Stack, topic: str) -> None:
    await history.write(stack.kafka, topic, history.transactions(TABLES, DDLS, every=None))
    found = history.start(Start(broker=stack.kafka, topic=topic))
    assert (found["tables"], found["records"], found["count"]) == (TABLES, DDLS, DDLS)
    assert found["rss_mib"] - found["rss_before_mib"] < MOST_MIB


@pytest.mark.long("a figure of size; the units have the rule")
async def test_with_checkpoints_only_what_is_after_the_last_one_is_kept(
    stack: Stack, topic: str, tmp_path: Path
) -> None:
    written = history.transactions(TABLES, DDLS, every=4_000)
    await history.write(stack.kafka, topic, written)
    rows = tmp_path / "rows.json"
    await history.rows_of(stack.kafka, topic, rows)
    for start in (
        Start(broker=stack.kafka, topic=topic, rows=str(rows)),
        Start(broker=stack.kafka, topic=topic),
    ):
        found = history.start(start)
        assert (found["tables"], found["records"], found["count"]) == (TABLES, 2_000, DDLS)
        assert found["rss_mib"] - found["rss_before_mib"] < MOST_MIB
    whole = history.start(Start(broker=stack.kafka, topic=topic, whole=True))
    assert (whole["tables"], whole["records"]) == (TABLES, DDLS)
