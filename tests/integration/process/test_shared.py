"""Workers that share destinations through ZooKeeper: takeover, handover and requests."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient

from app.__main__ import main
from demo import checks, topics
from demo.topics import Layout
from devstack import Stack
from devstack.mysql import Mysql
from devstack.zookeeper import ZooKeeper
from tables.rules.routes.routes import Routes
from tests.harness.pair import SESSION, Pair, pair_settings
from tests.harness.sql import run
from tests.harness.wait import until


@pytest.fixture
def mysql(stack: Stack) -> Mysql:
    """The shared server; each test has a database of its own in it, and a table for each destination."""
    return stack.mysql


@pytest.fixture
def database(mysql: Mysql) -> str:
    name = f"shared{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {name}")
    for table in ("shop", "orders"):
        run(mysql, f"CREATE TABLE {name}.{table} (id int PRIMARY KEY, x int)")
    return name


class Rows:
    """Rows that were written so far, the same to each table."""

    def __init__(self, mysql: Mysql, database: str) -> None:
        self.count = 0
        self._mysql, self._database = mysql, database

    def add(self, count: int = 5) -> None:
        values = ", ".join(f"({self.count + n}, 1)" for n in range(count))
        for table in ("shop", "orders"):
            run(self._mysql, f"INSERT INTO {self._database}.{table} VALUES {values}")
        self.count += count


def judge(
    stack: Stack, wanted: dict[str, Any], destination: str, rows: Rows, database: str
) -> list[int]:
    """Nothing is lost or repeated, and no epoch goes back; the epochs."""
    prefix = wanted["prefix"]
    routes = Routes(prefix=prefix)
    names = [routes.topic((database, destination)), Layout(routes, destination).ddl_topic]

    def all_there() -> list[checks.Record] | None:
        contents = asyncio.run(topics.read(stack.kafka, names, mark=b"\0never\0"))
        found = contents.records
        return found if changes_of(found) >= rows.count else None

    def changes_of(found: list[checks.Record]) -> int:
        return sum(record.topic == names[0] for record in found)

    records = until(all_there, glance=0.2)
    assert changes_of(records) == rows.count
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
    by_partition: dict[tuple[str, int], list[int]] = {}
    for record in sorted(records, key=lambda record: record.offset):
        by_partition.setdefault((record.topic, record.partition), []).append(record.epoch)
    assert all(epochs == sorted(epochs) for epochs in by_partition.values()), by_partition
    return sorted({record.epoch for record in records})


def command(pair: Pair, *words: str) -> str:
    """A command's output, with the settings of worker a."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        patch.setenv("AQUEDUCT_CONFIG", str(pair.config("a")))
        code = main(["destination", *words])
    assert code == 0, out.getvalue() + errors.getvalue()
    return out.getvalue()


def state(pair: Pair, name: str, destination: str) -> Callable[[], str]:
    def now() -> str:
        one = pair.status(name).get("destinations", {}).get(destination, {})
        return str(one.get("state", "-"))

    return now


def test_destinations_are_spread_taken_over_and_handed_over(
    stack: Stack, mysql: Mysql, database: str, tmp_path: Path
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path, names=("shop", "orders"), database=database)
    rows = Rows(mysql, database)
    with Pair(wanted, tmp_path) as pair:
        pair.start("a")
        pair.start("b")
        rows.add()
        pair.until(lambda: {pair.leader("shop"), pair.leader("orders")} == {"a", "b"})
        was, other = pair.leader("shop"), pair.leader("orders")
        began = time.monotonic()
        pair.end(was, signal.SIGKILL)
        rows.add()
        pair.until(lambda: state(pair, other, "shop")() == "RUNNING")
        assert time.monotonic() - began > SESSION / 2  # the servers wait for the session's end
        assert "aqueduct_takeovers_total" in pair.workers[other].get("/metrics")

        pair.start(was)
        pair.until(lambda: {pair.leader("shop"), pair.leader("orders")} == {"a", "b"})
        rows.add()
        listed = command(pair, "list")
        assert "shop" in listed
        assert "orders" in listed

        pair.end(other, signal.SIGTERM)
        assert pair.workers[other].process.returncode == 0
        pair.until(
            lambda: {state(pair, was, name)() for name in ("shop", "orders")} == {"RUNNING"}, 15
        )
        rows.add()
        assert "Traceback" not in pair.workers[other].log
        judge(stack, wanted, "orders", rows, database)
        epochs = judge(stack, wanted, "shop", rows, database)
        assert len(epochs) > 1


