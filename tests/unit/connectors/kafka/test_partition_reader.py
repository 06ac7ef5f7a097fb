"""Reading partitions to their ends, where little of them is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from connectors.errors import KafkaLost, RecordsGone, TransactionOpen
from connectors.kafka import open_transactions, reading
from connectors.kafka.open_transactions import OpenTransaction

END = 15


class Client:
    """Its topics are known."""

    def add_topic(self, _: str) -> None:
        pass

    async def _wait_on_metadata(self, _: str) -> None:
        pass


class Consumer:
    """Of a partition that holds markers of transactions and no record; ``steps`` are passed at each poll."""

    def __init__(self, steps: int, *records: Any) -> None:
        self._steps, self._position, self._records = steps, 0, list(records)
        self._client = Client()

    def assign(self, _: Any) -> None:
        pass

    def paused(self) -> set[Any]:
        return set()

    def seek(self, _: Any, offset: int) -> None:
        self._position = offset

    async def beginning_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, END)

    async def position(self, _: Any) -> int:
        return self._position

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        await asyncio.sleep(0.1)
        self._position += self._steps
        return {TopicPartition("journal", 0): [self._records.pop(0)]} if self._records else {}


def served(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, *held: OpenTransaction) -> None:
    @asynccontextmanager
    async def made(*_: Any, **__: Any) -> AsyncIterator[Consumer]:
        yield consumer

    async def those_open(*_: Any) -> list[OpenTransaction]:
        return list(held)

    monkeypatch.setattr(reading, "open_consumer", made)
    monkeypatch.setattr(open_transactions, "open_transactions", those_open)
    monkeypatch.setattr(reading, "SILENCE", 1.0)


async def test_markers_alone_are_read_for_as_long_as_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(1))
    assert await reading.read_to_end({}, "journal", 0) == []


async def test_an_end_that_comes_no_nearer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, Consumer(0))
    with pytest.raises(KafkaLost):
        await reading.read_to_end({}, "journal", 0)


def record(offset: int) -> SimpleNamespace:
    return SimpleNamespace(key=b"k", value=b"v", offset=offset, headers=())


def opened(offset: int, transactional_id: str | None = "nightly import") -> OpenTransaction:
    return OpenTransaction(
        producer_id=7, transactional_id=transactional_id, offset=offset, written_ms=0
    )


async def test_an_open_transaction_is_named_before_the_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(0), opened(0), opened(0, None))
    monkeypatch.setattr(reading, "SILENCE", 60.0)
    monkeypatch.setattr(reading, "HELD", 0.1)
    with pytest.raises(TransactionOpen) as caught:
        await asyncio.wait_for(reading.read_to_end({}, "aq.__journal", 3), 30)
    where = "--topic aq.__journal --partition 3"
    said = str(caught.value)
    assert f"python -m app journal abort DEST {where} --transactional-id 'nightly import'" in said
    # No transactional id is known of one that hangs, nor of one that this account may not describe.
    tool = "kafka-transactions.sh --bootstrap-server SERVER"
    assert f"`{tool} find-hanging {where}` lists it" in said
    assert f"ids: {tool} abort {where} --start-offset 0" in said


async def test_a_transaction_that_began_after_what_is_missing_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(0), opened(1))
    monkeypatch.setattr(reading, "HELD", 0.1)
    with pytest.raises(KafkaLost):
        await reading.read_to_end({}, "journal", 0)


async def test_an_open_transaction_is_named_to_a_reader_of_many_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(0), opened(0))
    monkeypatch.setattr(reading, "SILENCE", 60.0)
    monkeypatch.setattr(reading, "HELD", 0.1)
    read = reading.read_all({}, [("aq.a", 0), ("aq.b", 0)], lambda *_: None)
    with pytest.raises(TransactionOpen, match="--transactional-id 'nightly import'"):
        await asyncio.wait_for(read, 30)


async def test_the_time_that_a_caller_takes_for_a_piece_is_not_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(monkeypatch, Consumer(5, record(0), record(END)))
    found = []
    async for piece in reading.read_in_pieces({}, "journal", 0, start=0):
        found += piece
        await asyncio.sleep(1.5)
    assert [one.offset for one in found] == [0]


async def test_each_of_many_partitions_is_fetched_up_to_its_own_end_and_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Many(Consumer):
        """Of two partitions: at each poll a record of each, if it is fetched."""

        def __init__(self) -> None:
            super().__init__(0)
            self.at = {TopicPartition("a", 0): 0, TopicPartition("b", 0): 12}
            self.held: set[TopicPartition] = set()

        def seek(self, _: Any, offset: int) -> None:
            assert offset == 0

        async def position(self, tp: Any) -> int:
            return self.at[tp]

        def paused(self) -> set[Any]:
            return self.held

        def pause(self, *partitions: Any) -> None:
            self.held |= {*partitions}

        def resume(self, *partitions: Any) -> None:
            assert not partitions

        async def getmany(self, **_: Any) -> dict[Any, Any]:
            found = {}
            for tp in self.at.keys() - self.held:
                # Two for the last time, so that one of them is past an end.
                found[tp] = [record(at) for at in range(self.at[tp], self.at[tp] + 2)]
                self.at[tp] += 2
            return found

    consumer, read = Many(), dict[str, list[int]]()
    served(monkeypatch, consumer)
    await reading.read_all(
        {},
        [("a", 0), ("b", 0)],
        lambda topic, _, one: read.setdefault(topic, []).append(one.offset),
    )
    assert read == {"a": list(range(END)), "b": [12, 13, 14]}
    # The first one to reach its end was not fetched again.
    assert consumer.at == {TopicPartition("a", 0): 16, TopicPartition("b", 0): 16}


async def test_records_that_are_deleted_during_a_read_are_no_loss_as_the_next_one_begins_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shortened(Consumer):
        async def getmany(self, **_: Any) -> dict[Any, Any]:
            raise OffsetOutOfRangeError({TopicPartition("dead", 0): 7})

    served(monkeypatch, Shortened(0))
    with pytest.raises(KafkaLost, match=r"dead \[0\] has no offset 7") as lost:
        await reading.read_to_end({}, "dead", 0)
    gone = lost.value.__cause__
    assert isinstance(gone, RecordsGone)
    # Commands report it too, and have no merge.
    assert "merge" not in gone.advice
