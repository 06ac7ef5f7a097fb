"""Run a real REST catalog of Iceberg, the one that its project makes for tests.

Its tables' files are below `folder`, and so is the SQLite database that has their names.
"""

import json
import os
import urllib.request
from pathlib import Path

from devstack.ports import HOST, free_port, wait_until_ready
from devstack.processes import Child, Children

_START_SECONDS = 180
_READ_SECONDS = 5.0
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


class IcebergRest:
    """One catalog server: data and log below `folder`, reached at `uri`."""

    def __init__(self, folder: Path, jars: Path, *, java: str, owner: Children) -> None:
        self.port = free_port()
        self.uri = f"http://{HOST}:{self.port}"
        self.log = folder / "iceberg-rest.log"
        self._folder = folder
        self._jars = jars
        self._java = java
        self._owner = owner
        self._child: Child | None = None

    def start(self) -> None:
        """Start the server and return once it serves requests."""
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [self._java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._child = self._owner.start(
            [*command, "-cp", f"{self._jars}/*", _MAIN],
            label=f"iceberg-rest {HOST}:{self.port}",
            log=self.log,
            env=os.environ | self._environment(),
        )
        wait_until_ready(
            "iceberg-rest",
            self._child,
            self._serves,
            owner=self._owner,
            log=self.log,
            seconds=_START_SECONDS,
        )

    def stop(self) -> None:
        """End the server in order."""
        if self._child:
            self._child.stop()

    def _environment(self) -> dict[str, str]:
        # Two underscores stand for a dash, one for a dot.
        return {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": f"{self._folder}/lake",
            "CATALOG_URI": f"jdbc:sqlite:{self._folder}/catalog.db",
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        }

    def _serves(self) -> bool:
        with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=_READ_SECONDS) as answer:
            return "defaults" in json.load(answer)
