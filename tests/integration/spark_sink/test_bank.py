"""A bank on a real server, whose worker and sink are killed: no cut of the warehouse has half of a transfer."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest
import yaml
from pyspark.sql import SparkSession

from connectors.kafka.reading import read_to_end
from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.errors import CutGone, CutIncomplete, CutUnknown, TableNotInCut, UnknownTable
from spark_sink.views.cuts.cut_tables import ConsistentCut, as_of
from tests.harness import wait
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.long(
        "unit/spark_sink/views/cuts has the bank without servers; test_cuts.py a real Kafka"
    ),
]
KILLS: Final = int(os.environ.get("KILLS") or 3)
"""Of each program at least, while money is transferred; then all comes to rest and is compared."""
CUTS: Final = int(os.environ.get("CUTS") or 8)
"""Different newest cuts at least."""
TIMEOUT: Final = 1500.0
RECENT: Final = 20
"""Cuts back to which those of the past are taken; none is older than the retention."""
TABLES: Final = ("a", "b", "c")
ACCOUNTS: Final = 25
MONEY: Final = 100
TOTAL: Final = len(TABLES) * ACCOUNTS * MONEY
WRITERS: Final = 3
SCHEMA: Final = (
    "CREATE DATABASE shop",
    "USE shop",
    *(f"CREATE TABLE {name} (id int PRIMARY KEY, v int, note varchar(2000))" for name in TABLES),
    "BEGIN",
    *(
        f"INSERT INTO {name} VALUES ({1000 * place + number}, {MONEY}, '')"
        for place, name in enumerate(TABLES)
        for number in range(ACCOUNTS)
    ),
    "COMMIT",
)
PART_BYTES: Final = 65_536
Accounts = dict[tuple[str, int], int]
"""The money of each account, by table and id."""


@dataclass(slots=True)
class Writer:
    """One connection that transfers money until it is stopped."""

    mysql: Mysql
    random: random.Random
    over: threading.Event
    committed: int = 0
    large: int = 0
    failed: list[BaseException] = field(default_factory=list)

    def work(self) -> None:
        """Transfers; a deadlock is tried again."""
        try:
            with connected(self.mysql, database="shop", autocommit=False) as cursor:
                while not self.over.wait(self.random.uniform(0.1, 0.5)):
                    try:
                        self._transaction(cursor)
                    except pymysql.OperationalError as fault:
                        # 1205 and 1213: another writer has the rows.
                        if fault.args[0] not in {1205, 1213}:
                            raise
                        cursor.execute("ROLLBACK")
        except BaseException as fault:
            self.failed.append(fault)

    def _transaction(self, cursor: Any) -> None:
        kind = self.random.choices(("transfer", "move", "renumber", "large"), (70, 15, 10, 5))[0]
        getattr(self, f"_{kind}")(cursor)
        if self.random.random() < 0.1:
            cursor.execute("ROLLBACK")
            return
        cursor.execute("COMMIT")
        self.committed += 1
        self.large += kind == "large"

    def _transfer(self, cursor: Any) -> None:
        """Between some accounts, in statements of one row and of several."""
        for _ in range(self.random.randint(1, 3)):
            amount = self.random.randint(1, 30)
            (giver, number), (taker, other) = self._account(cursor), self._account(cursor)
            cursor.execute(f"UPDATE {giver} SET v = v - {amount} WHERE id = {number}")
            cursor.execute(f"UPDATE {taker} SET v = v + {amount} WHERE id = {other}")

    def _move(self, cursor: Any) -> None:
        """An account goes to another table."""
        (old, number), new = self._account(cursor), self.random.choice(TABLES)
        cursor.execute(f"SELECT v FROM {old} WHERE id = {number} FOR UPDATE")
        money = cursor.fetchone()[0]
        cursor.execute(f"DELETE FROM {old} WHERE id = {number}")
        cursor.execute(f"INSERT INTO {new} VALUES ({number}, {money}, 'moved')")

    def _renumber(self, cursor: Any) -> None:
        """A change of the key, which is two records."""
        name, number = self._account(cursor)
        to = self.random.randrange(10_000, 10**9)
        cursor.execute(f"UPDATE {name} SET id = {to} WHERE id = {number}")

    def _large(self, cursor: Any) -> None:
        """All accounts of two tables, more than fits into one Kafka transaction, and one of any table."""
        one, two = self.random.sample(TABLES, 2)
        note = self.random.choice("xyz") * 1900
        cursor.execute(f"UPDATE {one} SET v = v + 1, note = '{note}'")
        given = cursor.rowcount
        cursor.execute(f"UPDATE {two} SET note = '{note}'")
        payer, number = self._account(cursor)
        cursor.execute(f"UPDATE {payer} SET v = v - {given} WHERE id = {number}")

    def _account(self, cursor: Any) -> tuple[str, int]:
        """An account, locked until the end of the transaction."""
        while True:
            # One that has none by now is passed by.
            table = self.random.choice(TABLES)
            cursor.execute(f"SELECT id FROM {table} ORDER BY rand() LIMIT 1 FOR UPDATE")
            if found := cursor.fetchone():
                return table, found[0]


@dataclass(slots=True)
class Repeated:
    """A program that is killed some time after each of its starts, once it has done something.

    `run` starts it; leaving the block kills it. `has_worked` is asked of what the block gives.
    """

    run: Callable[[], AbstractContextManager[Any]]
    has_worked: Callable[[Any], bool]
    random: random.Random
    longest: float
    """Seconds until it is killed from then on."""
    kills: int = 0
    failed: list[BaseException] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Repeated:
        """Begins."""
        self._thread = threading.Thread(target=self._repeat)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends with one more kill."""
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        try:
            while not self._over.is_set():
                with self.run() as program:
                    wait.until(
                        lambda: self._over.is_set() or self.has_worked(program),
                        seconds=TIMEOUT,
                        glance=0.2,
                    )
                    self._over.wait(self.random.uniform(0, self.longest))
                self.kills += 1
        except BaseException as fault:
            self.failed.append(fault)


