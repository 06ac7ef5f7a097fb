"""The checkpoint in a Faust table: its changelog is sufficient wherever reading stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from connectors.kafka.reading import StoredRecord
from tables.history.codec import tombstones
from tables.state.journal import faust_checkpoint
from tables.state.journal.checkpoint import MemoryCheckpoint, Row, resume_from
from tests.unit.tables.state.journal.faust_table import LOOPS, Table, checkpoint_of, kept
from tests.unit.tables.state.journal.test_rows import Written


@pytest.fixture(autouse=True, scope="module")
def loops_are_closed() -> Any:
    yield
    for loop in LOOPS:
        loop.close()
    LOOPS.clear()


def test_rows_that_were_not_folded_from_the_journals_beginning_are_none() -> None:
    written, table = Written(), Table()
    checkpoint = checkpoint_of(table)
    for record in written.journal.records[1:]:
        checkpoint.fold(record, 0)
    assert checkpoint.rows == table.data == {}
    assert checkpoint.begin(0)
    for record in written.journal.records:
        checkpoint.fold(record, 0)
    assert resume_from("shop", checkpoint)[1] == written.journal.records[-1].offset + 1
    assert not checkpoint.begin(0)


def test_a_record_that_is_folded_again_brings_nothing_back_that_has_gone_since() -> None:
    written, table = Written(), Table()
    written.checkpoint(150)
    checkpoint = kept(table, written.journal.records)
    before = dict(table.data)
    # A worker was killed before Faust had committed how far it was.
    again = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert not again.begin(0)
    for record in written.journal.records:
        again.fold(record, 0)
        assert again.rows == checkpoint.rows
    assert table.data == before


async def test_a_row_that_the_changelog_did_not_take_is_sent_again_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faust_checkpoint, "_AGAIN_SECONDS", 0.0)
    written, table = Written(), Table()
    checkpoint = checkpoint_of(table)
    checkpoint.begin(0)
    table.refused = {"checkpoint/shop/1/head"}
    for record in written.journal.records:
        checkpoint.fold(record, 0)
    lost = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert "checkpoint/shop/1/head" not in lost.rows
    for _ in range(10):
        await asyncio.sleep(0)
    # Faust has read that the first row was removed.
    table.data.pop("begins/0")
    table.refused = set()
    whole = checkpoint_of(Table())
    while "checkpoint/shop/1/head" not in whole.rows:
        await asyncio.sleep(0)
        whole = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert whole.rows == checkpoint.rows
    first = next(at for at, one in enumerate(table.changelog) if one == ("begins/0", None))
    assert [key for key, _ in table.changelog[first:]].count("begins/0") >= 2


def story() -> list[StoredRecord]:
    """Records whose rows are replaced and removed."""
    written = Written()
    for pos in (200, 300):
        written.alter(pos)
        written.checkpoint(pos + 50)
    written.commit(tombstones(heads=written.history.checkpoints[1:]))
    written.alter(400)
    return written.journal.records


def folds(records: Iterable[StoredRecord]) -> list[dict[str, int]]:
    """The rows' offsets after each record."""
    memory = MemoryCheckpoint()
    found: list[dict[str, int]] = [{}]
    for record in records:
        memory.fold(record)
        found.append(offsets(memory.rows))
    return found


def offsets(rows: Mapping[str, Row]) -> dict[str, int]:
    return {key: row["offset"] for key, row in rows.items()}


def applied_to(table: Table, changelog: list[tuple[str, Any]]) -> None:
    """Do as Faust does with what it reads of a changelog."""
    for key, value in changelog:
        if value is None:
            table.data.pop(key, None)
        else:
            table.data[key] = value


def begun_twice(records: list[StoredRecord]) -> Table:
    """A table whose changelog has the rows twice, as two workers have folded the journal from its beginning."""
    table = Table()
    kept(table, records[:5])
    table.data.pop("begins/0")
    kept(table, records)
    return table


@pytest.mark.parametrize("compacted", [0, 10])
def test_while_the_changelog_is_read_again_over_newer_rows_none_are_mixed(compacted: int) -> None:
    records = story()
    written = begun_twice(records)
    last = {key: at for at, (key, _) in enumerate(written.changelog)}
    log = [one for at, one in enumerate(written.changelog) if at >= compacted or last[one[0]] == at]
    whole, seen = folds(records), set()
    for at in range(len(log) + 1):
        table = Table()
        applied_to(table, written.changelog)
        applied_to(table, log[:at])
        rows = offsets(checkpoint_of(table).rows)
        assert rows in whole, f"after {at} of {len(log)}"
        seen.add(len(rows))
    assert offsets(checkpoint_of(table).rows) == whole[-1]
    assert seen == {0, len(whole[-1])}


def test_after_each_record_another_worker_has_the_same_rows() -> None:
    records, table = story(), Table()
    checkpoint, whole = checkpoint_of(table), folds(records)
    checkpoint.begin(0)
    for number, record in enumerate(records, 1):
        checkpoint.fold(record, 0)
        other = checkpoint_of(table.recovered(0, len(table.changelog)))
        assert offsets(other.rows) == offsets(checkpoint.rows) == whole[number]


def test_what_a_worker_reads_of_its_own_rows_later_changes_none_of_them() -> None:
    records, table = story(), Table()
    checkpoint, whole = checkpoint_of(table), folds(records)
    checkpoint.begin(0)
    for number, record in enumerate(records, 1):
        checkpoint.fold(record, 0)
        for late in range(len(table.changelog)):
            older = Table()
            applied_to(older, table.changelog[:late])
            held, table.data = table.data, older.data
            assert offsets(checkpoint.rows) == whole[number]
            table.data = held
        # The next is folded while its table lacks what was written last.
        table.data = {key: row for key, row in table.data.items() if row["offset"] < number - 3}
    other = Table()
    applied_to(other, table.changelog)
    assert offsets(checkpoint_of(other).rows) == whole[-1]


def test_rows_that_a_worker_sends_late_are_noticed_and_folded_again() -> None:
    records, table = story(), Table()
    kept(table, records)
    first_cursor = next(one for one in table.changelog if one[0] == "cursor/shop")
    applied_to(table, [first_cursor])
    checkpoint = checkpoint_of(table)
    assert checkpoint.rows == {}
    assert checkpoint.begin(0)
    for record in records:
        checkpoint.fold(record, 0)
    assert offsets(checkpoint.rows) == folds(records)[-1]
    assert not checkpoint_of(table).begin(0)


def test_rows_of_an_earlier_version_without_sums_are_folded_again() -> None:
    records, table = story(), Table()
    kept(table, records)
    for key, row in table.data.items():
        table.data[key] = {name: value for name, value in row.items() if name != "sum"}
    assert checkpoint_of(table).rows == {}
    assert checkpoint_of(table).begin(0)
