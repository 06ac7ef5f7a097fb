"""Two destinations that are merged begin with the rows that exist already, while both are written."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.pair import Pair
from tests.harness.servers import own_server
from tests.harness.sql import ask, connected, run
from tests.harness.topics import stored
from tests.integration.process.test_merge import (
    PARTITIONS,
    SHARDS,
    Shards,
    check_each_once,
    merge_of,
)

MARIADB = "mariadb-11.8"
EXISTING = range(1_000_000, 1_006_000)
KILLS = ("commit.before", "snapshot.handed", "commit.after")


@pytest.fixture
def mysql(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> Iterator[Mysql]:
    """The shared server, or one of its own of this name."""
    name: str | None = getattr(request, "param", None)
    if name is None:
        yield stack.mysql
        return
    with own_server(name, tmp_path / "server") as server:
        yield server


@pytest.fixture
def shards(mysql: Mysql) -> Shards:
    """Two shards with existing rows."""
    made = Shards(mysql)
    fill(made)
    return made


def fill(shards: Shards) -> None:
    """Insert the rows that exist already."""
    for shard, database in shards.databases.items():
        with connected(shards.servers[shard], autocommit=False) as cursor:
            rows = [(number, 0) for number in EXISTING]
            cursor.executemany(f"INSERT INTO {database}.orders VALUES (%s, %s)", rows)
            cursor.execute("COMMIT")


class Changing:
    """Rows that exist already are changed, deleted and inserted again until the end of the block."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        chance, number = random.Random(3), 1
        with contextlib.ExitStack() as block:
            cursors = {
                shard: block.enter_context(connected(server))
                for shard, server in self._shards.servers.items()
            }
            while not self._ended.wait(0.002):
                shard = chance.choice(SHARDS)
                table = f"{self._shards.databases[shard]}.orders"
                row, number = chance.choice(EXISTING), number + 1
                if number % 3:
                    cursors[shard].execute(f"REPLACE INTO {table} VALUES ({row}, {number})")
                else:
                    cursors[shard].execute(f"DELETE FROM {table} WHERE id = {row}")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def settings(shards: Shards, stack: Stack, folder: Path, **merge: Any) -> dict[str, Any]:
    wanted = shards.settings(stack, folder, **merge)
    for shard in SHARDS:
        wanted["destinations"][shard]["snapshot"] = {
            "mode": "initial",
            "rows_per_second": 2_000,
        }
        wanted["destinations"][shard].pop("start", None)
    return wanted


def snapshot_of(pair: Pair, shard: str) -> dict[str, Any]:
    """The state of a shard's table on the worker that leads it."""
    for name, worker in pair.workers.items():
        if worker.process.poll() is None:
            found = pair.status(name)["destinations"].get(shard, {})
            for one in found.get("snapshot", {}).values():
                if found.get("state") == "RUNNING":
                    return dict(one)
    return {}


def are_done(pair: Pair) -> bool:
    return all(snapshot_of(pair, shard).get("state") == "done" for shard in SHARDS)


def merged(stack: Stack, prefix: str) -> list[dict[str, Any]]:
    """The values of the merged topic, each partition in its order, with their keys."""
    return [
        {**json.loads(one.value), "key": one.key, "partition": number}
        for number, part in enumerate(stored(stack, f"{prefix}.trade", partitions=PARTITIONS))
        for one in part
        if one.value
    ]


def folded(found: list[dict[str, Any]], shard: str) -> dict[int, int]:
    """The rows of a shard, as a subscriber of the merged topic has them."""
    rows, emptied = dict[bytes, dict[str, Any]](), 0
    own = [one for one in found if one["source"]["name"] == shard]
    for one in sorted(own, key=lambda one: int(one["source"]["seq"])):
        if one["op"] == "t":
            rows.clear()
            emptied += 1
        elif one["op"] == "d":
            rows.pop(one["key"], None)
        else:
            rows[one["key"]] = one["after"]
    return {row["id"]: row["x"] for row in rows.values()}


def has_all(stack: Stack, prefix: str, shards: Shards) -> bool:
    found = merged(stack, prefix)
    return all(
        folded(found, shard)
        == dict(ask(shards.servers[shard], f"SELECT id, x FROM {database}.orders"))
        for shard, database in shards.databases.items()
    )


def assert_order(stack: Stack, prefix: str) -> list[dict[str, Any]]:
    """Each shard's records are there once and in its order; no row is read after a newer image of it."""
    check_each_once(stack, prefix)
    found, last = merged(stack, prefix), dict[tuple[str, bytes], dict[str, Any]]()
    for one in found:
        key = one["source"]["name"], one["key"]
        if one["op"] == "r" and key in last:
            assert last[key]["after"] == one["after"], (last[key], one)
        last[key] = one
    return found


