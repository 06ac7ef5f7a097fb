"""MySQL, Kafka and ZooKeeper, started together and ended together.

Each server has its own thread for download, preparation and start; the first fault calls off all of
them and is the one reported.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from devstack import jars, java, mysql_software
from devstack.errors import DevstackError
from devstack.kafka import Kafka
from devstack.mysql import Mysql
from devstack.parallel import run_all
from devstack.paths import CACHE, RUNS
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.zookeeper import ZooKeeper

SERVICES = ("mysql", "kafka", "zookeeper")
Options = Mapping[str, str | int]


class Stack:
    """The development servers: running from `start()` to `stop()`, or within a `with` block.

    They end with this process, even by kill -9, unless `record` is a file for their pids. `lasting`
    ones take longer to start and are faster then, as benchmarks need. `ports` are used if they are
    free.
    """

    def __init__(
        self,
        run_dir: Path | str = RUNS / "default",
        services: Sequence[str] = SERVICES,
        *,
        mysql_options: Options | None = None,
        kafka_options: Options | None = None,
        lasting: bool = False,
        cache: Path = CACHE,
        record: Path | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        if unknown := set(services) - set(SERVICES):
            raise DevstackError(f"no such server: {', '.join(sorted(unknown))}.")
        self.run_dir = Path(run_dir).resolve()
        self.services = tuple(services)
        self.children = Children(record=record)
        self._options = {"mysql": mysql_options, "kafka": kafka_options}
        self._lasting = lasting
        self._ports = ports or {}
        self._cache = cache
        self._java_lock = threading.Lock()
        self.servers: dict[str, Mysql | Kafka | ZooKeeper] = {}

    @property
    def mysql(self) -> Mysql:
        """The MySQL server, with `host` and `port`."""
        server = self.servers["mysql"]
        assert isinstance(server, Mysql)
        return server

    @property
    def kafka(self) -> str:
        """The broker's address, `host:port`."""
        return self.kafka_server.address

    @property
    def kafka_server(self) -> Kafka:
        """The broker itself, to stop, kill and start it."""
        server = self.servers["kafka"]
        assert isinstance(server, Kafka)
        return server

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's address, `host:port`."""
        return self.zookeeper_server.address

    @property
    def zookeeper_server(self) -> ZooKeeper:
        """ZooKeeper itself, to stop, kill and start it."""
        server = self.servers["zookeeper"]
        assert isinstance(server, ZooKeeper)
        return server

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all servers at the same time and return once every one is ready."""
        starts = {
            "mysql": self._start_mysql,
            "kafka": self._start_kafka,
            "zookeeper": self._start_zookeeper,
        }
        run_all(self.children, [starts[name] for name in self.services])

    def stop(self) -> None:
        """End all servers; safe to call more than once."""
        self.children.close()

    def second_mysql(self, name: str, options: Options | None = None) -> Mysql:
        """Return another MySQL server of this stack, not started; give it its own server_id.

        It is made for little data: its redo log is an eighth of the first server's, on disk from the beginning.
        """
        software = mysql_software.find_or_fetch(self.children, self._cache)
        merged = {"server_id": 2, "innodb_redo_log_capacity": "16M", **(options or {})}
        return Mysql(
            self.run_dir / name, software, owner=self.children, options=merged, cache=self._cache
        )

    def _start_mysql(self) -> None:
        software = mysql_software.find_or_fetch(self.children, self._cache)
        folder, options = self.run_dir / "mysql", self._options["mysql"]
        server = Mysql(
            folder,
            software,
            owner=self.children,
            options=options,
            port=self._ports.get("mysql"),
            cache=self._cache,
        )
        self._start("mysql", server)

    def _start_kafka(self) -> None:
        folder, options = self.run_dir / "kafka", self._options["kafka"]
        program, libraries = self._java("kafka")
        server = Kafka(
            folder,
            libraries,
            java=program,
            owner=self.children,
            options=options,
            lasting=self._lasting,
            port=self._ports.get("kafka"),
        )
        self._start("kafka", server)

    def _start_zookeeper(self) -> None:
        program, libraries = self._java("zookeeper")
        folder = self.run_dir / "zookeeper"
        server = ZooKeeper(
            folder,
            libraries,
            java=program,
            owner=self.children,
            port=self._ports.get("zookeeper"),
        )
        self._start("zookeeper", server)

    def _java(self, name: str) -> tuple[str, Path]:
        """Return Java and the folder of a server's jars; the first caller fetches for all."""
        with self._java_lock:
            program = java.find_or_install(self.children, self._cache)
            sets = [each for each in self.services if each in jars.LOCKS]
            jars.fetch(sets, program, owner=self.children, cache=self._cache)
        return program, self._cache / "jars" / name

    def _start(self, name: str, server: Mysql | Kafka | ZooKeeper) -> None:
        self.servers[name] = server
        server.start()
        report_progress(name, f"ready on port {server.port}")
