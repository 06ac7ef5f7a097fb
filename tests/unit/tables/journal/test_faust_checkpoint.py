"""The checkpoint in a Faust table: its changelog is sufficient wherever reading stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tables.journal import faust_checkpoint
from tables.journal.checkpoint import resume_from
from tests.unit.tables.journal.faust_table import LOOPS, Table, checkpoint_of, kept
from tests.unit.tables.journal.test_rows import Written


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
    assert table.data
    assert checkpoint.rows == {}
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
    table.refused = set()
    whole = checkpoint_of(Table())
    while "checkpoint/shop/1/head" not in whole.rows:
        await asyncio.sleep(0)
        whole = checkpoint_of(table.recovered(0, len(table.changelog)))
    assert whole.rows == checkpoint.rows
    first = next(at for at, one in enumerate(table.changelog) if one == ("begins/0", None))
    assert [key for key, _ in table.changelog[first:]].count("begins/0") >= 2
