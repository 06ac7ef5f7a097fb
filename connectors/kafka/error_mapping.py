"""The mapping of a broker's error codes, and of aiokafka's errors, to ours.

Invariant: an error not known to be final may be transient, and becomes KafkaLost. If no connection
was made, a broker is asked for the reason, which aiokafka only logs. A starting broker that names no broker
yet is asked again: aiokafka's clients, Faust's too, would fail with an AssertionError, so they are patched.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalOperation,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    ProducerFenced,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
    kafka_errors,
)

from connectors.errors import (
    AqueductError,
    Fenced,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    RecordTooLarge,
    TooFewBrokers,
)

DENIED = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    SaslAuthenticationFailed,
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
)
"""A broker's errors for an account that is unknown or lacks the privileges for a request."""
_ANSWER_SECONDS = 3.0
"""Seconds for one broker to report why it refuses connections."""
NAMELESS: Final = "the cluster names no broker, as while it starts"
_look_up = AIOKafkaClient.coordinator_lookup


async def _look_up_among_known_brokers(self: Any, *args: Any) -> Any:
    if self.get_random_node() is None:
        # What aiokafka repeats, after it has asked for the brokers again.
        raise NodeNotReadyError(NAMELESS)
    return await _look_up(self, *args)


AIOKafkaClient.coordinator_lookup = _look_up_among_known_brokers
_send_to_controller = AIOKafkaAdminClient._send_to_controller


async def _send_to_known_controller(self: Any, request: Any) -> Any:
    cluster = self._client.cluster
    if cluster.controller is None:
        await self._client.force_metadata_update()
    if cluster.controller is None:
        # aiokafka would fail with an AttributeError.
        raise NodeNotReadyError("the cluster names no controller, as while it starts")
    return await _send_to_controller(self, request)


AIOKafkaAdminClient._send_to_controller = _send_to_known_controller


def translated(error: BaseException) -> AqueductError:
    """Return our error for one of aiokafka's."""
    if isinstance(error, AqueductError):
        return error
    if isinstance(error, ProducerFenced):
        return Fenced()
    if isinstance(error, MessageSizeTooLargeError):
        # A broker's answer, or raised by aiokafka itself before anything was sent.
        return RecordTooLarge(_described(error))
    if isinstance(error, BrokerResponseError):
        return answered(error.errno, str(error.args[0]) if error.args else "")
    if isinstance(error, DENIED):
        return KafkaDenied(_described(error))
    if isinstance(error, TimeoutError):
        return KafkaLost("it did not answer in time")
    if isinstance(error, IllegalOperation | AssertionError):
        return KafkaLost(f"the producer is no longer usable ({error})")
    return KafkaLost(_described(error))


async def explained(error: BaseException, options: Mapping[str, Any]) -> AqueductError:
    """Return the same as ``translated``; if no broker could be reached, ask brokers again for the reason."""
    if isinstance(error, KafkaConnectionError):
        return await _reason(options) or translated(error)
    return translated(error)


async def _reason(options: Mapping[str, Any]) -> AqueductError | None:
    """Return why a broker refuses us; None if no broker gives a reason."""
    how = {name: value for name, value in options.items() if name != "bootstrap_servers"}
    for host, port, _family in collect_hosts(options["bootstrap_servers"]):
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                connection = await create_conn(host, port, **how)
            connection.close()
        except DENIED as error:
            return KafkaDenied(_described(error), broker=f"{host}:{port}")
        except ssl.SSLError as error:
            return KafkaLost(f"TLS: {error}", broker=f"{host}:{port}")
        except (KafkaError, OSError, TimeoutError):
            continue
    return None


def _described(error: BaseException) -> str:
    """Return an error's name and message, each once."""
    name, text = type(error).__name__, re.sub(r"^\[Error -?\d+\] ", "", str(error))
    return text if text.startswith(name) else f"{name}: {text}"


# Every error code of a broker: its name, and the error class it maps to.
#
# aiokafka 0.14 knows the codes up to 72 and 79; any other becomes UnknownError there and loses
# its number. So importing this module registers the missing codes. Source:
# `org.apache.kafka.common.protocol.Errors` of Kafka 4.1. Its own printed table is compared with
# this table by tests/integration/kafka/test_answers.py.
#
# Invariant: each code is in one row. An error that can resolve by itself is retried; only an error
# that an operator must resolve is final.


class CodeMeaning(Enum):
    """The meaning of a code for a destination."""

    TRANSIENT = KafkaLost
    """Resolves by itself: an election, a restart, a busy controller, an expired session."""
    BROKERS = TooFewBrokers
    """Resolves once enough brokers are alive."""
    DENIED = KafkaDenied
    """Account or ACL; retried, as an operator corrects it at the broker."""
    SETTINGS = KafkaRefused
    """A setting of ours, of the topic or of the broker must change."""
    FENCED = Fenced
    SIZE = RecordTooLarge
    UNEXPECTED = KafkaLost, "unexpected"
    """Belongs to requests that none of our producers, readers or administrators sends; retried."""

    @property
    def error(self) -> type[AqueductError]:
        """The error class."""
        found: type[AqueductError] = self.value[0] if isinstance(self.value, tuple) else self.value
        return found


