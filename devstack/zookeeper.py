"""Run a real standalone ZooKeeper."""

from collections.abc import Sequence
from pathlib import Path

from devstack import class_archive
from devstack.ports import HOST, exchange, free_port, wait_until_ready
from devstack.processes import Child, Children

_START_SECONDS = 180
_LOGGING = Path(__file__).with_name("log4j2.properties")


class ZooKeeper:
    """One ZooKeeper server: data and log below `folder`, reached at `address`."""

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        java: str,
        owner: Children,
        port: int | None = None,
    ) -> None:
        self.port = free_port(port)
        self.address = f"{HOST}:{self.port}"
        self.log = folder / "zookeeper.log"
        self._folder = folder
        self._jars = jars
        self._java = java
        self._owner = owner
        self._child: Child | None = None

    @property
    def child(self) -> Child | None:
        """The running server, if there is one."""
        return self._child if self._child and self._child.alive() else None

    def start(self, jvm: Sequence[str] = ()) -> None:
        """Start the server and return once it serves requests; `jvm`: more options."""
        (self._folder / "data").mkdir(parents=True, exist_ok=True)
        settings = self._folder / "zoo.cfg"
        settings.write_text(self._settings())
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [
            *(self._java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *class_archive.use(self._jars, self._java),
            f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            *("-cp", f"{self._jars}/*", *jvm, main, str(settings)),
        ]
        label = f"zookeeper {self.address}"
        self._child = self._owner.start(command, label=label, log=self.log)
        wait_until_ready(
            "zookeeper",
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

    def kill(self) -> None:
        """End the server as a crash would."""
        if self._child:
            self._child.kill()

    def _settings(self) -> str:
        # A short tick lets tests have sessions of one second (the least is two ticks).
        return f"""\
tickTime=500
dataDir={self._folder / "data"}
clientPort={self.port}
clientPortAddress={HOST}
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok,mntr,cons,dump
maxClientCnxns=200
minSessionTimeout=1000
maxSessionTimeout=60000
"""

    def _serves(self) -> bool:
        return b"Zookeeper version" in exchange(self.port, b"srvr", 17)
