"""The subscriber with the in-memory twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest

from aqueduct_client.errors import (
    BatchesInFlight,
    BrokersDenied,
    BrokersLost,
    MalformedRecord,
    OutOfOrder,
    SchemaUnknown,
    StaleBatch,
    SubscriberClosed,
    SubscriberError,
    UnknownBatch,
    UnknownTable,
)
from aqueduct_client.memory import MemoryConsumer, MemoryLog
from aqueduct_client.protocol import Assigned, Consumer, TopicFacts
from aqueduct_client.record_selection import Selection
from aqueduct_client.records import Partition, RawRecord
from aqueduct_client.subscriber import Outage
from tests.unit.aqueduct_client.made import TOPIC, Shop, headers, seqs, value
from wire.records import HEADER_CHANGE_ID


async def test_get_acknowledges_at_once() -> None:
    shop = Shop()
    shop.publish(3)
    async with shop.subscriber() as subscriber:
        assert seqs(await subscriber.get(2)) == [1, 2]
        assert shop.committed() == {0: 2}
        assert subscriber.in_flight == ()


@pytest.mark.remedy("client.BatchesInFlight")
async def test_get_is_refused_while_batches_are_in_flight() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber() as subscriber:
        await subscriber.get_without_ack(1)
        with pytest.raises(BatchesInFlight, match="get_without_ack throughout"):
            await subscriber.get(1)
        await subscriber.rollback()
        assert seqs(await subscriber.get(2)) == [1, 2]


async def test_nothing_is_acknowledged_but_by_ack() -> None:
    shop = Shop()
    shop.publish(3)
    async with shop.subscriber() as subscriber:
        batch = await subscriber.get_without_ack(2)
        assert (await subscriber.get_without_ack(2)).id == 2
        assert shop.committed() == {0: 0}
        await subscriber.ack(batch.id)
        assert shop.committed() == {0: 2}
    async with shop.subscriber() as again:
        assert seqs(await again.get_without_ack()) == [3]


@pytest.mark.remedy("client.OutOfOrder", "client.UnknownBatch")
async def test_an_ack_out_of_order_or_of_no_batch_commits_nothing() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber() as subscriber:
        first = await subscriber.get_without_ack(1)
        second = await subscriber.get_without_ack(1)
        with pytest.raises(OutOfOrder):
            await subscriber.ack(second.id)
        with pytest.raises(UnknownBatch):
            await subscriber.ack(second.id + 1)
        assert shop.committed() == {0: 0}
        await subscriber.ack(first.id)
        await subscriber.ack(second.id)
        assert shop.committed() == {0: 2}


async def test_an_empty_batch_has_canals_id_and_its_ack_does_nothing() -> None:
    shop = Shop()
    async with shop.subscriber() as subscriber:
        batch = await subscriber.get_without_ack(timeout=0.01)
        assert (batch.id, len(batch)) == (-1, 0)
        await subscriber.ack(batch.id)
        await subscriber.rollback(batch.id)


@pytest.mark.parametrize(("back_to", "left"), [(None, []), (1, []), (2, [1])])
async def test_a_rollback_delivers_all_again(back_to: int | None, left: list[int]) -> None:
    shop = Shop()
    shop.publish(6)
    async with shop.subscriber() as subscriber:
        batches = [await subscriber.get_without_ack(2) for _ in range(3)]
        await subscriber.rollback(back_to)
        assert subscriber.in_flight == tuple(left)
        again = await subscriber.get_without_ack(100)
        assert seqs(again) == [seq for batch in batches[len(left) :] for seq in seqs(batch)]
        with pytest.raises(StaleBatch, match="rolled back"):
            await subscriber.ack(3)


async def test_a_rebalance_delivers_what_was_not_acknowledged_again() -> None:
    shop = Shop(partitions=2)
    shop.publish(4)
    async with shop.subscriber() as first:
        batch = await first.get_without_ack()
        assert sorted(seqs(batch)) == [1, 2, 3, 4]
        async with shop.subscriber() as second:
            with pytest.raises(StaleBatch, match=r"rebalanced.*delivered again"):
                await first.ack(batch.id)
            shares = [seqs(await each.get_without_ack()) for each in (first, second)]
        assert sorted(seq for share in shares for seq in share) == [1, 2, 3, 4]
        assert all(shares)


async def test_a_record_without_a_wanted_tag_is_not_parsed() -> None:
    shop = Shop()
    shop.publish(1, tags=["other"], body=b"\xff poison")
    shop.publish(1, tags=["paid", "other"])
    shop.publish(1, body=b"\xff poison")
    shop.publish(1, tags=["late"])
    async with shop.subscriber(tags=["paid", "late"]) as subscriber:
        assert seqs(await subscriber.get()) == [2, 4]
    async with shop.subscriber(group="all") as subscriber:
        with pytest.raises(MalformedRecord):
            seqs(await subscriber.get_without_ack())


async def test_dropped_records_move_the_groups_offset_once_nothing_is_in_flight() -> None:
    shop = Shop()
    shop.publish(5, tags=["other"])
    async with shop.subscriber(tags=["paid"]) as subscriber:
        await subscriber.get_without_ack(timeout=0.05)
        assert shop.committed() == {0: 5}


async def test_tags_that_no_record_has_are_named_with_those_that_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop()
    shop.publish(3, tags=["paid"])
    async with shop.subscriber(tags=["payed"]) as subscriber:
        await subscriber.get_without_ack(timeout=0.05)
    assert "no record so far has a tag of payed" in caplog.text
    assert "the tags are paid" in caplog.text


def named(topic: str, *tables: str, shared: bool = False, not_yet: bool = False) -> Selection:
    """The selection of these tables of a topic."""
    names = frozenset(tables)
    return Selection(
        tables={topic: names if shared else None},
        names={topic: names},
        not_yet=names if not_yet else frozenset(),
    )


async def refused(shop: Shop, selection: Selection) -> str:
    """The error of a subscriber, which has delivered and acknowledged nothing."""
    subscriber = shop.subscriber(topics=selection.tables)
    subscriber.selection = selection
    before = shop.committed()
    with pytest.raises(UnknownTable) as raised:
        await subscriber.__aenter__()
    assert shop.committed() == before
    return str(raised.value)


async def test_a_table_without_a_topic_is_refused_with_the_nearest_names() -> None:
    shop = Shop()
    shop.kafka.create("aq.trade.order-items")
    shop.publish(3)
    for name in ("trade.Orders", "trade.ordres"):
        error = await refused(shop, named(f"aq.{name}", name))
        assert f"{name}: there is no topic aq.{name}; the nearest are {TOPIC}" in error
        assert "add it to not_yet" in error
    assert "nearest" not in await refused(shop, named("aq.x.yy", "x.yy"))


async def test_a_name_that_no_table_of_a_shared_topic_has_is_refused() -> None:
    shop = Shop()
    shop.publish(3)
    shop.kafka.create("aq.__logical_schemas")
    shop.kafka.send(
        Partition("aq.__logical_schemas", 0), b"{}", key=b'{"database":"trade","table":"orders"}'
    )
    error = await refused(shop, named(TOPIC, "trade.Orders", shared=True))
    assert f"no table is called trade.Orders; the nearest are trade.orders [topic={TOPIC}]" in error
    subscriber = shop.subscriber()
    subscriber.selection = named(TOPIC, "trade.orders", shared=True)
    async with subscriber:
        assert seqs(await subscriber.get()) == [1, 2, 3]


async def test_records_that_another_program_wrote_among_schemas_hold_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop()
    logical, schemas = Partition("aq.__logical_schemas", 0), Partition("aq.__schemas", 0)
    shop.kafka.create("aq.__logical_schemas")
    for key in (b"junk", b"{}", b"[]", b'{"database":"trade","table":"orders"}'):
        shop.kafka.send(logical, b"{}", key=key)
    version = b'{"destination":"shop","database":"trade","table":"orders","version":%b,%b}'
    for content in (
        b"junk", b"[]", b"{}", version % (b"2", b'"columns":7'), version % (b"[]", b'"columns":[]'),
    ):  # fmt: skip
        shop.kafka.send(schemas, content)
    shop.kafka.send(schemas, version % (b"2", b'"columns":[],"primary_key":["id"]'))
    shop.publish(1)
    subscriber = shop.subscriber()
    subscriber.selection = named(TOPIC, "trade.orders", shared=True)
    async with subscriber:
        (one,) = await subscriber.get()
        assert (await subscriber.schema_of(one)).primary_key == ("id",)
    skipped = [one for one in caplog.messages if "is skipped" in one]
    assert len(skipped) == 8
    error = await refused(shop, named(TOPIC, "trade.Orders", shared=True))
    assert "no table is called trade.Orders; the nearest are trade.orders" in error


@pytest.mark.parametrize("is_known_by", ["its note", "its offset"])
async def test_a_group_that_reads_a_shared_topic_continues_with_a_table_that_had_no_row(
    is_known_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    shop.publish(2)
    selection = named(TOPIC, "trade.orders", "trade.quiet", shared=True)
    subscriber = shop.subscriber()
    subscriber.selection = selection
    async with subscriber:  # no logical schemas yet
        assert seqs(await subscriber.get()) == [1, 2]
    if is_known_by == "its note":
        shop.kafka.offsets.clear()  # as Kafka forgets them
    else:
        shop.kafka.delete("aq.__subscribers")  # as after an earlier client, which noted nothing
    shop.kafka.create("aq.__logical_schemas")
    shop.kafka.send(
        Partition("aq.__logical_schemas", 0), b"{}", key=b'{"database":"trade","table":"orders"}'
    )
    caplog.clear()
    subscriber = shop.subscriber()
    subscriber.selection = selection
    async with subscriber:
        shop.kafka.send(Partition(TOPIC, 0), value(3, table="quiet"), headers=headers(3))
        assert seqs(await subscriber.get()) == [3]
    assert "no table is called trade.quiet" in caplog.text
    assert f"the group continues, since it has read this topic before [topic={TOPIC}]" in (
        caplog.text
    )
    error = await refused(shop, named(TOPIC, "trade.Orders", shared=True))
    assert "no table is called trade.Orders; the nearest are trade.orders" in error
    newcomer = shop.subscriber(group="new")
    newcomer.selection = selection
    with pytest.raises(UnknownTable, match=r"trade\.quiet.*not_yet"):
        await newcomer.__aenter__()
    assert await shop.notes("new").read() == {}, "so that the next start is refused too"


async def test_a_logical_name_that_is_not_published_yet_is_named_in_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop()
    shop.publish(1)
    version = b'{"destination":"shop","database":"shop","table":"orders_1","version":1,'
    shop.kafka.send(
        Partition("aq.__schemas", 0), version + b'"columns":[],"primary_key":[]}', key=b"{}"
    )
    subscriber = shop.subscriber()
    subscriber.selection = named(TOPIC, "trade.orders", shared=True)
    async with subscriber:
        assert seqs(await subscriber.get()) == [1]
    assert f"no table is called trade.orders; the nearest are shop.orders_1 [topic={TOPIC}]" in (
        caplog.text
    )
    error = await refused(Shop(kafka=shop.kafka), named(TOPIC, "shop.Orders_1", shared=True))
    assert "the nearest are shop.orders_1" in error


@pytest.mark.parametrize("denied", ["aq.__schemas", "aq.__logical_schemas"])
@pytest.mark.parametrize("operation", ["Describe", "Read"])
async def test_names_that_may_not_be_read_are_not_checked_and_a_warning_says_so(
    denied: str,
    operation: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop()
    shop.publish(3)
    shop.kafka.create("aq.__logical_schemas")
    described, read = MemoryConsumer.topics, MemoryLog.read

    async def topics(self: MemoryConsumer, names: Collection[str] | None) -> dict[str, TopicFacts]:
        if operation == "Describe" and denied in (names or ()):
            raise BrokersDenied(denied)
        return await described(self, names)

    async def records(self: MemoryLog, partition: Partition, offset: int) -> list[RawRecord]:
        if operation == "Read" and partition.topic == denied:
            raise BrokersDenied(denied)
        return await read(self, partition, offset)

    monkeypatch.setattr(MemoryConsumer, "topics", topics)
    monkeypatch.setattr(MemoryLog, "read", records)
    subscriber = shop.subscriber()
    subscriber.selection = named(TOPIC, "trade.orders", shared=True)
    async with subscriber:
        assert seqs(await subscriber.get()) == [1, 2, 3]
    assert "the names of the tables cannot be checked" in caplog.text
    assert denied in caplog.text


async def test_a_table_that_is_to_come_may_be_missing() -> None:
    shop = Shop()
    later = "aq.trade.later"
    subscriber = shop.subscriber(topics=[later])
    subscriber.selection = named(later, "trade.later", not_yet=True)
    async with subscriber:
        assert len(await subscriber.get(timeout=0.01)) == 0
        shop.kafka.create(later)
        shop.kafka.send(Partition(later, 0), value(1), headers=headers(1))
        shop.kafka.rebalance("g")
        assert seqs(await subscriber.get()) == [1]


async def test_a_tombstone_is_no_change() -> None:
    shop = Shop()
    shop.kafka.send(Partition(TOPIC, 0), None)
    shop.publish(1)
    async with shop.subscriber() as subscriber:
        assert seqs(await subscriber.get()) == [1]


async def test_a_record_that_cannot_be_judged_stays_the_next_one() -> None:
    shop = Shop()
    shop.publish(1)
    shop.kafka.send(Partition(TOPIC, 0), b"foreign")
    shop.publish(1)
    async with shop.subscriber(window=10) as subscriber:
        batch = await subscriber.get_without_ack()
        assert seqs(batch) == [1]
        # What precedes it is acknowledged first: then the group's offset is the record's own.
        assert len(await subscriber.get_without_ack(timeout=0.01)) == 0
        await subscriber.ack(batch.id)
        for _ in range(2):
            with pytest.raises(MalformedRecord, match="offset=1"):
                await subscriber.get_without_ack(timeout=0.01)
        assert subscriber.in_flight == ()
    assert shop.committed() == {0: 1}
    async with shop.subscriber(window=10) as subscriber:
        with pytest.raises(MalformedRecord, match="offset=1"):
            await subscriber.get()


@pytest.mark.parametrize("most", [1, 3, 100])
async def test_a_record_that_cannot_be_judged_holds_back_its_own_partition_alone(most: int) -> None:
    shop = Shop(partitions=2)
    foreign, other = Partition(TOPIC, 0), Partition(TOPIC, 1)
    seq = 0

    def send(partition: Partition) -> None:
        nonlocal seq
        seq += 1
        shop.kafka.send(partition, value(seq), headers=headers(seq))

    for _ in range(2):
        send(foreign)
    shop.kafka.send(foreign, b"foreign")
    for _ in range(5):
        send(foreign)
    for _ in range(7):
        send(other)
    found: list[int] = []
    failures: list[str] = []
    async with shop.subscriber(window=10) as subscriber:
        for _ in range(20):
            try:
                found += seqs(await subscriber.get(most, timeout=0.0))
            except MalformedRecord as error:
                failures.append(str(error))
        assert sorted(found) == [1, 2, *range(8, 15)]
        assert [one for one in found if one > 7] == [*range(8, 15)]
        assert failures
        assert all("partition=0, offset=2" in each for each in failures)
        assert shop.committed() == {0: 2, 1: 7}
        # What comes later is delivered at once, whether the error was raised or not.
        send(other)
        assert seqs(await subscriber.get(most)) == [seq]


async def test_an_error_of_one_partition_is_raised_although_another_is_never_idle() -> None:
    shop = Shop(partitions=2)
    shop.kafka.send(Partition(TOPIC, 0), b"foreign")
    async with shop.subscriber(window=10) as subscriber:
        for seq in (1, 2, 3):
            shop.kafka.send(Partition(TOPIC, 1), value(seq), headers=headers(seq))
        assert seqs(await subscriber.get()) == [1, 2, 3]
        shop.kafka.send(Partition(TOPIC, 1), value(4), headers=headers(4))
        with pytest.raises(MalformedRecord):
            await subscriber.get()
        assert seqs(await subscriber.get()) == [4]


async def test_a_rollback_before_a_record_that_cannot_be_judged_delivers_what_precedes_it_again() -> (
    None
):
    shop = Shop()
    shop.publish(2)
    shop.kafka.send(Partition(TOPIC, 0), b"foreign")
    async with shop.subscriber(window=10) as subscriber:
        assert seqs(await subscriber.get_without_ack()) == [1, 2]
        await subscriber.rollback()
        batch = await subscriber.get_without_ack()
        assert seqs(batch) == [1, 2]
        await subscriber.ack(batch.id)
        shop.kafka.rebalance("g")
        for _ in range(2):
            with pytest.raises(MalformedRecord):
                await subscriber.get_without_ack(timeout=0.01)


async def test_a_header_that_is_no_text_is_an_error_of_its_record() -> None:
    shop = Shop()
    shop.publish(1)
    shop.kafka.send(Partition(TOPIC, 0), value(2), headers=[(HEADER_CHANGE_ID, b"\xff")])
    async with shop.subscriber(window=1) as subscriber:
        assert seqs(await subscriber.get()) == [1]
        for _ in range(2):
            with pytest.raises(MalformedRecord, match="offset=1"):
                await subscriber.get(timeout=0.01)
    assert shop.committed() == {0: 1}


async def test_an_acknowledged_change_that_comes_again_is_dropped_within_the_window() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber(window=2) as subscriber:
        await subscriber.get()
        for seq in (1, 2):  # as after a cursor was set back: another number, the same name
            shop.kafka.send(Partition(TOPIC, 0), value(seq + 10), headers=headers(seq))
        shop.kafka.send(Partition(TOPIC, 0), value(13), headers=headers(13))
        assert seqs(await subscriber.get()) == [13]
        shop.kafka.send(Partition(TOPIC, 0), value(14), headers=headers(1))
        assert seqs(await subscriber.get()) == [14], "1 is past the window"


async def test_a_change_whose_offsets_a_kafka_transaction_committed_is_in_the_window() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber(window=2) as subscriber:
        batch = await subscriber.get_without_ack()
        subscriber.acknowledged(batch.id)
        shop.kafka.send(Partition(TOPIC, 0), value(11), headers=headers(1))
        shop.kafka.send(Partition(TOPIC, 0), value(12), headers=headers(12))
        assert seqs(await subscriber.get_without_ack()) == [12]


@contextmanager
def failing_commits(error: type[SubscriberError]) -> Iterator[None]:
    """Let each commit of offsets raise an error."""

    async def failed(_consumer: MemoryConsumer, _offsets: Mapping[Partition, int]) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryConsumer, "commit", failed)
        yield


@pytest.mark.parametrize("error", [StaleBatch, BrokersLost])
async def test_what_a_failed_get_did_not_return_is_not_in_the_window(
    error: type[SubscriberError],
) -> None:
    shop = Shop()
    shop.publish(3)
    async with shop.subscriber(window=10) as subscriber:
        assert seqs(await subscriber.get(1)) == [1]
        with failing_commits(error), pytest.raises(error):
            await subscriber.get(2)
        shop.kafka.rebalance("g")
        assert seqs(await subscriber.get(2)) == [2, 3]


@pytest.mark.parametrize("error", [StaleBatch, BrokersLost])
async def test_what_was_handled_before_a_failed_ack_is_in_the_window(
    error: type[SubscriberError],
) -> None:
    shop = Shop()
    shop.publish(3)
    async with shop.subscriber(window=10) as subscriber:
        batch = await subscriber.get_without_ack(2)
        with failing_commits(error), pytest.raises(error):
            await subscriber.ack(batch.id)
        shop.kafka.rebalance("g")
        assert seqs(await subscriber.get()) == [3]


async def test_equal_change_ids_of_two_destinations_are_two_changes_to_the_window() -> None:
    """As of two MariaDB servers with the same domain and server_id, as their defaults are."""
    shop = Shop()
    shop.publish(1)
    async with shop.subscriber(window=10) as subscriber:
        assert seqs(await subscriber.get()) == [1]
        for name in ("crm", "shop"):
            shop.kafka.send(Partition(TOPIC, 0), value(1, name=name), headers=headers(1))
        assert [each.destination for each in await subscriber.get()] == ["crm"]


async def test_the_window_forgets_what_was_rolled_back_and_keeps_what_a_failed_ack_had() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber(window=10) as subscriber:
        batch = await subscriber.get_without_ack()
        await subscriber.rollback(batch.id)
        batch = await subscriber.get_without_ack()
        assert seqs(batch) == [1, 2]
        subscriber.window.add(batch.records[:1])
        await subscriber.rollback(batch.id)
        assert seqs(await subscriber.get_without_ack()) == [2]


async def test_the_schema_of_a_record_is_read_when_it_is_asked_for() -> None:
    shop = Shop()
    for version in (1, 2):
        columns = b'[{"name":"id","type":"bigint","nullable":false}]'
        shop.kafka.send(
            Partition("aq.__schemas", 0),
            b'{"destination":"shop","database":"trade","table":"orders","version":%d,"columns":%b,'
            b'"primary_key":["id"]}' % (version, columns),
        )
    shop.publish(1)
    async with shop.subscriber() as subscriber:
        (one,) = await subscriber.get()
        found = await subscriber.schema_of(one)
        assert (found.version, found.primary_key) == (2, ("id",))
        assert [(each.name, each.type) for each in found.columns] == [("id", "bigint")]


@pytest.mark.remedy("client.SchemaUnknown")
async def test_a_version_that_the_topic_lacks_is_named_until_it_is_complete() -> None:
    shop = Shop()
    shop.publish(1)
    async with shop.subscriber() as subscriber:
        (one,) = await subscriber.get()
        with pytest.raises(SchemaUnknown, match=r"trade\.orders version 2 of shop.*aq\.__schemas"):
            await subscriber.schema_of(one)
        shop.kafka.send(
            Partition("aq.__schemas", 0),
            b'{"destination":"shop","database":"trade","table":"orders","version":2,"columns":[],'
            b'"primary_key":["id"]}',
        )
        assert (await subscriber.schema_of(one)).version == 2


class Broken:
    """Ways to join a group that fail at first."""

    def __init__(self, shop: Shop, failures: int) -> None:
        self.failures, self.tries = failures, 0
        self._joins = shop.kafka.joins("g", [TOPIC])

    @asynccontextmanager
    async def __call__(self, assigned: Assigned) -> AsyncIterator[Consumer]:
        self.tries += 1
        if self.tries <= self.failures:
            raise BrokersLost("no broker", brokers="127.0.0.1:1")
        async with self._joins(assigned) as consumer:
            yield consumer


async def test_joining_is_tried_again_with_pauses() -> None:
    shop = Shop()
    shop.publish(1)
    subscriber = shop.subscriber()
    subscriber.joins = broken = Broken(shop, failures=1)
    async with subscriber:
        assert seqs(await subscriber.get()) == [1]
    assert broken.tries == 2


@pytest.mark.remedy("client.BrokersLost")
async def test_an_outage_past_its_limit_is_an_error_with_what_to_do() -> None:
    shop = Shop()
    shop.publish(1)
    subscriber = shop.subscriber(outage=Outage(0.1))
    subscriber.joins = broken = Broken(shop, failures=99)
    with pytest.raises(BrokersLost, match=r"no broker \[brokers=127.0.0.1:1\].*Check the"):
        await subscriber.__aenter__()
    # The broker answers again, and the next start needs no more than that.
    broken.failures = 0
    async with subscriber:
        assert seqs(await subscriber.get()) == [1]


async def test_a_get_during_an_outage_returns_in_time_and_what_was_in_flight_comes_again() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber() as subscriber:
        batch = await subscriber.get_without_ack(1)
        subscriber.joins = Broken(shop, failures=1)
        await subscriber.rejoin("Kafka was lost")
        assert len(await subscriber.get_without_ack(timeout=0.05)) == 0
        assert seqs(await subscriber.get_without_ack(timeout=5)) == [1, 2]
        with pytest.raises(StaleBatch, match="Kafka was lost"):
            await subscriber.ack(batch.id)


@pytest.mark.parametrize("silent", ["topics", "commit", "committed"])
async def test_a_get_returns_in_time_while_kafka_owes_an_answer_and_then_continues(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("aqueduct_client.subscriber._IDLE_COMMIT_SECONDS", 0.0)
    shop, answers = Shop(), asyncio.Event()
    ask = getattr(MemoryConsumer, silent)

    async def asked(self: MemoryConsumer, *given: object) -> object:
        await answers.wait()
        return await ask(self, *given)

    async with asyncio.timeout(20), shop.subscriber() as subscriber:
        monkeypatch.setattr(MemoryConsumer, silent, asked)
        if silent == "committed":
            shop.kafka.rebalance("g")
        shop.kafka.send(Partition(TOPIC, 0), None)  # a record that is dropped, and then committed
        assert len(await subscriber.get_without_ack(timeout=0.05)) == 0
        shop.publish(1)
        assert len(await subscriber.get_without_ack(timeout=0.05)) == 0
        answers.set()
        assert seqs(await subscriber.get_without_ack(timeout=5)) == [1]
        answers.clear()
        # Whatever is owed, it can be closed.


@pytest.mark.remedy("client.SubscriberClosed")
async def test_a_call_that_waits_while_it_is_closed_joins_no_group_again() -> None:
    shop = Shop()
    subscriber = await shop.subscriber().__aenter__()
    waiting = asyncio.create_task(subscriber.get_without_ack(timeout=30))
    await asyncio.sleep(0.05)
    await subscriber.close()
    with pytest.raises(SubscriberClosed, match="Make a new subscriber"):
        await waiting
    shop.publish(1)
    async with shop.subscriber() as other:
        assert len(other.assignment) == 1
        assert seqs(await other.get()) == [1]


class Election:
    """An election by hand."""

    is_mine = False

    async def mine(self, seconds: float) -> bool:  # noqa: ARG002 - the caller's signature
        return self.is_mine

    async def close(self) -> None:
        self.is_mine = False


async def test_a_standby_gets_nothing_and_what_the_active_one_loses_is_delivered_again() -> None:
    shop = Shop()
    shop.publish(1)
    turn = Election()
    async with shop.subscriber(turn=turn) as subscriber:
        assert len(await subscriber.get_without_ack(timeout=0.05)) == 0
        turn.is_mine = True
        batch = await subscriber.get_without_ack()
        assert seqs(batch) == [1]
        turn.is_mine = False
        with pytest.raises(StaleBatch, match="no longer the active one"):
            await subscriber.ack(batch.id)
        assert len(await subscriber.get_without_ack(timeout=0.05)) == 0
        turn.is_mine = True
        assert seqs(await subscriber.get_without_ack()) == [1]
