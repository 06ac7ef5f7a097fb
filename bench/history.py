"""`python -m bench.history`: time and memory of a start with many tables and a long history.

Invariant: the journal is on a real broker, written as a worker writes it; each start is a separate
process. The last line is of the start that reads the whole journal, with no checkpoint but the
baseline.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import session
from bench.history_start import Start
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import read_each
from connectors.kafka.topics import TopicPlan, Topics
from connectors.mysql.ddl.definition import (
    Column,
    Database,
    Index,
    Server,
    Session,
    Table,
    TableChange,
    TableName,
)
from connectors.mysql.position import Coordinates, SourceOffset
from devstack import Stack
from tables.history.codec import checkpoint_records, history_records
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointHead, SchemaCheckpoint, SchemaRecord
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint

TABLES = 10_000
DDLS = 100_000
COLUMNS = 20
AT_ONCE = 200
"""Statements in one Kafka transaction."""
FOLDER = session.FOLDER / "history"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SERVER = Server(version=(9, 7, 4))
UTF8 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
STATEMENT_BYTES = 220
FILE_BYTES = 1 << 30
_TYPES = ("bigint unsigned", "int", "decimal(12,2)", "datetime(6)", "tinyint(1)", "json")


def position_of(number: int) -> HistoryPosition:
    """The position of a statement; other events lie between two statements."""
    pos = 400 + (number * 40_000) % FILE_BYTES
    file = f"binlog.{1 + number * 40_000 // FILE_BYTES:06}"
    return HistoryPosition(
        server_uuid=UUID,
        start=Coordinates(file, pos),
        end=Coordinates(file, pos + STATEMENT_BYTES),
        gtid=f"{UUID}:{1000 + number}",
        ts_ms=1_790_000_000_000 + number * 10_000,
        server_id=1,
        thread=17,
    )


def column_of(table: int, number: int) -> Column:
    """A typical column: text, number or time, mostly with more attributes than its type."""
    name = f"t{table}_column_{number}"
    if number == 0:
        return Column(name=name, type="bigint", nullable=False, definition="AUTO_INCREMENT")
    if number % 3 == 0:
        return Column(
            name=name,
            type=f"varchar({20 + number})",
            nullable=True,
            charset=UTF8.charset,
            collation=UTF8.collation,
            definition="DEFAULT NULL",
        )
    kind = _TYPES[number % len(_TYPES)]
    return Column(name=name, type=kind, nullable=True, definition="DEFAULT NULL")


def table_of(number: int) -> Table:
    """A table of the baseline."""
    columns = tuple(column_of(number, one) for one in range(COLUMNS))
    return Table(
        columns=columns,
        indexes=(
            Index(name="PRIMARY", columns=(columns[0].name,), unique=True),
            Index(name="k", columns=(columns[3].name, columns[4].name)),
        ),
        charset=UTF8.charset,
        collation=UTF8.collation,
        options="ENGINE=InnoDB",
    )


class History:
    """The schema history of such a source; columns are added and dropped, so widths stay constant."""

    def __init__(self, tables: int) -> None:
        self.tables: dict[TableName, Table] = {
            ("bench", f"table_{number:05}"): table_of(number) for number in range(tables)
        }
        self._names = list(self.tables)
        self.count = 0

    def checkpoint(self, number: int) -> SchemaCheckpoint:
        """A checkpoint of all present tables."""
        position = position_of(self.count)
        head = CheckpointHead(
            destination="bench",
            number=number,
            position=HistoryPosition.between(offset_of(self.count), ts_ms=position.ts_ms),
            made_ms=position.ts_ms,
            count=self.count,
            server=SERVER,
            begins=number == 1,
        )
        return SchemaCheckpoint(head=head, tables=self.tables, databases={"bench": UTF8})

    def statement(self) -> SchemaRecord:
        """The next statement: adds a column, or drops the one added last."""
        self.count += 1
        name = self._names[(self.count * 7919) % len(self._names)]
        old = self.tables[name]
        if len(old.columns) > COLUMNS:
            action = f"DROP COLUMN `{old.columns[-1].name}`"
            columns = old.columns[:-1]
        else:
            added = Column(
                name=f"added_by_{self.count}", type="int", nullable=True, definition="DEFAULT '0'"
            )
            action = f"ADD COLUMN `{added.name}` int DEFAULT '0' COMMENT 'added by a migration'"
            columns = (*old.columns, added)
        new = self.tables[name] = Table(
            columns=columns,
            indexes=old.indexes,
            charset=old.charset,
            collation=old.collation,
            options=old.options,
        )
        return SchemaRecord(
            destination="bench",
            number=self.count,
            position=position_of(self.count),
            statement=f"ALTER TABLE `{name[1]}` {action}",
            type="ALTER TABLE",
            session=Session(database="bench", sql_mode=frozenset({"STRICT_TRANS_TABLES"})),
            changes=(TableChange(name=name, old=old, new=new),),
        )


def offset_of(number: int) -> SourceOffset:
    """The offset after a statement."""
    return SourceOffset(server_uuid=UUID, coordinates=position_of(number).end)


def transactions(tables: int, ddls: int, *, every: int | None) -> Iterator[list[Entry]]:
    """The worker's journal transactions, with a checkpoint every ``every`` statements."""
    history = History(tables)
    checkpoints = 1
    entries = checkpoint_records(history.checkpoint(checkpoints))
    while history.count < ddls:
        for _ in range(min(AT_ONCE, ddls - history.count)):
            entries += history_records(history.statement())
        if every is not None and history.count // every >= checkpoints:
            checkpoints += 1
            entries += checkpoint_records(history.checkpoint(checkpoints))
        cursor = Cursor(
            destination="bench",
            installation="bench",
            epoch=1,
            seq=history.count,
            versions=0,
            offset=offset_of(history.count),
            history=history.count,
        )
        yield [*entries, (journal.cursor_key("bench"), journal.encoded(cursor.to_json()))]
        entries = []


