"""What the warehouse holds, as the sink itself tells it in a process of its own.

The law: the sink is asked before anything else is read, so that what the topics and the cursor say is never
older than what the tables hold; nothing of the sink's is imported here.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from app.auditing.errors import WarehouseUnreadable

FORMAT = 1


@contextmanager
def asked(config: Path) -> Iterator[Path]:
    """A file with all that the warehouse of a sink's settings holds. Raises WarehouseUnreadable."""
    with tempfile.TemporaryDirectory(prefix="aqueduct-audit-") as folder:
        file = Path(folder) / "warehouse.jsonl"
        command = [sys.executable, "-m", "spark_sink", "--config", str(config), "dump", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise WarehouseUnreadable(said[-1], settings=config)
        yield file


@contextmanager
def given(file: Path) -> Iterator[Path]:
    """A file that was made where the sink runs."""
    if not file.is_file():
        raise WarehouseUnreadable("it is not a file", file=file)
    yield file


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """The parts of such a file. Raises WarehouseUnreadable where it is no such file, or another version's."""
    with file.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            told: Any = None
            with contextlib.suppress(orjson.JSONDecodeError):
                told = orjson.loads(line)
            if not isinstance(told, dict) or (number == 1 and told.get("format") != FORMAT):
                raise WarehouseUnreadable("it is no dump of this version", file=file, line=number)
            yield told
