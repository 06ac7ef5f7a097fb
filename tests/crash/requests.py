"""Three workers, eight destinations over all journal partitions, each command given to each, while workers come
and go: `make crash SUITE=requests`."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.__main__ import main
from app.operator.commands import GROUPS
from devstack import Stack
from devstack.zookeeper import ZooKeeper
from tables.state.journal.state import partition_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import ask, run
from tests.harness.wait import until
from tests.integration.failover.servers import Pair as Servers
from tests.integration.failover.servers import pair as master_and_standby

NAMES = ("orders", "shop", "a1", "a2", "a3", "a4", "a5", "a6")
DEFAULT_PARTITIONS = 4
THREE = ("a", "b", "c")
EACH_PARTITION = ("a4", "a2", "shop", "a1")
COMMAND_SECONDS = 300.0
"""For commands at the same time; one that never ends is a fault, on a slow machine too."""


@pytest.fixture
def pair(stack: Stack, tmp_path: Path) -> Iterator[Pair]:
    database = f"asked{uuid.uuid4().hex[:8]}"
    run(stack.mysql, f"CREATE DATABASE {database}")
    for name in NAMES:
        run(stack.mysql, f"CREATE TABLE {database}.{name} (id int PRIMARY KEY)")
    wanted = pair_settings(stack, stack.mysql, tmp_path, names=NAMES, database=database)
    for one in wanted["destinations"].values():
        one["decoders"] = 0
    with Pair(wanted, tmp_path) as made:
        yield made


def asks(pair: Pair, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, answer and errors of a command."""
    return all_asked(pair, [words])[0]


def all_asked(pair: Pair, commands: list[tuple[str, ...]]) -> list[tuple[int, dict[str, Any], str]]:
    """The same of several at the same time, in processes that are begun once for all of them."""
    with ProcessPoolExecutor(
        min(2, len(commands)), get_context("spawn"), initializer=configured,
        initargs=(str(pair.config("a")),),
    ) as pool:  # fmt: skip
        return list(pool.map(asked, commands, timeout=COMMAND_SECONDS))


def configured(path: str) -> None:
    os.environ["AQUEDUCT_CONFIG"] = path


def asked(words: tuple[str, ...]) -> tuple[int, dict[str, Any], str]:
    out, errors = io.StringIO(), io.StringIO()
    group = () if words[0] in GROUPS else ("destination",)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([*group, *words, "--format", "json"])
    return code, orjson.loads(out.getvalue() or "{}"), errors.getvalue()


def each(pair: Pair, word: str) -> dict[str, str]:
    """Give a command to each destination; from each to the worker that has applied it."""
    answers = all_asked(pair, [(word, name) for name in NAMES])
    assert [(code, result) for code, _, result in answers] == [(0, "")] * len(NAMES)
    return {
        name: result["applied"]["worker"]
        for name, (_, result, _) in zip(NAMES, answers, strict=True)
    }


def in_state(pair: Pair, state: str) -> dict[str, set[str]]:
    """Of each destination the workers on which it is in a state."""
    return {
        name: {worker for worker, shown in pair.states(name).items() if shown == state}
        for name in NAMES
    }


def test_each_command_is_applied_by_the_leader_while_workers_come_and_go(pair: Pair) -> None:
    assert {partition_of(name, DEFAULT_PARTITIONS) for name in NAMES} == set(range(4))
    assert "journal_partitions" not in pair.wanted["topics"]
    for name in THREE[:2]:
        pair.start(name)
    pair.until(lambda: all(len(on) == 1 for on in in_state(pair, "RUNNING").values()))
    # Its joining moves both destinations and Faust's partitions.
    pair.start("c")
    each(pair, "pause")
    assert all(on for on in in_state(pair, "PAUSED").values())
    assert not any(on for on in in_state(pair, "RUNNING").values())
    pair.until(lambda: len({*map(str, in_state(pair, "PAUSED").values())}) == len(THREE))
    pair.end("b", signal.SIGKILL)
    assert "b" not in each(pair, "resume").values()
    assert all(on and on <= {"a", "c"} for on in in_state(pair, "RUNNING").values())
    pair.start("b")
    before = {name: epoch(pair, name) for name in NAMES}
    each(pair, "restart")
    assert all(epoch(pair, name) > before[name] for name in NAMES)
    pair.until(lambda: pair.status("b"))
    each(pair, "stop")
    pair.until(lambda: all(len(on) == len(THREE) for on in in_state(pair, "STOPPED").values()))
    assert set(each(pair, "add").values()) <= set(THREE)
    each(pair, "delete")
    pair.until(lambda: all(pair.status(name)["destinations"] == {} for name in THREE))


