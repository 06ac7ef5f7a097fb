"""One start of a worker's schema history, in a separate process, to measure its memory.

Invariant: it performs the takeover steps of a run, with the worker's own modules loaded, and prints
one line of JSON: seconds, CPU seconds (which a busy machine affects less), memory, and its
findings.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.worker import assembly as worker
from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.recovery import recover
from connectors.mysql.ddl.definition import Session
from tables.state.journal.checkpoint import MemoryCheckpoint, Row
from tables.state.journal.state import JournalPartition
from tests.unit.tables.made import at

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The parameters of a start, passed as JSON."""

    broker: str
    topic: str
    rows: str = ""
    """A file with the checkpoint's rows; without it the journal is read from its beginning."""
    whole: bool = False
    """Whether the history begins with its oldest checkpoint."""


def rss_mib() -> int:
    """The peak memory of this process in MiB."""
    found = _PEAK.search(Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


async def started(start: Start, rows: dict[str, Row]) -> dict[str, Any]:
    """Recover, up to readiness for the next statement."""
    assert worker, "its modules are part of a worker's memory"
    before = rss_mib()
    began, used = time.monotonic(), time.process_time()
    checkpoint = MemoryCheckpoint()
    checkpoint.rows.update(rows)
    options = {"bootstrap_servers": start.broker}
    journal = JournalPartition(destination="bench", topic=start.topic, number=0, options=options)
    verification = Verification(installation="bench")
    state = await recover(journal, checkpoint, verification, whole_history=start.whole)
    history = state.history()
    assert history is not None
    del state
    database = Session(database="bench")
    next_one = history.apply(at(4, file=999_999), "bench", "CREATE TABLE last (id INT)", database)
    assert next_one is not None
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(time.process_time() - used, 2),
        "rss_mib": rss_mib(),
        "rss_before_mib": before,
        "tables": len(history.now().tables()) - 1,
        "records": len(history.records) - 1,
        "count": history.count - 1,
    }


def main(how: str) -> None:
    """Perform the start, and print its result."""
    start = Start(**json.loads(how))
    rows = json.loads(Path(start.rows).read_text()) if start.rows else {}
    print(json.dumps(asyncio.run(started(start, rows))))


if __name__ == "__main__":
    main(sys.argv[1])
