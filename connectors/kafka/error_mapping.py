"""What went wrong at Kafka: which of aiokafka's errors is which of ours.

The law: whatever is not known to be final may pass, and is KafkaLost; where no connection came about, a broker
is asked why, since aiokafka says so in its log alone.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import Any

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
    ProducerFenced,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)

from connectors.errors import AqueductError, Fenced, KafkaDenied, KafkaLost, RecordTooLarge
from connectors.kafka.error_codes import answered

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
"""What a broker answers to an account that it does not know, or that may not do what it asks for."""
_PATIENCE = 3.0
"""Seconds for one broker to say why it lets nobody in."""


def translated(error: BaseException) -> AqueductError:
    """What one of aiokafka's errors means to us."""
    if isinstance(error, AqueductError):
        return error
    if isinstance(error, ProducerFenced):
        return Fenced()
    if isinstance(error, MessageSizeTooLargeError):
        # By aiokafka itself, before anything was sent.
        return RecordTooLarge(_told(error))
    if isinstance(error, BrokerResponseError):
        return answered(error.errno, str(error.args[0]) if error.args else "")
    if isinstance(error, DENIED):
        return KafkaDenied(_told(error))
    if isinstance(error, TimeoutError):
        return KafkaLost("it did not answer in time")
    if isinstance(error, IllegalOperation | AssertionError):
        return KafkaLost(f"the producer is no longer usable ({error})")
    return KafkaLost(_told(error))


async def explained(error: BaseException, options: Mapping[str, Any]) -> AqueductError:
    """The same; where no broker could be reached with these options, one is asked once more for its reason."""
    if isinstance(error, KafkaConnectionError):
        return await _reason(options) or translated(error)
    return translated(error)


async def _reason(options: Mapping[str, Any]) -> AqueductError | None:
    """Why a broker lets us not in; None where none says anything."""
    how = {name: value for name, value in options.items() if name != "bootstrap_servers"}
    for host, port, _family in collect_hosts(options["bootstrap_servers"]):
        try:
            async with asyncio.timeout(_PATIENCE):
                connection = await create_conn(host, port, **how)
            connection.close()
        except DENIED as error:
            return KafkaDenied(_told(error), broker=f"{host}:{port}")
        except ssl.SSLError as error:
            return KafkaLost(f"TLS: {error}", broker=f"{host}:{port}")
        except (KafkaError, OSError, TimeoutError):
            continue
    return None


def _told(error: BaseException) -> str:
    """Its name and what it says, each once."""
    name, text = type(error).__name__, re.sub(r"^\[Error -?\d+\] ", "", str(error))
    return text if text.startswith(name) else f"{name}: {text}"
