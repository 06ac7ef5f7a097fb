"""The error codes of brokers: their names, and which are transient."""

import pytest
from aiokafka.errors import for_code

from connectors.errors import (
    AqueductError,
    Fenced,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    RecordTooLarge,
    Retry,
    TooFewBrokers,
)
from connectors.kafka.error_mapping import ANSWERS, answered, translated


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("NOT_CONTROLLER", KafkaLost),
        ("REQUEST_TIMED_OUT", KafkaLost),
        ("THROTTLING_QUOTA_EXCEEDED", KafkaLost),
        ("COORDINATOR_LOAD_IN_PROGRESS", KafkaLost),
        ("LEADER_NOT_AVAILABLE", KafkaLost),
        ("UNKNOWN_SERVER_ERROR", KafkaLost),
        ("TRANSACTION_ABORTABLE", KafkaLost),
        ("STREAMS_TOPOLOGY_FENCED", KafkaLost),
        ("INVALID_REPLICATION_FACTOR", TooFewBrokers),
        ("NOT_ENOUGH_REPLICAS", TooFewBrokers),
        ("TOPIC_AUTHORIZATION_FAILED", KafkaDenied),
        ("DELEGATION_TOKEN_EXPIRED", KafkaDenied),
        ("POLICY_VIOLATION", KafkaRefused),
        ("INVALID_CONFIG", KafkaRefused),
        ("INVALID_TOPIC_EXCEPTION", KafkaRefused),
        ("INVALID_RECORD", KafkaRefused),
        ("PRODUCER_FENCED", Fenced),
        ("MESSAGE_TOO_LARGE", RecordTooLarge),
    ],
)
def test_a_code_is_the_error_that_says_what_to_do(name: str, meaning: type[AqueductError]) -> None:
    (code,) = (code for code, (known, _) in ANSWERS.items() if known == name)
    assert type(answered(code)) is meaning
    assert type(translated(for_code(code)())) is meaning


@pytest.mark.parametrize("code", sorted(ANSWERS))
def test_every_code_keeps_its_name_and_number_on_its_way_through_the_client(code: int) -> None:
    name, kind = ANSWERS[code]
    error = translated(for_code(code)())
    assert type(error) is kind.error
    if kind.error not in (Fenced, RecordTooLarge):
        assert f"{name} ({code})" in str(error)


def test_what_can_pass_is_retried_and_what_an_operator_must_change_is_not() -> None:
    for _name, kind in ANSWERS.values():
        is_retried = kind.error.retry is Retry.TIMED
        assert is_retried == (kind.name in {"TRANSIENT", "BROKERS", "DENIED", "UNEXPECTED"})


def test_a_code_newer_than_the_table_is_retried_under_its_number() -> None:
    assert type(answered(9999, "hm")) is KafkaLost
    assert "9999" in str(answered(9999, "hm"))


def test_a_record_without_a_key_on_a_compacted_topic_has_advice_of_its_own() -> None:
    assert "cleanup.policy" in str(translated(for_code(87)()))
