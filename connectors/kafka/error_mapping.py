"""The mapping of aiokafka's errors to ours.

Invariant: an error not known to be final may be transient, and is KafkaLost; if no connection was
made, a broker is asked for the reason, since aiokafka only logs it.
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
"""A broker's errors for an unknown account, or one without the privileges for a request."""
_ANSWER_SECONDS = 3.0
"""Seconds for one broker to report why it refuses connections."""


def translated(error: BaseException) -> AqueductError:
    """Return our error for one of aiokafka's."""
    if isinstance(error, AqueductError):
        return error
    if isinstance(error, ProducerFenced):
        return Fenced()
    if isinstance(error, MessageSizeTooLargeError):
        # Raised by aiokafka itself, before anything was sent.
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
    """The same; if no broker could be reached with these options, one is asked once more for its reason."""
    if isinstance(error, KafkaConnectionError):
        return await _reason(options) or translated(error)
    return translated(error)


async def _reason(options: Mapping[str, Any]) -> AqueductError | None:
    """Return why a broker refuses us; None if none gives a reason."""
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
    """Return its name and message, each once."""
    name, text = type(error).__name__, re.sub(r"^\[Error -?\d+\] ", "", str(error))
    return text if text.startswith(name) else f"{name}: {text}"
