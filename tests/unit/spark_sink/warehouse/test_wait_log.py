"""The log of waiting tables stays bounded, and what it says stays the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spark_sink.errors import MalformedRecord
from spark_sink.jobs.maintain import MaintenanceRequest, answer_row, open_requests, request_row
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.waiting_tables import Request, Waits, folded
from tests.harness.memory_warehouse import memory_log

DAY = 24 * 3600.0
TABLES = tuple(f"t{number}" for number in range(7))


def test_years_of_waits_leave_a_bounded_log_with_the_same_states_and_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, now, log = random.Random(5), [10_000 * DAY], memory_log(every=50)
    log.make()
    there: list[dict[str, Any]] = []
    wait = SinkLog.wait

    def noted(self: SinkLog, *rows: Mapping[str, Any]) -> None:
        wait(self, *rows)
        there.extend(map(dict, rows))

    monkeypatch.setattr(SinkLog, "wait", noted)
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
            log.wait(request_row(MaintenanceRequest(number=number), at_ms=int(now[0] * 1000)))
            if step % 100:
                log.wait(answer_row(number, {}, at_ms=int(now[0] * 1000)))
        asks = waits.asks()
        waits.refresh()
        assert asks is bool(waits.requests)
        most = max(most, len(log.rows()))
    assert len(there) > 600
    assert most < 160
    tables, requests = folded(there)
    assert (waits.tables, waits.requests) == (tables, requests)
    assert requests
    asked = [row for row in there if row["kind"] in {"maintain", "maintained"}]
    assert open_requests(waits.maintenance, "") == open_requests(asked, "")
    # Another process sees the same.
    other = Waits(log, lambda: now[0], sink="")
    other.refresh()
    assert (other.tables, other.requests) == (tables, requests)
