"""Run a real Kafka broker that is its own controller (KRaft)."""

import struct
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack import class_archive
from devstack.ports import HOST, exchange, free_port, wait_until_ready
from devstack.processes import Child, Children

_START_SECONDS = 180
_LOGGING = Path(__file__).with_name("log4j2.properties")

_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def new_cluster() -> str:
    """Return a new cluster id, with which its storage is formatted."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class Kafka:
    """One broker: data and log below `folder`, reached at `address`.

    `options` are the broker's own properties; they replace the defaults here. A `lasting` one
    compiles its code as well as a JVM can; others start sooner.
    """

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        java: str,
        owner: Children,
        options: Mapping[str, str | int] | None = None,
        lasting: bool = False,
        port: int | None = None,
        cluster: str | None = None,
    ) -> None:
        self._cluster = cluster or new_cluster()
        self._lasting = lasting
        self.port = free_port(port)
        self.address = f"{HOST}:{self.port}"
        self.log = folder / "kafka.log"
        self._controller_port = free_port()
        self._folder = folder
        self._jars = jars
        self._java = java
        self._owner = owner
        self._options = {name: str(value) for name, value in (options or {}).items()}
        self._child: Child | None = None

    def join(self, controller: "Kafka", *, number: int, options: Mapping[str, str]) -> None:
        """Make this a broker of a cluster whose controller is the first, before it starts."""
        voters = f"1@{HOST}:{controller._controller_port}"
        own = {"node.id": str(number), "controller.quorum.voters": voters}
        if controller is not self:
            own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{self.address}"}
        self._options = own | dict(options) | self._options

    @property
    def child(self) -> Child | None:
        """The running broker, if there is one."""
        return self._child if self._child and self._child.alive() else None

    def start(self, jvm: Sequence[str] = ()) -> None:
        """Start the broker and return once it has registered itself and answers; `jvm`: more options."""
        data = self._folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        properties = self._folder / "server.properties"
        properties.write_text(self._properties(data))
        if not (data / "meta.properties").exists():
            self._format(properties)
        command = self._command(*jvm, "kafka.Kafka", str(properties), heap="512m")
        label = f"kafka {self.address}"
        self._child = self._owner.start(command, label=label, log=self.log)
        wait_until_ready(
            "kafka",
            self._child,
            self._registered,
            owner=self._owner,
            log=self.log,
            seconds=_START_SECONDS,
        )

    def stop(self) -> None:
        """End the broker in order."""
        if self._child:
            self._child.stop()

    def kill(self) -> None:
        """End the broker as a crash would."""
        if self._child:
            self._child.kill()

    def administer(self, tool: str, *arguments: str) -> None:
        """Run one of the administrator's tools in the broker's jars, by its class."""
        target = ("--bootstrap-server", self.address)
        command = self._command(tool, *target, *arguments, heap="128m")
        self._owner.run(command, log=self._folder / "tools.log", name=tool)

    def _format(self, properties: Path) -> None:
        tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster}")
        command = self._command(*tool, f"--config={properties}", heap="128m")
        self._owner.run(command, log=self._folder / "format.log", name="kafka format")

    def _command(self, *arguments: str, heap: str) -> list[str]:
        return [
            *(self._java, f"-Xmx{heap}", "-XX:+UseSerialGC"),
            *([] if self._lasting else ["-XX:TieredStopAtLevel=1"]),
            *class_archive.use(self._jars, self._java),
            f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            *("-cp", f"{self._jars}/*"),
            *arguments,
        ]

    def _properties(self, data: Path) -> str:
        controller = f"{HOST}:{self._controller_port}"
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://{controller}"
        own = {
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(data),
        }
        settings = _DEFAULTS | own | self._options
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _registered(self) -> bool:
        """Ask for metadata (version 4: all brokers, no topics) and look for a broker in it."""
        body = struct.pack(">hhihib", 3, 4, 1, -1, 0, 0)
        answer = exchange(self.port, struct.pack(">i", len(body)) + body, 16)
        if len(answer) < 16:
            return False
        _size, _correlation, _throttled, brokers = struct.unpack(">iiii", answer)
        return bool(brokers)
