"""Where reads of existing rows wait: for the source's load, and for the rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from connectors.mysql.select.load_limits import LoadGate, LoadLimits


@dataclass
class Source:
    """A server, its load over time, and a clock that runs only while it is waited."""

    running: list[int] = field(default_factory=list)
    """Threads running at each question, with the one that asks; the last stays."""
    takes: list[float] = field(default_factory=list)
    """Seconds that it takes for each answer; the last stays."""
    lag: list[int | None] = field(default_factory=list)
    now: float = 100.0
    slept: int = 0
    knows: str = "SHOW REPLICA STATUS"
    """The statement by which it shows all of its channels."""
    channels: list[int | None] = field(default_factory=list)
    """The lag of its other channels."""
    description: Any = ()
    _rows: Any = ()

    def execute(self, query: str) -> None:
        if "REPLICA" in query or "SLAVE" in query:
            if query != self.knows:
                raise pymysql.ProgrammingError(ER.PARSE_ERROR, f"near '{query}'")
            lag = next_of(self.lag, None)
            named = "Seconds_Behind_Master" if "SLAVE" in query else "Seconds_Behind_Source"
            self.description = [("Source_Host",), (named,)]
            self._rows = [("db1", one) for one in (*self.channels, lag)] if lag is not None else []
            return
        self.now += next_of(self.takes, 0.0)
        self.description = [("Variable_name",), ("Value",)]
        self._rows = [("Threads_running", str(next_of(self.running, 1)))]

    def fetchone(self) -> Any:
        return next(iter(self._rows), None)

    def fetchall(self) -> Any:
        return self._rows

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now += seconds


def next_of(values: list[Any], otherwise: Any) -> Any:
    if not values:
        return otherwise
    return values.pop(0) if len(values) > 1 else values[0]


def gate(source: Source, limits: LoadLimits) -> tuple[LoadGate, list[str | None]]:
    reports: list[str | None] = []
    return LoadGate(limits, reports.append, clock=lambda: source.now, sleep=source.sleep), reports


def test_a_source_with_capacity_is_read_at_once() -> None:
    source = Source(running=[26])
    at, reports = gate(source, LoadLimits(threads_running=25))
    at.wait(source)
    assert (source.slept, reports) == (0, []), "the thread that asks does not count"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (Source(running=[40, 31, 20]), "39 threads are running at the source, of at most 25"),
        (Source(takes=[0.9, 0.4, 0.01]), "the source took 900 ms for a trivial query"),
        (Source(lag=[90, 70, 10]), "the source is 90 s late, of at most 60"),
        (
            Source(lag=[90, 70, 10], knows="SHOW SLAVE STATUS"),
            "the source is 90 s late, of at most 60",
        ),
        (
            Source(lag=[90, 70, 10], channels=[None, 0], knows="SHOW ALL SLAVES STATUS"),
            "the source is 90 s late, of at most 60",
        ),
    ],
)
def test_each_limit_is_waited_for_and_reported(source: Source, reason: str) -> None:
    at, reports = gate(source, LoadLimits(replica_lag_seconds=60))
    at.wait(source)
    assert source.slept == 2
    assert reports[0] is not None
    assert reports[0].startswith(reason)
    assert reports[-1] is None


def test_a_limit_of_zero_is_none() -> None:
    source = Source(running=[900], takes=[9.0], lag=[900])
    at, _ = gate(source, LoadLimits(threads_running=0, probe_ms=0))
    at.wait(source)
    assert source.slept == 0


def test_a_source_that_is_no_replica_has_no_lag() -> None:
    source = Source(lag=[None])
    at, _ = gate(source, LoadLimits(replica_lag_seconds=1))
    at.wait(source)
    assert source.slept == 0


def test_the_rate_is_of_all_readers_together_and_no_report() -> None:
    source = Source()
    at, reports = gate(source, LoadLimits(rows_per_second=1_000))
    began = source.now
    for _ in range(5):
        at.wait(source)
        at.read(2_000)
    assert 8 <= source.now - began < 12, "five chunks of 2 s, of which the first begins at once"
    assert reports == []
    assert (at.most_rows(5_000), at.most_rows(10)) == (1_000, 10)
    assert gate(source, LoadLimits())[0].most_rows(5_000) == 5_000
