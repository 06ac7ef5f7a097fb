"""The synchronous subscriber."""

import threading

import pytest

from aqueduct_client.errors import BrokersLost, InvalidSubscription, OutOfOrder
from aqueduct_client.subscribe import subscribe
from aqueduct_client.sync import SyncSubscriber
from tests.unit.aqueduct_client.made import Shop, seqs


def test_each_call_is_the_coroutines() -> None:
    shop = Shop()
    shop.publish(4)
    with SyncSubscriber(shop.subscriber) as subscriber:
        first, second = (subscriber.get_without_ack(2) for _ in range(2))
        with pytest.raises(OutOfOrder):
            subscriber.ack(second.id)
        subscriber.ack(first.id)
        subscriber.rollback()
        assert subscriber.in_flight == ()
        assert seqs(subscriber.get()) == [3, 4]
    assert shop.committed() == {0: 4}


def test_one_thread_gets_while_another_acknowledges() -> None:
    shop = Shop()
    shop.publish(1)
    with SyncSubscriber(shop.subscriber) as subscriber:
        batch = subscriber.get_without_ack()
        waiting = threading.Thread(target=subscriber.get_without_ack, args=(1, 2.0))
        waiting.start()
        subscriber.ack(batch.id)
        assert waiting.is_alive()
        shop.publish(1)
        waiting.join(5)
        assert subscriber.in_flight == (2,)


def test_its_thread_ends_with_it_and_with_a_start_that_fails() -> None:
    before = threading.active_count()
    with (
        pytest.raises(BrokersLost, match=r"brokers=127\.0\.0\.1:1"),
        subscribe("a.b", group="g", brokers="127.0.0.1:1", connect_timeout=0.0),
    ):
        pass
    with SyncSubscriber(Shop().subscriber):
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_what_cannot_be_subscribed_to_is_refused_before_kafka_is_asked() -> None:
    for wrong in ({"tags": "paid"}, {"no_such": 1}, {"not_yet": "a.b"}, {"not_yet": ["a.c"]}):
        with pytest.raises(InvalidSubscription):
            subscribe("a.b", group="g", brokers="127.0.0.1:1", **wrong)
    with pytest.raises(InvalidSubscription, match=r"database\.table"):
        subscribe("orders", group="g", brokers="127.0.0.1:1")
