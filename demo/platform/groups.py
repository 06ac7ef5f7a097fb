"""The groups of subscribers, each in a process of its own: all orders, those with a tag, and plain Kafka.

``python -m demo.platform.groups GROUP BROKERS FILE`` reads until it is killed. Each stores what it gets in an
SQLite database, together with its position, so it has a record as often as its topic has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import ConsumerRecord

from aqueduct_client import Op, Record, SqlProgress, subscribe
from aqueduct_client.errors import ProgressMoved, StaleBatch
from demo.platform.parts import PREFIX

GROUPS = ("all", "tagged", "plain")
ORDERS = "trade.orders"
TAG = "paid"

_TABLE = """\
CREATE TABLE IF NOT EXISTS got (
  topic TEXT, part INTEGER, position INTEGER, change_id TEXT, op TEXT, logical TEXT, source TEXT, seq INTEGER,
  tags TEXT, key TEXT, image TEXT
)"""
_INSERT = "INSERT INTO got VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OPS = {Op.CREATE: "c", Op.UPDATE: "u", Op.DELETE: "d", Op.TRUNCATE: "t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A record that a group got; its fields are those of ``demo.platform.expected.Change``."""

    topic: str
    part: int
    position: int
    change_id: str
    op: str
    logical: str
    source: tuple[str, str, str]
    seq: int
    tags: tuple[str, ...]
    key: tuple[str, ...]
    image: Mapping[str, str | None]


def records_of(file: Path) -> list[Got]:
    """Return what a group has stored so far, in the order in which it came."""
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection:
        connection.execute(_TABLE)
        rows = connection.execute("SELECT * FROM got ORDER BY rowid").fetchall()
    return [
        Got(
            topic=topic, part=part, position=position, change_id=change_id, op=op, logical=logical,
            source=tuple(json.loads(source)), seq=seq, tags=tuple(json.loads(tags)),
            key=tuple(json.loads(key)), image=json.loads(image),
        )
        for topic, part, position, change_id, op, logical, source, seq, tags, key, image in rows
    ]  # fmt: skip


def count_of(file: Path) -> int:
    """Return how many records a group has stored so far."""
    if not file.exists():
        return 0
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection:
        connection.execute(_TABLE)
        return int(connection.execute("SELECT count(*) FROM got").fetchone()[0])


def main(group: str, brokers: str, file: Path) -> None:
    """Read as one of the groups, until killed."""
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection:
        connection.execute(_TABLE)
        if group == "plain":
            asyncio.run(_plain(brokers, connection))
        else:
            _subscribed(group, brokers, connection)


def _subscribed(group: str, brokers: str, connection: sqlite3.Connection) -> None:
    """Subscribe by the client, exactly once by ``seq`` in the subscriber's own database."""
    progress, cursor = SqlProgress(subscriber=group), connection.cursor()
    progress.create_table(cursor)
    subscriber = subscribe(
        ORDERS, group=group, client=group, brokers=brokers, prefix=PREFIX,
        topics={"trade": f"{PREFIX}.trade"}, tags=[TAG] if group == "tagged" else [],
        not_yet=[ORDERS],
    )  # fmt: skip
    with subscriber:
        while True:
            batch = subscriber.get_without_ack(1000)
            try:
                with connection:
                    found = progress.new_of(cursor, batch)
                    cursor.executemany(_INSERT, map(_of_client, found))
            except ProgressMoved:
                subscriber.rollback()
                continue
            with contextlib.suppress(StaleBatch):  # delivered again, and recognized
                subscriber.ack(batch.id)


def _of_client(record: Record) -> tuple[object, ...]:
    image = record.after if record.after is not None else record.before
    topic, part = record.raw.partition
    source = record.destination, record.database, record.table
    return (
        topic, part, record.raw.offset, record.change_id, _OPS[record.op], record.logical_table,
        json.dumps(source), record.seq, json.dumps(sorted(record.tags)),
        json.dumps(_key(record.key, source)), json.dumps(_text(image or {})),
    )  # fmt: skip


async def _plain(brokers: str, connection: sqlite3.Connection) -> None:
    """Read every row topic as a consumer that knows nothing but Kafka and JSON; it stores offsets itself."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers, group_id="plain", isolation_level="read_committed",
        enable_auto_commit=False, auto_offset_reset="earliest", metadata_max_age_ms=1000,
    )  # fmt: skip
    consumer.subscribe(pattern=rf"^{PREFIX}\.(?!__)[^.]+$")
    async with consumer:
        while True:
            found = await consumer.getmany(timeout_ms=500)
            rows = [one for records in found.values() for one in _of_kafka(records, connection)]
            with connection:
                connection.executemany(_INSERT, rows)
            if found:
                await consumer.commit()


def _of_kafka(
    records: list[ConsumerRecord], connection: sqlite3.Connection
) -> Iterator[tuple[object, ...]]:
    """The rows of a partition's records, without those that were stored before their offset was committed."""
    first = records[0]
    (stored,) = connection.execute(
        "SELECT max(position) FROM got WHERE topic = ? AND part = ?", (first.topic, first.partition)
    ).fetchone()
    for one in records:
        if one.value is None or one.offset <= (-1 if stored is None else stored):
            continue
        headers, value = dict(one.headers), json.loads(one.value)
        source, image = value["source"], value["after"] or value["before"] or {}
        real = source["name"], source["db"], source["table"]
        key = json.loads(one.key) if one.key else None
        tags = headers.get("tags", b"").decode()
        yield (
            one.topic, one.partition, one.offset, headers["change_id"].decode(), value["op"],
            f"{source['logical_db']}.{source['logical_table']}",
            json.dumps(real), source["seq"],
            json.dumps(sorted(tags.split(",")) if tags else []),
            json.dumps(_key(key, real)), json.dumps(_text(image)),
        )  # fmt: skip


def _key(key: Mapping[str, Any] | None, source: Sequence[str]) -> list[str]:
    """The real table and the id of a row; without a key, all rows of the table are meant."""
    return [*source] if key is None else [*key["__shard"], str(key["id"])]


def _text(image: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in image.items()}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
