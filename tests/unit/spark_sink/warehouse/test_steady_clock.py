"""Steps of the wall clock, and how long ago the last one was."""

from __future__ import annotations

from spark_sink.warehouse.maintenance_schedule import SteadyClock


def test_a_step_in_either_direction_is_seen_and_a_slow_correction_is_none() -> None:
    now = {"wall": 1_000_000.0, "mono": 50.0}
    clock = SteadyClock(wall=lambda: now["wall"], monotonic=lambda: now["mono"])

    def after(seconds: float, *, step: float = 0.0) -> float:
        now["mono"] += seconds
        now["wall"] += seconds + step
        return clock.seconds()

    assert clock.seconds() == float("inf")
    assert after(3600, step=2) == float("inf")
    assert after(5, step=86_400) == 0, "a day forward"
    assert after(600) == 600
    assert after(5, step=-86_400) == 0, "and back"
    assert after(7200) == 7200
