"""The mapping of aiokafka's errors, and the queries to a broker that refuses access."""

import ssl
from typing import Any

import pytest
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient

from connectors.errors import AqueductError, Fenced, KafkaDenied, KafkaLost, RecordTooLarge
from connectors.kafka.error_mapping import explained, translated

OPTIONS = {"bootstrap_servers": "one:9092,two:9093", "security_protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (kafka.ProducerFenced(), Fenced),
        (kafka.InvalidProducerEpoch(), Fenced),
        (kafka.MessageSizeTooLargeError(), RecordTooLarge),
        (kafka.RecordListTooLargeError(), RecordTooLarge),
        (kafka.TopicAuthorizationFailedError("aq.x"), KafkaDenied),
        (kafka.TransactionalIdAuthorizationFailed(), KafkaDenied),
        (kafka.GroupAuthorizationFailedError("aq.__worker"), KafkaDenied),
        (kafka.SaslAuthenticationFailed(), KafkaDenied),
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


def test_a_lost_broker_is_reported_with_what_the_client_saw() -> None:
    assert "gone" in str(translated(kafka.KafkaConnectionError("gone")))


def test_what_an_error_says_is_shown_once() -> None:
    assert translated(kafka.TopicAuthorizationFailedError("aq.x")).detail == (
        "TOPIC_AUTHORIZATION_FAILED (29): aq.x"
    )
    assert translated(OSError("unreachable")).detail == "OSError: unreachable"


def brokers(monkeypatch: pytest.MonkeyPatch, **answers: Exception | None) -> list[dict[str, Any]]:
    """Serves these answers to every connection; returns the requests received."""
    asked: list[dict[str, Any]] = []

    class Open:
        def close(self) -> None:
            asked[-1]["closed"] = True

    async def create_conn(host: str, port: int, **how: Any) -> Open:
        asked.append({"host": host, "port": port} | how)
        if answer := answers[host]:
            raise answer
        return Open()

    monkeypatch.setattr("connectors.kafka.error_mapping.create_conn", create_conn)
    return asked


NOBODY = kafka.KafkaConnectionError("Unable to bootstrap")


async def test_a_broker_that_does_not_know_the_account_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    denied = kafka.SaslAuthenticationFailed("invalid credentials")
    asked = brokers(monkeypatch, one=OSError("refused"), two=denied)
    error = await explained(NOBODY, OPTIONS)
    assert type(error) is KafkaDenied
    assert "invalid credentials" in str(error)
    assert error.context == {"broker": "two:9093"}
    # In any order: a client does not begin with the same broker each time.
    assert {"host": "two", "port": 9093, "security_protocol": "SASL_PLAINTEXT"} in asked


async def test_a_certificate_that_is_not_trusted_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers(monkeypatch, one=ssl.SSLError(1, "CERTIFICATE_VERIFY_FAILED"), two=None)
    error = await explained(NOBODY, OPTIONS)
    assert type(error) is KafkaLost
    assert "TLS: " in str(error)
    assert "CERTIFICATE_VERIFY_FAILED" in str(error)


async def test_a_broker_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers(monkeypatch, one=OSError("refused"), two=TimeoutError())
    error = await explained(NOBODY, OPTIONS)
    assert type(error) is KafkaLost
    assert "Unable to bootstrap" in str(error)


async def test_one_that_lets_us_in_by_now_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = brokers(monkeypatch, one=None, two=None)
    assert type(await explained(NOBODY, OPTIONS)) is KafkaLost
    assert [one["closed"] for one in asked] == [True, True]


async def test_nobody_is_asked_where_there_was_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = brokers(monkeypatch)
    assert type(await explained(kafka.ProducerFenced(), OPTIONS)) is Fenced
    assert asked == []


async def test_a_cluster_that_names_no_controller_yet_is_asked_again_later() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:1")
    asked: list[bool] = []

    async def update() -> None:
        asked.append(True)

    admin._client.force_metadata_update = update
    with pytest.raises(kafka.NodeNotReadyError) as raised:
        await admin._send_to_controller(None)
    assert asked == [True]
    assert isinstance(translated(raised.value), KafkaLost)
