"""The log of waiting tables stays bounded, and what it says stays the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spark_sink.errors import MalformedRecord
from spark_sink.jobs.maintain import MaintenanceRequest, answer_row, open_requests, request_row
from spark_sink.warehouse import waiting_tables
from spark_sink.warehouse.waiting_tables import Request, Waits, folded
from tests.harness.memory_warehouse import MemoryWaits

DAY = 24 * 3600.0
TABLES = tuple(f"t{number}" for number in range(7))


class Log(MemoryWaits):
    """A log, and all that was ever in it."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[dict[str, Any]] = []

    def append(self, *rows: Mapping[str, Any]) -> None:
        super().append(*rows)
        self.all += map(dict, rows)


def test_years_of_waits_leave_a_bounded_log_with_the_same_states_and_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_tables, "_MOST_ROWS", 50)
    rng, now, log = random.Random(5), [10_000 * DAY], Log()
    waits = Waits(log, lambda: now[0], sink="")
    commands = Waits(log, lambda: now[0])
    most = 0
    for step in range(600):
        now[0] += rng.random() * DAY / 2
        name = ("shop", rng.choice(TABLES))
        waits.refresh()
        if waits.waiting(name) is None:
            waits.begin(name, MalformedRecord("it"), {("a", 0): step})
        elif step % 3:
            waits.extend(name, {("a", step): step})
        else:
            request = Request(number=f"r{step}", database=name[0], table=name[1])
            commands.ask(request)
            if rng.random() < 0.9:
                waits.refresh()
                held = waits.tables[name]
                waits.loaded(replace(held, kind="reloading"), {("a", 0): step}, request)
        if step % 50 == 0:
            number = f"m{step}"
            log.append(request_row(MaintenanceRequest(number=number), at_ms=int(now[0] * 1000)))
            if step % 100:
                log.append(answer_row(number, {}, at_ms=int(now[0] * 1000)))
        waits.refresh()
        most = max(most, len(log.rows()))
    assert len(log.all) > 600
    assert most < 160
    tables, requests = folded(log.all)
    assert (waits.tables, waits.requests) == (tables, requests)
    assert requests
    asked = [row for row in log.all if row["kind"] in {"maintain", "maintained"}]
    assert open_requests(waits.maintenance, "") == open_requests(asked, "")
    # Another process sees the same.
    other = Waits(log, lambda: now[0], sink="")
    other.refresh()
    assert (other.tables, other.requests) == (tables, requests)
