"""Run three real brokers, of which the first is the controller too; the others may be stopped."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from devstack.kafka import Kafka, new_cluster
from devstack.parallel import run_all
from devstack.processes import Children

_COPIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    # An unreachable broker is removed from the in-sync copies after this.
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "true",
}


class KafkaCluster:
    """Three brokers below a folder, running within a `with` block."""

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        java: str,
        owner: Children,
        options: Mapping[str, str | int] | None = None,
    ) -> None:
        self._owner, self._folder = owner, folder
        cluster = new_cluster()
        common = _COPIES | {name: str(value) for name, value in (options or {}).items()}
        self.brokers: list[Kafka] = []
        for number in (1, 2, 3):
            broker = Kafka(
                folder / f"broker-{number}", jars, java=java, owner=owner, cluster=cluster
            )
            first = self.brokers[0] if self.brokers else broker
            broker.join(first, number=number, options=common)
            self.brokers.append(broker)

    @property
    def addresses(self) -> str:
        """The addresses of all brokers, for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def __enter__(self) -> Self:
        run_all(self._owner, [broker.start for broker in self.brokers])
        return self

    def __exit__(self, *_: object) -> None:
        for broker in reversed(self.brokers):
            broker.stop()

    def lose_disk(self, number: int) -> None:
        """Delete all data of a stopped broker."""
        assert self.brokers[number - 1].child is None
        shutil.rmtree(self._folder / f"broker-{number}" / "data")
