"""The cursor of a destination as a load reads it from the journal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_sink.errors import LoadRefused
from spark_sink.jobs.load.cursor import Cursors

CURSOR: dict[str, Any] = {
    "epoch": 3,
    "seq": 41,
    "gtid_set": "u:1-9",
    "installation": "i",
    "written_ms": 5,
    "resume": None,
}
PARTS = {"transaction_id": "u:10", "rows": 5, "published": 5, "part": 1}


class Journal:
    """The topics, whose journal has one partition."""

    def own_ranges(self, topic: str) -> tuple[dict[Any, int], dict[Any, int]]:
        assert topic == "aq.__journal"
        return {(topic, 0): 0}, {(topic, 0): 5}


def cursors(monkeypatch: pytest.MonkeyPatch, *found: dict[str, Any] | None) -> Cursors:
    """The cursors of a journal that has these values of it, one after the other."""
    left = list(found)
    monkeypatch.setattr("spark_sink.jobs.load.cursor._SECONDS", 0)

    def last(_self: Cursors, key: str, *_: object) -> str | None:
        assert key == "cursor/shop%2Fx"
        value = left.pop(0) if len(left) > 1 else left[0]
        return None if value is None else json.dumps(value)

    monkeypatch.setattr(Cursors, "_last", last)
    topics: Any = Journal()
    return Cursors(topics=topics, prefix="aq", destination="shop/x")


def test_a_position_within_a_transaction_is_no_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is past rows that no SELECT need see."""
    part = {**CURSOR, "seq": 40, "resume": PARTS}
    found = cursors(monkeypatch, part, part, CURSOR)
    assert found.between(seconds=60, stopped=lambda _: False).seq == 41
    with pytest.raises(LoadRefused, match="has not come far enough within 0 s"):
        cursors(monkeypatch, part).between(seconds=0, stopped=lambda _: False)
    with pytest.raises(LoadRefused, match="it was stopped"):
        cursors(monkeypatch, part).between(seconds=60, stopped=lambda _: True)


def test_a_journal_without_a_cursor_or_without_gtids_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(LoadRefused, match="has no cursor of destination shop/x"):
        cursors(monkeypatch, None).now()
    with pytest.raises(LoadRefused, match="has no GTIDs"):
        cursors(monkeypatch, {**CURSOR, "gtid_set": None}).now()
