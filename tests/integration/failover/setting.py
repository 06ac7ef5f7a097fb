"""A worker with two sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.worker import Worker, settings
from tests.integration.failover.servers import Pair


def two_sources(stack: Stack, both: Pair, folder: Path, **failover: Any) -> dict[str, Any]:
    """Settings with both servers, and a heartbeat that is quick to give up."""
    found = settings(stack, both.master, folder, heartbeat_seconds=1, decoders=1)
    shop = found["destinations"]["shop"]
    first = shop.pop("source")
    shop["sources"] = [first, {**first, "port": both.standby.port}]
    shop["failover"] = {"heartbeat": {"interval_seconds": 0.2, "retries": 3}, **failover}
    return found


def reads(worker: Worker, server: Mysql) -> None:
    """Wait until it reads this one."""
    end = f":{server.port}"

    def is_so(status: dict[str, Any]) -> bool:
        read = [one["address"] for one in status["sources"] if one["is_read"]]
        return status["state"] == "RUNNING" and len(read) == 1 and str(read[0]).endswith(end)

    worker.wait(is_so)


def has_rows(worker: Worker, count: int) -> None:
    """Wait until this process has published so many rows."""
    worker.wait(lambda status: status["rows"] >= count)


def shows(worker: Worker, state: str, *texts: str) -> str:
    """Wait for a state whose reason holds all these; the reason."""
    found = worker.wait(
        lambda status: (
            status["state"] == state and all(text in (status["error"] or "") for text in texts)
        )
    )
    return str(found["error"])
