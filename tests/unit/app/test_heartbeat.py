"""When an earlier source is gone back to: not before it was fit for long enough, at each look."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app import heartbeat as module
from app.heartbeat import Heartbeat
from app.plan import Failover, Signals
from connectors.errors import (
    AqueductError,
    BeginsAnew,
    SourceLost,
    SourceRefused,
    SourceSilent,
)
from tests.unit.connectors.mysql.facts import ADDRESS


class Clock:
    """Seconds, which pass as the thread waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def run(
    monkeypatch: pytest.MonkeyPatch, is_fit: Callable[[float], bool], *, ends: float
) -> float | None:
    """After how many seconds the run is left, of so many at the most; None where it is not."""
    clock, signals = Clock(), Signals()
    monkeypatch.setattr(module, "time", clock)
    failover = Failover(back=True, back_after=60.0, interval=2.0, heartbeat=None)
    made = Heartbeat(
        "shop",
        ADDRESS,
        failover,
        signals,
        silent=lambda: None,
        is_back=lambda: is_fit(clock.now - 100),
    )

    def waited(seconds: float) -> None:
        clock.now += seconds
        if clock.now - 100 > ends:
            made.close()

    monkeypatch.setattr(made._over, "wait", waited)
    made._run()
    if signals.leave is None:
        return None
    assert isinstance(signals.leave, BeginsAnew)
    return clock.now - 100


def test_it_is_gone_back_to_once_it_was_fit_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, lambda _: True, ends=1000) == pytest.approx(70, abs=4)
    assert run(monkeypatch, lambda now: now > 200, ends=1000) == pytest.approx(270, abs=12)


def test_one_that_comes_and_goes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, lambda now: now % 60 < 45, ends=1000) is None


class Answers:
    """A server that answers each heartbeat as it is told to, and then as the last time."""

    def __init__(self, *faults: AqueductError | None) -> None:
        self._faults = list(faults)

    def ask(self, _address: object) -> None:
        fault = self._faults.pop(0) if len(self._faults) > 1 else self._faults[0]
        if fault is not None:
            raise fault


@pytest.mark.parametrize(
    ("faults", "leaves"),
    [
        ((SourceLost("gone"),), True),
        ((None, SourceRefused("denied")), True),
        ((SourceRefused("no such table"),), False),
        ((SourceLost("gone"), SourceLost("gone"), None), False),
    ],
)
def test_a_statement_that_never_worked_is_no_reason_to_leave_a_source(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[AqueductError | None, ...], *, leaves: bool
) -> None:
    signals, told = Signals(), list[str]()
    failover = Failover(heartbeat="INSERT INTO t VALUES (1)", interval=1.0, retries=3)
    made = Heartbeat("shop", ADDRESS, failover, signals, silent=lambda: told.append("silent"))
    monkeypatch.setattr(made, "_beat", Answers(*faults))
    waits = iter(range(20))

    def waited(_seconds: float) -> None:
        if next(waits) == 10:
            made.close()

    monkeypatch.setattr(made._over, "wait", waited)
    made._run()
    assert (isinstance(signals.leave, SourceSilent), told == ["silent"]) == (leaves, leaves)
