"""What tests of bulk loads share: the settings, the plan, and a load that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.integration.spark_sink.test_sink import Installation


def load_settings(mysql: Mysql, **more: Any) -> dict[str, Any]:
    return {
        "server": f"{mysql.host}:{mysql.port}",
        "user": "aqueduct",
        "password": "aqueduct",
        "rows_per_range": 1500,
        "connections": 2,
        **more,
    }


def planned(
    folder: Path, *tables: str, destination: str = "shop", config: str = "aqueduct.yaml"
) -> Path:
    """The plan of a destination's tables, in a file."""
    made = run_command(folder / config, "snapshot", "plan", destination, *tables)
    assert made.returncode == 0, made.stderr
    file = folder / f"{destination}.json"
    file.write_text(made.stdout)
    return file


def kill_load_after(at: Installation, *arguments: str, ranges: int) -> None:
    """Begins a load and kills it, its JVM too, once it has read so many ranges."""
    command = at.command("load", *arguments)
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if re.search(rf"ranges read .* ranges={ranges}/", line):
                os.killpg(killed.pid, signal.SIGKILL)
                break
    assert killed.returncode == -signal.SIGKILL
