"""Versions of the mapping in ZooKeeper, pushed to running workers: one boundary each, over takeovers."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.harness.topics import on_kafka, values
from tests.harness.wait import TIMEOUT, until

FEWEST = 25
"""Versions that are pushed in quick succession, at the least."""


@pytest.fixture
def mysql(stack: Stack) -> Mysql:
    """The shared server; the test has a database of its own in it."""
    return stack.mysql


class Writer:
    """Commits transactions of several rows; counts what was committed. It ends with its block at the latest:
    others use the server afterwards."""

    def __init__(self, mysql: Mysql, table: str) -> None:
        self.count = 0
        self._mysql, self._table = mysql, table
        self._running = contextlib.ExitStack()
        self._end: Callable[[], None] = lambda: None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def start(self) -> None:
        self._end = self._running.enter_context(beside(self._write))

    def stop(self) -> None:
        """Stop it; its error is raised here."""
        self._end()

    def _write(self, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            rows = ", ".join(f"({self.count + n}, 1)" for n in range(50))
            run(self._mysql, f"INSERT INTO {self._table} VALUES {rows}")
            self.count += 50


class Setter:
    """The commands of `mapping`, with a worker's settings."""

    def __init__(self, folder: Path, database: str) -> None:
        self._file, self._database = folder / "mapping.yaml", database

    def __call__(self, topic: str, *more: str, rules: str = "") -> int:
        text = f"tables: {{{self._database}.shop: {{topic: {topic}, partitions: 1{rules}}}}}"
        self._file.write_text(text)
        return main(["mapping", "set", str(self._file), "--why", f"to {topic}", *more])


def ids_of(stack: Stack, prefix: str, names: list[str]) -> dict[str, list[tuple[int, int]]]:
    """(seq, id) of each record by topic, committed ones only; a topic to which none was published has none."""
    existing = on_kafka(stack, lambda admin: admin.list_topics())
    return {
        name: [
            (int(value["source"]["seq"]), int(value["after"]["id"]))
            for value in (values(stack, topic) if topic in existing else ())
        ]
        for name in names
        for topic in (f"{prefix}.{name}",)
    }


