"""Topics deleted under a running worker, and a worker that starts without Kafka."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from connectors.kafka.topics import TopicPlan
from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import changes, on_kafka, rows, values
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings

_ALIKE = pytest.mark.long("one check has all kinds; ddl goes through it")


@pytest.fixture(scope="module")
def server(stack: Stack) -> Iterator[Mysql]:
    """A server of these tests' own."""
    with own_mysql(stack, options={"server_id": 12}) as made:
        yield made


@pytest.fixture
def mysql(server: Mysql) -> Mysql:
    """The same, with one row in its binlog."""
    run(
        server,
        "DROP DATABASE IF EXISTS shop",
        "RESET BINARY LOGS AND GTIDS",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
        "INSERT INTO shop.orders VALUES (1)",
    )
    return server


def delete(stack: Stack, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    on_kafka(stack, lambda admin: admin.delete_topics([topic]))
    until(lambda: topic not in on_kafka(stack, lambda admin: admin.list_topics()), glance=0.2)


def make(stack: Stack, command: str) -> None:
    """Do what a ``kafka-topics.sh --create`` would; that tool is in none of the broker's own jars."""
    words = command.split()
    one = {name: value for name, value in itertools.pairwise(words) if name[0] == "-"}
    config = [word.partition("=")[::2] for word in words if "=" in word]
    topic = NewTopic(
        one["--topic"],
        int(one["--partitions"]),
        int(one["--replication-factor"]),
        topic_configs=dict(config),
    )
    on_kafka(stack, lambda admin: admin.create_topics([topic]))


def gone(worker: Worker) -> str:
    """The status after the destination stopped for a deleted topic."""
    error = str(worker.wait(lambda status: status["state"] == "FAILED")["error"])
    assert error.startswith("TopicGone: "), error
    return error


def aside(worker: Worker, cause: str) -> str:
    """Why the one table waits, while its destination runs."""
    (one,) = worker.wait(lambda status: status["state"] == "RUNNING" and bool(status["set_aside"]))[
        "set_aside"
    ]
    assert str(one["why"]).startswith(f"{cause}: "), one
    return str(one["why"])


@pytest.mark.remedy("TopicGone")
def test_a_topic_of_rows_that_vanished_is_not_made_again_silently(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    topic = f"{wanted['prefix']}.shop.orders"
    with running(wanted, tmp_path) as worker:
        before = worker.wait(lambda status: status["rows"] == 1)["cursor"]["seq"]
        delete(stack, topic)
        run(mysql, "INSERT INTO shop.orders VALUES (2)")
        error = aside(worker, "TopicGone")
        assert f"topic={topic}" in error
        assert worker.destination()["cursor"]["seq"] == before
        assert topic not in on_kafka(stack, lambda admin: admin.list_topics())
        make(stack, error[error.index("kafka-topics.sh") : error.index(" [")])
        follow(tmp_path, error)
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 2)
    found = rows(stack, wanted["prefix"], "orders")
    assert [change.value["after"]["id"] for change in found] == [2]


def remake(stack: Stack, plan: TopicPlan) -> None:
    """Delete a topic and make it again at once, as between two checks."""
    delete(stack, plan.name)
    make(stack, plan.command())


def replaced(worker: Worker, topic: str) -> str:
    """The status after the destination stopped for a topic that was made again."""
    error = str(worker.wait(lambda status: status["state"] == "FAILED")["error"])
    assert error.startswith("TopicReplaced: "), error
    assert topic in error
    return error


def follow(folder: Path, error: str, *, count: int = 1) -> None:
    """Run the commands that an error names."""
    for words in re.findall(r"python -m app ([^;]+?)(?=[;.] |\.?$)", error)[:count]:
        extra = ["--yes-lose-changes"] if "accept-topic" in words else []
        done = run_command(folder / "aqueduct.yaml", *shlex.split(words), *extra)
        assert done.returncode == 0, (words, done.stdout, done.stderr)


@pytest.mark.remedy("TopicReplaced")
def test_a_topic_that_was_made_again_stops_its_table_until_an_operator_accepts_it(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    prefix = wanted["prefix"]
    topic = f"{prefix}.shop.orders"
    plan = TopicPlan(name=topic, partitions=2, replication_factor=1, max_message_bytes=16 << 20)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 1)
        # While nothing is written to it.
        remake(stack, plan)
        assert "(shop.orders)" in aside(worker, "TopicReplaced")
        run(mysql, "INSERT INTO shop.orders VALUES (2)")
        assert worker.stop() == 0
    with running(wanted, tmp_path) as worker:
        # A restart, of the process or of the destination, accepts nothing.
        aside(worker, "TopicReplaced")
        assert restart(tmp_path).returncode == 0
        error = aside(worker, "TopicReplaced")
        assert changes(stack, topic, partitions=2) == []
        follow(tmp_path, error, count=2)
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] >= 3)
        until(lambda: found(stack, topic) >= {("c", 2), ("r", 1), ("r", 2)})