async def write(broker: str, topic: str, written: Iterator[list[Entry]]) -> None:
    """Write these transactions to a journal."""
    options = {"bootstrap_servers": broker}
    plan = TopicPlan(
        name=topic,
        partitions=1,
        replication_factor=1,
        cleanup_policy="compact",
        max_message_bytes=10 * 1024 * 1024,
    )
    await Topics(options).ensure(plan)
    producer = TransactionalProducer(topic, options=options, compression="lz4")
    await producer.init_transactions()
    try:
        for entries in written:
            async with producer.transaction() as kafka:
                sent = [
                    await kafka.send(topic, key=key, value=value, partition=0)
                    for key, value in entries
                ]
                await asyncio.gather(*sent)
    finally:
        await producer.discard()


async def rows_of(broker: str, topic: str, file: Path) -> None:
    """Write the rows of a journal in a worker's Faust tables to a file."""
    checkpoint = MemoryCheckpoint()
    await read_each({"bootstrap_servers": broker}, topic, 0, take=checkpoint.fold)
    await asyncio.to_thread(file.write_text, json.dumps(dict(checkpoint.rows)))


def start(how: Start) -> dict[str, Any]:
    """Start in a separate process; return its output."""
    command = [sys.executable, "-m", "bench.history_start", json.dumps(asdict(how))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_times(name: str, found: dict[str, Any]) -> None:
    """Print one start."""
    print(
        f"{name:44} {found['seconds']:6.2f} s (CPU {found['cpu_seconds']:5.2f} s), {found['rss_mib']} MiB "
        f"(before: {found['rss_before_mib']}), {found['records']} of {found['count']} records",
        flush=True,
    )


def story() -> None:
    """Write two journals, without and with intermediate checkpoints, and start from them."""
    tables, ddls = int(os.environ.get("TABLES", TABLES)), int(os.environ.get("DDLS", DDLS))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with Stack(FOLDER / "servers", services=("kafka",), lasting=True) as stack:
        broker = stack.kafka
        asyncio.run(write(broker, "long", transactions(tables, ddls, every=None)))
        asyncio.run(write(broker, "usual", transactions(tables, ddls, every=5000)))
        rows = FOLDER / "rows.json"
        asyncio.run(rows_of(broker, "usual", rows))
        usual = Start(broker=broker, topic="usual", rows=str(rows))
        print_times("from Faust's rows and the journal's tail", start(usual))
        print_times(
            "from the journal, checkpoints in it", start(Start(broker=broker, topic="usual"))
        )
        whole = Start(broker=broker, topic="usual", whole=True)
        print_times("the same, with every place within reach", start(whole))
        long = start(Start(broker=broker, topic="long"))
        print_times("from the journal, only the baseline in it", long)
    seconds, rss = long["seconds"], long["rss_mib"]
    print(f"history: tables={tables} ddls={ddls} start_seconds={seconds} rss_mib={rss}")


if __name__ == "__main__":
    story()
