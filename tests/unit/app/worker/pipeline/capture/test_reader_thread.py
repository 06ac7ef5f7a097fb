"""The reader thread blocked in a statement: detected and abandoned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.pipeline.capture import reader_thread
from app.worker.pipeline.capture.reader_thread import Reader
from app.worker.status import State
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import ReaderStalled
from connectors.mysql.position import Coordinates

PLACE = Coordinates("binlog.000001", 400)


class Stream:
    """Two chunks, the second only when it is asked for."""

    def __init__(self) -> None:
        self.more = threading.Event()

    def chunks(self, _: Any, *, interruption: Any) -> Iterator[Any]:
        assert not interruption.is_wanted
        yield SimpleNamespace(start=PLACE, is_rest=False)
        self.more.wait(60)

    def close(self) -> None:
        self.more.set()


class BlockingTracker:
    """Works on a statement until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def note(self, _: Any) -> None:
        self.begun.set()
        assert self.let_go.wait(60)


@pytest.mark.remedy("ReaderStalled")
def test_a_reader_that_is_stuck_in_a_statement_is_named_and_one_from_after_it_reads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, tracker, put = Stream(), BlockingTracker(), threading.Event()

    def taken(_: Any) -> bool:
        put.set()
        return True

    decoders = SimpleNamespace(idle=bool, put=taken, finish=lambda _: None, close=lambda: None)
    one = Reader(cast(Any, stream), cast(Any, decoders), cast(Any, tracker))
    one.start()
    try:
        assert tracker.begun.wait(60)
        one.check()
        monkeypatch.setattr(reader_thread, "STALL_SECONDS", 0.0)
        with pytest.raises(ReaderStalled) as caught:
            one.check()
        assert caught.value.context["coordinates"] == PLACE
        policy = ErrorPolicy()
        states = [policy.decide(caught.value).state for _ in range(3)]
        assert states == [State.RETRYING, State.RETRYING, State.FAILED]
        assert "python -m app cursor set" in str(caught.value)
        # From a cursor after it another thread reads, though this one cannot be ended.
        later, read = Stream(), threading.Event()

        def put_other(_: Any) -> bool:
            read.set()
            return True

        others = SimpleNamespace(**{**vars(decoders), "put": put_other})
        other = Reader(cast(Any, later), cast(Any, others))
        other.start()
        assert read.wait(60)
        assert one.is_alive()
        other.check()
        other.stop()
        tracker.let_go.set()
        assert put.wait(60)
        # It waits for the source now, which is no stall of its own.
        one.check()
    finally:
        tracker.let_go.set()
        one.stop()