@pytest.mark.long(
    "a topic of rows goes through the same check; "
    "unit/app/worker/destination/takeover/test_takeover.py has versions"
)
def test_the_topic_of_versions_is_filled_again_and_a_journal_that_was_made_again_is_refused(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    prefix = wanted["prefix"]
    topic, versions = f"{prefix}.shop.orders", f"{prefix}.__schemas"
    plan = TopicPlan(
        name=versions, partitions=1, replication_factor=1, cleanup_policy="compact",
        max_message_bytes=16 << 20,
    )  # fmt: skip
    with running(wanted, tmp_path) as worker:
        run(mysql, "ALTER TABLE shop.orders ADD n INT", "INSERT INTO shop.orders VALUES (3, 3)")
        until(lambda: ("c", 3) in found(stack, topic))
        assert worker.stop() == 0
    before = values(stack, versions)
    assert len(before) == 2
    # While no worker runs.
    remake(stack, plan)
    with running(wanted, tmp_path) as worker:
        follow(tmp_path, replaced(worker, versions))
        worker.wait(lambda status: status["state"] == "RUNNING")
        assert values(stack, versions) == before
        run(mysql, "INSERT INTO shop.orders VALUES (4, 4)")
        until(lambda: ("c", 4) in found(stack, topic))
        remake(stack, replace(plan, name=f"{prefix}.__journal", partitions=4))
        error = str(worker.wait(lambda status: status["state"] == "FAILED")["error"])
        assert "recreated" in error
        assert f"topic={prefix}.__journal" in error


def found(stack: Stack, topic: str) -> set[tuple[str, int]]:
    """Each row of a topic with its operation."""
    changed = changes(stack, topic, partitions=2)
    return {(one.value["op"], one.value["after"]["id"]) for one in changed if one.value["after"]}


@pytest.mark.parametrize(
    "kind", ["ddl", *(pytest.param(kind, marks=_ALIKE) for kind in ("quarantine", "transactions"))]
)
def test_a_topic_of_a_destination_that_vanished_while_nobody_was_there_is_named(
    stack: Stack, mysql: Mysql, tmp_path: Path, kind: str
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 1)
        assert worker.stop() == 0
    topic = f"{wanted['prefix']}.__{kind}.shop"
    delete(stack, topic)
    with running(wanted, tmp_path) as worker:
        assert f"topic={topic}" in gone(worker)
    assert topic not in on_kafka(stack, lambda admin: admin.list_topics())


def test_what_a_worker_waits_for_before_it_has_a_journal_is_on_its_page(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    wanted["kafka"]["bootstrap_servers"] = f"127.0.0.1:{free_port()}"
    with running(wanted, tmp_path) as worker:
        assert page(worker, "error").startswith("KafkaLost: ")
        assert worker.process.poll() is None


def page(worker: Worker, name: str) -> Any:
    """Something of /status, once it is there."""
    return until(
        lambda: json.loads(worker.get("/status") or "{}").get(name),
        late=lambda: worker.log[-2000:],
    )


def test_on_compacted_topics_what_has_no_key_is_published_too(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    wanted["topics"]["cleanup_policy"] = "compact"
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 1)
        run(
            mysql,
            "CREATE TABLE shop.notes (text VARCHAR(20))",
            "INSERT INTO shop.notes VALUES ('a'), ('a')",
            "DELETE FROM shop.notes LIMIT 1",
            "TRUNCATE shop.orders",
            "INSERT INTO shop.orders VALUES (2)",
        )
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 6)
    ops = {
        table: [change.value["op"] for change in rows(stack, wanted["prefix"], table)]
        for table in ("notes", "orders")
    }
    assert ops["notes"] == ["c", "c", "d"]
    assert sorted(ops["orders"]) == ["c", "c", "t"]


def test_topics_that_may_lose_records_are_named_until_they_are_repaired(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    orders, items = (f"{wanted['prefix']}.shop.{table}" for table in ("orders", "items"))
    plan = TopicPlan(name=orders, partitions=2, replication_factor=1, max_message_bytes=16 << 20)
    make(stack, plan.command().replace("election.enable=false", "election.enable=true"))
    gauge = 'aqueduct_topics_weak{destination="shop"}'
    run(mysql, "CREATE TABLE shop.items (id INT PRIMARY KEY)", "INSERT INTO shop.items VALUES (1)")
    with running(wanted, tmp_path) as worker:
        warnings = worker.wait(lambda status: status["rows"] == 2)["warnings"]
        (weak,) = [one for one in warnings if one.startswith("topic ")]
        assert weak.startswith(f"topic {orders}: unclean.leader.election.enable is true")
        assert f"{gauge} 1.0" in worker.get("/metrics")
        alter(stack, plan)
        alter(stack, replace(plan, name=items), {"min.insync.replicas": "2"})
        assert restart(tmp_path).returncode == 0
        run(mysql, "INSERT INTO shop.orders VALUES (2)", "INSERT INTO shop.items VALUES (2)")
        # This broker counts no more copies than there are; older ones take no record.
        warnings = worker.wait(lambda status: status["rows"] == 4)["warnings"]
        (weak,) = [one for one in warnings if one.startswith("topic ")]
        assert weak.startswith(f"topic {items}: min.insync.replicas is 2, more than its 1 copy")
        assert f"{gauge} 1.0" in worker.get("/metrics")


def alter(stack: Stack, plan: TopicPlan, changes: dict[str, str] | None = None) -> None:
    """Give a topic the settings of its plan, with these changed."""
    config = ConfigResource(ConfigResourceType.TOPIC, plan.name, plan.config() | (changes or {}))
    on_kafka(stack, lambda admin: admin.alter_configs([config]))


def test_a_key_stays_in_its_partition_when_partitions_are_raised(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    topic = f"{wanted['prefix']}.shop.orders"
    before = ", ".join(f"({number})" for number in range(2, 12))
    run(mysql, "ALTER TABLE shop.orders ADD n INT DEFAULT 0")
    with running(wanted, tmp_path) as worker:
        run(mysql, f"INSERT INTO shop.orders (id) VALUES {before}")
        worker.wait(lambda status: status["rows"] == 11)
        assert worker.stop() == 0
    on_kafka(stack, lambda admin: admin.create_partitions({topic: NewPartitions(5)}))
    wanted["topics"]["partitions"] = 5
    with running(wanted, tmp_path) as worker:
        run(
            mysql,
            "UPDATE shop.orders SET n = 1",
            "CREATE TABLE shop.items (id INT PRIMARY KEY)",
            "INSERT INTO shop.items VALUES (1)",
        )
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 12)
    places: dict[bytes, list[int]] = {}
    for partition in range(5):
        for change in changes(stack, topic, only=partition):
            places.setdefault(change.key, []).append(partition)
    assert {key: len(found) for key, found in places.items()} == dict.fromkeys(places, 2)
    assert [key for key, found in places.items() if len({*found}) > 1] == []
    (made,) = on_kafka(
        stack, lambda admin: admin.describe_topics([f"{wanted['prefix']}.shop.items"])
    )
    assert len(made["partitions"]) == 5


def restart(folder: Path) -> subprocess.CompletedProcess[str]:
    """Restart the destination from the beginning, as an operator does."""
    return run_command(folder / "aqueduct.yaml", "destination", "restart", "shop")


def test_topics_of_another_program_are_written_on_by_their_names_partitions_and_retention(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(
        mysql,
        "CREATE DATABASE inv_shop",
        "CREATE TABLE inv_shop.items (id INT PRIMARY KEY)",
        "INSERT INTO inv_shop.items VALUES (1), (2), (3)",
    )
    name = f"{tmp_path.name}_old.inv_shop.items"
    make(
        stack,
        f"kafka-topics.sh --create --topic {name} --partitions 1 --replication-factor 1 "
        "--config retention.ms=604800000",
    )
    wanted = settings(
        stack, mysql, tmp_path, filter={"include": r"inv_shop\..*|inv shop\..*"},
        row_topics=[{"topic": f"{tmp_path.name}_old.{{database}}.{{table}}"}],
    )  # fmt: skip
    with running(wanted, tmp_path) as worker:
        error = aside(worker, "TopicUnfit")
        assert "it has 1 partitions" in error
        assert "retention.ms is 604800000" in error
    wanted["topics"]["existing"] = "keep"
    with running(wanted, tmp_path) as worker:
        # The setting is what the topic lacked.
        worker.wait(lambda status: status["state"] == "RUNNING" and not status["set_aside"])
        until(lambda: len(changes(stack, name)) == 3, late=lambda: worker.log[-2000:])
        # To Kafka, and to Debezium, both databases have one topic.
        run(
            mysql,
            "CREATE DATABASE `inv shop`",
            "CREATE TABLE `inv shop`.items (id INT PRIMARY KEY)",
        )
        run(
            mysql,
            "INSERT INTO `inv shop`.items VALUES (9)",
            "INSERT INTO inv_shop.items VALUES (4)",
        )
        until(lambda: len(changes(stack, name)) == 4, late=lambda: worker.log[-2000:])
        waiting = worker.wait(lambda status: bool(status["set_aside"]))["set_aside"]
    assert [one.value["after"]["id"] for one in changes(stack, name)] == [1, 2, 3, 4]
    assert "which inv_shop.items has" in str(waiting)
