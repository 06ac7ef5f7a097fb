"""A journal that was restored from an older copy: refused by name, and a way out that gives no number twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from app.__main__ import main
from app.worker.pipeline.publish.publisher import TopicPlans
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord, read_to_end
from connectors.kafka.topics import Topics
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.topics import rows, values
from tests.harness.wait import until_async
from tests.harness.worker import Worker, running, settings


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY)",
        options={"server_id": 9},
    ) as made:
        yield made


def journal_of(stack: Stack, wanted: dict[str, Any], partitions: int) -> list[list[StoredRecord]]:
    options, topic = {"bootstrap_servers": stack.kafka}, f"{wanted['prefix']}.__journal"
    return [asyncio.run(read_to_end(options, topic, number)) for number in range(partitions)]


async def gone(admin: AIOKafkaAdminClient, *topics: str) -> bool:
    return set(topics).isdisjoint(await admin.list_topics())


async def restored(stack: Stack, prefix: str, kept: list[list[StoredRecord]]) -> None:
    """Replace the journal by a copy, as a tool that reads and writes topics makes it."""
    options = {"bootstrap_servers": stack.kafka}
    plan = TopicPlans(
        prefix=prefix,
        replication_factor=1,
        cleanup_policy="delete",
        retention_ms=-1,
        max_message_bytes=10 * 1024 * 1024,
        journal_partitions=len(kept),
        offline_seconds=120.0,
    ).journal()
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        await admin.delete_topics([plan.name])
        await until_async(lambda: gone(admin, plan.name))
    finally:
        await admin.close()
    await Topics(options).ensure(plan)
    producer = TransactionalProducer("a copy", options=options, compression=None)
    await producer.init_transactions()
    async with producer.transaction() as kafka:
        for partition, found in enumerate(kept):
            for record in found:
                await kafka.send(plan.name, key=record.key, value=record.value, partition=partition)
    await producer.discard()


def published(worker: Worker, mysql: Mysql, *ids: int) -> dict[str, Any]:
    for number in ids:
        run(mysql, f"INSERT INTO shop.t (id) VALUES ({number})")
    cursor: dict[str, Any] = worker.wait(lambda status: status["rows"] == ids[-1])["cursor"]
    return cursor


@pytest.mark.remedy("JournalOutdated")
def test_an_older_copy_of_the_journal_is_refused_and_gives_no_number_twice_once_it_is_repaired(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    partitions = wanted.get("topics", {}).get("journal_partitions", 4)
    with running(wanted, tmp_path) as worker:
        published(worker, mysql, 1, 2)
        copy = journal_of(stack, wanted, partitions)
        run(mysql, "ALTER TABLE shop.t ADD c int")
        last = published(worker, mysql, 3, 4)
        worker.stop()
    asyncio.run(restored(stack, wanted["prefix"], copy))
    with running(wanted, tmp_path) as worker:
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
        assert "JournalOutdated" in error
        assert f"epoch {last['epoch']}" in error
        assert "cursor set shop --gtid" in error
        assert len(rows(stack, wanted["prefix"], "t")) == 4, "nothing was published again"

        monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
        with connected(mysql) as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            (done,) = cursor.fetchone() or ("",)
        said = main(
            ["cursor", "set", "shop", "--gtid", done, "--why", "a copy", "--yes-lose-changes"]
        )
        assert said == 0, capsys.readouterr().err
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "INSERT INTO shop.t (id) VALUES (5)")
        worker.wait(lambda status: status["rows"] == 1)
    found = [one.value["source"] for one in rows(stack, wanted["prefix"], "t")]
    assert [one["seq"] for one in found][-3:] == [last["seq"] - 1, last["seq"], last["seq"] + 1]
    assert found[-1]["epoch"] > last["epoch"]
    versions = [one["version"] for one in values(stack, f"{wanted['prefix']}.__schemas")]
    assert len(versions) == len(set(versions)), "no version of the table was numbered twice"