def epoch(pair: Pair, destination: str) -> int:
    """The greatest in which a worker leads it."""
    found = [pair.status(name).get("destinations", {}).get(destination, {}) for name in THREE]
    return max(int(one["cursor"]["epoch"]) for one in found if one.get("cursor"))


@pytest.mark.remedy("NotApplied", "RequestReplaced")
def test_a_command_that_no_worker_applies_fails_by_name_and_is_applied_later(
    pair: Pair, stack: Stack
) -> None:
    del pair.wanted["zookeeper"]
    only = {"shop": pair.wanted["destinations"]["shop"]}
    pair.wanted["destinations"] = only
    worker = pair.start("a")
    pair.leader("shop")
    code, result, _ = asks(pair, "resume", "shop")
    assert (code, result["applied"]["state"], result["applied"]["worker"]) == (0, "RUNNING", "a")
    run(stack.mysql, "CREATE USER IF NOT EXISTS nobody@'%' IDENTIFIED BY 'x'")
    assert worker.stop() == 0
    code, _, said = asks(pair, "pause", "shop", "--timeout", "2")
    assert code == 1
    assert "NotApplied" in said
    assert "destination=shop" in said
    code, result, _ = asks(pair, "pause", "shop", "--no-wait")
    assert (code, result["applied"]) == (0, None)
    # Somebody else asks for another thing meanwhile: it replaces the first.
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(asks, pair, "stop", "shop")
        pair.until(lambda: listed(pair)["wish"] == "stop")
        assert asks(pair, "pause", "shop", "--no-wait")[0] == 0
        code, _, said = first.result()
    assert (code, "RequestReplaced" in said) == (1, True)
    pair.start("a")
    pair.until(lambda: pair.states("shop") == {"a": "PAUSED"})
    # What fails is reported with why.
    pair.wanted["destinations"]["shop"]["source"]["user"] = "nobody"
    pair.wanted["destinations"]["shop"]["source"]["password"] = "x"
    pair.write("a")
    pair.workers["a"].process.send_signal(signal.SIGHUP)
    pair.until(lambda: "has other settings" in pair.workers["a"].log)
    code, result, _ = asks(pair, "resume", "shop", "--timeout", "20")
    assert (code, result["applied"]["state"]) == (1, "FAILED")
    assert result["applied"]["error"].startswith("PreflightError")


def listed(pair: Pair) -> dict[str, Any]:
    """The first destination of `destination list`."""
    _, found, _ = asks(pair, "list")
    one: dict[str, Any] = found[0]  # type: ignore[index]  # this one answers with a list
    return one


def test_switches_and_resolutions_reach_the_leader_among_three_workers(
    stack: Stack, tmp_path: Path
) -> None:
    assert [partition_of(name, DEFAULT_PARTITIONS) for name in EACH_PARTITION] == [0, 1, 2, 3]
    with master_and_standby(stack, f"asked-{tmp_path.name}") as servers:
        master, standby = servers.master, servers.standby
        for name in EACH_PARTITION:
            run(master, f"CREATE TABLE shop.{name} (id int PRIMARY KEY, a int, b int)")
        wanted = pair_settings(stack, master, tmp_path, names=EACH_PARTITION)
        for one in wanted["destinations"].values():
            first = one.pop("source")
            one["decoders"], one["sources"] = 0, [first, {**first, "port": standby.port}]
        with Pair(wanted, tmp_path) as pair:
            for name in THREE:
                pair.start(name)
            pair.until(lambda: {pair.leader(name) for name in EACH_PARTITION} == set(THREE))
            for name in EACH_PARTITION:
                run(master, f"INSERT INTO shop.{name} VALUES (1, 1, 1)")
                pair.until(partial(shows, pair, name, "rows"))
                alike(servers, name)
                torn(servers, name)
                run(master, f"INSERT INTO shop.{name} (id, a, b) VALUES (2, 2, 2)")
                pair.until(partial(shows, pair, name, "set_aside"))
            leaders = {name: pair.leader(name) for name in EACH_PARTITION}
            answers = all_asked(
                pair,
                [
                    ("schema", "resolve", name, f"shop.{name}", "--server")
                    for name in EACH_PARTITION
                ],
            )
            for name, (code, result, errors) in zip(EACH_PARTITION, answers, strict=True):
                assert (code, errors) == (0, "")
                assert f"done by worker {leaders[name]} " in result["message"]
                assert shown(pair, name)["set_aside"] == []
            # The leader of some is gone before the request is written.
            pair.end("b", signal.SIGKILL)
            for name in EACH_PARTITION:
                alike(servers, name)
            address = f"{standby.host}:{standby.port}"
            answers = all_asked(
                pair, [("source", "switch", name, address) for name in EACH_PARTITION]
            )
            for name, (code, result, errors) in zip(EACH_PARTITION, answers, strict=True):
                assert (code, errors) == (0, ""), result
                assert f"done by worker {pair.leader(name)} " in result["message"]
                read = [one["address"] for one in shown(pair, name)["sources"] if one["is_read"]]
                assert read == [address]


