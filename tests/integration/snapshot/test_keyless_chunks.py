"""Tables without a key: all their rows are one SELECT, in portions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.gtid import GtidSet
from connectors.mysql.select.chunk_reader import ChunkReader, ReadChunk
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from connectors.mysql.select.spool import Spools
from devstack import Stack
from tests.harness.sql import run
from tests.integration.snapshot.both import DATABASE
from tests.integration.snapshot.test_chunks import reader_of, sizes


def spooled(reader: ChunkReader) -> tuple[ReadChunk, list[int]]:
    """All rows of a table without a key, and the counts of rows of their portions."""
    chunk = reader.read(None, GtidSet())
    assert chunk is not None
    assert chunk.spool is not None
    spool = chunk.spool
    found = [spool.rows_of(at) for at in range(len(spool))]
    assert all(bool(spool.blocks(at)) == bool(rows) for at, rows in enumerate(found))
    spool.close()
    return chunk, found


def test_a_table_without_a_key_is_read_at_once_in_portions(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = "INSERT INTO portions SELECT a + 1, b FROM portions"
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS portions",
        "CREATE TABLE portions (a INT, b VARCHAR(100))",
        "INSERT INTO portions VALUES (1, REPEAT('b', 90))",
        *[fill] * 15,
        database=DATABASE,
    )
    monkeypatch.setattr("connectors.mysql.select.chunk_reader.TARGET_BYTES", 800_000)
    with closing(reader_of(stack, "portions")) as reader:
        chunk, found = spooled(reader)
        assert (chunk.rows, sum(found), chunk.is_last, chunk.last) == (32_768, 32_768, True, None)
        assert max(found) < 12_000, found
        # The connection reads on.
        assert spooled(reader)[1] == found
    # So that it is given up while the server sends more.
    monkeypatch.setattr("connectors.mysql.select.chunk_reader._PAUSE_BYTES", 10_000)
    with closing(reader_of(stack, "portions", is_divided=False)) as reader:
        assert spooled(reader)[1] == [32_768]
        monkeypatch.setattr("connectors.mysql.select.chunk_reader._UNDIVIDED_BYTES", 200_000)
        with pytest.raises(SnapshotUnsupported, match="nothing is published that removes all"):
            spooled(reader)
        monkeypatch.setattr("connectors.mysql.select.chunk_reader._UNDIVIDED_BYTES", 9_000_000)
        assert spooled(reader)[1] == [32_768], "after a SELECT that was given up"


def test_a_spool_is_filled_within_the_limits_of_the_sources_load(stack: Stack) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS paced",
        "CREATE TABLE paced (a INT)",
        "INSERT INTO paced VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        database=DATABASE,
    )
    now, waited = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    limits = LoadLimits(rows_per_second=2, threads_running=0, probe_ms=0)
    gate = LoadGate(limits, lambda _: None, clock=lambda: now[0], sleep=sleep)
    with closing(reader_of(stack, "paced", gate=gate)) as reader:
        assert spooled(reader)[0].rows == 9
        # After two rows each, and after the last one.
        assert sum(waited) == pytest.approx(4.5)
        assert reader._keyless._asking is None


def test_a_table_without_a_key_is_one_read_up_to_a_limit(stack: Stack, tmp_path: Path) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS plain",
        "CREATE TABLE plain (a INT)",
        "INSERT INTO plain VALUES (1), (1), (NULL)",
        database=DATABASE,
    )
    assert sizes(reader_of(stack, "plain"), limit=1) == [3]
    spools = Spools(folder=tmp_path, most_bytes=5)
    with (
        closing(reader_of(stack, "plain", spools=spools)) as reader,
        pytest.raises(SnapshotUnsupported, match="has no primary key") as raised,
    ):
        reader.read(None, GtidSet())
    assert raised.value.context["table"] == f"{DATABASE}.plain"


def test_rows_of_a_table_without_a_key_are_read_all_or_not_at_all(stack: Stack) -> None:
    run(
        stack.mysql,
        f"CREATE TABLE {DATABASE}.log_of_rows (v int)",
        f"INSERT INTO {DATABASE}.log_of_rows VALUES (1), (2)",
    )
    reader = reader_of(stack, "log_of_rows", where="v = 1")
    with pytest.raises(SnapshotUnsupported, match="it has no primary key"):
        reader.read(None, GtidSet())
    reader.close()
