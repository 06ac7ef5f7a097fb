"""Subscribers in processes of their own, killed again and again while a worker publishes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.reading import read_to_end
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness import topics
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, connected
from tests.harness.wait import TIMEOUT, until
from tests.harness.worker import running, settings
from tests.integration.subscriber.biller import results

KILLS = 5
"""At the least."""
MAPPING = """
databases: {trade: {from: [shop]}}
tables: {trade.orders: {from: [shop.t]}}
"""


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(
        stack, "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY, x int)"
    ) as server:
        yield server


@contextlib.contextmanager
def written(mysql: Mysql) -> Iterator[None]:
    """Insert, change and delete rows until the block ends."""
    over = threading.Event()
    choice = random.Random(7)

    def write() -> None:
        with connected(mysql) as cursor:
            for number in range(1_000_000):
                if over.wait(0.01):
                    return
                cursor.execute(f"INSERT INTO shop.t VALUES ({number}, 0)")
                some = choice.randrange(number + 1)
                cursor.execute(f"UPDATE shop.t SET x = x + 1 WHERE id = {some}")
                cursor.execute(f"DELETE FROM shop.t WHERE id = {some}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


class Subscriber:
    """A subscriber's process, started again after each kill."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "tests.integration.subscriber.biller", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, "it ended by itself"
        self.end()

    def end(self) -> None:
        """The same, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def billing(folder: Path, statement: str) -> Sequence[Any]:
    """Ask the subscriber's own database; nothing before it exists."""
    with contextlib.closing(sqlite3.connect(folder / "billing.db", timeout=10)) as connection:
        try:
            return connection.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []


def noted(folder: Path) -> list[str]:
    file = folder / "noted"
    return file.read_text().splitlines() if file.exists() else []


def repeats(folder: Path) -> int:
    """How many changes were delivered again."""
    found = noted(folder)
    return len(found) - len(set(found))


def copied(stack: Stack, prefix: str) -> list[str]:
    """What the third one has published, as read_committed consumers see it."""
    found = asyncio.run(read_to_end({"bootstrap_servers": stack.kafka}, results(prefix), 0))
    return [record.value.decode() for record in found if record.value]


@pytest.mark.parametrize(
    "modes",
    [
        ("once", "least"),
        pytest.param(
            ("once", "least", "copy"),
            marks=pytest.mark.long("test_kafka_transactions.py has failures, the other one kills"),
        ),
    ],
    ids="-".join,
)
def test_a_killed_subscriber_bills_each_change_once_and_misses_none(
    stack: Stack, mysql: Mysql, tmp_path: Path, modes: tuple[str, ...]
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    wanted = settings(stack, mysql, tmp_path)
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
    prefix = str(wanted["prefix"])
    clients = [Subscriber(stack.kafka, prefix, str(tmp_path), mode) for mode in modes]
    pauses = random.Random(11)
    plan = TopicPlan(
        name=results(prefix), partitions=1, replication_factor=1, max_message_bytes=10**6
    )
    asyncio.run(Topics({"bootstrap_servers": stack.kafka}).ensure(plan))
    with contextlib.ExitStack() as ended, running(wanted, tmp_path) as worker:
        for each in clients:
            ended.callback(each.end)
        with written(mysql):
            worker.wait(lambda status: status["rows"] > 0)
            for each in clients:
                each.start()
            deadline = time.monotonic() + TIMEOUT
            for kills in itertools.count():
                # A kill between a note and the commit of its offset is a matter of chance.
                if kills >= KILLS and (repeats(tmp_path) or time.monotonic() > deadline):
                    break
                before = len(noted(tmp_path)), billing(tmp_path, "SELECT count(*) FROM bills")
                copies = len(copied(stack, prefix))
                until(lambda at=before: len(noted(tmp_path)) > at[0])  # type: ignore[misc]
                until(lambda at=before: billing(tmp_path, "SELECT count(*) FROM bills") != at[1])  # type: ignore[misc]
                if "copy" in modes:
                    until(lambda at=copies: len(copied(stack, prefix)) > at)  # type: ignore[misc]
                time.sleep(pauses.uniform(0, 0.3))
                for each in clients:
                    each.kill()
                    each.start()
        source = ask(mysql, "SELECT id, x FROM shop.t ORDER BY id")
        until(lambda: billing(tmp_path, "SELECT id, x FROM t ORDER BY id") == list(source))
        published = topics.rows(stack, prefix, "orders", database="trade")
        changes = {change.change_id for change in published}
        until(lambda: set(noted(tmp_path)) == changes)
        if "copy" in modes:
            until(lambda: set(copied(stack, prefix)) == changes)
            assert len(copied(stack, prefix)) == len(changes)
    assert billing(tmp_path, "SELECT count(*) FROM bills") == [(len(changes),)]
    assert repeats(tmp_path), "nothing was delivered again: the kills prove nothing"
