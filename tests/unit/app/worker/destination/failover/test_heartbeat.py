"""The heartbeat: when a source is left, and when a preferred one has been fit for long enough to return to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.worker.destination.failover import source_selection
from app.worker.destination.failover.source_selection import Heartbeat
from app.worker.destination.plan import Failover, Signals
from connectors.errors import RunRestarts, SourceLost, SourceRefused, SourceSilent
from connectors.mysql.server import replication
from connectors.mysql.server.connection import SourceAddress
from tests.unit.connectors.mysql.facts import ADDRESS

BEAT = "INSERT INTO t VALUES (1)"


class Clock:
    """Seconds, which pass as the thread waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def run(
    monkeypatch: pytest.MonkeyPatch,
    is_fit: Callable[[float], bool],
    *,
    ends: float,
    closed_at: float = math.inf,
) -> float | None:
    """The seconds after which the run is left, up to a limit; None if it is not.

    From a given time on it may be closed from outside, during a check.
    """
    clock, signals = Clock(), Signals()
    monkeypatch.setattr(source_selection, "time", clock)
    failover = Failover(back=True, back_after=60.0, interval=2.0, heartbeat=None)
    made = Heartbeat(
        "shop",
        ADDRESS,
        failover,
        signals,
        silent=lambda: None,
        is_back=lambda: looked(clock.now - 100),
    )

    def looked(now: float) -> bool:
        if now >= closed_at:
            made.close()
        return is_fit(now)

    def waited(seconds: float) -> None:
        clock.now += seconds
        if clock.now - 100 > ends:
            made.close()

    monkeypatch.setattr(made._over, "wait", waited)
    made._run()
    if signals.leave is None:
        return None
    assert isinstance(signals.leave, RunRestarts)
    return clock.now - 100


def test_it_is_gone_back_to_once_it_was_fit_for_that_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, lambda _: True, ends=1000) == pytest.approx(70, abs=4)
    assert run(monkeypatch, lambda now: now > 200, ends=1000) == pytest.approx(270, abs=12)


def test_one_that_comes_and_goes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, lambda now: now % 60 < 45, ends=1000) is None


def test_one_that_is_closed_while_it_looks_leaves_the_next_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(monkeypatch, lambda _: True, ends=1000, closed_at=67) is None


class Server:
    """A server with scripted answers, the last of which repeats."""

    def __init__(self, *states: str) -> None:
        self._states = list(states)
        self.written = 0
        self._rows: tuple[tuple[str], ...] = ()

    @contextmanager
    def connected(self, address: SourceAddress) -> Iterator[Server]:
        self.state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if self.state == "gone":
            raise SourceLost("gone", source=address)
        if self.state == "locked out":
            raise SourceRefused("Access denied (error 1045)", source=address)
        yield self

    def execute(self, statement: str) -> None:
        if "read_only" in statement:
            self._rows = (("1" if self.state == "read-only" else "0",),)
        elif self.state == "no grant":
            raise SourceRefused("INSERT command denied (error 1142)")
        else:
            assert self.state == "well"
            self.written += 1

    def fetchall(self) -> tuple[tuple[str], ...]:
        return self._rows


def beaten(monkeypatch: pytest.MonkeyPatch, server: Server, statement: str = BEAT) -> bool:
    """Returns whether the source is left."""
    signals, result = Signals(), list[str]()
    failover = Failover(heartbeat=statement, interval=1.0, retries=3)
    monkeypatch.setattr(replication, "connected", server.connected)
    made = Heartbeat("shop", ADDRESS, failover, signals, silent=lambda: result.append("silent"))
    waits = iter(range(20))

    def waited(_seconds: float) -> None:
        if next(waits) == 10:
            made.close()

    monkeypatch.setattr(made._over, "wait", waited)
    made._run()
    assert isinstance(signals.leave, SourceSilent) == (result == ["silent"])
    return signals.leave is not None


@pytest.mark.parametrize(
    ("states", "leaves"),
    [
        (("gone",), True),
        (("well", "no grant"), True),
        (("well", "locked out"), True),
        (("well", "read-only"), True),
        (("no grant",), False),
        (("locked out",), False),
        (("gone", "gone", "well"), False),
    ],
)
def test_a_statement_that_never_worked_is_no_reason_to_leave_a_source(
    monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], *, leaves: bool
) -> None:
    assert beaten(monkeypatch, Server(*states)) == leaves


@pytest.mark.parametrize(
    ("states", "leaves"),
    [
        (("read-only", "read-only", "no grant"), False),
        (("read-only", "read-only", "well", "no grant"), True),
        (("read-only", "gone"), True),
        (("read-only", "locked out"), True),
        (("read-only", "no grant", "read-only"), True),
        (("read-only",), False),
    ],
)
def test_a_standby_that_was_not_written_to_has_not_shown_that_it_takes_the_statement(
    monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], *, leaves: bool
) -> None:
    server = Server(*states)
    assert beaten(monkeypatch, server) == leaves
    assert server.written == states.count("well")


def test_a_statement_that_only_reads_is_asked_of_a_standby_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("well")
    assert not beaten(monkeypatch, server, " select 1")
    assert server.written == 11