def test_existing_rows_come_in_the_order_of_the_merge_and_none_late(
    stack: Stack, mysql: Mysql, shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(shards, stack, tmp_path, stalled="wait", stalled_after_seconds=60)
    prefix = str(wanted["prefix"])
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        with Changing(shards):
            pair.until(lambda: are_done(pair))
        pair.until(lambda: has_all(stack, prefix, shards))
        assert merge_of(pair)["late"] == 0
        found = assert_order(stack, prefix)
        read = [one["key"] for one in found if one["op"] == "r"]
        assert len(read) == len(set(read)) > len(EXISTING)
        for shard in SHARDS:
            done = run_command(pair.config("one"), "audit", shard)
            assert done.returncode in (0, 3), done.stdout + done.stderr
            assert "lost=0 repeated=0 foreign=0 different=0" in done.stdout
        # All rows of one shard in place of what subscribers have, and a request for some.
        database = shards.databases["west"]
        run(mysql, "SET sql_log_bin = 0", f"DELETE FROM {database}.orders WHERE id % 7 = 0")
        table = f"{database}.orders"
        with Changing(shards):
            # On a busy machine it may be done before it can be paused.
            pair.until(
                lambda: (
                    snapshot_of(pair, "west").get("state") == "paused"
                    or (
                        main(["snapshot", "start", "west", table, "--replace"]) == 0
                        and main(["snapshot", "pause", "west", table]) == 0
                        and snapshot_of(pair, "west").get("state") == "paused"
                    )
                )
            )
            assert main(["snapshot", "resume", "west", table]) == 0
            pair.until(lambda: are_done(pair))
            other = f"{shards.databases['east']}.orders"
            assert main(["snapshot", "start", "east", other, "--where", "id % 100 = 0"]) == 0
            assert main(["snapshot", "status", "east"]) == 0
            pair.until(lambda: are_done(pair))
            # On a busy machine it may be done before it can be stopped.
            pair.until(
                lambda: (
                    main(["snapshot", "start", "east", other]) == 0
                    and main(["snapshot", "stop", "east", other]) == 0
                )
            )
            pair.until(lambda: snapshot_of(pair, "east").get("state") == "stopped")
        pair.until(lambda: has_all(stack, prefix, shards))
        assert merge_of(pair)["late"] == 0
    check_each_once(stack, prefix)


@pytest.mark.parametrize(
    ("mysql", "kills"),
    [
        (None, KILLS),
        (MARIADB, KILLS),
    ],
    indirect=["mysql"],
)
@pytest.mark.long("test_snapshot.py has kills of one destination")
def test_after_kills_no_row_comes_twice(
    stack: Stack,
    mysql: Mysql,
    shards: Shards,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: tuple[str, ...],
) -> None:
    wanted = settings(shards, stack, tmp_path, stalled="wait", stalled_after_seconds=60)
    prefix = str(wanted["prefix"])
    with Pair(wanted, tmp_path) as pair, Changing(shards):
        for fault in kills:
            with monkeypatch.context() as faults:
                # Few chunks may be left after the kill before.
                passes = 2 if fault.startswith("snapshot") else 5
                faults.setenv(VARIABLE, f"{fault}=kill@{passes}")
                pair.start("one")
                pair.until(lambda: pair.workers["one"].process.poll() == -signal.SIGKILL)
        pair.start("two")
        pair.until(lambda: are_done(pair))
        pair.until(lambda: bool(merge_of(pair)))
        late = merge_of(pair)["late"]
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        pair.until(lambda: has_all(stack, prefix, shards))
    # The times of commits are whole seconds before MariaDB 12.
    assert late == 0 or mysql is not stack.mysql
    read = [one["key"] for one in assert_order(stack, prefix) if one["op"] == "r"]
    assert len(read) == len(set(read)) > len(EXISTING)


@pytest.mark.long("validation/test_validate.py has those of a destination")
def test_a_validation_compares_the_merged_topic_and_repairs_it(
    stack: Stack, mysql: Mysql, shards: Shards, tmp_path: Path
) -> None:
    wanted = settings(shards, stack, tmp_path, stalled_after_seconds=60)
    database = shards.databases["west"]
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        pair.until(lambda: are_done(pair))
        with Changing(shards):
            for shard in SHARDS:
                (one,) = validated(pair, shard, code=0)
                assert one["topic"] == f"{wanted['prefix']}.trade"
                assert one["rows"] > len(EXISTING) // 2
            run(
                mysql,
                "SET sql_log_bin = 0",
                f"INSERT INTO {database}.orders VALUES (-1, 1), (-2, 2)",
            )
            (one,) = validated(pair, "west", code=1)
            assert [row["key"] for row in one["findings"]] == [key(database, -1), key(database, -2)]
            (one,) = validated(pair, "east", code=0)
            validated(pair, "west", "--repair", code=1)
            validated(pair, "west", code=0)
            run(mysql, "SET sql_log_bin = 0", f"DELETE FROM {database}.orders WHERE id = -1")
            (one,) = validated(pair, "west", "--repair", code=1)
            assert (one["missing"], one["extra"], one["different"]) == (0, 1, 0)
            validated(pair, "west", code=0)
        pair.until(lambda: has_all(stack, str(wanted["prefix"]), shards))
    check_each_once(stack, str(wanted["prefix"]))


def key(database: str, number: int) -> str:
    shard = f'["west","{database}","orders"]'
    return f'{{"__shard":{shard},"id":{number}}}'


def validated(pair: Pair, shard: str, *words: str, code: int) -> list[dict[str, Any]]:
    """The results of each table of a shard."""
    done = run_command(pair.config("one"), "validate", shard, *words, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["tables"]
    return found
