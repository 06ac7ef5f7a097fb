"""The outcomes of a search for the position at another server, and that a search logs nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination.failover.cursor_translation import CursorTranslation
from app.worker.destination.plan import Failover
from connectors.errors import LostInReplication, NoAlignment
from connectors.mysql.lookup.fingerprint import Fingerprint, Scan, align
from connectors.mysql.position import Coordinates, SourceOffset
from tables.state.cursor import Cursor

BEGIN = Coordinates("a.000001", 4)


def prints(*names: str) -> list[Fingerprint]:
    return [
        Fingerprint(
            digest=name,
            original_us=0,
            ts_ms=1000 * at,
            start=Coordinates("a.000001", 100 * at),
            end=Coordinates("a.000001", 100 * at + 99),
        )
        for at, name in enumerate(names, 1)
    ]


def switch(*, report_lost: bool) -> CursorTranslation:
    offset = SourceOffset(server_uuid="uuid-b", coordinates=Coordinates("b.000001", 4))
    cursor = Cursor(destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset)
    unused: Any = None
    return CursorTranslation(
        cursor=cursor,
        facts=cast(Any, SimpleNamespace(server_uuid="uuid-a", has_gtids=False)),
        address=unused,
        failover=Failover(fingerprints=True, report_lost=report_lost),
        rules=unused,
        other=None,
        clocks={},
    )


def test_what_is_lost_is_carried_to_the_next_run_and_reported_by_none_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept, there = prints("a", "b", "c"), Scan(begin=BEGIN, found=prints("a", "c"))
    with caplog.at_level(logging.DEBUG):
        moved = switch(report_lost=True)._judged(kept, there, align(kept, there.found), -2500)
    assert caplog.records == []
    assert (moved.offset.coordinates, moved.skipped) == (Coordinates("a.000001", 299), 2)
    assert [one.digest for one in moved.lost] == ["b"]
    assert isinstance(moved.loss, LostInReplication)
    assert moved.clock_skew_ms == -2500


def test_what_is_lost_stops_it_where_the_settings_do_not_let_that_be() -> None:
    kept, there = prints("a", "b", "c"), Scan(begin=BEGIN, found=prints("a", "c"))
    with pytest.raises(LostInReplication, match="1 transaction"):
        switch(report_lost=False)._judged(kept, there, align(kept, there.found), 0)


@pytest.mark.parametrize(("ahead", "described"), [(-2500, True), (10, False)])
def test_clocks_that_differ_are_reported_where_no_position_was_found(
    ahead: int, described: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.worker.destination.failover.cursor_translation.channels", lambda _: ())
    kept, there = prints("a", "b"), Scan(begin=BEGIN, found=prints("x"))
    with pytest.raises(NoAlignment) as caught:
        switch(report_lost=True)._judged(kept, there, align(kept, there.found), ahead)
    assert ("its clock is -2500 ms ahead" in str(caught.value)) == described