def alike(servers: Servers, table: str) -> None:
    """Wait until the standby has the master's rows of a table."""
    query = f"SELECT COUNT(*) FROM shop.{table}"
    until(lambda: ask(servers.master, query) == ask(servers.standby, query))


def torn(servers: Servers, table: str) -> None:
    """Change a table of both in a way that no binlog has."""
    for server in (servers.master, servers.standby):
        run(server, "SET sql_log_bin = 0", f"ALTER TABLE shop.{table} MODIFY b bigint FIRST")


def shown(pair: Pair, destination: str) -> dict[str, Any]:
    """Its leader's status of it."""
    return dict(pair.status(pair.leader(destination))["destinations"][destination])


def shows(pair: Pair, destination: str, what: str) -> bool:
    """Whether its leader's status has this field."""
    return bool(shown(pair, destination)[what])


@pytest.mark.remedy("CoordinationLost")
def test_commands_report_that_nothing_applied_them_while_zookeeper_is_away(
    pair: Pair, stack: Stack, tmp_path: Path
) -> None:
    java, jars = stack._java("zookeeper")
    zookeeper = ZooKeeper(tmp_path / "zookeeper", jars, java=java, owner=stack.children)
    zookeeper.start()
    pair.wanted["zookeeper"]["hosts"] = zookeeper.address
    pair.wanted["destinations"] = {
        name: pair.wanted["destinations"][name] for name in ("shop", "orders")
    }
    source = pair.wanted["destinations"]["shop"]["source"]
    for name in THREE[:2]:
        pair.start(name)
    pair.until(lambda: pair.leader("shop") and pair.leader("orders"))
    zookeeper.kill()
    pair.until(lambda: "RUNNING" not in {*pair.states("shop").values()})
    address = f"{source['host']}:{source['port']}"
    # A pause would be the reason why no other source is tried.
    first: list[tuple[str, ...]] = [("source", "switch", "shop", address), ("restart", "orders")]
    for given in (first, [("pause", "shop"), ("stop", "orders")]):
        answers = all_asked(pair, [(*words, "--timeout", "3") for words in given])
        for words, (code, _, errors) in zip(given, answers, strict=True):
            assert (code, errors.count("\n")) == (1, 1), (words, errors)
            assert errors.startswith("aqueduct: NotApplied: "), errors
            assert "CoordinationLost" in errors
            assert zookeeper.address in errors
    code, _, errors = asks(pair, "list")
    assert (code, "CoordinationLost" in errors) == (1, True), errors
    # Who leads is not known; that nobody does is not said.
    one = listed(pair)
    assert (one["state"], one["error"]) == (None, "the leader is unknown: CoordinationLost")
    # What was asked for is done once it is there again.
    zookeeper.start()
    pair.until(lambda: "PAUSED" in pair.states("shop").values())
    pair.until(lambda: set(pair.states("orders").values()) == {"STOPPED"})
    code, result, _ = asks(pair, "resume", "shop")
    assert (code, result["applied"]["state"]) == (0, "RUNNING")
    zookeeper.kill()
