"""Shards of two destinations altered one after another: states, decisions and restarts, on real servers."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shlex
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from app.__main__ import main
from connectors.kafka.producer import TransactionalProducer, append
from connectors.kafka.reading import read_to_end
from devstack import Stack
from devstack.mysql import Mysql
from tables.history.logical_schemas.decisions import UNIT, outcome_key
from tables.state.journal.state import partition_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.harness.topics import on_kafka
from wire.topics import ddl_topic, journal_topic, logical_schemas_topic, schemas_topic

DESTINATIONS = ("east", "west")
Seen = dict[str, Any]


class Shop:
    """Two databases with two shards each, and the last row's id."""

    def __init__(self, mysql: Mysql) -> None:
        self._mysql, self._last = mysql, 0
        unique = uuid.uuid4().hex[:8]
        self.databases = {one: f"{one}{unique}" for one in DESTINATIONS}
        for database in self.databases.values():
            run(mysql, f"CREATE DATABASE {database}")
        self.shards = [f"{one}{number}" for one in DESTINATIONS for number in (1, 2)]
        for shard in self.shards:
            run(mysql, f"CREATE TABLE {self.table(shard)} (id int PRIMARY KEY, x int)")
        self.write()

    def table(self, shard: str) -> str:
        return f"{self.databases[shard[:-1]]}.orders_{shard[-1]}"

    def name(self, shard: str) -> str:
        return f"{shard[:-1]}:{self.table(shard)}"

    def write(self, *shards: str) -> None:
        for shard in shards or self.shards:
            self._last += 1
            run(self._mysql, f"INSERT INTO {self.table(shard)} (id) VALUES ({self._last})")

    def alter(self, clause: str, *shards: str) -> None:
        """Alter shards, and write a row to each."""
        for shard in shards:
            run(self._mysql, f"ALTER TABLE {self.table(shard)} {clause}")
            self.write(shard)

    def settings(self, stack: Stack, folder: Path) -> dict[str, Any]:
        wanted = pair_settings(stack, self._mysql, folder, names=DESTINATIONS)
        del wanted["zookeeper"]
        for one, database in self.databases.items():
            wanted["destinations"][one]["filter"] = {"include": rf"{database}\..*"}
        real = ", ".join(f"'{one}.orders_[0-9]+'" for one in self.databases.values())
        mapping = folder / "mapping.yaml"
        mapping.write_text(f"tables: {{trade.orders: {{from: [{real}], topic: trade}}}}")
        wanted["mapping"] = {"file": str(mapping)}
        return wanted