_CODES: Final[dict[CodeMeaning, str]] = {
    CodeMeaning.TRANSIENT: """
        -1 UNKNOWN_SERVER_ERROR, 1 OFFSET_OUT_OF_RANGE, 2 CORRUPT_MESSAGE, 3 UNKNOWN_TOPIC_OR_PARTITION,
        5 LEADER_NOT_AVAILABLE, 6 NOT_LEADER_OR_FOLLOWER, 7 REQUEST_TIMED_OUT, 8 BROKER_NOT_AVAILABLE,
        9 REPLICA_NOT_AVAILABLE, 11 STALE_CONTROLLER_EPOCH, 13 NETWORK_EXCEPTION,
        14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR,
        35 UNSUPPORTED_VERSION, 41 NOT_CONTROLLER, 43 UNSUPPORTED_FOR_MESSAGE_FORMAT,
        45 OUT_OF_ORDER_SEQUENCE_NUMBER, 46 DUPLICATE_SEQUENCE_NUMBER, 48 INVALID_TXN_STATE,
        49 INVALID_PRODUCER_ID_MAPPING, 51 CONCURRENT_TRANSACTIONS, 52 TRANSACTION_COORDINATOR_FENCED,
        55 OPERATION_NOT_ATTEMPTED, 56 KAFKA_STORAGE_ERROR, 57 LOG_DIR_NOT_FOUND, 59 UNKNOWN_PRODUCER_ID,
        60 REASSIGNMENT_IN_PROGRESS, 70 FETCH_SESSION_ID_NOT_FOUND, 71 INVALID_FETCH_SESSION_EPOCH,
        72 LISTENER_NOT_FOUND, 74 FENCED_LEADER_EPOCH, 75 UNKNOWN_LEADER_EPOCH, 77 STALE_BROKER_EPOCH,
        78 OFFSET_NOT_AVAILABLE, 80 PREFERRED_LEADER_NOT_AVAILABLE, 83 ELIGIBLE_LEADERS_NOT_AVAILABLE,
        84 ELECTION_NOT_NEEDED, 88 UNSTABLE_OFFSET_COMMIT, 89 THROTTLING_QUOTA_EXCEEDED,
        91 RESOURCE_NOT_FOUND, 92 DUPLICATE_RESOURCE, 100 UNKNOWN_TOPIC_ID, 103 INCONSISTENT_TOPIC_ID,
        105 TRANSACTIONAL_ID_NOT_FOUND, 106 FETCH_SESSION_TOPIC_ID_ERROR, 108 NEW_LEADER_ELECTED,
        114 MISMATCHED_ENDPOINT_TYPE, 115 UNSUPPORTED_ENDPOINT_TYPE, 116 UNKNOWN_CONTROLLER_ID,
        120 TRANSACTION_ABORTABLE, 129 REBOOTSTRAP_REQUIRED""",
    CodeMeaning.BROKERS: """
        19 NOT_ENOUGH_REPLICAS, 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND, 38 INVALID_REPLICATION_FACTOR""",
    CodeMeaning.DENIED: """
        29 TOPIC_AUTHORIZATION_FAILED, 30 GROUP_AUTHORIZATION_FAILED, 31 CLUSTER_AUTHORIZATION_FAILED,
        33 UNSUPPORTED_SASL_MECHANISM, 34 ILLEGAL_SASL_STATE, 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        58 SASL_AUTHENTICATION_FAILED, 61 DELEGATION_TOKEN_AUTH_DISABLED, 62 DELEGATION_TOKEN_NOT_FOUND,
        63 DELEGATION_TOKEN_OWNER_MISMATCH, 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        65 DELEGATION_TOKEN_AUTHORIZATION_FAILED, 66 DELEGATION_TOKEN_EXPIRED, 67 INVALID_PRINCIPAL_TYPE,
        93 UNACCEPTABLE_CREDENTIAL, 97 PRINCIPAL_DESERIALIZATION_FAILURE""",
    CodeMeaning.SETTINGS: """
        17 INVALID_TOPIC_EXCEPTION, 21 INVALID_REQUIRED_ACKS, 32 INVALID_TIMESTAMP, 37 INVALID_PARTITIONS,
        39 INVALID_REPLICA_ASSIGNMENT, 40 INVALID_CONFIG, 42 INVALID_REQUEST, 44 POLICY_VIOLATION,
        50 INVALID_TRANSACTION_TIMEOUT, 54 SECURITY_DISABLED, 73 TOPIC_DELETION_DISABLED,
        76 UNSUPPORTED_COMPRESSION_TYPE, 87 INVALID_RECORD""",
    CodeMeaning.FENCED: "47 INVALID_PRODUCER_EPOCH, 90 PRODUCER_FENCED",
    CodeMeaning.SIZE: "10 MESSAGE_TOO_LARGE, 18 RECORD_LIST_TOO_LARGE",
    CodeMeaning.UNEXPECTED: """
        4 INVALID_FETCH_SIZE, 12 OFFSET_METADATA_TOO_LARGE, 22 ILLEGAL_GENERATION,
        23 INCONSISTENT_GROUP_PROTOCOL, 24 INVALID_GROUP_ID, 25 UNKNOWN_MEMBER_ID, 26 INVALID_SESSION_TIMEOUT,
        27 REBALANCE_IN_PROGRESS, 28 INVALID_COMMIT_OFFSET_SIZE, 36 TOPIC_ALREADY_EXISTS, 68 NON_EMPTY_GROUP,
        69 GROUP_ID_NOT_FOUND, 79 MEMBER_ID_REQUIRED, 81 GROUP_MAX_SIZE_REACHED, 82 FENCED_INSTANCE_ID,
        85 NO_REASSIGNMENT_IN_PROGRESS, 86 GROUP_SUBSCRIBED_TO_TOPIC, 94 INCONSISTENT_VOTER_SET,
        95 INVALID_UPDATE_VERSION, 96 FEATURE_UPDATE_FAILED, 98 SNAPSHOT_NOT_FOUND, 99 POSITION_OUT_OF_RANGE,
        101 DUPLICATE_BROKER_REGISTRATION, 102 BROKER_ID_NOT_REGISTERED, 104 INCONSISTENT_CLUSTER_ID,
        107 INELIGIBLE_REPLICA, 109 OFFSET_MOVED_TO_TIERED_STORAGE, 110 FENCED_MEMBER_EPOCH,
        111 UNRELEASED_INSTANCE_ID, 112 UNSUPPORTED_ASSIGNOR, 113 STALE_MEMBER_EPOCH,
        117 UNKNOWN_SUBSCRIPTION_ID, 118 TELEMETRY_TOO_LARGE, 119 INVALID_REGISTRATION,
        121 INVALID_RECORD_STATE, 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH,
        124 FENCED_STATE_EPOCH, 125 INVALID_VOTER_KEY, 126 DUPLICATE_VOTER, 127 VOTER_NOT_FOUND,
        128 INVALID_REGULAR_EXPRESSION, 130 STREAMS_INVALID_TOPOLOGY, 131 STREAMS_INVALID_TOPOLOGY_EPOCH,
        132 STREAMS_TOPOLOGY_FENCED, 133 SHARE_SESSION_LIMIT_REACHED""",
}
_ADVICE: Final = {
    17: "Change the prefix, or leave the table out: a topic's name has at most 249 letters, digits, dots, "
    "underscores and hyphens.",
    32: "Compare the clocks of this machine and the brokers; let message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms of the topic be their defaults. If KafkaLost follows for minutes, "
    "restart the broker that coordinates the transactional id: it does not repeat the end of a transaction "
    "that a topic refused.",
    37: "Set topics.partitions to 1 or more.",
    40: "Change the topics settings to what the brokers accept.",
    44: "The brokers' create.topic.policy does not allow it: change the topics settings, or create the topic "
    "by hand.",
    50: "Set transaction.max.timeout.ms of the brokers to 15000 or more.",
    76: "Set publish.compression to what the topic's compression.type allows.",
    87: "The topic is compacted and the record has no key (TRUNCATE, or a table without a primary key): set "
    "its cleanup.policy and topics.cleanup_policy to delete.",
}
_THEN: Final = (
    "Where the destination has FAILED by it, then: `python -m app destination restart DEST`."
)
_AGAIN: Final = {74, 75, 78, 89, 100, 103}
"""Codes unknown to aiokafka that its producer can answer by sending the same batch again."""


def _read() -> dict[int, tuple[str, CodeMeaning]]:
    pairs = ((one.split(), kind) for kind, text in _CODES.items() for one in text.split(","))
    return {int(code): (name, kind) for (code, name), kind in pairs}


ANSWERS: Final = _read()
"""Name and meaning of each code but 0."""


def answered(code: int, detail: str = "", **context: Any) -> AqueductError:
    """Return the error of a broker's code; for a code newer than this table, KafkaLost with its number."""
    name, kind = ANSWERS.get(code, ("unknown to this version", CodeMeaning.UNEXPECTED))
    text = f"{name} ({code})" + (f": {detail}" if detail and detail != name else "")
    advice = _ADVICE.get(code, "")
    return kind.error(text, remedy=advice and f"{advice} {_THEN}", **context)


def _register() -> None:
    """Register the codes that aiokafka does not know, so that it keeps their numbers."""
    for code, (name, _kind) in ANSWERS.items():
        if code not in kafka_errors:
            members = {"errno": code, "message": name, "retriable": code in _AGAIN}
            kafka_errors[code] = type(name, (BrokerResponseError,), members)


_register()
