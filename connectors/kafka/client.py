"""The connection to Kafka: the arguments of every aiokafka client.

Invariant: a password is never printed. One in a file is read at each connection of each client,
Faust's too: aiokafka keeps its arguments for as long as a client lives, so its connections are made
to ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiokafka.conn import AIOKafkaConnection
from aiokafka.helpers import create_ssl_context

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
