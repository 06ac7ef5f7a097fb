"""``python -m bench.sink_run``: costs of a real sink by age, with a real Kafka, up to 20,000 batches.

One table with inserts, updates and deletes; each batch has three records. At each mark the sink is
measured, stopped and started again. Its state is kept in `FOLDER`: the next run continues from
there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import session
from bench.errors import BenchError, RunFailed
from connectors.kafka.reading import end_of
from devstack import Stack
from devstack.processes import Child

FOLDER: Final = Path(os.environ.get("FOLDER") or session.FOLDER / "sink_age").resolve()
BATCHES: Final = int(os.environ.get("BATCHES") or 20_000)
MARKS: Final = tuple(sorted({max(2, BATCHES // part) for part in (40, 10, 4, 2, 1)}))
RECORDS: Final = 3
"""The number of records per batch."""
_LIVE: Final = 100
"""The number of batches after which a row is deleted."""
_LAST: Final = 200
_PREFIX: Final = "age"
TOPIC: Final = f"{_PREFIX}.shop.t"
_SCHEMAS: Final = f"{_PREFIX}.__schemas"
SCHEMA: Final = {
    "destination": "shop",
    "database": "shop",
    "table": "t",
    "version": 1,
    "columns": [
        {"name": "id", "type": "int", "nullable": False},
        {"name": "v", "type": "varchar(50)", "nullable": True},
    ],
    "primary_key": ["id"],
    "wire": 1,
}
_APPLIED: Final = re.compile(r"INFO batch applied batch=(\d+)")
_STARTED: Final = "INFO sink started"
_TAIL: Final = 64_000
"""Bytes at the end of the log that contain the newest batch, with a start's lines after it."""
_START_SECONDS: Final = 300.0
_FLAT: Final = ("p50_seconds", "p95_seconds", "start_seconds", "rss_bytes", "live_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The contents of a folder."""

    files: int
    bytes: int

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Count the files; they may be deleted meanwhile."""
        files = total = 0
        for one in path.rglob("*"):
            with suppress(FileNotFoundError):
                if one.is_file():
                    files, total = files + 1, total + one.stat().st_size
        return cls(files=files, bytes=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The measurements of the sink at one age."""

    batches: int
    p50_seconds: float
    """Seconds from the end of a batch to the end of the next, of the last 200."""
    p95_seconds: float
    start_seconds: float
    """Seconds from the start of a new process to the end of its first batch."""
    rss_bytes: int
    """The memory of the driver's JVM at the end of its batches."""
    live_bytes: int
    """Its heap after a garbage collection."""
    python_bytes: int
    table: Folder
    table_log: Folder
    ledger: Folder
    checkpoint: Folder
    warehouse: Folder
    scratch: Folder


def changes(batch: int) -> Iterator[dict[str, Any]]:
    """A batch's records: an insert, an update of an older row, and a delete of an even older one."""
    made = {"id": batch, "v": f"made in {batch}"}
    yield {"op": "c", "after": made}
    middle = batch - _LIVE // 2 if batch >= _LIVE // 2 else batch
    yield {
        "op": "u",
        "before": {"id": middle, "v": f"made in {middle}"},
        "after": {"id": middle, "v": f"changed in {batch}"},
    }
    if batch >= _LIVE:
        yield {"op": "d", "before": {"id": batch - _LIVE, "v": "whatever"}}
    else:
        yield {"op": "u", "before": made, "after": {**made, "v": "changed at once"}}


def values(batch: int, *, now_ms: int) -> Iterator[bytes]:
    """The records in the format of docs/wire.md, committed two hours ago."""
    for nth, change in enumerate(changes(batch)):
        source = {"name": "shop", "db": "shop", "table": "t", "ts_ms": now_ms - 7_200_000}
        source |= {"seq": batch * RECORDS + nth + 1, "epoch": 1, "schema": 1, "wire": 1}
        body = {"before": None, "after": None, "source": source, "ts_ms": now_ms, **change}
        yield json.dumps(body, separators=(",", ":")).encode()


def expected(batches: int) -> dict[int, str]:
    """The expected table after some batches."""
    rows: dict[int, str] = {}
    for batch in range(max(0, batches - 2 * _LIVE), batches):
        for change in changes(batch):
            image = change.get("after") or change["before"]
            if change["op"] == "d":
                rows.pop(image["id"], None)
            else:
                rows[image["id"]] = image["v"]
    return rows


async def write(kafka: str, until: int) -> int:
    """Create missing topics, and fill them up to the end of a batch.

    Return the number of batches in them, which may be greater after an interrupted run.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        missing = {TOPIC, _SCHEMAS} - set(await admin.list_topics())
        await admin.create_topics([NewTopic(name, 1, 1) for name in sorted(missing)])
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka, enable_idempotence=True, linger_ms=20)
    await producer.start()
    try:
        if _SCHEMAS in missing:
            await producer.send_and_wait(_SCHEMAS, json.dumps(SCHEMA).encode(), key=b"t")
        end = await end_of({"bootstrap_servers": kafka}, TOPIC, 0)
        # An incomplete batch is completed.
        until = max(until, -(-end // RECORDS))
        await _fill(producer, end, until)
    finally:
        await producer.stop()
    return until


async def _fill(producer: AIOKafkaProducer, end: int, until: int) -> None:
    now_ms = int(time.time() * 1000)
    for batch in range(end // RECORDS, until):
        first = batch * RECORDS
        for nth, value in enumerate(values(batch, now_ms=now_ms)):
            if first + nth >= end:
                await producer.send(TOPIC, value, partition=0)
    await producer.flush()


@dataclass(slots=True)
class Sink:
    """The sink's process, and its log since this start."""

    child: Child
    log: Path
    started_at: float
    _read_from: int

    @classmethod
    def start(cls, stack: Stack, config: Path) -> Sink:
        """Start the sink."""
        log = FOLDER / "sink.log"
        size = log.stat().st_size if log.exists() else 0
        command = [sys.executable, "-m", "spark_sink", "--config", str(config)]
        started_at = time.monotonic()
        scratch = {**os.environ, "SPARK_LOCAL_DIRS": str(FOLDER / "scratch")}
        child = stack.children.start(command, label="the sink", log=log, env=scratch)
        return cls(child, log, started_at, size)

    def text(self) -> str:
        """The log since this start."""
        with self.log.open("rb") as file:
            file.seek(self._read_from)
            return file.read().decode(errors="replace")

    def newest(self) -> int:
        """The total number of applied batches, according to the log; 0 before the first."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            found = _APPLIED.findall(file.read().decode(errors="replace"))
        return int(found[-1]) + 1 if found else 0

    def until(self, batches: int, *, seconds: float, every: float) -> None:
        """Wait until so many batches are applied; `seconds` is the maximum wait for one more."""
        seen, since = 0, time.monotonic()
        while (now := self.newest()) < batches:
            if now != seen:
                seen, since = now, time.monotonic()
            if not self.child.alive() or time.monotonic() - since > seconds:
                raise RunFailed(f"the sink stopped at {now} of {batches} batches; see {self.log}")
            time.sleep(every)

    def first(self) -> float:
        """Wait for the first batch; return the seconds since the start."""
        while not _APPLIED.search(self.text()):
            if not self.child.alive() or time.monotonic() - self.started_at > _START_SECONDS:
                raise RunFailed(f"the sink applied nothing; see {self.log}")
            time.sleep(0.05)
        return time.monotonic() - self.started_at

    def java(self) -> int:
        """The JVM's process id."""
        children = Path(f"/proc/{self.child.popen.pid}/task").glob("*/children")
        (pid,) = [int(pid) for one in children for pid in one.read_text().split()]
        return pid

    def stop(self) -> None:
        """Stop the sink, as an operator does."""
        self.child.popen.send_signal(signal.SIGTERM)
        self.child.popen.wait(60)


def _rss(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _live(pid: int) -> int:
    """The heap's bytes after a garbage collection; 0 without the JDK's jcmd."""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["jcmd", str(pid), "GC.class_histogram"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return int(shown.stdout.strip().splitlines()[-1].split()[2])
    return 0


def _seconds_of_batches(log: str) -> list[float]:
    """Seconds of the last batches: from one's end to the next one's, in the same process."""
    found: list[float] = []
    for process in log.split(_STARTED):
        stamps = re.findall(r"^(\S+ \S+) INFO batch applied", process, re.MULTILINE)
        ends = [
            time.mktime(time.strptime(one[:19], "%Y-%m-%d %H:%M:%S")) + int(one[20:23]) / 1000
            for one in stamps
        ]
        found += [b - a for a, b in itertools.pairwise(ends)]
    return sorted(found[-_LAST:])


def _look(sink: Sink, batches: int) -> Look:
    # Of earlier processes too: an interrupted one may have applied nearly all of them.
    seconds = _seconds_of_batches(sink.log.read_text(errors="replace"))
    java = sink.java()
    home, table = FOLDER / "warehouse", FOLDER / "warehouse/shop/t"
    return Look(
        batches=batches,
        p50_seconds=round(statistics.median(seconds), 3),
        p95_seconds=round(seconds[int(len(seconds) * 0.95)], 3),
        start_seconds=0.0,
        rss_bytes=_rss(java),
        live_bytes=_live(java),
        python_bytes=_rss(sink.child.popen.pid),
        table=Folder.at(table),
        table_log=Folder.at(table / "_delta_log"),
        ledger=Folder.at(home / "__log"),
        checkpoint=Folder.at(FOLDER / "checkpoint"),
        warehouse=Folder.at(home),
        scratch=Folder.at(FOLDER / "scratch"),
    )


def settings_file(kafka: str) -> Path:
    """The sink's settings, written for a broker: `RETENTION_MINUTES=5`, `EVERY=200`."""
    path = FOLDER / "sink.yaml"
    minutes = float(os.environ.get("RETENTION_MINUTES") or 5)
    every = int(os.environ.get("EVERY") or 200)
    options = json.loads(os.environ.get("SPARK_OPTIONS") or "{}")
    settings = {
        "prefix": _PREFIX,
        "bootstrap_servers": kafka,
        "warehouse": str(FOLDER / "warehouse"),
        "checkpoint": str(FOLDER / "checkpoint"),
        "trigger_interval": 0,
        "max_offsets_per_trigger": RECORDS,
        "metrics": {"port": 0},
        "maintenance": {
            "every": every,
            "retention_hours": minutes / 60,
            "purge_deleted_hours": 1,
        },
        "spark_options": options,
    }
    path.write_text(json.dumps(settings))
    return path


@contextmanager
def _started(stack: Stack, config: Path) -> Iterator[Sink]:
    sink = Sink.start(stack, config)
    try:
        yield sink
    finally:
        if sink.child.alive():
            sink.stop()


def _held(config: Path) -> dict[int, str]:
    """The rows as seen by a reader."""
    command = [sys.executable, "-m", "spark_sink", "--config", str(config)]
    command += ["show", "shop.t", "--limit", "1000"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return {int(k): v for k, v in re.findall(r"\|(\d+)\s*\|([\w ]+?)\s*\|", shown.stdout)}


def _reach(stack: Stack, config: Path, mark: int) -> Look:
    """Apply batches up to the mark, then start the sink again."""
    there = asyncio.run(write(stack.kafka, mark))
    with _started(stack, config) as sink:
        sink.until(there, seconds=_START_SECONDS, every=0.5)
        look = _look(sink, mark)
    if _held(config) != expected(there):
        raise RunFailed(f"after {there} batches the table holds other rows than were written")
    asyncio.run(write(stack.kafka, there + 1))
    with _started(stack, config) as sink:
        return replace(look, start_seconds=round(sink.first(), 2))


def flat(early: dict[str, Any], late: dict[str, Any]) -> list[str]:
    """The measurements that grew by more than half."""
    folders = ("table", "table_log", "ledger", "checkpoint", "warehouse")
    pairs = {(name, ""): (early[name], late[name]) for name in _FLAT}
    pairs |= {(f, k): (early[f][k], late[f][k]) for f in folders for k in ("files", "bytes")}
    # Its number of files is that of the blocks since the last collection of garbage.
    pairs["scratch", "bytes"] = early["scratch"]["bytes"], late["scratch"]["bytes"]
    return [" ".join(name).strip() for name, (then, now) in pairs.items() if now > 1.5 * then]


def story() -> None:
    """Continue from the stored state."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = FOLDER / "looks.json"
    looks = json.loads(results.read_text()) if results.exists() else []
    reached = looks[-1]["batches"] if looks else 0
    marks = [mark for mark in MARKS if mark > reached]
    if marks:
        with Stack(FOLDER, ("kafka",), lasting=True) as stack:
            config = settings_file(stack.kafka)
            for mark in marks:
                looks.append(asdict(_reach(stack, config, mark)))
                print(json.dumps(looks[-1]), flush=True)
                results.write_text(json.dumps(looks, indent=1))
    grown = flat(looks[min(1, len(looks) - 1)], looks[-1])
    if grown:
        raise BenchError(f"grew by more than half since {looks[1]['batches']}: {', '.join(grown)}")


if __name__ == "__main__":
    sys.exit(session.run("bench-sink-age", story))
