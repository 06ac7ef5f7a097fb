"""How a trial's reading ends, over a stream that is given here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.operator.trial import reading
from app.operator.trial.reading import TrialOffset, refuse_early_end, trial_chunks
from connectors.errors import SourceLost
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tests import made
from tests.unit.app.operator.journals import address
from tests.unit.app.operator.trial.test_start import facts

OFFSET = SourceOffset(server_uuid="uuid-a", coordinates=made.START)


class _Stream:
    """Sends chunks, and ends as its class states."""

    sent: int = 2
    sends_all: bool = True
    waits: bool = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self.has_sent_all, self.closed = False, threading.Event()

    def open(self) -> None:
        """Nothing is to be opened."""

    def chunks(self, _room: Callable[[], bool]) -> Iterator[Chunk]:
        for _ in range(self.sent):
            yield made.chunk_of(made.xid())
        if self.waits:
            assert self.closed.wait(30)
        self.has_sent_all = self.sends_all
        raise SourceLost("it ended the stream")

    def close(self) -> None:
        self.closed.set()


def read(monkeypatch: pytest.MonkeyPatch, *, seconds: float | None = None, **how: Any) -> int:
    monkeypatch.setattr(reading, "BinlogStream", type("_Own", (_Stream,), how))
    start = TrialOffset(offset=OFFSET, by_coordinates=True)
    return len(list(trial_chunks(address("a"), start, seconds)))


def test_it_ends_where_the_binlog_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch) == 2


def test_a_lost_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceLost):
        read(monkeypatch, sends_all=False)


def test_one_that_follows_ends_after_its_seconds_also_without_any_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, seconds=0.1, sent=0, waits=True, sends_all=False) == 0


def test_the_end_of_a_stream_that_is_followed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceLost):
        read(monkeypatch, seconds=30)


def test_a_stream_that_ended_before_the_binlog_is_an_error() -> None:
    server = replace(facts(), binlogs=(("b.000003", 1000),))
    refuse_early_end(
        replace(OFFSET, coordinates=Coordinates("b.000003", 1000)), server, address("a")
    )
    with pytest.raises(SourceLost, match=r"b\.000003:600, before the end"):
        refuse_early_end(
            replace(OFFSET, coordinates=Coordinates("b.000003", 600)), server, address("a")
        )
