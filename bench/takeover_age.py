"""``python -m bench.takeover_age``: cost of a takeover with a journal that is a month old.

Invariant: the journal is on a real broker, its file as after compaction, and each takeover performs
a leader's steps with Kafka: it takes over the transactional id, recovers, and commits its claim.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.recovery import recover
from bench import session
from bench.errors import BenchError
from bench.history import SERVER, UTF8, UUID, position_of, table_of
from bench.log_file import LogFile
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord
from connectors.kafka.topics import TopicPlan, Topics
from connectors.mysql.ddl.definition import Session
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from devstack import Stack
from tables.history.codec import checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.records import installation_key
from tables.state.journal.state import JournalPartition

FOLDER = session.FOLDER / "takeover_age"
DESTINATIONS, COMMITS, TABLES = 20, 5, 100
"""Number of destinations; of each, commits per second and tables."""
DAYS = (1, 30)
_DAY = 86_400
_DIRTY_BYTES = 2 * 16 * 1024 * 1024
"""Bytes not yet compacted: the newest file, and one that waits."""
_FOLD_LAG = 3 * DESTINATIONS * COMMITS
"""Commits of the last three seconds, which may be missing in Faust's tables."""
_LIMIT_SECONDS = 10.0
INSTALLATION = "aged"


@dataclass(slots=True)
class Aged:
    """One destination of the journal."""

    name: str
    producer: int
    history: SchemaHistory = field(default_factory=SchemaHistory)
    seq: int = 0

    def first_records(self) -> list[Entry]:
        """The first checkpoint of its schema history, and a statement after it."""
        self.history.init(self.name)
        tables = {("bench", f"table_{number:05}"): table_of(number) for number in range(TABLES)}
        at = HistoryPosition.between(self.offset(), ts_ms=position_of(0).ts_ms)
        entries = checkpoint_records(self.history.baseline(tables, {"bench": UTF8}, at, SERVER))
        made = self.history.apply(
            position_of(1), "bench", "CREATE TABLE last (id INT)", Session(database="bench")
        )
        assert made is not None
        return entries + history_records(made)

    def offset(self) -> SourceOffset:
        """The offset of the next commit."""
        return SourceOffset(
            server_uuid=UUID,
            coordinates=Coordinates("binlog.000001", 400 + self.seq),
            gtid_set=GtidSet.parse(f"{UUID}:1-{1 + self.seq}"),
        )

    def cursor(self) -> Entry:
        """The record of the next cursor."""
        self.seq += 1
        cursor = Cursor(
            destination=self.name,
            installation=INSTALLATION,
            epoch=1,
            seq=self.seq,
            versions=0,
            offset=self.offset(),
            history=self.history.count,
        )
        return journal.cursor_key(self.name), journal.encoded(cursor.to_json())


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal to write, and its rows in Faust's tables."""

    days: int
    marker_days: float
    """The retention of a commit's marker after its record, in days."""

    def write(self, path: Path) -> tuple[MemoryCheckpoint, list[Aged]]:
        """Write a partition's only file."""
        rows, found = (
            MemoryCheckpoint(),
            [Aged(f"d{one}", 100 + one) for one in range(DESTINATIONS)],
        )
        with path.open("wb", buffering=1 << 20) as file:
            log = LogFile(file)
            log.put(99, installation_key(INSTALLATION), journal.encoded({"worker": "bench"}))
            log.commit(99)
            for one in found:
                for key, value in one.first_records():
                    rows.fold(StoredRecord(key, value, log.put(one.producer, key, value)))
                log.commit(one.producer)
            commits = self.days * _DAY * COMMITS * DESTINATIONS
            markers = int(min(self.days, self.marker_days) * _DAY * COMMITS * DESTINATIONS)
            log.offset += 2 * (commits - markers)
            for number in range(markers):
                log.offset += 1
                log.commit(found[number % DESTINATIONS].producer)
            for one in found:
                one.seq = commits // DESTINATIONS
            last = _tail(log, found, log.size + _DIRTY_BYTES)
        for record in last[:-_FOLD_LAG]:
            rows.fold(record)
        return rows, found


