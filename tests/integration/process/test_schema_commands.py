"""`python -m app schema …` as an operator runs it, on a real journal and a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.worker.pipeline.publish.publisher import TopicPlans
from connectors.kafka.client import KafkaClient
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import Session
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.schema.baseline import read_baseline
from devstack import Stack
from devstack.mysql import Mysql
from tables.history.codec import checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.worker import settings
from tests.integration.worker.source import address_of, facts_of

BEGIN = (
    "CREATE DATABASE shop CHARACTER SET latin1",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20)) CHARACTER SET utf8mb4",
    "CREATE TABLE shop.log (line TEXT)",
)
STORY = (
    "ALTER TABLE orders ADD amount DECIMAL(10,2) UNSIGNED AFTER id",
    "ALTER TABLE orders CONVERT TO CHARACTER SET latin1, DROP COLUMN amount",
    "RENAME TABLE log TO logs",
)


@dataclass(frozen=True, slots=True)
class Described:
    """A command's output."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Operator:
    """The environment of an operator with a worker's settings."""

    config: Path
    places: list[SourceOffset]
    """The positions after the beginning and after each statement of the story."""

    def asks(self, *words: str) -> Described:
        done = run_command(self.config, "schema", *words)
        assert "Traceback" not in done.stderr
        return Described(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of these tests' own, without other tests' tables."""
    with own_mysql(stack, *BEGIN, options={"server_id": 9}) as server:
        yield server


@pytest.fixture(scope="module")
def operator(stack: Stack, mysql: Mysql, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """A worker whose journal holds the story as run on the server."""
    folder = tmp_path_factory.mktemp("schema-commands")
    config = folder / "aqueduct.yaml"
    wanted = settings(stack, mysql, folder)
    config.write_text(yaml.safe_dump(wanted))
    entries, places = written(mysql)
    asyncio.run(publish(stack, wanted["prefix"], entries))
    return Operator(config, places)


def written(mysql: Mysql) -> tuple[list[Entry], list[SourceOffset]]:
    """Runs the story; returns its journal records and the positions in it."""
    base = read_baseline(address_of(mysql), facts_of(mysql))
    history = SchemaHistory()
    history.init("shop")
    begin = HistoryPosition.between(base.at, ts_ms=1_790_000_000_000)
    entries = checkpoint_records(history.baseline(base.tables, base.databases, begin, base.server))
    places = [base.at]
    for number, sql in enumerate(STORY, 1):
        run(mysql, "USE shop", sql)
        now = position_of(mysql)
        position = HistoryPosition(
            server_uuid=now.server_uuid,
            start=places[-1].coordinates,
            end=now.coordinates,
            gtid=f"{now.server_uuid}:{last_of(now)}",
            ts_ms=1_790_000_000_000 + number * 60_000,
            server_id=9,
            thread=100 + number,
            user="dba@%",
        )
        record = history.apply(position, "shop", sql, Session(database="shop"))
        assert record is not None
        entries += history_records(record)
        places.append(now)
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=0,
        versions=0,
        offset=places[-1],
        history=history.count,
    )
    return [*entries, (journal.cursor_key("shop"), journal.encoded(cursor.to_json()))], places


def position_of(mysql: Mysql) -> SourceOffset:
    with connected(mysql) as cursor:
        cursor.execute("SHOW BINARY LOG STATUS")
        file, pos, _, _, gtids = cursor.fetchone()
    return SourceOffset(
        server_uuid=facts_of(mysql).server_uuid,
        coordinates=Coordinates(file, int(pos)),
        gtid_set=GtidSet.parse(gtids),
    )


def last_of(offset: SourceOffset) -> int:
    return int(str(offset.gtid_set).rpartition("-")[2].rpartition(":")[2])


async def publish(stack: Stack, prefix: str, entries: list[Entry]) -> None:
    options = KafkaClient(bootstrap_servers=stack.kafka).options()
    plan = TopicPlans(
        prefix=prefix,
        replication_factor=1,
        cleanup_policy="delete",
        retention_ms=-1,
        max_message_bytes=10 * 1024 * 1024,
        journal_partitions=4,
        offline_seconds=120.0,
    ).journal()
    await Topics(options).ensure(plan)
    producer = TransactionalProducer(f"{prefix}.shop", options=options, compression=None)
    try:
        await producer.init_transactions()
        async with producer.transaction() as kafka:
            for key, value in entries:
                sent = await kafka.send(
                    plan.name, key=key, value=value, partition=journal.partition_of("shop", 4)
                )
                await sent
    finally:
        await producer.discard()


def test_a_table_is_shown_as_it_was_at_each_place(operator: Operator) -> None:
    def columns(*words: str) -> dict[str, tuple[str, str | None]]:
        answer = operator.asks("show", "shop", "shop.orders", "--format", "json", *words)
        assert (answer.code, answer.err) == (0, "")
        found = answer.value["definition"]["columns"]
        return {one["name"]: (one["type"], one["charset"]) for one in found}

    begin, added, converted, _ = operator.places
    note = ("varchar(20)", "utf8mb4")
    assert columns("--at", str(begin.coordinates)) == {"id": ("int", None), "note": note}
    with_amount = {"id": ("int", None), "amount": ("decimal(10,2) unsigned", None), "note": note}
    assert columns("--at", str(added.coordinates)) == with_amount
    assert columns("--at", str(added.gtid_set)) == with_amount
    assert columns("--at", f"{added.server_uuid}:{last_of(added)}") == with_amount
    assert columns("--at", "2026-09-21T14:14:20Z") == with_amount
    without = {"id": ("int", None), "note": ("varchar(20)", "latin1")}
    assert columns("--at", str(converted.coordinates)) == without
    assert columns() == without


def test_its_life_and_the_statements_are_listed(operator: Operator) -> None:
    history = operator.asks("history", "shop", "shop.orders")
    assert history.code == 0
    assert "    + column amount: decimal(10,2) unsigned" in history.out.splitlines()
    tables = operator.asks("history", "shop", "--format", "json").value["tables"]
    assert {one["table"]: one["state"] for one in tables} == {
        "shop.orders": "known",
        "shop.log": "dropped",
        "shop.logs": "known",
    }
    audit = operator.asks("audit", "shop", "--type", "rename", "--format", "json").value
    (renamed,) = audit["statements"]
    assert (renamed["user"], renamed["thread"], renamed["tables"]) == (
        "dba@%",
        103,
        ["shop.log", "shop.logs"],
    )
    begin = str(operator.places[0].coordinates)
    diff = operator.asks("diff", "shop", "shop.orders", "--from", begin)
    assert diff.out.splitlines()[0].startswith("~ column note: varchar(20) CHARACTER SET utf8mb4")


def test_the_server_can_be_made_again_from_it(operator: Operator, stack: Stack) -> None:
    """The printed statements, run on another server, give the same columns."""
    answer = operator.asks("rebuild", "shop", "--format", "json")
    assert answer.code == 0
    text = answer.value["databases"]["shop"].replace("`shop`", "`shop_again`")
    run(stack.mysql, "DROP DATABASE IF EXISTS shop_again", *filter(str.strip, text.split(";\n")))
    with connected(stack.mysql) as cursor:
        cursor.execute(
            "SELECT table_name, column_name, column_type, collation_name"
            " FROM information_schema.columns WHERE table_schema = 'shop_again' ORDER BY 1, 2"
        )
        assert cursor.fetchall() == (
            ("logs", "line", "text", "latin1_swedish_ci"),
            ("orders", "id", "int", None),
            ("orders", "note", "varchar(20)", "latin1_swedish_ci"),
        )


def test_the_check_finds_what_the_history_does_not_know(operator: Operator, mysql: Mysql) -> None:
    same = operator.asks("check", "shop", "--wait", "0", "--format", "json")
    assert (same.code, same.value["differences"], same.value["same_place"]) == (0, [], True)
    assert same.value["tables"] == 2
    run(
        mysql,
        "ALTER TABLE shop.orders MODIFY note VARCHAR(30) NOT NULL",
        "CREATE TABLE shop.more (a INT)",
    )
    other = operator.asks("check", "shop", "--wait", "0")
    run(mysql, "ALTER TABLE shop.orders MODIFY note VARCHAR(20)", "DROP TABLE shop.more")
    latin = "CHARACTER SET latin1 COLLATE latin1_swedish_ci"
    assert other.code == 1
    assert other.out.splitlines()[2:] == [
        "shop.more: + table: 1 column(s)",
        f"shop.orders: ~ column note: varchar(20) {latin} -> varchar(30) {latin} NOT NULL",
    ]


def test_what_cannot_be_answered_is_one_message(
    operator: Operator, stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    early = operator.asks("show", "shop", "shop.orders", "--at", "2020-01-01")
    assert early.code == 1
    assert early.err.startswith("aqueduct: HistoryTooShort: ")
    config = tmp_path / "aqueduct.yaml"
    config.write_text(yaml.safe_dump(settings(stack, mysql, tmp_path)))
    never = Operator(config, []).asks("audit", "shop")
    assert (never.code, never.out, never.err.count("\n")) == (1, "", 1)
    assert "the journal topic does not exist" in never.err
