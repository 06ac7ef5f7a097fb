"""The contents of the warehouse, dumped by the sink itself in its own process.

Invariant: the sink is run before anything else is read, so that the topics and the cursor are never older than
the tables; no code of the sink is imported here. A file that is truncated, or of another installation's
warehouse, is refused, since it would hide faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from app.audit.errors import WarehouseUnreadable

FORMAT = 2


class Origin(NamedTuple):
    """The origin of a warehouse's records."""

    prefix: str
    cluster: str | None = None
    """Kafka's id of the cluster; None if it is not known."""


@asynccontextmanager
async def requested_dump(config: Path) -> AsyncIterator[Path]:
    """Yield a file with the whole contents of a sink's warehouse. Raise WarehouseUnreadable."""
    with tempfile.TemporaryDirectory(prefix="aqueduct-audit-") as folder:
        file = Path(folder) / "warehouse.jsonl"
        code, errors = await _ended("-m", "spark_sink", "--config", str(config), "dump", str(file))
        if code:
            output = errors.strip().splitlines() or [f"exit code {code}"]
            raise WarehouseUnreadable(output[-1], settings=config)
        yield file


async def _ended(*words: str) -> tuple[int, str]:
    """Run a separate Python process; return its exit code and errors. Kill the process on cancellation."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await process.wait(), errors.decode(errors="replace")


@contextmanager
def given_dump(file: Path) -> Iterator[Path]:
    """Yield a file that was made on the sink's host."""
    if not file.is_file():
        raise WarehouseUnreadable("it is not a file", file=file)
    yield file


def lines(file: Path, origin: Origin) -> Iterator[dict[str, Any]]:
    """Yield the parts of a dump: its head, a head and the rows of each table, and the end.

    Raise WarehouseUnreadable if the file is not a dump, has another version, is truncated, or is of another
    warehouse.
    """
    number = tables = rows = 0
    is_ended = False
    with file.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            part = _parsed(line)
            if number == 1:
                _check_first(part, origin, file)
            if part is None:
                raise WarehouseUnreadable("it is truncated or damaged here", file=file, line=number)
            if is_ended:
                raise WarehouseUnreadable("it continues past its end", file=file, line=number)
            tables += "columns" in part
            rows += "values" in part
            if "end" in part:
                is_ended = True
                if (part["tables"], part["rows"]) != (tables, rows):
                    counts = f"{part['tables']} and {part['rows']}"
                    what = f"it has {tables} tables and {rows} rows, expected {counts}"
                    raise WarehouseUnreadable(what, file=file, line=number)
            yield part
    if not is_ended:
        what = "it is incomplete: its last line is missing" if number else "it is empty"
        raise WarehouseUnreadable(what, file=file, line=number)


def _parsed(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(orjson.JSONDecodeError):
        part = orjson.loads(line)
        if isinstance(part, dict):
            return part
    return None


def _check_first(part: dict[str, Any] | None, origin: Origin, file: Path) -> None:
    if part is None or part.get("format") != FORMAT:
        raise WarehouseUnreadable("it is not a dump of this version", file=file, line=1)
    prefix, cluster = part["prefix"], part["cluster"]
    if prefix is None:
        what = (
            "no sink has ever written to this warehouse; check `warehouse` in the sink's settings"
        )
        raise WarehouseUnreadable(what, file=file, warehouse=part["warehouse"])
    if prefix != origin.prefix:
        what = f"it is of a warehouse with prefix {prefix!r}, the worker's is {origin.prefix!r}"
        raise WarehouseUnreadable(what, file=file, warehouse=part["warehouse"])
    if origin.cluster is not None and cluster not in (None, origin.cluster):
        what = f"it is of a warehouse with Kafka cluster {cluster!r}, the worker's is {origin.cluster!r}"
        raise WarehouseUnreadable(what, file=file, warehouse=part["warehouse"])
