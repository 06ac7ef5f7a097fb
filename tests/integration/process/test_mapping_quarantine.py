"""Tables that a rule of the mapping quarantined: they come back under a version whose rules fit them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.pair import Pair, pair_settings
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import has_rows, values


@pytest.fixture(
    params=[
        "MINIMAL",
        pytest.param("FULL", marks=pytest.mark.long("MINIMAL, which needs the history more")),
    ]
)
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own; without full row metadata only the history has the columns' names."""
    options: dict[str, str | int] = {"server_id": 9, "binlog_row_metadata": str(request.param)}
    with own_mysql(stack, "CREATE DATABASE shop", options=options) as server:
        yield server


class Mapping:
    """The versions of a mapping of ``shop.shop`` and ``shop.calm``, pushed one after the other."""

    def __init__(self, folder: Path) -> None:
        self._file, self.version = folder / "mapping.yaml", 0

    def push(self, rules: str) -> None:
        text = f"tables: {{shop.shop: {{topic: t, partitions: 1, {rules}}}}}"
        self._file.write_text(text)
        assert main(["mapping", "set", str(self._file), "--why", "a test"]) == 0
        self.version += 1


@pytest.mark.remedy("RuleImpossible")
def test_a_table_comes_back_whole_when_a_version_that_fits_it_comes_into_force(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["filter"] = {"include": r"shop\..*"}
    wanted["mapping"] = {"store": "zookeeper"}
    mapping = Mapping(tmp_path)
    # The table is created by a statement that waits too, and changed by others between its rows.
    run(
        mysql,
        "CREATE TABLE shop.calm (id int PRIMARY KEY)",
        "CREATE TABLE shop.shop (id int PRIMARY KEY, a int, b int)",
        "INSERT INTO shop.shop VALUES (1, 10, 100)",
        "ALTER TABLE shop.shop MODIFY b int FIRST, ADD COLUMN c int",
        "INSERT INTO shop.shop VALUES (200, 2, 20, 7)",
    )
    with Pair(wanted, tmp_path) as pair:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        mapping.push("tags: {gone: x}")
        pair.start("one")

        def shown() -> dict[str, Any]:
            one: dict[str, Any] = pair.status("one").get("destinations", {}).get("shop", {})
            return one

        def in_force() -> bool:
            return bool(((shown().get("mapping") or {}).get("version")) == mapping.version)

        def waits(why: str = "", *, refused: str = "") -> bool:
            (entry,) = shown().get("set_aside") or [{}]
            return why in str(entry.get("why")) and refused in str(entry.get("refused"))

        pair.until(lambda: waits("'gone'"))
        run(mysql, "INSERT INTO shop.shop VALUES (300, 3, 30, 8)")
        # Another version that does not fit changes nothing, and is tried once.
        mapping.push("tags: {vanished: x}")
        pair.until(lambda: in_force() and waits("'gone'", refused="'vanished'"))
        assert not has_rows(stack, f"{wanted['prefix']}.t", partitions=1)
        mapping.push("tags: {c: x}, columns: [id, a, c]")
        # The table has no column c in its first row.
        pair.until(lambda: in_force() and waits("'gone'", refused="'c'"))
        mapping.push("tags: {b: x}")
        pair.until(lambda: in_force() and shown().get("set_aside") == [])
        run(
            mysql,
            "INSERT INTO shop.shop VALUES (400, 4, 40, 9)",
            "INSERT INTO shop.calm VALUES (1)",
        )
        pair.until(lambda: shown()["rows"] >= 5)
        # A rule that fits no more, and a version that fits only the first of the rows that wait.
        run(mysql, "ALTER TABLE shop.shop DROP COLUMN b", "INSERT INTO shop.shop VALUES (5, 50, 9)")
        pair.until(lambda: waits("'b'"))
        run(mysql, "ALTER TABLE shop.shop DROP COLUMN a", "INSERT INTO shop.shop VALUES (6, 9)")
        mapping.push("tags: {a: x}")
        pair.until(lambda: in_force() and waits("'b'", refused="'a'"))
        mapping.push("tags: {c: x}")
        pair.until(lambda: in_force() and shown().get("set_aside") == [])
        pair.until(lambda: len(values(stack, f"{wanted['prefix']}.t")) == 6)
        log = pair.workers["one"].log
        assert "Traceback" not in log
    found = values(stack, f"{wanted['prefix']}.t")
    assert [one["after"] for one in found] == [
        {"id": 1, "a": 10, "b": 100},
        {"b": 200, "id": 2, "a": 20, "c": 7},
        {"b": 300, "id": 3, "a": 30, "c": 8},
        {"b": 400, "id": 4, "a": 40, "c": 9},
        {"id": 5, "a": 50, "c": 9},
        {"id": 6, "c": 9},
    ]
    numbers = [one["source"]["seq"] for one in found]
    assert numbers == sorted(set(numbers))
    assert [one["source"]["tags"] for one in found] == [["x"]] * 6
