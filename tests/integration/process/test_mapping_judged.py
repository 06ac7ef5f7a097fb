"""Commands that judge by the mapping use the versions in force, and not the newest one in ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.pair import Pair, pair_settings
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import changes, rows

TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.shop (id int PRIMARY KEY, x int, y varchar(20))",
    "CREATE TABLE shop.other (id int PRIMARY KEY)",
)
VERSIONS = (
    "shop.shop: {topic: one}",
    "shop.shop: {topic: two, key: [x], row_filter: 'x > 1', columns: [id, x]}",
    # The table is not published at all.
    "shop.shop: {topic: three, black: 'shop[.]shop'}",
    "shop.shop: {topic: four, operations: [insert], shard_in_key: always}",
)
NEWEST = "shop.shop: {topic: five, columns: [id], row_filter: 'id < 0'}"


@pytest.fixture(params=["ON", pytest.param("OFF", marks=pytest.mark.long("with GTIDs"))])
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with and without GTIDs."""
    gtids = {"gtid_mode": str(request.param), "enforce_gtid_consistency": str(request.param)}
    options: dict[str, str | int] = {"server_id": 9, "binlog_row_metadata": "FULL", **gtids}
    with own_mysql(stack, *TABLES, options=options) as server:
        yield server


def test_each_record_is_judged_by_the_version_in_force_for_it(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["filter"] = {"include": r"shop\..*"}
    wanted["mapping"] = {"store": "zookeeper"}
    file = tmp_path / "mapping.yaml"
    with Pair(wanted, tmp_path) as pair:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))

        def push(tables: str) -> None:
            file.write_text(f"tables: {{{tables}}}")
            assert main(["mapping", "set", str(file), "--why", "a test"]) == 0

        def shown() -> dict[str, Any]:
            one: dict[str, Any] = pair.status("one").get("destinations", {}).get("shop", {})
            return one

        def answer(*words: str) -> tuple[int, Any]:
            capsys.readouterr()
            code = main([*words, "--format", "json"])
            return code, json.loads(capsys.readouterr().out)

        def is_in_force(version: int) -> bool:
            return bool((shown().get("mapping") or {}).get("version") == version)

        def has_others(count: int) -> bool:
            return len(rows(stack, wanted["prefix"], "other")) == count

        for number, version in enumerate(VERSIONS, 1):
            push(version)
            if number == 1:
                pair.start("one")
            pair.until(partial(is_in_force, number))
            first = number * 10
            run(
                mysql,
                f"INSERT INTO shop.shop VALUES ({first}, 1, 'a'), ({first + 1}, 2, 'b'), ({first + 2}, 3, 'c')",
                f"UPDATE shop.shop SET y = 'd' WHERE id = {first + 2}",
                f"DELETE FROM shop.shop WHERE id = {first + 1}",
                f"INSERT INTO shop.other VALUES ({number})",
            )
            pair.until(partial(has_others, number))
        # The newest version is stored, and not in force: the destination is paused.
        assert main(["destination", "pause", "shop"]) == 0
        push(NEWEST)
        code, verdict = answer("audit", "shop", "--witness", "mysql-replication")
        assert (code, verdict["counts"]) == (0, dict.fromkeys(verdict["counts"], 0)), verdict
        code, found = answer("schema", "impact", "shop", "ALTER TABLE shop.shop DROP COLUMN y")
        topics = {one["topic"] for each in found["statements"] for one in each["effects"]}
        assert topics == {f"{wanted['prefix']}.four"}
        count = [
            len(changes(stack, f"{wanted['prefix']}.{name}", partitions=2))
            for name in ("one", "two", "four")
        ]
        assert count == [5, 4, 3]
