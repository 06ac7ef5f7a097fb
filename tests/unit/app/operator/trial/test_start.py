"""Where a trial begins, by files of a server that are given here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator.trial import reading
from app.operator.trial.reading import (
    AtCursor,
    LastMinutes,
    LastTransactions,
    own_address,
    trial_offset,
)
from app.operator.trial.trial import _Run
from connectors.errors import HistoryTooShort, PositionPastEnd, SourceDiverged
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.binlog_end import BinlogEnd
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, AtTime, Latest, Start
from connectors.mysql.lookup.transaction_spans import Span
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import Replica, ServerFacts
from tests.unit.app.operator.journals import address, cursor
from tests.unit.app.worker.pipeline.history import CHARSETS

FILES = {"b.000001": (4, 100, 200), "b.000002": (), "b.000003": (4, 50)}
"""Where transactions begin."""


def facts(**variables: str) -> ServerFacts:
    return ServerFacts(
        variables={"server_uuid": "uuid-a", "version": "8.4.0", "server_id": "9"} | variables,
        grants=(),
        replicas=(Replica(server_id=77, host="h", uuid="u"),),
        binlogs=tuple((name, 1000) for name in FILES),
        charsets=CHARSETS,
        is_replica=False,
    )


@dataclass
class _Spans:
    """The transactions from a file on, of all later files too."""

    address: SourceAddress
    file: str

    def __iter__(self) -> Iterator[Span]:
        for name, starts in FILES.items():
            for pos in starts if name >= self.file else ():
                here = Coordinates(name, pos)
                yield Span(start=here, end=Coordinates(name, pos + 1), gtid=None, committed_ms=0)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Start]:
    """What the server was asked for, in place of a server."""
    found: list[Start] = []

    def offset_of(wanted: Start, _facts: ServerFacts, _address: SourceAddress) -> SourceOffset:
        found.append(wanted)
        return SourceOffset(server_uuid="uuid-a", coordinates=Coordinates("b.000001", 4))

    end = BinlogEnd(server_uuid="uuid-a", binlogs=(), gtids=None)
    monkeypatch.setattr(reading, "Spans", _Spans)
    monkeypatch.setattr(reading, "first_offset", offset_of)
    monkeypatch.setattr(reading, "read_clock_and_end", lambda _: (10_000_000, end))
    return found


@pytest.mark.parametrize(
    ("count", "begin"),
    [
        (1, Coordinates("b.000003", 50)),
        (2, Coordinates("b.000003", 4)),
        (3, Coordinates("b.000001", 200)),
        (5, Coordinates("b.000001", 4)),
        (99, Coordinates("b.000001", 4)),
    ],
)
def test_the_last_transactions_are_found_over_files_and_all_are_taken_if_there_are_fewer(
    asked: list[Start], count: int, begin: Coordinates
) -> None:
    trial_offset(LastTransactions(count), cursor(), facts(), address("a"))
    assert asked == [AtCoordinates(begin)]


def test_without_transactions_the_last_ones_are_the_end(
    asked: list[Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "Spans", lambda *_: iter(()))
    trial_offset(LastTransactions(3), cursor(), facts(), address("a"))
    assert asked == [Latest()]


def test_minutes_are_those_of_the_servers_clock(asked: list[Start]) -> None:
    trial_offset(LastMinutes(2), cursor(), facts(), address("a"))
    assert asked == [AtTime(10_000_000 - 120_000)]


def test_a_cursor_that_the_server_does_not_have_is_refused() -> None:
    later = SourceOffset(server_uuid="uuid-a", coordinates=Coordinates("b.000009", 4))
    with pytest.raises(PositionPastEnd):
        trial_offset(AtCursor(), replace(cursor(), offset=later), facts(), address("a"))
    with pytest.raises(SourceDiverged):
        trial_offset(AtCursor(), cursor(server="uuid-b"), facts(), address("a"))


class _ShortHistory:
    """A schema history that begins at a position, which no other one reaches."""

    def __init__(self, begin: SourceOffset) -> None:
        self.checkpoints = (SimpleNamespace(position=SimpleNamespace(offset=begin)),)

    def at(self, _position: object) -> None:
        raise HistoryTooShort("it begins later")


def _begin_of(history: _ShortHistory) -> reading.TrialOffset:
    """Where a trial of the last transactions begins."""
    made = SimpleNamespace(
        _cursor=cursor(),
        _facts=facts(gtid_mode="ON", gtid_executed=f"{OTHER}:1-9"), _history=lambda: history,
    )  # fmt: skip
    return _Run._start(cast(Any, made), LastTransactions(3), address("a"))


OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_the_begin_of_a_short_history_on_another_server_is_found_by_its_gtids(
    asked: list[Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    gtids, here = GtidSet.parse(f"{OTHER}:1-5"), Coordinates("b.000003", 50)
    monkeypatch.setattr(reading, "position_after", lambda *_: here)
    there = SourceOffset(
        server_uuid="uuid-b", coordinates=Coordinates("other.000009", 4), gtid_set=gtids
    )
    found = _begin_of(_ShortHistory(there))
    assert asked[-1] == AfterGtids(gtids)
    assert (found.offset.server_uuid, found.offset.coordinates) == ("uuid-a", here)
    assert not found.by_coordinates
    # One of this server is read by file and offset.
    own = replace(there, server_uuid="uuid-a", coordinates=here)
    found = _begin_of(_ShortHistory(own))
    assert (found.offset, found.by_coordinates) == (own, True)


def test_a_trial_has_no_server_id_or_one_that_no_other_has() -> None:
    recorded = own_address(address("a"), facts(), [5], follows=False)
    assert (recorded.server_id, recorded.replica_uuid) == (0, "")
    first, second = (own_address(address("a"), facts(), [5], follows=True) for _ in range(2))
    assert first.server_id not in (0, 5, 9, 77)
    assert first.replica_uuid not in ("", second.replica_uuid)
