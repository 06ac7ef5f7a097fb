"""Reading keeps to a rate of rows, and pauses while the source is busy."""

from __future__ import annotations

from collections.abc import Sequence

from app.validation.pace import BUSY_SECONDS, Pace


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def made(
    clock: Clock,
    threads: Sequence[int] = (),
    *,
    rate: float | None = None,
    busy: list[int] | None = None,
) -> Pace:
    answers = iter(threads)

    async def running() -> int:
        return next(answers, 1)

    return Pace(
        running,
        rows_per_second=rate,
        most_threads=10,
        busy=(busy if busy is not None else []).append,
        clock=clock,
        sleep=clock.sleep,
    )


async def test_rows_come_at_their_rate() -> None:
    clock = Clock()
    pace = made(clock, rate=100)
    for rows in (200, 50, 0):
        await pace.may_read()
        pace.has_read(rows)
    await pace.may_read()
    assert clock.slept == [2.0, 0.5]
    # The time without reading is not made up for.
    clock.now += 60
    pace.has_read(100)
    await pace.may_read()
    assert clock.slept[2:] == [1.0]


async def test_without_a_rate_nothing_is_delayed() -> None:
    clock = Clock()
    pace = made(clock)
    for _ in range(3):
        await pace.may_read()
        pace.has_read(1_000_000)
    assert clock.slept == []


async def test_it_pauses_while_the_source_is_busy_and_reports_that_once() -> None:
    clock, busy = Clock(), list[int]()
    pace = made(clock, [30, 11, 10, 50, 1], busy=busy)
    await pace.may_read()
    assert (clock.slept, busy) == ([BUSY_SECONDS] * 2, [30])
    await pace.may_read()
    assert (clock.slept, busy) == ([BUSY_SECONDS] * 3, [30, 50])
