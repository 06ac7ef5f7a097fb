"""When a decoder counts as stalled: by the progress it makes while it has work."""

from __future__ import annotations

from app.worker.pipeline.decoders.pool import StallWatch, cpu_seconds


class Machine:
    """A clock, and the CPU that the decoder has used."""

    def __init__(self, limit: float = 10.0) -> None:
        self.now, self.used = 0.0, 0.0
        self.watch = StallWatch(limit=limit, clock=lambda: self.now, cpu=lambda _: self.used)

    def look(self, progress: int = 0, *, after: float = 1.0, cpu: float = 0.0) -> float | None:
        self.now += after
        self.used += cpu
        return self.watch.stalled(7, progress)


def test_one_that_neither_speaks_nor_uses_the_cpu_is_stalled() -> None:
    machine = Machine()
    found = [machine.look() for _ in range(12)]
    assert found[:10] == [None] * 10
    assert found[10] == 10.0


def test_one_that_works_for_long_on_a_chunk_is_not() -> None:
    machine = Machine()
    assert [machine.look(cpu=0.05) for _ in range(100)] == [None] * 100


def test_one_that_only_swaps_is_stalled() -> None:
    machine = Machine()
    assert any(machine.look(cpu=0.005) for _ in range(12))


def test_each_message_begins_the_time_again() -> None:
    machine = Machine()
    assert [machine.look(number // 9) for number in range(100)] == [None] * 100


def test_time_in_which_the_worker_itself_was_frozen_does_not_count() -> None:
    machine = Machine()
    machine.look()
    assert machine.look(after=3600.0) is None
    assert machine.look() is None


def test_work_that_comes_after_a_rest_is_new_work() -> None:
    machine = Machine()
    for _ in range(9):
        machine.look()
    machine.watch.rest()
    assert [machine.look() for _ in range(9)] == [None] * 9


def test_where_the_system_reports_no_cpu_messages_alone_count() -> None:
    assert cpu_seconds(0) is None
    machine = Machine()
    machine.watch.cpu = lambda _: None
    assert any(machine.look() for _ in range(12))
