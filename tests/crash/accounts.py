"""A Kafka account that an administrator creates and changes while the worker runs.

Invariant: it has the privileges that SECURITY.md lists for a worker, and no others; clients that do not sign in
have all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest

from devstack.ports import HOST
from tests.crash.servers import ProxiedStack

PASSWORD = "as it was"
_READ, _WRITE, _CREATE, _DESCRIBE, _DESCRIBE_CONFIGS = 3, 4, 5, 8, 10
_TOPIC, _GROUP, _TRANSACTIONAL_ID = 2, 3, 5
_LITERAL, _PREFIXED = 3, 4
_ALLOW = 3
"""Codes of Kafka's ACLs (org.apache.kafka.common.acl, org.apache.kafka.common.resource)."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A privilege: an operation on a resource."""

    resource: int
    name: str
    pattern: int
    operation: int


@dataclass(frozen=True, slots=True)
class Account:
    """A worker's account at a broker."""

    stack: ProxiedStack
    name: str
    prefix: str
    """Of the installation's topics."""

    def made(self) -> Account:
        """Make it, with all that a worker needs."""
        self.set_password(PASSWORD)
        self.grant(self.on_topics(), self.on_group(), self.on_ids())
        return self

    def set_password(self, password: str) -> None:
        """Let it sign in with this password only. Who has signed in stays so for as long as it is connected."""
        self.stack.kafka_server.administer(
            "kafka.admin.ConfigCommand",
            *("--alter", "--entity-type", "users", "--entity-name", self.name),
            *("--add-config", f"SCRAM-SHA-512=[iterations=4096,password={password}]"),
        )

    def on_topics(self, *operations: int) -> list[Grant]:
        """Of the worker's topics, all or some of what it needs."""
        needed = operations or (_CREATE, _DESCRIBE, _DESCRIBE_CONFIGS, _READ, _WRITE)
        return [Grant(_TOPIC, f"{self.prefix}.", _PREFIXED, one) for one in needed]

    def on_writing(self) -> list[Grant]:
        """The right to write to topics."""
        return self.on_topics(_WRITE)

    def on_reading(self) -> list[Grant]:
        """The right to read topics."""
        return self.on_topics(_READ)

    def on_group(self) -> list[Grant]:
        """Of the group of workers."""
        name = f"{self.prefix}.__workers"
        return [Grant(_GROUP, name, _LITERAL, one) for one in (_READ, _DESCRIBE)]

    def on_ids(self) -> list[Grant]:
        """Of transactional ids."""
        return [Grant(_TRANSACTIONAL_ID, "*", _LITERAL, one) for one in (_DESCRIBE, _WRITE)]

    def grant(self, *grants: Iterable[Grant]) -> None:
        """Let it do these things."""
        asyncio.run(self._ask(CreateAclsRequest, [one for some in grants for one in some]))

    def revoke(self, *grants: Iterable[Grant]) -> None:
        """Revoke these privileges, with immediate effect, also on open connections."""
        asyncio.run(self._ask(DeleteAclsRequest, [one for some in grants for one in some]))

    def settings(self) -> dict[str, Any]:
        """A worker's Kafka settings for this account."""
        return {
            "bootstrap_servers": f"{HOST}:{self.stack.signed.port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": self.name,
            "sasl_password": PASSWORD,
        }

    async def _ask(self, request: type[Any], grants: list[Grant]) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.stack.kafka)
        await admin.start()
        try:
            for one in grants:
                whom = (f"User:{self.name}", "*", one.operation, _ALLOW)
                answer = await admin._send_to_controller(
                    request(one.resource, one.name, one.pattern, *whom)
                )
                # Both kinds of answer end with a list of results.
                (result,) = list(answer.to_object().values())[-1]
                assert not result["error_code"], result["error_message"]
        finally:
            await admin.close()