@contextmanager
def sinking(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A sink, killed with its JVM at the end."""
    command = [sys.executable, "-m", "spark_sink", "--config", str(config)]
    with (config.parent / "sink.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def held(cut: ConsistentCut) -> Accounts:
    """The accounts in a cut."""
    found: Accounts = {}
    for (_, table), rows in cut.read([("shop", name) for name in TABLES]).items():
        for row in rows.collect():
            assert (table, row.id) not in found, "twice"
            found[table, row.id] = row.v
    return found


def source(mysql: Mysql) -> Accounts:
    """The accounts at the server."""
    with connected(mysql, database="shop") as cursor:
        found: Accounts = {}
        for name in TABLES:
            cursor.execute(f"SELECT id, v FROM {name}")
            found |= {(name, number): money for number, money in cursor.fetchall()}
        return found


@dataclass(slots=True)
class Reader:
    """Takes cuts, and compares each with what every cut must have."""

    spark: SparkSession
    warehouse: str
    random: random.Random
    seen: dict[str, Accounts] = field(default_factory=dict)
    """The accounts after each transaction that was the newest."""
    times: list[int] = field(default_factory=list)
    newest: int = 0
    """Cuts that were newer than the ones before."""
    past: int = 0
    by_time: int = 0

    def look(self) -> None:
        """One cut: mostly the newest, else one of the past by its transaction or by a time."""
        kind = self.random.choices(("newest", "past", "time"), (60, 25, 15))[0]
        with suppress(CutUnknown, CutGone):
            if kind == "newest" or not self.seen:
                self.take()
            elif kind == "past":
                self._by_transaction()
            else:
                self._by_time()

    def take(self) -> Accounts:
        """The newest cut."""
        cut = as_of(self.spark, self.warehouse)
        position = cut.positions["shop"]
        accounts = self._whole(cut, position)
        self.newest += position.ts_ms not in self.times
        self.times.append(position.ts_ms)
        if position.transaction is not None:
            assert self.seen.setdefault(position.transaction, accounts) == accounts, position
        return accounts

    def _by_transaction(self) -> None:
        name = self.random.choice(list(self.seen)[-RECENT:])
        # What a sink that starts again has not stored yet is not complete for a while.
        with suppress(CutIncomplete):
            cut = as_of(self.spark, self.warehouse, name)
            assert self._whole(cut, name) == self.seen[name], name
            self.past += 1

    def _by_time(self) -> None:
        recent = self.times[-RECENT:]
        at = self.random.randint(min(recent), max(recent))
        text = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        cut = as_of(self.spark, self.warehouse, text)
        assert cut.positions["shop"].ts_ms <= at
        self._whole(cut, text)
        self.by_time += 1

    def _whole(self, cut: ConsistentCut, where: object) -> Accounts:
        accounts = held(cut)
        assert len(accounts) == len(TABLES) * ACCOUNTS, where
        assert sum(accounts.values()) == TOTAL, where
        return accounts


def parts(kafka: str, prefix: str) -> int:
    """The number of parts of transactions that were not the last."""

    async def read() -> list[Any]:
        topic = f"{prefix}.__transactions.shop"
        return await read_to_end({"bootstrap_servers": kafka}, topic, 0)

    values = [json.loads(one.value) for one in asyncio.run(read()) if one.value]
    return sum(one["status"] == "END" and not one["last"] for one in values)


def test_every_cut_has_whole_transfers_while_the_worker_and_the_sink_are_killed(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    sys.stderr.write(f"SEED={seed}\n")
    rng = random.Random(seed)
    mysql = stack.second_mysql(f"bank-{tmp_path.name}", {"server_id": 19})
    mysql.start()
    run(mysql, *SCHEMA)
    wanted = settings(stack, mysql, tmp_path, decoders=0)
    wanted["publish"] = {"max_bytes": PART_BYTES, "interval_ms": 5}
    config = tmp_path / "sink.yaml"
    described = {
        "prefix": wanted["prefix"],
        "bootstrap_servers": stack.kafka,
        "warehouse": str(tmp_path / "wh"),
        "merge_interval": 10,
        "metrics": {"port": 0},
        "maintenance": {"every": 3, "retention_hours": 0.5},
    }
    config.write_text(yaml.safe_dump(described))
    over = threading.Event()
    writers = [Writer(mysql, random.Random(f"{seed} {n}"), over) for n in range(WRITERS)]
    threads = [threading.Thread(target=one.work) for one in writers]
    reader = Reader(spark, str(tmp_path / "wh"), rng)
    worker = Repeated(
        lambda: running(wanted, tmp_path),
        lambda one: one.destination().get("rows", 0) > 0,
        random.Random(seed + 1),
        longest=20,
    )

    at_start: dict[int, int] = {}

    def has_stored(sink: subprocess.Popen[bytes]) -> bool:
        """Whether readers have seen newer cuts; the last of the sink before may be one."""
        assert sink.poll() is None, (tmp_path / "sink.log").read_text()[-4000:]
        return reader.newest > at_start.setdefault(sink.pid, reader.newest) + 1

    sinks = Repeated(lambda: sinking(config), has_stored, random.Random(seed + 2), longest=20)

    def has_begun() -> bool:
        assert (worker.failed, sinks.failed) == ([], [])
        with suppress(CutUnknown, UnknownTable):
            return reader.take() == source(mysql)
        return False

    def is_enough() -> bool:
        assert (worker.failed, sinks.failed) == ([], [])
        assert [one.failed for one in writers] == [[]] * WRITERS
        reader.look()
        kills = min(worker.kills, sinks.kills)
        return kills >= KILLS and reader.newest >= CUTS and reader.past > 0 and reader.by_time > 0

    try:
        with worker, sinks:
            wait.until(has_begun, seconds=TIMEOUT, glance=1.0)
            for thread in threads:
                thread.start()
            wait.until(
                is_enough,
                seconds=TIMEOUT,
                late=lambda: (
                    worker.kills,
                    sinks.kills,
                    reader.newest,
                    reader.past,
                    reader.by_time,
                ),
            )
        over.set()
        for thread in threads:
            thread.join()
        due = source(mysql)
        assert sum(due.values()) == TOTAL
        with running(wanted, tmp_path), sinking(config) as sink:

            def is_equal() -> bool:
                with suppress(CutUnknown, CutGone, TableNotInCut):
                    return reader.take() == due
                return False

            wait.until(
                is_equal,
                seconds=TIMEOUT,
                glance=1.0,
                hopeless=lambda: sink.poll() is not None,
                late=lambda: (tmp_path / "sink.log").read_text()[-4000:],
            )
            os.killpg(sink.pid, signal.SIGTERM)
            assert sink.wait(TIMEOUT) == 0
        found = {
            "transfers": sum(one.committed for one in writers),
            "large": sum(one.large for one in writers),
            "parts": parts(stack.kafka, wanted["prefix"]),
            "kills of the worker": worker.kills,
            "kills of the sink": sinks.kills,
            "newest cuts": reader.newest,
            "cuts of a transaction": reader.past,
            "cuts of a time": reader.by_time,
        }
        sys.stderr.write(f"{found}\n")
        assert all(found.values()), found
    finally:
        over.set()
        mysql.kill()