def test_a_leader_that_slept_past_its_session_commits_nothing(
    stack: Stack, mysql: Mysql, database: str, tmp_path: Path
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    rows = Rows(mysql, database)
    with Pair(wanted, tmp_path) as pair:
        pair.start("a")
        slept = pair.leader("shop")
        pair.start("b")
        pair.settled()
        rows.add()
        pair.until(lambda: pair.status(slept)["destinations"]["shop"]["rows"] == rows.count)
        pair.workers[slept].process.send_signal(signal.SIGSTOP)
        rows.add()
        pair.until(lambda: state(pair, "b", "shop")() == "RUNNING")
        rows.add()
        pair.until(lambda: pair.status("b")["destinations"]["shop"]["rows"] >= 10)
        pair.workers[slept].process.send_signal(signal.SIGCONT)
        pair.until(lambda: state(pair, slept, "shop")() == "STANDBY")
        rows.add()
        pair.until(lambda: pair.status("b")["destinations"]["shop"]["rows"] >= 15)
        assert pair.status(slept)["destinations"]["shop"]["rows"] == 5
        judge(stack, wanted, "shop", rows, database)
        # It takes part again, and leads when it is its turn.
        pair.settled()
        pair.end("b", signal.SIGTERM)
        pair.until(lambda: state(pair, slept, "shop")() == "RUNNING")
        rows.add()
        judge(stack, wanted, "shop", rows, database)


@pytest.mark.remedy("LeadershipLost")
@pytest.mark.long("the crash suite has zookeeper.wiped")
def test_nodes_that_are_deleted_and_servers_that_forget_all_are_survived(
    stack: Stack, mysql: Mysql, database: str, tmp_path: Path
) -> None:
    java, jars = stack._java("zookeeper")
    folder = tmp_path / "zookeeper"
    server = ZooKeeper(folder, jars, java=java, owner=stack.children)
    server.start()
    wanted = pair_settings(stack, mysql, tmp_path, zookeeper=server.address, database=database)
    path = f"{wanted['zookeeper']['root']}/destinations/shop/running"
    rows = Rows(mysql, database)
    with Pair(wanted, tmp_path) as pair:
        pair.start("a")
        pair.start("b")
        rows.add()
        pair.leader("shop")
        client = KazooClient(server.address)
        client.start()
        before = client.get(path)[1].czxid
        assert b'"epoch":' in client.get(path)[0]
        client.delete(path)
        pair.until(lambda: client.exists(path) and client.exists(path).czxid > before)
        client.stop()
        client.close()
        pair.leader("shop")
        rows.add()
        first = judge(stack, wanted, "shop", rows, database)

        server.kill()
        pair.until(lambda: "RUNNING" not in pair.states("shop").values(), 30)
        for each in sorted((folder / "data").rglob("*"), reverse=True):
            each.unlink() if each.is_file() else each.rmdir()
        server = ZooKeeper(folder, jars, java=java, owner=stack.children)
        pair.wanted["zookeeper"]["hosts"] = server.address
        for name in ("a", "b"):
            pair.end(name, signal.SIGTERM)
        server.start()
        pair.start("a")
        pair.start("b")
        pair.leader("shop")
        rows.add()
        after = judge(stack, wanted, "shop", rows, database)
        assert max(after) > max(first)
    server.kill()


@pytest.mark.parametrize("coordinated", [True, False])
@pytest.mark.long("test_requests has each request with two workers")
def test_destinations_are_controlled_while_they_run(
    stack: Stack, mysql: Mysql, database: str, tmp_path: Path, coordinated: bool
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    if not coordinated:
        del wanted["zookeeper"]
    rows = Rows(mysql, database)
    with Pair(wanted, tmp_path) as pair:
        worker = pair.start("a")
        pair.leader("shop")
        rows.add()
        pair.until(lambda: pair.status("a")["destinations"]["shop"]["rows"] == 5)

        command(pair, "pause", "shop")
        pair.until(lambda: state(pair, "a", "shop")() == "PAUSED")
        rows.add()
        command(pair, "resume", "shop")
        pair.until(lambda: pair.status("a")["destinations"]["shop"]["rows"] == 10)

        epoch = pair.status("a")["destinations"]["shop"]["cursor"]["epoch"]
        command(pair, "restart", "shop")
        pair.until(lambda: pair.status("a")["destinations"]["shop"]["cursor"]["epoch"] > epoch)

        command(pair, "stop", "shop")
        pair.until(lambda: state(pair, "a", "shop")() == "STOPPED")
        assert "stop" in command(pair, "list")
        pair.wanted["destinations"]["orders"] = {
            **wanted["destinations"]["shop"],
            "server_id": 7190,
            "filter": {"include": rf"{database}\.orders"},
        }
        pair.write("a")
        command(pair, "add", "orders")
        pair.until(lambda: state(pair, "a", "orders")() == "RUNNING")
        assert state(pair, "a", "shop")() == "STOPPED"

        # What was said holds for a worker that starts.
        assert worker.stop() == 0
        pair.start("a")
        pair.until(lambda: state(pair, "a", "orders")() == "RUNNING")
        pair.until(lambda: state(pair, "a", "shop")() == "STOPPED")
        command(pair, "delete", "orders")
        pair.until(lambda: "orders" not in pair.status("a")["destinations"])
        command(pair, "resume", "shop")
        pair.until(lambda: state(pair, "a", "shop")() == "RUNNING")

        # A file that loses a destination.
        del pair.wanted["destinations"]["shop"]
        pair.write("a")
        pair.workers["a"].process.send_signal(signal.SIGHUP)
        pair.until(lambda: list(pair.status("a")["destinations"]) == [])
        config = yaml.safe_load(pair.config("a").read_text())
        assert list(config["destinations"]) == ["orders"]
    judge(stack, wanted, "shop", rows, database)
