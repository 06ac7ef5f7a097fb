"""The real servers that crash tests use, each behind a link of the proxy.

The law: the worker knows the links alone; whoever loads the source or checks the outcome goes round them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymysql
from pymysql.connections import Connection

from devstack import Stack
from devstack.kafka import Kafka
from devstack.mysql import Mysql
from devstack.ports import HOST, free_port
from tests.crash.links import Proxy, Wire, proxy

_LISTENERS = "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"


class ProxiedStack(Stack):
    """A stack whose broker has a second listener, which it advertises at the proxy's port."""

    def __init__(self, folder: Path, running: Proxy) -> None:
        super().__init__(folder, ("mysql", "kafka"), mysql_options={"max_connections": "60"})
        self._inner = free_port()
        self.wire = running.link("kafka", HOST, self._inner, kafka=True)

    def to_zookeeper(self, running: Proxy) -> Wire:
        """A link to a ZooKeeper, which starts when it is first asked for."""
        if "zookeeper" not in self.servers:
            self.services += ("zookeeper",)
            self._start_zookeeper()
        return running.link("zookeeper", HOST, self.zookeeper_server.port)

    def _start_kafka(self) -> None:
        program, libraries = self._java("kafka")
        server = Kafka(self.run_dir / "kafka", libraries, java=program, owner=self.children)
        direct, controller = server.address, f"{HOST}:{server._controller_port}"
        server._options = {
            "listener.security.protocol.map": _LISTENERS,
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": f"PLAINTEXT://{direct},PROXIED://{HOST}:{self._inner},"
            f"CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{direct},PROXIED://{HOST}:{self.wire.port}",
        }
        self._start("kafka", server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """A source and a broker, and the links to them."""

    stack: ProxiedStack
    proxy: Proxy
    to_mysql: Wire
    to_kafka: Wire

    @property
    def mysql(self) -> Mysql:
        """The source, as those reach it who must not be disturbed."""
        return self.stack.mysql

    @property
    def kafka(self) -> str:
        """The broker's address, for the same."""
        return self.stack.kafka

    def to_zookeeper(self) -> Wire:
        """A new link to a ZooKeeper of our own, for workers that take turns."""
        return self.stack.to_zookeeper(self.proxy)

    def connect(self, database: str | None = None, *, seconds: float = 20) -> Connection:
        """An administrator's connection, round the proxy."""
        return pymysql.connect(
            host=self.mysql.host,
            port=self.mysql.port,
            user="root",
            database=database,
            charset="utf8mb4",
            connect_timeout=seconds,
            read_timeout=seconds,
        )

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """Run statements; the rows of the last one."""
        rows: list[tuple[object, ...]] = []
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
            connection.commit()
        return rows

    def begin_anew(self) -> None:
        """A source without a past, and links that carry all."""
        for wire in (self.to_mysql, self.to_kafka):
            wire.heal()
            wire.reset()
        if self.mysql.child is None:
            self.mysql.start()
        if self.stack.kafka_server.child is None:
            self.stack.kafka_server.start()
        self.run(
            "SET GLOBAL read_only = OFF",
            "DROP DATABASE IF EXISTS shop",
            "RESET BINARY LOGS AND GTIDS",
        )


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """The servers, which end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with proxy(folder) as running, ProxiedStack(folder / "stack", running) as stack:
        yield Servers(
            stack=stack,
            proxy=running,
            to_mysql=running.link("mysql", HOST, stack.mysql.port),
            to_kafka=stack.wire,
        )
