"""`python -m app snapshot plan`: which tables the sink may read itself, and what it reads of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.sql import run
from tests.harness.wait import until
from tests.harness.worker import running, settings
from tests.integration.process.conftest import mysql

__all__ = ["mysql"]
MAPPING = """
tables:
  notes:
    from: [shop.notes_0, shop.notes_1, shop.notes_2]
    column_actions: {gone: drop, plain: {rename: shown}}
  secrets: {from: [shop.secrets], column_actions: {v: redact}}
  few: {from: [shop.few], row_filter: v = 'a'}
"""
COLUMNS = "(id int PRIMARY KEY, gone varchar(9), plain decimal(9,2))"
TABLES = (
    f"CREATE TABLE shop.notes_0 {COLUMNS}",
    f"CREATE TABLE shop.notes_1 {COLUMNS}",
    f"CREATE TABLE shop.notes_2 {COLUMNS}",
    "CREATE TABLE shop.secrets (id int PRIMARY KEY, v varchar(9))",
    "CREATE TABLE shop.few (id int PRIMARY KEY, v varchar(9))",
    "CREATE TABLE shop.plain (v int)",
    "CREATE TABLE shop.unseen (id int PRIMARY KEY)",
    "INSERT INTO shop.notes_0 VALUES (1, 'a', 1)",
    "INSERT INTO shop.notes_1 VALUES (1, 'a', 1)",
    "INSERT INTO shop.secrets VALUES (1, 'a')",
    "INSERT INTO shop.few VALUES (1, 'a')",
    "INSERT INTO shop.plain VALUES (1)",
)


def test_a_plan_has_what_a_select_returns_and_no_other_table(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(mysql, *TABLES)
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    wanted: dict[str, Any] = settings(stack, mysql, tmp_path)
    (tmp_path / "keys").write_text(f"k1: {base64.b64encode(bytes(32)).decode()}\n")
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml"), "key_file": str(tmp_path / "keys")}
    config = tmp_path / "aqueduct.yaml"

    def refused(table: str) -> str:
        made = run_command(config, "snapshot", "plan", "shop", table)
        assert (made.returncode, made.stdout) == (1, ""), made.stdout
        assert "Traceback" not in made.stderr
        return made.stderr

    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] >= 5)
        # One of the real tables stands for all that fill its logical one.
        made = run_command(config, "snapshot", "plan", "shop", "shop.notes_1")
        assert made.returncode == 0, made.stderr
        plan = json.loads(made.stdout)
        assert (plan["what"], plan["form"], plan["prefix"]) == (
            "aqueduct load plan",
            1,
            wanted["prefix"],
        )
        assert [(one["table"], one["logical"]) for one in plan["tables"]] == [
            ("notes_0", ["shop", "notes"]),
            ("notes_1", ["shop", "notes"]),
        ]
        # It has no row, and the stream has all that come.
        assert plan["empty"] == [["shop", "notes_2"]]
        assert plan["tables"][0]["columns"] == [
            {"name": "id", "source": "id", "column_type": "int"},
            {"name": "shown", "source": "plain", "column_type": "decimal(9,2)"},
        ]
        assert "aqueduct" not in json.dumps(plan["tables"])
        assert "values are hidden of: v" in refused("shop.secrets")
        assert "its mapping filters rows or operations" in refused("shop.few")
        assert "it has no primary key" in refused("shop.plain")
        assert_refused_tables_are_kept(config)
        assert 'snapshot start shop shop.unseen --where "id = …"' in refused("shop.unseen")
        # A row that no binlog has is none that the stream has.
        unlogged = "INSERT INTO shop.notes_2 VALUES (1, 'a', 1)"
        run(mysql, "SET SESSION sql_log_bin = 0", unlogged)
        assert "no record of shop.notes_2 was published" in refused("shop.notes_1")
        run(mysql, "SET SESSION sql_log_bin = 0", "DELETE FROM shop.notes_2")
        # A statement announces its columns, though no row follows.
        run(mysql, "ALTER TABLE shop.notes_0 ADD w int")
        until(lambda: "w" in columns_of(config), late=lambda: worker.log)
        other = {**wanted["destinations"]["shop"], "server_id": 6102}
        merged = {"trade": {"destinations": ["shop", "other"]}}
        destinations = {**wanted["destinations"], "other": other}
        (tmp_path / "merged.yaml").write_text(
            yaml.safe_dump({**wanted, "destinations": destinations, "merge": merged})
        )
        made = run_command(tmp_path / "merged.yaml", "snapshot", "plan", "shop", "shop.notes_1")
        assert "as a merge publishes its changes" in made.stderr
        unknown = run_command(config, "snapshot", "plan", "shop", "shop.none")
        assert unknown.returncode == 2
        assert "shop.none is no table that the destination captures" in unknown.stderr
        assert worker.stop() == 0


def columns_of(config: Path) -> list[str]:
    """The columns of the first real table in a plan."""
    made = run_command(config, "snapshot", "plan", "shop", "shop.notes_1")
    plan = json.loads(made.stdout) if made.returncode == 0 else {"tables": [{"columns": []}]}
    return [one["name"] for one in plan["tables"][0]["columns"]]


def assert_refused_tables_are_kept(config: Path) -> None:
    tables = ("shop.plain", "shop.notes_1", "shop.few", "shop.unseen")
    made = run_command(config, "snapshot", "plan", "shop", *tables, "--keep-refused")
    assert made.returncode == 0, made.stderr
    plan = json.loads(made.stdout)
    # A sink that does not know refused tables is to refuse it.
    assert plan["form"] == 2
    assert [one["table"] for one in plan["tables"]] == ["notes_0", "notes_1"]
    why = {one["logical"][1]: one["why"] for one in plan["refused"]}
    assert list(why) == ["few", "plain"]
    assert "its mapping filters rows or operations. Let the worker read the existing" in why["few"]
    assert "shop.plain cannot be read by the sink, as it has no primary key" in why["plain"]
    # It has no row, so all of its rows will be published.
    assert plan["empty"] == [["shop", "notes_2"], ["shop", "unseen"]]


@pytest.mark.parametrize("words", [(), ("shop",)])
def test_a_plan_is_of_named_tables(tmp_path: Path, words: tuple[str, ...]) -> None:
    made = run_command(tmp_path / "none.yaml", "snapshot", "plan", *words)
    assert made.returncode == 2
