"""The position after a GTID set: of the first transaction that is not in it, or of an incident before that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from connectors.mysql.binlog.events import EventType
from connectors.mysql.lookup.start import position_after
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.replica import BinlogStream
from tests.unit.connectors.mysql.facts import ADDRESS, facts

_GTID = 162


@pytest.mark.parametrize(
    ("kinds", "at"),
    [([EventType.INCIDENT, _GTID], 100), ([EventType.ROTATE, _GTID], 200), ([], 500)],
)
def test_an_incident_is_not_passed_on_the_way_to_the_first_transaction(
    monkeypatch: pytest.MonkeyPatch, kinds: list[int], at: int
) -> None:
    events = [
        SimpleNamespace(event=SimpleNamespace(type=kind), start=Coordinates("b.000002", 100 * n))
        for n, kind in enumerate(kinds, 1)
    ]
    monkeypatch.setattr(BinlogStream, "open", lambda _: None)
    monkeypatch.setattr(BinlogStream, "events_there_are", lambda _: iter(events))
    found = position_after(MariadbGtidList.parse("0-7-4"), facts(), ADDRESS)
    assert found == Coordinates("b.000002", at)
