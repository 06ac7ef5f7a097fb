"""Topics that an account may not read, or that another program's transaction hides, beside one that is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connectors.errors import KafkaDenied, TransactionOpen
from connectors.kafka import reading
from connectors.kafka.producer import TransactionalProducer, append
from connectors.kafka.reading import Follower, Partition, firsts, newest
from connectors.kafka.topics import TopicPlan, Topics
from tests.crash.accounts import Account, Grant
from tests.integration.subscriber.test_accounts import WithAccounts

A, B = ("a", 0), ("b", 0)
_TOPIC, _LITERAL, _READ, _DESCRIBE = 2, 3, 3, 8


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithAccounts]:
    """A broker whose account "reader" may see both topics, and read one."""
    made = WithAccounts(tmp_path_factory.mktemp("accounts"), ["reader"])
    try:
        made.start()
        grants = [Grant(_TOPIC, name, _LITERAL, _DESCRIBE) for name in ("a", "b")]
        account(made).grant([*grants, Grant(_TOPIC, "a", _LITERAL, _READ)], account(made).on_ids())
        yield made
    finally:
        made.children.kill()


def account(broker: WithAccounts) -> Account:
    return Account(broker, "reader", "")  # type: ignore[arg-type]


@pytest.fixture
async def options(broker: WithAccounts) -> dict[str, Any]:
    """For the account that may do all, which writes."""
    found = {"bootstrap_servers": broker.kafka}
    plans = [
        TopicPlan(name=one, partitions=1, replication_factor=1, max_message_bytes=1_000_000)
        for one in ("a", "b", "hidden")
    ]
    await Topics(found).ensure(*plans)
    return found


async def test_one_topic_that_cannot_be_read_is_named_until_it_can_and_the_other_is_read(
    broker: WithAccounts, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HELD", 1.0)
    monkeypatch.setattr(reading, "_DENIED_SECONDS", 1.0)
    signed = {
        "bootstrap_servers": broker.signed,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "reader",
        "sasl_plain_password": "secret",
    }
    values: dict[Partition, list[bytes]] = {A: [], B: []}

    async def write(number: int) -> None:
        for topic in ("a", "b"):
            await append(options, topic, 0, key=b"k", value=b"%d" % number)

    async with Follower.opened(signed, omits_unreadable=True) as follower:

        async def until(reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(120):
                while not reached():
                    await follower.partitions(["a", "b"])
                    await follower.unread()
                    for one, records in (await follower.read(0.2)).items():
                        values[one] += [record.value for record in records]

        async def errors(of: type[Exception] | None) -> None:
            await until(
                lambda: [type(one) for one in follower.unreadable.values()] == ([of] if of else [])
            )

        await follower.partitions([])
        await follower.follow({A: 0, B: 0})
        await write(1)
        await errors(KafkaDenied)
        await write(2)
        await until(lambda: values[A] == [b"1", b"2"])
        assert not values[B]
        assert follower.unreadable.keys() == {B}
        # One that the account may not even see is listed by no broker; asked for by its name, it is denied.
        assert "hidden" not in await follower.partitions(["a", "hidden"])
        assert "hidden" in await Topics(signed).unwritable({"hidden"})
        # A reader that omits nothing gets an error that names the topic, so it may be omitted.
        for read in (
            firsts(signed, {A: 0, B: 0}, wanted=bool),
            newest(signed, ["a", "b"], since_ms=None, wanted=bool),
        ):
            with pytest.raises(KafkaDenied) as denied:
                await read
            assert denied.value.context["topic"] == "b"
        await in_a_thread(lambda: account(broker).grant([Grant(_TOPIC, "b", _LITERAL, _READ)]))
        await until(lambda: values[B] == [b"1", b"2"])
        await errors(None)

        foreign = TransactionalProducer("nightly", options=options, compression=None)
        await foreign.init_transactions()
        assert foreign._kafka is not None
        await foreign._kafka.begin_transaction()
        await (await foreign._kafka.send("b", key=b"k", value=b"v", partition=0))
        await write(3)
        await errors(TransactionOpen)
        assert "nightly" in str(follower.unreadable[B])
        await until(lambda: values[A] == [b"1", b"2", b"3"])
        # As the command does.
        ending = TransactionalProducer("nightly", options=options, compression=None)
        await ending.init_transactions()
        await until(lambda: values[B] == [b"1", b"2", b"3"])
        await errors(None)
        await ending.discard()
        await foreign.discard()


async def in_a_thread(act: Callable[[], Any]) -> None:
    """Do what makes a loop of its own."""
    await asyncio.to_thread(act)
