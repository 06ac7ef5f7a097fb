"""Packets of selected rows are decoded by themselves or the long way, and what fits no column is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import PacketRows
from tests.unit.app.worker.pipeline.portions.test_selected_rows import (
    outcomes,
    ran,
    selected,
    shown,
    watch,
)


def test_packets_take_the_long_way_to_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shown(ran(watch(), selected((1, 1), (2, -2))))
    monkeypatch.setattr(PacketRows, "rows", lambda *_: None)
    assert shown(ran(watch(), selected((1, 1), (2, -2)))) == found == [("r", 1, 1), ("r", 2, -2)]


@pytest.mark.parametrize("wrong", [-1, 1])
def test_packets_of_other_columns_are_not_read_again(wrong: int) -> None:
    whole = selected((1, 1), (2, 2))
    block = whole.blocks[0][:wrong] if wrong < 0 else whole.blocks[0] + b"\0"
    pieces = ran(watch(), replace(whole, blocks=(block,)), selected((3, 3), number=2, attempt=1))
    (_, own, later) = outcomes(pieces)
    assert (own.rows, later.rows) == (0, 1)
    assert own.unreadable == own.refused
    assert own.unreadable is not None
    assert "a row is not in the form of its columns [table=shop.t]" in own.unreadable
    assert [piece.error for piece in pieces] == [None] * 3
    assert pieces[1].notes == []
