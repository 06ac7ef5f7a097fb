"""Reading a partition to its end, where little of it is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from connectors.errors import KafkaLost
from connectors.kafka import reading

END = 15


class Consumer:
    """Of a partition that holds markers of transactions and no record; ``steps`` are passed at each poll."""

    def __init__(self, steps: int) -> None:
        self._steps, self._position = steps, 0

    def assign(self, _: Any) -> None:
        pass

    def seek(self, _: Any, offset: int) -> None:
        self._position = offset

    async def beginning_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, END)

    async def position(self, _: Any) -> int:
        return self._position

    async def getmany(self, *_: Any, **__: Any) -> dict[Any, Any]:
        await asyncio.sleep(0.1)
        self._position += self._steps
        return {}


def served(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> None:
    @asynccontextmanager
    async def made(*_: Any) -> AsyncIterator[Consumer]:
        yield consumer

    async def none_open(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(reading, "open_consumer", made)
    monkeypatch.setattr(reading, "open_transactions", none_open)
    monkeypatch.setattr(reading, "_DEADLINE", 1.0)


async def test_markers_alone_are_read_for_as_long_as_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(1))
    assert await reading.read_to_end({}, "journal", 0) == []


async def test_an_end_that_comes_no_nearer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, Consumer(0))
    with pytest.raises(KafkaLost):
        await reading.read_to_end({}, "journal", 0)
