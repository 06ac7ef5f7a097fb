"""The real servers that crash tests use, each reached through a link of the proxy.

Invariant: the worker knows only the links; the load and the checks connect directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql
from pymysql.connections import Connection

from devstack import Stack
from devstack.kafka import Kafka
from devstack.mysql import Mysql
from devstack.ports import HOST, free_port
from tests.crash.links import Proxy, Wire, proxy
from tests.crash.sinks import Sinking

_PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "FIRST": "PLAINTEXT",
    "SECOND": "PLAINTEXT",
    "SIGNED": "SASL_PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
_ACCOUNTS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.signed.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Who need not sign in may do all, and an account what it is granted.
    "super.users": "User:ANONYMOUS",
}


class ProxiedStack(Stack):
    """A stack whose broker has a listener for each of two workers, and one for accounts, which it advertises at
    the proxy's ports."""

    def __init__(self, folder: Path, running: Proxy) -> None:
        super().__init__(folder, ("mysql", "kafka"), mysql_options={"max_connections": "60"})
        self._inner = {name: free_port() for name in ("FIRST", "SECOND", "SIGNED")}
        first, second, self.signed = (
            running.link(f"kafka {port}", HOST, port, kafka=True) for port in self._inner.values()
        )
        self.wires = (first, second)

    def with_zookeeper(self) -> None:
        """Start a ZooKeeper, unless one is running."""
        if "zookeeper" not in self.servers:
            self.services += ("zookeeper",)
            self._start_zookeeper()

    def _start_kafka(self) -> None:
        program, libraries = self._java("kafka")
        server = Kafka(self.run_dir / "kafka", libraries, java=program, owner=self.children)
        direct, controller = server.address, f"{HOST}:{server._controller_port}"
        inner = {name: f"{HOST}:{port}" for name, port in self._inner.items()}
        outer = zip(self._inner, (*self.wires, self.signed), strict=True)
        advertised = {name: f"{HOST}:{wire.port}" for name, wire in outer}
        server._options = _ACCOUNTS | {
            "listener.security.protocol.map": _listed(_PROTOCOLS, ":"),
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": _listed({"PLAINTEXT": direct, **inner, "CONTROLLER": controller}, "://"),
            "advertised.listeners": _listed({"PLAINTEXT": direct, **advertised}, "://"),
        }
        self._start("kafka", server)


def _listed(pairs: Mapping[str, str], between: str) -> str:
    return ",".join(f"{name}{between}{value}" for name, value in pairs.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """One worker's own links."""

    mysql: Wire
    kafka: Wire
    zookeeper: Wire | None = None

    @property
    def all(self) -> tuple[Wire, ...]:
        """The existing links."""
        return tuple(wire for wire in (self.mysql, self.kafka, self.zookeeper) if wire is not None)


@dataclass(slots=True, kw_only=True)
class Servers:
    """A source and a broker, and the links to them."""

    stack: ProxiedStack
    proxy: Proxy
    ways: tuple[Ways, ...]
    """Of the first worker and of the second; more workers share the first's."""
    sinking: Sinking | None
    """The sink that applies Kafka's records to warehouses, without the proxy; None to judge the topics only."""

    @property
    def to_mysql(self) -> Wire:
        """The first worker's link to the source."""
        return self.ways[0].mysql

    @property
    def to_kafka(self) -> Wire:
        """The first worker's link to the broker."""
        return self.ways[0].kafka

    @property
    def mysql(self) -> Mysql:
        """The source, as those reach it who must not be disturbed."""
        return self.stack.mysql

    @property
    def kafka(self) -> str:
        """The broker's address, for the same."""
        return self.stack.kafka

    def with_zookeeper(self) -> None:
        """Have a ZooKeeper, with a link for each worker."""
        self.stack.with_zookeeper()
        if self.ways[0].zookeeper is None:
            port = self.stack.zookeeper_server.port
            self.ways = tuple(
                replace(ways, zookeeper=self.proxy.link(f"zookeeper {number}", HOST, port))
                for number, ways in enumerate(self.ways)
            )

    @property
    def _wires(self) -> list[Wire]:
        return [*(wire for ways in self.ways for wire in ways.all), self.stack.signed]

    def restore(self) -> None:
        """Let all links carry all."""
        for wire in self._wires:
            wire.restore()

    def connect(
        self, database: str | None = None, *, seconds: float = 20, to: Mysql | None = None
    ) -> Connection:
        """An administrator's connection, round the proxy."""
        server = to or self.mysql
        return pymysql.connect(
            host=server.host,
            port=server.port,
            user="root",
            database=database,
            charset="utf8mb4",
            connect_timeout=seconds,
            read_timeout=seconds,
            ssl_disabled=True,
        )

    def run(self, *statements: str, to: Mysql | None = None) -> list[tuple[object, ...]]:
        """Run statements; the rows of the last one."""
        rows: list[tuple[object, ...]] = []
        with self.connect(to=to) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
            connection.commit()
        return rows

    def start_again(self) -> None:
        """A source without a past, and links that carry all."""
        self.restore()
        for wire in self._wires:
            wire.reset()
        for server in self.stack.servers.values():
            if server.child is None:
                server.start()
        self.run(
            "SET GLOBAL super_read_only = OFF",
            "SET GLOBAL read_only = OFF",
            "DROP DATABASE IF EXISTS shop",
            "RESET BINARY LOGS AND GTIDS",
        )


@contextlib.contextmanager
def servers(folder: Path, *, with_sink: bool = True) -> Iterator[Servers]:
    """The servers, which end with the block; without a sink, Spark is not started."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        proxy(folder) as running,
        ProxiedStack(folder / "stack", running) as stack,
        contextlib.closing(Sinking(folder)) if with_sink else contextlib.nullcontext() as sinking,
    ):
        yield Servers(
            sinking=sinking,
            stack=stack,
            proxy=running,
            ways=tuple(
                Ways(mysql=running.link(f"mysql {number}", HOST, stack.mysql.port), kafka=wire)
                for number, wire in enumerate(stack.wires)
            ),
        )
