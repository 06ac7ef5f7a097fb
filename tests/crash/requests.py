"""Three workers, eight destinations over all journal partitions, each command given to each, while workers come
and go: `make crash-requests`."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson
import pymysql
import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tables.journal import partition_of
from tests.integration.process.shared import Pair, pair_settings

NAMES = ("orders", "shop", "a1", "a2", "a3", "a4", "a5", "a6")
DEFAULT_PARTITIONS = 4
THREE = ("a", "b", "c")


def run(mysql: Mysql, *statements: str) -> None:
    connection = pymysql.connect(host=mysql.host, port=mysql.port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


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
        return list(pool.map(asked, commands))


def configured(path: str) -> None:
    os.environ["AQUEDUCT_CONFIG"] = path


def asked(words: tuple[str, ...]) -> tuple[int, dict[str, Any], str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(["destination", *words, "--format", "json"])
    return code, orjson.loads(out.getvalue() or "{}"), errors.getvalue()


def each(pair: Pair, word: str) -> dict[str, str]:
    """Give a command to each destination; from each to the worker that has applied it."""
    answers = all_asked(pair, [(word, name) for name in NAMES])
    assert [(code, told) for code, _, told in answers] == [(0, "")] * len(NAMES)
    return {
        name: told["applied"]["worker"] for name, (_, told, _) in zip(NAMES, answers, strict=True)
    }


def in_state(pair: Pair, state: str) -> dict[str, set[str]]:
    """Of each destination the workers on which it is in a state."""
    return {
        name: {worker for worker, shown in pair.states(name).items() if shown == state}
        for name in NAMES
    }


def test_each_command_is_applied_by_whoever_leads_while_workers_come_and_go(pair: Pair) -> None:
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


def test_a_command_that_no_worker_applies_fails_by_name_and_is_applied_later(
    pair: Pair, stack: Stack
) -> None:
    del pair.wanted["zookeeper"]
    only = {"shop": pair.wanted["destinations"]["shop"]}
    pair.wanted["destinations"] = only
    worker = pair.start("a")
    pair.leader("shop")
    code, told, _ = asks(pair, "resume", "shop")
    assert (code, told["applied"]["state"], told["applied"]["worker"]) == (0, "RUNNING", "a")
    run(stack.mysql, "CREATE USER IF NOT EXISTS nobody@'%' IDENTIFIED BY 'x'")
    assert worker.stop() == 0
    code, _, said = asks(pair, "pause", "shop", "--timeout", "2")
    assert code == 1
    assert "NotApplied" in said
    assert "destination=shop" in said
    code, told, _ = asks(pair, "pause", "shop", "--no-wait")
    assert (code, told["applied"]) == (0, None)
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
    code, told, _ = asks(pair, "resume", "shop", "--timeout", "20")
    assert (code, told["applied"]["state"]) == (1, "FAILED")
    assert told["applied"]["error"].startswith("PreflightError")


def listed(pair: Pair) -> dict[str, Any]:
    """What `destination list` says of its first destination."""
    _, found, _ = asks(pair, "list")
    one: dict[str, Any] = found[0]  # type: ignore[index]  # this one answers with a list
    return one
