"""What aiokafka's errors mean to us."""

import pytest
from aiokafka import errors as kafka

from connectors.errors import AqueductError, Fenced, KafkaLost, KafkaRefused, RecordTooLarge
from connectors.kafka.producer import translated


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (kafka.ProducerFenced(), Fenced),
        (kafka.InvalidProducerEpoch(), Fenced),
        (kafka.MessageSizeTooLargeError(), RecordTooLarge),
        (kafka.RecordListTooLargeError(), RecordTooLarge),
        (kafka.TopicAuthorizationFailedError("aq.x"), KafkaRefused),
        (kafka.TransactionalIdAuthorizationFailed(), KafkaRefused),
        (kafka.KafkaTimeoutError(), KafkaLost),
        (kafka.KafkaConnectionError("gone"), KafkaLost),
        (kafka.OutOfOrderSequenceNumber(), KafkaLost),
        (kafka.IllegalOperation("not in a transaction"), KafkaLost),
        (TimeoutError(), KafkaLost),
        (AssertionError("state"), KafkaLost),
        (OSError("unreachable"), KafkaLost),
    ],
)
def test_each_error_has_one_meaning(error: BaseException, meaning: type[AqueductError]) -> None:
    assert type(translated(error)) is meaning


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = Fenced("epoch 4")
    assert translated(error) is error


def test_an_error_that_says_nothing_is_shown_by_its_name() -> None:
    assert "MessageSizeTooLargeError" in str(translated(kafka.MessageSizeTooLargeError()))


def test_a_lost_broker_is_told_with_what_the_client_saw() -> None:
    assert "gone" in str(translated(kafka.KafkaConnectionError("gone")))
