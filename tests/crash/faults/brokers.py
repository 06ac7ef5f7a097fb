"""Faults of the servers."""

from __future__ import annotations

import asyncio
import os
import signal

from aiokafka import AIOKafkaProducer

from devstack.kafka import Kafka
from devstack.mysql import Mysql
from tests.crash.faults.journal import installation
from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, Scene

Server = Mysql | Kafka


@fault("mysqld.kill", "kill -9 of MySQL under load, twice")
def mysqld_kill(at: Scene) -> str:
    at.begin()
    for _ in range(2):
        at.pause(0.5, 2)
        _kill(at.servers.mysql, at)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysqld.restart", "an orderly restart of MySQL under load")
def mysqld_restart(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    at.servers.mysql.stop()
    at.pause(0.5, 2)
    at.servers.mysql.start()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysqld.frozen", "SIGSTOP of MySQL for 7 s")
def mysqld_frozen(at: Scene) -> str:
    at.begin()
    _freeze(at.servers.mysql, at, 7)
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("kafka.kill", "kill -9 of the broker under load")
def kafka_kill(at: Scene) -> str:
    at.begin()
    _kill(at.servers.stack.kafka_server, at)
    return _on(at)


@fault("kafka.restart", "an orderly restart of the broker under load")
def kafka_restart(at: Scene) -> str:
    at.begin()
    at.servers.stack.kafka_server.stop()
    at.pause(0.5, 2)
    at.servers.stack.kafka_server.start()
    return _on(at)


@fault("kafka.frozen", "SIGSTOP of the broker for 14 s")
def kafka_frozen(at: Scene) -> str:
    at.begin()
    _freeze(at.servers.stack.kafka_server, at, 14)
    return _on(at)


@fault("both.kill", "kill -9 of MySQL, the broker and the worker at the same time")
def both_kill(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 2)
    at.worker.kill()
    at.servers.mysql.kill()
    at.servers.stack.kafka_server.kill()
    at.servers.stack.kafka_server.start()
    at.servers.mysql.start()
    return _on(at)


@fault("kafka.fenced", "another program takes over the worker's transactional id, without a claim")
def fenced(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    asyncio.run(_take(at, f"{installation(at)}.{DESTINATION}"))
    return f"recovered in {at.wait_recovered():.1f} s"


async def _take(at: Scene, transactional_id: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=at.servers.kafka, transactional_id=transactional_id
    )
    await producer.start()
    await producer.stop()


def _kill(server: Server, at: Scene) -> None:
    server.kill()
    at.pause(0.2, 1.5)
    server.start()


def _freeze(server: Server, at: Scene, seconds: float) -> None:
    assert server.child is not None
    pid = server.child.identity.pid
    os.kill(pid, signal.SIGSTOP)
    at.pause(seconds, seconds + 1)
    os.kill(pid, signal.SIGCONT)


def _on(at: Scene) -> str:
    """By itself; or, where the broker's own abort looks like another leader, after a restart."""
    at.wait(lambda: at.state() in ("RUNNING", "FENCED"), "is neither RUNNING nor FENCED")
    at.pause(1.0, 1.5)
    if at.state() == "FENCED":
        at.worker.kill()
        return f"FENCED by the broker; after a restart recovered in {at.wait_recovered():.1f} s"
    return f"recovered in {at.wait_recovered():.1f} s"
