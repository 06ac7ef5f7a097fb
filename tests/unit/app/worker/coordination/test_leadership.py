"""Leadership of a single worker: it leads all destinations, and exits if one of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from app.worker.coordination.leadership import SingleWorker
from app.worker.coordination.zookeeper_lease import Lease


class DestinationRunner:
    """Two destinations, one of which fails with an unexpected error."""

    def __init__(self) -> None:
        self.led: list[str] = []

    def is_ready(self) -> bool:
        return True

    def wanted(self) -> Collection[str]:
        return ["sound", "broken"]

    async def lead(self, name: str, _lease: Lease) -> None:
        self.led.append(name)
        await asyncio.sleep(0)
        if name == "broken":
            raise TypeError("unhashable")
        await asyncio.Event().wait()


async def test_an_unforeseen_error_ends_the_worker_and_not_one_destination_silently() -> None:
    runner = DestinationRunner()
    alone = SingleWorker(runner)
    with pytest.raises(TypeError):
        await asyncio.wait_for(alone.run(), 5)
    assert runner.led == ["sound", "broken"]
    await alone.leave()
