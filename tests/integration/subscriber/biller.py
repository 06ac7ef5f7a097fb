"""``python -m tests.integration.subscriber.biller BROKERS PREFIX FOLDER MODE``: a subscriber, to be killed.

``once``: it copies the table into a database of its own and bills for each change, exactly once by ``seq``.
``least``: it notes each change in a file, at least once.
``begin``: the same, one of several members of a group that begins at the end of the topic.
``copy``: it publishes each change's name to a topic, exactly once by Kafka's transactions.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from aqueduct_client import (
    Batch,
    KafkaTransactions,
    Latest,
    Op,
    Record,
    SqlProgress,
    SyncSubscriber,
    subscribe,
    subscribe_async,
)
from aqueduct_client.errors import ProgressMoved, StaleBatch
from aqueduct_client.kafka_transactions import Outgoing

TABLE = "trade.orders"
PAUSE = 0.05
"""Between an effect and its acknowledgement, so that a kill falls between them often."""


def main(brokers: str, prefix: str, folder: Path, mode: str) -> None:
    """Subscribe until it is killed."""
    if mode == "copy":
        asyncio.run(copied(brokers, prefix))
    handle = billed if mode == "once" else noted
    how: dict[str, Any] = {"client": mode}
    if mode == "begin":
        how = {"start": Latest(), "session_seconds": 6}
    with subscribe(
        TABLE, group=f"{prefix}.{mode}", brokers=brokers, prefix=prefix, **how
    ) as subscriber:
        while True:
            batch = subscriber.get_without_ack(100)
            handle(folder, batch, subscriber)
            time.sleep(PAUSE)
            with contextlib.suppress(StaleBatch):  # delivered again
                subscriber.ack(batch.id)


async def copied(brokers: str, prefix: str) -> None:
    """Publish the names of the changes, together with the group's offsets, until it is killed."""
    group = f"{prefix}.copy"
    subscriber = subscribe_async(TABLE, group=group, client="copy", brokers=brokers, prefix=prefix)

    async def copy(records: list[Record], outgoing: Outgoing) -> None:
        for record in records:
            await outgoing.send(results(prefix), str(record.change_id).encode())
        await asyncio.sleep(PAUSE)

    transactions = KafkaTransactions(subscriber=subscriber, group=group, brokers=brokers)
    async with subscriber, transactions:
        while True:
            with contextlib.suppress(StaleBatch):  # delivered again
                await transactions.handle(await subscriber.get_without_ack(100), copy)


def results(prefix: str) -> str:
    """The topic of the names."""
    return f"{prefix}-results"


def noted(folder: Path, batch: Batch, _subscriber: SyncSubscriber) -> None:
    """Append the names of the changes."""
    with (folder / "noted").open("a") as file:
        file.writelines(f"{record.change_id}\n" for record in batch)


def billed(folder: Path, batch: Batch, subscriber: SyncSubscriber) -> None:
    """Apply what is new, and its position, in one transaction."""
    progress = SqlProgress(subscriber="billing")
    with contextlib.closing(sqlite3.connect(folder / "billing.db")) as connection:
        cursor = connection.cursor()
        progress.create_table(cursor)
        cursor.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, x INTEGER)")
        cursor.execute("CREATE TABLE IF NOT EXISTS bills (changes INTEGER)")
        try:
            with connection:
                for record in progress.new_of(cursor, batch):
                    apply(cursor, record)
                    cursor.execute("INSERT INTO bills VALUES (1)")
        except ProgressMoved:
            subscriber.rollback()


def apply(cursor: sqlite3.Cursor, record: Record) -> None:
    """Repeat a change."""
    if record.op is Op.DELETE:
        assert record.before is not None
        cursor.execute("DELETE FROM t WHERE id = ?", (record.before["id"],))
    else:
        assert record.after is not None
        row = record.after["id"], record.after["x"]
        cursor.execute(
            "INSERT INTO t VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET x = excluded.x", row
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
