"""Check of whether the cluster answers, over short connections of our own: idle clients do not
notice.

Invariant: one broker that answers is enough, of those in the settings and of all that a broker ever
named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from connectors.errors import AqueductError, KafkaLost
from connectors.kafka.error_mapping import DENIED, translated

_ANSWER_SECONDS = 4.0
"""For one broker to accept, authenticate and answer."""


class Liveness:
    """Asks brokers for the list of brokers; ``options`` are those of aiokafka's clients."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._brokers: set[tuple[str, int]] = set()

    async def check(self) -> None:
        """Return if a broker answers; raise KafkaDenied if one refuses us, else KafkaLost."""
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
