"""What a run learns for the next one from the time that Kafka took; what holds a merge back."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.destination import source_agent as runs
from app.worker.destination.snapshot.read_times import ReadTimes
from app.worker.destination.source_agent import SourceAgent
from connectors.errors import KafkaSlow


@pytest.mark.parametrize("step", ["lead", "release"])
async def test_whatever_of_a_run_was_too_slow_the_next_publishes_less_and_waits_longer(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def slow(*_: object) -> None:
        raise KafkaSlow("10 s were not enough")

    @contextlib.asynccontextmanager
    async def led(*_: object) -> AsyncIterator[Any]:
        if step == "lead":
            await slow()
        yield None

    monkeypatch.setattr(runs, "Takeover", lambda **_: SimpleNamespace(lead=led))
    monkeypatch.setattr(SourceAgent, "_capture", slow)
    most = 8 * 1024 * 1024
    topics = SimpleNamespace(keeps_existing=False)
    plan: Any = SimpleNamespace(name="shop", rules=SimpleNamespace(max_bytes=most), topics=topics)
    rest: Any = None
    run = SourceAgent(
        plan=plan, status=rest, checkpoint=rest, policy=rest, signals=rest, sources=rest
    )
    with pytest.raises(KafkaSlow):
        await run.run()
    assert (run.budget.bytes, run.budget.timeout_factor) == (most // 2, 2.0)


def test_existing_rows_that_were_read_hold_a_merge_back() -> None:
    times = ReadTimes(is_merged=True)
    led: Any = SimpleNamespace(address=None, publisher=SimpleNamespace(stated=None))
    snapshot: Any = SimpleNamespace(times=times)
    agent: Any = SimpleNamespace()
    watch = SourceAgent._completeness(agent, led, snapshot)
    times.set(times.begin(), 50)
    assert (watch.stated(70), led.publisher.stated(70), watch.stated(40)) == (50, 50, 40)
