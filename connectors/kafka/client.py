"""The connection to Kafka: the arguments of every aiokafka client, and a check that the cluster answers.

Invariant: a password is never printed. A password in a file is read again at each connection of each
client, Faust's clients too: aiokafka keeps a client's arguments for its whole life, so its connections
are patched to read the password.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context
from aiokafka.protocol.metadata import MetadataRequest

from connectors.errors import AqueductError, KafkaLost
from connectors.kafka.error_mapping import DENIED, explained, translated
from connectors.secret import text_of

_sign_in = AIOKafkaConnection._do_sasl_handshake


async def _sign_in_with_what_holds_now(self: Any, *args: Any, **more: Any) -> Any:
    if self._sasl_plain_password is not None:
        self._sasl_plain_password = text_of(self._sasl_plain_password)
    return await _sign_in(self, *args, **more)


AIOKafkaConnection._do_sasl_handshake = _sign_in_with_what_holds_now


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaClient:
    """A cluster, and our account there."""

    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    ssl_cafile: Path | None = None
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether the account has a name and a password."""
        return self.security_protocol.startswith("SASL")

    def ssl_context(self) -> SSLContext | None:
        """The context for TLS, which checks the brokers' names; None without TLS."""
        context: SSLContext | None = (
            create_ssl_context(cafile=self.ssl_cafile) if self.tls else None
        )
        return context

    def options(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka's producer, consumer and admin client."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
        }
        if self.tls:
            options["ssl_context"] = self.ssl_context()
        if self.sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options


@asynccontextmanager
async def admin_client(options: Mapping[str, Any]) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield a started admin client; raise Kafka's errors within the block as ours."""
    client = AIOKafkaAdminClient(**options)
    try:
        await client.start()
        yield client
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await client.close()


async def cluster_id(options: Mapping[str, Any]) -> str | None:
    """Return the cluster's id, if it has one."""
    async with admin_client(options) as client:
        described = await client.describe_cluster()
    return described.get("cluster_id") or None


# A check that the cluster answers, over short connections of our own: idle clients do not notice
# an outage.
#
# Invariant: one broker that answers is enough. The brokers in the settings and those in the last
# answer are asked.


_ANSWER_SECONDS = 4.0
"""Seconds for one broker to accept, authenticate and answer."""


class Liveness:
    """Asks brokers for the list of brokers; ``options`` are the arguments of aiokafka's clients."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._brokers: set[tuple[str, int]] = set()

    async def check(self) -> None:
        """Return if a broker answers; else raise KafkaDenied if a broker refuses us, or KafkaLost."""
        bootstrap = self._options["bootstrap_servers"]
        brokers = {(host, port) for host, port, _ in collect_hosts(bootstrap)} | self._brokers
        asking = [asyncio.create_task(self._ask(host, port)) for host, port in brokers]
        refused: AqueductError | None = None
        try:
            for answer in asyncio.as_completed(asking):
                try:
                    self._brokers = await answer
                except DENIED as error:
                    refused = translated(error)
                except (KafkaError, OSError, TimeoutError):
                    continue
                else:
                    return
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        raise refused or KafkaLost(f"no broker answers at {bootstrap}")

    async def _ask(self, host: str, port: int) -> set[tuple[str, int]]:
        how = {name: value for name, value in self._options.items() if name != "bootstrap_servers"}
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await create_conn(host, port, **how)
            try:
                # An empty list of topics: no topic is requested.
                answer = await connection.send(MetadataRequest([]))
            finally:
                connection.close()
        return {(broker[1], broker[2]) for broker in answer.brokers}
