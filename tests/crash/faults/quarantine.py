"""Faults during the release of a quarantined table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, Scene

_ROWS, _EACH = 1200, 100


def _killed_at(name: str, what: str) -> None:
    table = f"shop.torn_{name.rpartition('.')[2]}"

    @fault(f"kill.{name}", f"kill -9 {what}")
    def act(at: Scene) -> str:
        at.servers.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT)")
        at.begin(f"{name}=kill")
        at.servers.run(f"INSERT INTO {table} VALUES (0, 0, 0)")
        at.servers.run(
            "SET SESSION sql_log_bin = 0",
            f"ALTER TABLE {table} MODIFY b BIGINT FIRST",
        )
        for n in range(1, _ROWS, _EACH):
            rows = ", ".join(f"({k}, {k}, {k})" for k in range(n, n + _EACH))
            at.servers.run(f"INSERT INTO {table} (id, a, b) VALUES {rows}")
        at.wait(lambda: bool(at.status().get("set_aside")), "is not quarantined")
        said = _resolve(at, table)
        at.wait_exit(-signal.SIGKILL)
        at.wait_running()
        at.wait(lambda: at.status().get("set_aside") == [], "does not come back")
        assert said.wait(60) in (0, 1)
        return f"back with all its rows; recovered in {at.wait_recovered():.1f} s"


def _resolve(at: Scene, table: str) -> subprocess.Popen[bytes]:
    """An operator's word on the table; it waits for the outcome, so it is not waited for here."""
    command = [
        sys.executable,
        "-m",
        "app",
        "schema",
        "resolve",
        DESTINATION,
        table,
        "--server",
    ]
    config = {"AQUEDUCT_CONFIG": str(at.folder / f"{at.worker.name}.yaml")}
    with (at.folder / "resolve.log").open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, **config}, stdout=log, stderr=log)


_killed_at(
    "release.decoded", "after a quarantined table's events are decoded, before they are published"
)
_killed_at(
    "release.published",
    "after some of a quarantined table's events are published, before the others",
)
