"""The rate of merging, over a batch and its pause."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from spark_sink.jobs.stream import RateLimit

A, B = ("aq.shop.a", 0), ("aq.shop.b", 0)


class Event:
    """An event that is waited for without time passing."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, timeout: float, /) -> bool:
        self.waited.append(timeout)
        return False

    def set(self) -> None:
        """Not needed here."""


@pytest.mark.parametrize(
    ("per_second", "now", "waited"),
    [(0, 11.0, []), (100, 11.0, [2.0]), (100, 13.0, []), (100, 20.0, []), (1000, 10.1, [0.2])],
)
def test_a_batch_that_was_too_fast_is_followed_by_a_pause(
    per_second: float, now: float, waited: list[float]
) -> None:
    event = Event()
    limit = RateLimit(
        per_second=per_second, clock=lambda: now, stopped=cast(threading.Event, event)
    )
    # 300 offsets, of which 200 are those of a partition that is new.
    limit.pause(10.0, {A: 50}, {A: 150, B: 200})
    assert [round(seconds, 6) for seconds in event.waited] == waited


def test_a_stop_ends_the_pause() -> None:
    limit = RateLimit(per_second=0.001)
    waiting = threading.Thread(target=limit.pause, args=(limit.clock(), {}, {A: 1_000}))
    waiting.start()
    limit.stop()
    waiting.join(60)
    assert not waiting.is_alive()
