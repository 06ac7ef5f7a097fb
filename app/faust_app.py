"""The Faust app, bent where Faust does what we cannot use.

The law: it reads only what was committed, it has no web server of its own, and the journal is there before it
subscribes. Everything else of Faust is left as it is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import faust
from faust.app.base import BootStrategy
from faust.transport.drivers import aiokafka as driver
from mode import Service
from yarl import URL

from app.http import HttpServer
from app.publisher import TopicPlans
from connectors.errors import AqueductError, Retry
from connectors.kafka.topics import Topics

log = logging.getLogger(__name__)

EXIT_CONFIGURATION = 78
"""The exit code for settings that are not usable (EX_CONFIG of sysexits.h)."""


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # faust has no types
    """Faust picks the isolation level by a flag that also changes how it commits; only the level is wanted."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        self.consumer.in_transaction = True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False


class _ReadCommittedConsumer(driver.Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> Any:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)


class _ReadCommittedTransport(driver.Transport):  # type: ignore[misc]
    Consumer = _ReadCommittedConsumer


class _WithoutFaustWeb(BootStrategy):  # type: ignore[misc]
    """`faust worker` turns Faust's web server on, whatever the app's settings say: it listens on all
    interfaces and shows the tables to whoever asks."""

    enable_web = False


class AqueductApp(faust.App):  # type: ignore[misc]
    """A Faust app that reads only what was committed, and begins with our services."""

    BootStrategy = _WithoutFaustWeb
    http: HttpServer
    services: tuple[Service, ...] = ()
    before_stop: Callable[[], Awaitable[None]] | None = None
    """What comes before Faust leaves its group, which takes seconds."""
    plans: TopicPlans
    kafka_options: dict[str, Any]

    @property
    def web_server_url(self) -> URL:
        """Our own HTTP server, for Faust's banner."""
        return URL(self.http.url)

    def _new_transport(self) -> Any:
        return _ReadCommittedTransport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Make the journal before Faust subscribes to it: it ignores a topic that is not there."""
        await super().on_first_start()
        pause = 0.5
        while True:
            try:
                await Topics(self.kafka_options).ensure(self.plans.journal())
                return
            except AqueductError as error:
                log.error("%s: %s", error.name, error)
                if error.retry is not Retry.TIMED:
                    give_up(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 30.0)

    async def on_stop(self) -> None:
        """Let others take over before anything else is ended."""
        if self.before_stop is not None:
            await self.before_stop()
        await super().on_stop()

    async def on_start(self) -> None:
        """Start our services at once; taking over waits for no recovery of Faust's tables."""
        await super().on_start()
        try:
            for service in self.services:
                await self.add_runtime_dependency(service)
        except AqueductError as error:
            give_up(error)


def give_up(error: AqueductError) -> NoReturn:
    """End the process at once with one line; Faust would show a traceback for each of its services."""
    logging.shutdown()
    print(f"aqueduct: {error.name}: {error}", file=sys.__stderr__, flush=True)
    os._exit(EXIT_CONFIGURATION)