def _tail(log: LogFile, found: list[Aged], end: int) -> list[StoredRecord]:
    """The commits that are not yet compacted."""
    records, number = [], 0
    while log.size < end:
        one = found[number % len(found)]
        key, value = one.cursor()
        records.append(StoredRecord(key, value, log.put(one.producer, key, value)))
        log.commit(one.producer)
        number += 1
    return records


async def taken_over(
    options: dict[str, str], topic: str, one: Aged, rows: MemoryCheckpoint
) -> float:
    """Seconds of a takeover, from the first request to the claim's commit."""
    began = time.monotonic()
    producer = TransactionalProducer(
        f"{INSTALLATION}.{one.name}", options=options, compression="lz4"
    )
    try:
        await producer.init_transactions()
        partition = JournalPartition(destination=one.name, topic=topic, number=0, options=options)
        state = await recover(partition, rows, Verification(installation=INSTALLATION))
        cursor = state.cursor
        history = state.history()
        if cursor is None or history is None or cursor.seq < one.seq or history.count != 1:
            raise BenchError(f"{one.name}: the journal's end was not found: {cursor}")
        claim = replace(cursor, epoch=cursor.epoch + 1)
        async with producer.transaction() as kafka:
            key, value = journal.cursor_key(one.name), journal.encoded(claim.to_json())
            await (await kafka.send(topic, key=key, value=value, partition=0))
    finally:
        await producer.discard()
    return time.monotonic() - began


def journal_plan(topic: str) -> TopicPlan:
    """A journal of one partition."""
    return TopicPlan(
        name=topic,
        partitions=1,
        replication_factor=1,
        cleanup_policy="compact",
        max_message_bytes=10 * 1024 * 1024,
    )


def measured(stack: Stack, aged: Journal, topic: str) -> Iterator[tuple[str, list[float]]]:
    """The takeovers of all destinations from Faust's rows, and of one without rows."""
    options = {"bootstrap_servers": stack.kafka}
    asyncio.run(Topics(options).ensure(journal_plan(topic)))
    server = stack.kafka_server
    server.stop()
    folder = FOLDER / "servers" / "kafka" / "data" / f"{topic}-0"
    for file in folder.iterdir():
        if file.suffix in {".log", ".index", ".timeindex", ".snapshot"}:
            file.unlink()
    (folder.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)
    path = folder / f"{0:020}.log"
    rows, found = aged.write(path)
    size = path.stat().st_size / 2**20
    server.start()
    name = f"{aged.days} day(s), markers {aged.marker_days:g} day(s), {size:.0f} MiB"
    yield f"{name}, from rows", asyncio.run(_all(options, topic, found, rows))
    yield f"{name}, no rows", asyncio.run(_all(options, topic, found[:1], MemoryCheckpoint()))


async def _all(
    options: dict[str, str], topic: str, found: list[Aged], rows: MemoryCheckpoint
) -> list[float]:
    return [await taken_over(options, topic, one, rows) for one in found]


def story() -> None:
    """Measure journals of all ages with the present settings; BEFORE=1 adds one with Kafka's defaults."""
    journals = [Journal(days, 60 / _DAY) for days in DAYS]
    if os.environ.get("BEFORE"):
        journals.append(Journal(DAYS[-1], 1.0))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    worst = 0.0
    options = {"log.cleaner.enable": "false"}
    with Stack(
        FOLDER / "servers", services=("kafka",), kafka_options=options, lasting=True
    ) as stack:
        for number, aged in enumerate(journals):
            for name, seconds in measured(stack, aged, f"aged{number}"):
                p95 = sorted(seconds)[round(0.95 * (len(seconds) - 1))]
                sys.stdout.write(
                    f"{name}: p50 {statistics.median(seconds):.2f} s, p95 {p95:.2f} s, "
                    f"max {max(seconds):.2f} s, n {len(seconds)}\n"
                )
                sys.stdout.flush()
                if aged.marker_days < 1:
                    worst = max(worst, p95)
    sys.stdout.write(f"takeover_age: p95={worst:.2f}\n")
    if worst > _LIMIT_SECONDS:
        raise BenchError(f"a takeover took {worst:.1f} s, where {_LIMIT_SECONDS:.0f} s are allowed")


def main() -> int:
    """Measure, and print."""
    return session.run("bench.takeover_age", story)


if __name__ == "__main__":
    raise SystemExit(main())
