"""Debezium's MySQL connector on Kafka Connect in distributed mode, configured for exactly-once delivery.

Invariant: settings are those of its documentation or its defaults, and each other one is listed in
docs/reliability.md; the connector and the worker know only the proxied servers.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.software import java_and_jars
from devstack.ports import HOST
from devstack.processes import Children

VERSION = "Debezium 3.6.1.Final on Kafka Connect 4.1.2"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A variant of delivery guarantees."""

    name: str
    title: str
    worker: Mapping[str, str]
    connector: Mapping[str, str]

    @property
    def has_transactions(self) -> bool:
        """Whether records are written in transactions."""
        return "exactly.once.source.support" in self.worker


_REQUIRED = {"exactly.once.support": "required", "transaction.boundary": "poll"}
_ENABLED = {"exactly.once.source.support": "enabled"}
_ALONE = {"scheduled.rebalance.max.delay.ms": "0"}
"""There is one worker, so there is no reason to wait for another to return."""
_SOON = {"connect.keep.alive.interval.ms": "3000"}
"""The closest to the heartbeats of one second that our worker has in these tests."""
_PATIENT = {"producer.override.transaction.timeout.ms": "15000"}
"""The timeout of our worker's transactions."""
EXACTLY_ONCE = Variant(
    name="exactly-once",
    title="exactly once, timeouts as ours",
    worker=_ENABLED | _ALONE,
    connector=_REQUIRED | _SOON | _PATIENT,
)
OWN_TIMEOUTS = Variant(
    name="own-timeouts",
    title="exactly once, its own timeouts of 60 s",
    worker=_ENABLED,
    connector=_REQUIRED,
)
AT_LEAST_ONCE = Variant(
    name="at-least-once", title="at least once, its default", worker=_ALONE, connector=_SOON
)
VARIANTS = {one.name: one for one in (EXACTLY_ONCE, OWN_TIMEOUTS, AT_LEAST_ONCE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The addresses of a worker's servers."""

    mysql: int
    kafka: int
    tls: str


def command(folder: Path, settings: Path) -> list[str]:
    """The command that starts a worker; missing jars are fetched."""
    java, jars = java_and_jars("debezium", Children())
    return [
        *(java, "-Xms128m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        f"-Djava.io.tmpdir={folder}",
        *("-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)),
    ]


def worker(variant: Variant, links: Links, *, group: str, port: int) -> dict[str, str]:
    """A worker's settings."""
    internal = {
        f"{kind}.storage.{name}": text
        for kind in ("config", "offset", "status")
        for name, text in (("topic", f"{group}-{kind}"), ("replication.factor", "1"))
    }
    return {
        "bootstrap.servers": f"{HOST}:{links.kafka}",
        "group.id": group,
        "key.converter": _JSON,
        "value.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **internal,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "plugin.discovery": "service_load",
        "listeners": f"http://{HOST}:{port}",
        **variant.worker,
    }


def connector(variant: Variant, links: Links, *, prefix: str) -> dict[str, str]:
    """The connector's settings."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": HOST,
        "database.port": str(links.mysql),
        "database.user": "aqueduct",
        "database.password": "aqueduct",
        "database.server.id": "6200",
        "database.ssl.mode": links.tls,
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": prefix,
        "database.include.list": "shop",
        "snapshot.mode": "no_data",
        "snapshot.locking.mode": "none",
        "schema.history.internal.kafka.bootstrap.servers": f"{HOST}:{links.kafka}",
        "schema.history.internal.kafka.topic": f"{prefix}-history",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        **variant.connector,
    }


def properties(settings: Mapping[str, str]) -> str:
    """The properties in Java's format."""
    return "".join(f"{name}={text}\n" for name, text in settings.items())


def ask(port: int, path: str, *, method: str = "GET", body: object = None) -> Any:
    """The answer of Connect's REST API; None while it does not answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{HOST}:{port}/{path}",
        data=data,
        method=method,
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            text = answer.read()
            return json.loads(text) if text else {}
    except (OSError, urllib.error.URLError, ValueError):
        return None


def state(described: dict[str, Any] | None) -> str:
    """The state of a connector and its task; empty without an answer."""
    if not described:
        return ""
    tasks = [str(task["state"]) for task in described.get("tasks", ())]
    states = [str(described["connector"]["state"]), *tasks]
    return "FAILED" if "FAILED" in states else tasks[0] if tasks else "STARTING"


def trouble(described: dict[str, Any] | None) -> str:
    """The reason of a failure: the first and last cause of the trace by class, and the last message."""
    parts = [] if not described else [described["connector"], *described.get("tasks", ())]
    trace = next((str(part["trace"]) for part in parts if part.get("trace")), "")
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    last = (causes[-1].removeprefix("Caused by: ") if causes else trace.partition("\n")[0]).strip()
    kind, _, words = last.partition(": ")
    return f"{kind.rpartition('.')[2]}: {words}" if words else kind.rpartition(".")[2]