class Operator:
    """Commands as an operator runs them on this machine."""

    def __init__(self, pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
        self._pair, self._capsys = pair, capsys

    def show(self) -> Seen:
        """What ``shards show`` prints of the logical table; empty before it is published."""
        self._capsys.readouterr()
        if main(["shards", "show", "trade.orders", "--json"]) != 0:
            return {}
        found: Seen = json.loads(self._capsys.readouterr().out)
        return found

    def until(self, state: str, *changes: str) -> Seen:
        """Wait until it is in a state, with these differences."""

        def look() -> Seen | None:
            found = self.show()
            texts = [one["text"] for one in found.get("changes", ())]
            return found if found and found["state"] == state and texts == list(changes) else None

        found: Seen = self._pair.until(look)
        return found

    def resolve(self, *words: str, code: int = 0) -> str:
        """Run ``shards resolve``; return what it prints."""
        self._capsys.readouterr()
        assert main(["shards", "resolve", "trade.orders", *words, "--why", "a test"]) == code
        found = self._capsys.readouterr()
        return found.out + found.err


def published(stack: Stack, prefix: str) -> list[Seen]:
    """All records of the topic of logical schemas that are still there, in order."""
    options = {"bootstrap_servers": stack.kafka}
    found = asyncio.run(read_to_end(options, f"{prefix}.__logical_schemas", 0))
    return [json.loads(one.value) for one in found]


def columns(found: Seen) -> dict[str, str | None]:
    return {one["name"]: one["type"] for one in found["columns"]}


def lacking(found: Seen) -> list[list[str]]:
    return [one["lacking"] for one in found["changes"]]


def test_shards_that_are_altered_one_by_one_converge_conflict_and_are_decided_on(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = Shop(stack.mysql)
    wanted = shop.settings(stack, tmp_path)
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        operator = Operator(pair, capsys)
        found = operator.until("equal")
        pair.until(lambda: len(operator.show()["shards"]) == 4)
        assert columns(found) == {"id": "int", "x": "int"}
        # Two changes in different order on the two destinations.
        shop.alter("ADD note varchar(80)", "east1")
        shop.alter("MODIFY x bigint", "west2")
        found = operator.until("converging", "modify x to bigint", "add note varchar(80) utf8mb4")
        assert columns(found) == {"id": "int", "x": "bigint", "note": "varchar(80)"}
        assert lacking(found) == [
            [shop.name(one) for one in ("east1", "east2", "west1")],
            [shop.name(one) for one in ("east2", "west1", "west2")],
        ]
        shown = pair.status("one")["logical_tables"]
        assert shown["tables"] == {
            "equal": 0, "converging": 1, "conflict": 0, "accepted": 0, "waiting": 0,
        }  # fmt: skip
        assert shown["not_equal"]["trade.orders"]["state"] == "converging"
        assert 'aqueduct_logical_tables{state="converging"} 1.0' in pair.workers["one"].get(
            "/metrics"
        )
        # A kill in between repeats and loses nothing.
        pair.end("one", signal.SIGKILL)
        shop.alter("ADD note varchar(80)", "west1", "west2", "east2")
        shop.alter("MODIFY x bigint", "east1", "east2", "west1")
        pair.start("one")
        operator.until("equal")
        # A type that cannot be joined.
        shop.alter("MODIFY x varchar(20)", "east1")
        found = operator.until("conflict", "modify x to varchar(20) utf8mb4")
        assert columns(found)["x"] is None
        assert "neither is a type" in operator.resolve("--take-type", "x=int", code=1)
        assert "accepted" in operator.resolve("--take-type", "x=varchar(20)")
        found = operator.until("accepted", "modify x to varchar(20) utf8mb4")
        assert columns(found)["x"] == "varchar(20)"
        assert found["decisions"][0]["why"] == "a test"
        assert "conflict" in operator.resolve("--reopen")
        assert "accepted" in operator.resolve("--exclude", shop.table("east1"))
        assert columns(operator.until("accepted"))["x"] == "bigint"
        # Decisions outlast a restart, and no record is repeated.
        before = published(stack, wanted["prefix"])
        pair.end("one", signal.SIGTERM)
        assert "NotApplied" in operator.resolve(
            "--include", shop.name("east1"), "--timeout", "2", code=1
        )
        pair.start("one")
        # The request stays in the journal until a worker applies it.
        operator.until("conflict", "modify x to varchar(20) utf8mb4")
        assert "accepted" in operator.resolve("--accept")
        shop.alter("MODIFY x varchar(20)", "east2", "west1", "west2")
        operator.until("equal")
        after = published(stack, wanted["prefix"])
        assert after[: len(before)] == before
        assert [one["version"] for one in after] == list(range(1, len(after) + 1))
        contents = [
            {name: value for name, value in one.items() if name not in ("version", "ts_ms")}
            for one in after
        ]
        assert all(one != other for one, other in itertools.pairwise(contents))
        assert pair.status("one")["logical_tables"]["not_equal"] == {}
        assert "is no logical table" in _error(capsys, "shards", "show", "trade.other")


def test_a_dropped_shard_does_not_count_until_it_is_created_again(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = Shop(stack.mysql)
    wanted = shop.settings(stack, tmp_path)
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        operator = Operator(pair, capsys)
        pair.until(lambda: len(operator.show().get("shards", ())) == 4)
        shop.alter("ADD note varchar(80)", "east1", "east2", "west1")
        operator.until("converging", "add note varchar(80) utf8mb4")
        run(stack.mysql, f"DROP TABLE {shop.table('west2')}")
        found = operator.until("equal")
        dropped = [one["name"] for one in found["shards"] if one["dropped_ms"] is not None]
        assert dropped == [shop.name("west2")]
        pair.end("one", signal.SIGKILL)
        pair.start("one")
        pair.until(lambda: pair.status("one").get("logical_tables", {}).get("state") == "RUNNING")
        assert operator.show() == found
        run(stack.mysql, f"CREATE TABLE {shop.table('west2')} (id int PRIMARY KEY, x int)")
        operator.until("converging", "add note varchar(80) utf8mb4")
        shop.alter("ADD note varchar(80)", "west2")
        operator.until("equal")


class Two:
    """Two logical tables, of which one has trouble: trade.orders, and trade.items with a shard in the east."""

    def __init__(self, stack: Stack, shop: Shop, pair: Pair) -> None:
        self.stack, self.shop, self.pair = stack, shop, pair
        self.prefix: str = pair.wanted["prefix"]
        self.options = {"bootstrap_servers": stack.kafka}
        self._changes = 0

    @property
    def logical(self) -> Seen:
        found: Seen = self.pair.status("one").get("logical_tables", {})
        return found

    @property
    def waiting(self) -> str:
        """The reason for which trade.orders waits; empty if it does not."""
        return str(self.logical.get("waiting", {}).get("trade.orders", ""))

    def columns(self, table: str) -> dict[str, str | None]:
        """The columns of a logical table, as they were published last."""
        found = published(self.stack, self.prefix)
        return columns([one for one in found if one["table"] == table][-1])

    def write(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Write a record as another program."""
        asyncio.run(append(self.options, topic, partition, key=key, value=value))

    def reason(self, error: str, *, by_change: bool = False) -> str:
        """The reason for which trade.orders waits, while a change of trade.items is published.

        ``by_change``: whether it waits only once it is changed.
        """
        if not by_change:
            self.pair.until(lambda: error in self.waiting, seconds=120)
        self._changes += 1
        items = f"{self.shop.databases['east']}.items_1"
        self.shop.alter(f"ADD y{self._changes} int", "west2")
        run(self.stack.mysql, f"ALTER TABLE {items} ADD n{self._changes} int")

        self.pair.until(
            lambda: error in self.waiting and f"n{self._changes}" in self.columns("items")
        )
        assert self.logical["waiting"].keys() == {"trade.orders"}
        assert self.logical["tables"]["waiting"] == 1
        worker = self.pair.workers["one"]
        assert 'aqueduct_logical_tables{state="waiting"} 1.0' in worker.get("/metrics")
        assert f"y{self._changes}" not in self.columns("orders")
        return self.waiting

    def is_back(self) -> bool:
        """Whether trade.orders is published with all changes."""
        return not self.logical["waiting"] and f"y{self._changes}" in self.columns("orders")

    def limit(self, size: int) -> None:
        """Let the topic take batches of that size, as ``kafka-configs.sh --alter --add-config`` does."""
        plan = {"cleanup.policy": "compact", "max.message.bytes": str(size)}
        name = logical_schemas_topic(self.prefix)
        config = ConfigResource(ConfigResourceType.TOPIC, name, plan)
        on_kafka(self.stack, lambda admin: admin.alter_configs([config]))

    async def begin_transaction(self) -> None:
        """Leave a transaction open in the statements of the west, as a program that was killed does."""
        producer = TransactionalProducer(
            "nightly import", options=self.options, compression=None, timeout_factor=40
        )
        await producer.init_transactions()
        assert producer._kafka is not None
        await producer._kafka.begin_transaction()
        await (await producer._kafka.send(ddl_topic(self.prefix, "west"), b"{}", partition=0))
        await producer.discard()


@pytest.mark.remedy("JournalUnreadable", "TransactionOpen", "RecordTooLarge", "RecordForeign")
def test_trouble_of_a_logical_table_stops_it_alone_until_what_its_reason_says_is_done(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = Shop(stack.mysql)
    east = shop.databases["east"]
    run(
        stack.mysql,
        f"CREATE TABLE {east}.items_1 (id int PRIMARY KEY)",
        f"INSERT INTO {east}.items_1 VALUES (1)",
    )
    wanted = shop.settings(stack, tmp_path)
    rules = Path(wanted["mapping"]["file"])
    more = f", trade.items: {{from: ['{east}.items_[0-9]+'], topic: items}}}}"
    rules.write_text(rules.read_text().removesuffix("}") + more)
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        operator, two = Operator(pair, capsys), Two(stack, shop, pair)
        pair.until(lambda: len(operator.show().get("shards", ())) == 4)

        # A type that is none, and an outcome that another program wrote.
        shop.alter("MODIFY x bigint", "east1")
        operator.until("converging", "modify x to bigint")
        assert "neither is a type" in operator.resolve("--take-type", "x=number", code=1)
        topic = journal_topic(two.prefix)
        found = on_kafka(stack, lambda admin: admin.describe_topics([topic]))
        partition = partition_of(UNIT, len(found[0]["partitions"]))
        key = outcome_key(("trade", "orders"), ("accept", ""))
        two.write(topic, partition, key, b"junk")
        why = two.reason("JournalUnreadable")
        repair = "journal repair logical.schemas --why TEXT"
        assert f"python -m app {repair}" in why
        assert repair in operator.resolve("--accept", "--timeout", "3", code=1)
        assert repair in operator.resolve("--reopen", code=1)
        assert main([*repair.split()[:-1], "a test"]) == 0
        pair.until(two.is_back)

        # A table version that another program wrote.
        value = {"destination": "west", "database": shop.databases["west"], "table": "orders_1"}
        key = json.dumps({**value, "version": 99}).encode()
        two.write(schemas_topic(two.prefix), 0, key, b"{}")
        why = two.reason("RecordForeign")
        assert f"shards resolve trade.orders --exclude {shop.name('west1')} --why TEXT" in why
        statement = re.search(r"ALTER TABLE \S+ COMMENT = '[^']+'", why)
        assert statement is not None
        run(stack.mysql, statement[0])
        pair.until(two.is_back)

        # A schema that its topic refuses, compressed as it is.
        names = ", ".join(f"c{uuid.uuid4().hex} int" for _ in range(60))
        shop.alter(f"ADD ({names})", "west2")
        pair.until(lambda: len(two.columns("orders")) > 60)
        two.limit(1500)
        why = two.reason("RecordTooLarge", by_change=True)
        size = re.search(r"__logical_schemas --add-config max\.message\.bytes=(\d+)", why)
        assert size is not None
        two.limit(int(size[1]))
        pair.until(two.is_back)

        # A transaction that another program leaves open in the statements of one destination.
        asyncio.run(two.begin_transaction())
        why = two.reason("TransactionOpen")
        command = re.search(r"python -m app (journal abort [^;]+)\.$", why)
        assert command is not None
        assert main(shlex.split(command[1])) == 0
        pair.until(two.is_back)

        assert pair.workers["one"].process.poll() is None
        log = pair.workers["one"].log
        assert log.count("trade.orders: its schema waits") == 4
        assert log.count("trade.orders: its schema is published again") == 4


def _error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    return capsys.readouterr().err