def test_pushed_versions_take_effect_at_one_boundary_each_also_over_takeovers(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = f"push{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    push = Setter(tmp_path, database)
    with Pair(wanted, tmp_path) as pair, Writer(mysql, f"{database}.shop") as writer:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        assert push("first") == 0
        for name in ("one", "two"):
            pair.start(name)
        leader = pair.leader("shop")
        pair.settled()

        def shown() -> dict[str, Any]:
            for name, worker in pair.workers.items():
                if worker.process.poll() is None:
                    one = pair.status(name).get("destinations", {}).get("shop", {})
                    if one.get("state") == "RUNNING":
                        return {**one["mapping"], "seq": one["cursor"]["seq"]}
            return {}

        def published_by(version: int, topic: str) -> None:
            """Wait until a version is in force, and rows that follow are published by it."""
            pair.until(lambda: shown().get("version") == version)
            before = len(ids_of(stack, wanted["prefix"], [topic])[topic])
            pair.until(lambda: len(ids_of(stack, wanted["prefix"], [topic])[topic]) > before)

        writer.start()
        published_by(1, "first")
        # A push while rows are written, without a kill.
        assert push("second") == 0
        published_by(2, "second")
        # The leader dies at once after a push, before or after its boundary.
        assert push("third", "--after", "2") == 0
        pair.end(leader, signal.SIGKILL)
        published_by(3, "third")
        first = shown()["since"]
        pair.start(leader)
        # A version made from an older one, a bad one, and one that the existing tables do not fit.
        capsys.readouterr()
        assert push("late", "--after", "2") == 1
        assert push("bad", rules=", row_filter: 'sleep(1)'") == 1
        assert "row_filter" in capsys.readouterr().err
        odd = tmp_path / "odd.yaml"
        odd.write_text(f"tables: {{{database}.other: {{from: [x], topic: {database}.shop}}}}")
        assert main(["mapping", "set", str(odd), "--why", "a mistake"]) == 0
        pair.until(lambda: shown().get("refused"))
        assert (shown()["version"], shown()["waiting"], shown()["since"]) == (3, 4, first)
        # One that would give the rows that the topic has other keys.
        assert push("third", rules=", shard_in_key: always") == 0
        pair.until(lambda: shown().get("waiting") == 5 and shown().get("refused"))
        assert f"{database}.shop in {wanted['prefix']}.third: they begin with" in shown()["refused"]
        assert (shown()["version"], shown()["since"]) == (3, first)
        # Back to the first version, and a death after its boundary.
        assert main(["mapping", "rollback", "1", "--why", "as before"]) == 0
        published_by(6, "first")
        pair.settled()
        pair.end(pair.leader("shop"), signal.SIGKILL)
        published_by(6, "first")
        writer.stop()

        names = ["first", "second", "third"]

        def all_there() -> dict[str, list[tuple[int, int]]] | None:
            found = ids_of(stack, wanted["prefix"], names)
            return found if sum(map(len, found.values())) >= writer.count else None

        found = until(all_there, glance=0.3)
    published = sorted((seq, id_, name) for name in names for seq, id_ in found[name])
    # Each row once, in the order of its commit, whichever version and worker published it.
    assert [id_ for _, id_, _ in published] == list(range(writer.count))
    order = [name for _, _, name in published]
    borders = [at for at in range(1, len(order)) if order[at] != order[at - 1]]
    assert [order[0], *(order[at] for at in borders)] == ["first", "second", "third", "first"]
    # Each boundary is between two transactions, which have 50 rows.
    assert [at % 50 for at in borders] == [0, 0, 0]
    capsys.readouterr()
    assert main(["mapping", "history", "--format", "json"]) == 0
    history = json.loads(capsys.readouterr().out)
    assert [(one["version"], one["restores"]) for one in history][:2] == [(6, 1), (5, None)]
    assert main(["mapping", "diff", "1", "6"]) == 0
    assert capsys.readouterr().out == "no difference\n"


@pytest.mark.long("the first test has boundaries over takeovers")
def test_a_transaction_in_parts_ends_by_the_version_it_began_with_on_another_worker_too(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"parts{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    # Many small parts, so that the push and the death are within the transaction.
    wanted["publish"] = {"max_bytes": 65536, "interval_ms": 50}
    push, rows = Setter(tmp_path, database), 20_000
    with Pair(wanted, tmp_path) as pair:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        assert push("first") == 0
        for name in ("one", "two"):
            pair.start(name)
        leader = pair.leader("shop")
        pair.settled()

        def shown() -> dict[str, Any]:
            one: dict[str, Any] = pair.status(leader)["destinations"]["shop"]
            return {**one["mapping"], "seq": one["cursor"]["seq"]}

        # The DDL statements of earlier tests count in seq too: they have been read once this row is published.
        run(mysql, f"INSERT INTO {database}.shop VALUES (0, 1)")
        pair.until(lambda: len(ids_of(stack, wanted["prefix"], ["first"])["first"]) == 1)
        begun = shown()["seq"]
        run(
            mysql,
            "SET SESSION cte_max_recursion_depth = 100000",
            f"INSERT INTO {database}.shop WITH RECURSIVE n AS "
            f"(SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < {rows - 1}) SELECT id, 1 FROM n",
        )
        pair.until(lambda: shown()["seq"] > begun + 100)
        assert push("second") == 0
        pair.until(lambda: shown()["waiting"] == 2)
        pair.end(leader, signal.SIGKILL)
        # What was committed last is visible once the broker has written the markers of its commit.
        within = until(lambda: len(ids_of(stack, wanted["prefix"], ["first"])["first"]) - 1)
        other = "two" if leader == "one" else "one"

        def in_force() -> bool:
            one = pair.status(other)["destinations"]["shop"]
            return bool(one["mapping"]) and one["mapping"]["version"] == 2

        pair.until(in_force)
        run(mysql, f"INSERT INTO {database}.shop VALUES ({rows}, 1)")
        names = ["first", "second"]

        def all_published() -> dict[str, list[tuple[int, int]]] | None:
            found = ids_of(stack, wanted["prefix"], names)
            return found if sum(map(len, found.values())) > rows else None

        found = until(all_published, glance=0.5)
    assert 0 < within < rows - 1
    assert [id_ for _, id_ in found["first"]] == list(range(rows))
    assert [id_ for _, id_ in found["second"]] == [rows]


def test_a_zookeeper_that_comes_back_empty_changes_nothing_and_takes_the_next_version(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"empty{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    push = Setter(tmp_path, database)
    rows = itertools.count()

    def is_published(pair: Pair, name: str, version: int, topic: str) -> None:
        def is_in_force() -> bool:
            one = pair.status(name).get("destinations", {}).get("shop", {})
            return bool(one.get("state") == "RUNNING" and one["mapping"]["version"] == version)

        pair.until(is_in_force)
        row = next(rows)
        run(mysql, f"INSERT INTO {database}.shop VALUES ({row}, 1)")
        pair.until(
            lambda: row in [one for _, one in ids_of(stack, wanted["prefix"], [topic])[topic]]
        )

    def emptied() -> None:
        """As an ensemble that lost its data, or a restored older copy."""
        client = KazooClient(hosts=stack.zookeeper)
        client.start()
        path = f"/{wanted['prefix']}/mapping/versions"
        for version in client.get_children(path):
            client.delete(f"{path}/{version}")
        client.stop()
        client.close()

    with Pair(wanted, tmp_path) as pair:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        assert push("first") == 0
        assert push("second") == 0
        pair.start("one")
        is_published(pair, "one", 2, "second")
        # While it runs: it is stored there again, and what follows is taken.
        emptied()
        pair.until(lambda: "ZooKeeper had lost version 2 of the mapping" in pair.workers["one"].log)
        is_published(pair, "one", 2, "second")
        assert push("third") == 0
        is_published(pair, "one", 3, "third")
        # While none runs: what is stored follows the version in force, which only the journal has.
        pair.end("one", signal.SIGKILL)
        emptied()
        for topic in ("a", "b", "c"):
            assert push(topic) == 0
        pair.start("two")
        is_published(pair, "two", 6, "c")
        assert push("fourth") == 0
        is_published(pair, "two", 7, "fourth")
        pair.end("two", signal.SIGKILL)
        emptied()
        pair.start("three")
        is_published(pair, "three", 7, "fourth")
    assert main(["mapping", "get"]) == 0


def test_rows_are_committed_while_versions_are_pushed_in_quick_succession(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"quick{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    push, names = Setter(tmp_path, database), ["first", "second"]
    with Pair(wanted, tmp_path) as pair, Writer(mysql, f"{database}.shop") as writer:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        assert push("first") == 0
        pair.start("one")
        pair.leader("shop")

        def shown() -> dict[str, Any]:
            one: dict[str, Any] = pair.status("one").get("destinations", {}).get("shop", {})
            return one

        def seq() -> int:
            return int((shown().get("cursor") or {}).get("seq", 0))

        writer.start()
        pair.until(lambda: seq() > 0)
        last, commits, in_force = seq(), 0, {1}
        pushed, ends = 1, time.monotonic() + TIMEOUT
        while (now := time.monotonic()) < ends and not (
            pushed > FEWEST and commits >= 3 and len(in_force) >= 3
        ):
            assert push(names[pushed % 2]) == 0
            pushed += 1
            if (found := seq()) > last:
                last, commits = found, commits + 1
            in_force.add((shown().get("mapping") or {}).get("version") or 1)
            time.sleep(max(0.0, now + 0.2 - time.monotonic()))
        writer.stop()
        # Each push once ended the run before it had published anything.
        assert commits >= 3
        # Versions come into force meanwhile too, but not each of them.
        assert 3 <= len(in_force) < pushed

        def all_there() -> dict[str, list[tuple[int, int]]] | None:
            found = ids_of(stack, wanted["prefix"], names)
            return found if sum(map(len, found.values())) >= writer.count else None

        found_ids = until(all_there, glance=0.3)
        pair.until(lambda: shown()["mapping"]["version"] == pushed)
    published = sorted((number, id_) for name in names for number, id_ in found_ids[name])
    assert [id_ for _, id_ in published] == list(range(writer.count))
