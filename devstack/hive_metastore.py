"""Run a real Hive metastore, from the jars of PySpark, with a Derby database of its own."""

import os
from pathlib import Path
from typing import Self

from devstack.ports import HOST, exchange, free_port, wait_until_ready
from devstack.processes import Child, Children
from devstack.spark_cluster import spark_home

_START_SECONDS = 180
_OPENED = (
    *("java.base/java.lang", "java.base/java.lang.reflect", "java.base/java.net"),
    *("java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
    "java.base/sun.nio.ch",
)
"""What Hive looks into, and Java no longer allows by itself."""
_GET_NAMES = b"\x80\x01\x00\x01\x00\x00\x00\x11get_all_databases\x00\x00\x00\x01\x00"
"""Thrift's binary protocol: a call of get_all_databases."""


class HiveMetastore:
    """A metastore on loopback, below `folder`; running within a `with` block."""

    def __init__(
        self, folder: Path, *, java: str, owner: Children, port: int | None = None
    ) -> None:
        self.port = free_port(port)
        self.uri = f"thrift://{HOST}:{self.port}"
        self.log = folder / "metastore.log"
        self._folder = folder
        self._java = java
        self._owner = owner
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return once it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={self._folder}/derby;create=true"
            ),
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "NONE",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"{self._folder}/managed",
            "hive.metastore.thrift.bind.host": HOST,
        }
        command = [
            *(self._java, "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dderby.stream.error.file={self._folder}/derby.log",
            # It is read before the options of the program, and needs a jar that PySpark has not.
            "-Dhive.async.log.enabled=false",
            *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED),
            *("-cp", f"{spark_home()}/jars/*", "org.apache.hadoop.hive.metastore.HiveMetaStore"),
            *("-p", str(self.port)),
            *(
                part
                for name, value in settings.items()
                for part in ("--hiveconf", f"{name}={value}")
            ),
        ]
        label = f"hive-metastore {HOST}:{self.port}"
        environment = {**os.environ, "HADOOP_USER_NAME": "hive"}
        self._child = self._owner.start(command, label=label, log=self.log, env=environment)
        wait_until_ready(
            "hive metastore",
            self._child,
            self._answers,
            owner=self._owner,
            log=self.log,
            seconds=_START_SECONDS,
        )

    def stop(self) -> None:
        """End it in order."""
        if self._child:
            self._child.stop()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._child:
            self._child.kill()

    def _answers(self) -> bool:
        return len(exchange(self.port, _GET_NAMES, 4)) == 4
