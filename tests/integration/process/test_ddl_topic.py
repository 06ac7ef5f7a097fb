"""The records of the DDL topic: each statement's position among the rows, its effect and its impact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demo import checks
from tests.harness.sql import run
from tests.harness.topics import values
from tests.harness.worker import running, settings
from tests.integration.process.story import (
    ALTERS,
    TOLD,
    Published,
    columns,
    everything,
    has_read_all,
    kinds,
    mysql,
    published,
    shown,
)
from tests.integration.process.test_quarantine import record_of, schema

__all__ = ["mysql", "published"]


def test_each_statement_is_between_the_rows_around_it(published: Published) -> None:
    found = everything(published.stack, published.prefix, most=len(TOLD))
    assert [shown(change) for change in found] == TOLD
    assert checks.seq_faults([record_of(change) for change in found]) == []
    (copied,) = [
        change for change in found if change.value.get("ddl", "").startswith("CREATE TABLE `copy`")
    ]
    inside = [change for change in found if change.value["source"]["table"] == "copy"]
    # The statement and its rows are one transaction.
    assert {change.value["source"]["gtid"] for change in inside} == {copied.value["source"]["gtid"]}


def test_a_statement_is_published_with_the_tables_before_and_after_it(published: Published) -> None:
    created = published.statement("CREATE TABLE t ")
    (table,) = created["tables"]
    assert (created["statement_type"], created["outcome"]) == ("CREATE TABLE", "resolved")
    assert (table["database"], table["table"], table["change"]) == ("shop", "t", "created")
    assert table["old"] is None
    assert columns(table["new"]) == ["id int", "a int", "x varchar(40)"]
    assert table["new"]["primary_key"] == ["id"]

    (altered,) = published.statement("ALTER TABLE t ADD COLUMN")["tables"]
    assert altered["old"] == table["new"]
    assert columns(altered["new"]) == ["b int", "id int", "a int", "x varchar(10)"]

    (index,) = published.statement("CREATE INDEX")["tables"]
    assert columns(index["new"]) == columns(index["old"]) == ["b int", "id int", "aa int"]

    gone, come = published.statement("RENAME TABLE")["tables"]
    assert (gone["table"], gone["renamed_to"]) == ("t", {"database": "shop", "table": "u"})
    assert (come["table"], come["renamed_from"]) == ("u", {"database": "shop", "table": "t"})
    assert gone["old"] == come["new"]

    (copied,) = published.statement("CREATE TABLE `copy`")["tables"]
    assert (copied["change"], columns(copied["new"])) == ("created", ["id int", "aa int"])
    (dropped,) = published.statement("DROP TABLE")["tables"]
    assert (dropped["change"], dropped["old"], dropped["new"]) == ("dropped", copied["new"], None)

    more = published.statement("CREATE DATABASE aside")
    (database,) = more["databases"]
    assert (more["statement_type"], more["tables"]) == ("CREATE DATABASE", [])
    assert (database["old"], database["new"]["charset"]) == (None, "latin1")


def test_a_statement_is_published_with_its_impact_and_who_ran_it(published: Published) -> None:
    altered = published.statement("ALTER TABLE t ADD COLUMN")
    assert sorted(kinds(altered)) == [("column added", "t", "b"), ("column narrowed", "t", "x")]
    (narrowed,) = [each for each in altered["effects"] if each["column"] == "x"]
    assert narrowed["severity"] == "breaking"
    assert (narrowed["old"], narrowed["new"]) == ("varchar(40)", "varchar(10)")
    assert narrowed["topic"] == f"{published.prefix}.shop.t"
    assert narrowed["warehouse_table"] == "shop/t"
    assert narrowed["warehouse_columns"] == ["x"]

    renamed = published.statement("ALTER TABLE t RENAME COLUMN")
    assert kinds(renamed) == [("column renamed", "t", "aa")]
    assert [(one["old"], one["new"]) for one in renamed["effects"]] == [("a", "aa")]
    assert kinds(published.statement("ALTER TABLE t DROP")) == [("column removed", "t", "x")]
    emptied = published.statement("TRUNCATE")
    assert (emptied["statement_type"], emptied["tables"]) == ("TRUNCATE TABLE", [])
    assert kinds(emptied) == [("table truncated", "t", None)]
    assert ("table renamed", "t", None) in kinds(published.statement("RENAME TABLE"))
    assert kinds(published.statement("DROP TABLE")) == [("table dropped", "copy", None)]

    assert published.statement("CREATE ALGORITHM")["user"] == "dba@%"
    sources = [each.value["source"] for each in published.ddl()]
    assert all(source["thread"] and source["gtid"] and source["pos"] for source in sources)


def test_all_statements_are_listed_with_when_and_where(published: Published) -> None:
    code, result = published.asks("audit", "shop")
    listed = {one["statement"]: one for one in result["statements"]}
    assert code == 0
    for change in published.ddl():
        value, source = change.value, change.value["source"]
        if "tables" not in value:
            # A statement on a view is kept, so that its name is known to be no table's.
            assert listed.pop(value["ddl"], {"tables": []})["tables"] == []
            continue
        one = listed.pop(value["ddl"])
        assert one["type"] == value["statement_type"]
        assert (one["file"], one["pos"], one["gtid"]) == (
            source["file"],
            source["pos"],
            source["gtid"],
        )
        assert (one["server_id"], one["thread"]) == (source["server_id"], source["thread"])
    assert listed == {}


def test_a_table_is_shown_as_it_was_before_and_after_a_statement(published: Published) -> None:
    def at(value: dict[str, Any], behind: int = 0) -> list[str] | None:
        source = value["source"]
        position = f"{source['file']}:{source['pos'] + behind}"
        code, result = published.asks("show", "shop", "shop.t", "--at", position)
        return columns(result["definition"]) if code == 0 else None

    dropped = published.statement("ALTER TABLE t DROP")
    assert at(dropped) == ["b int", "id int", "aa int", "x varchar(10)"]
    assert at(dropped, 1) == ["b int", "id int", "aa int"]
    gtid = dropped["source"]["gtid"]
    code, result = published.asks("show", "shop", "shop.t", "--at", gtid)
    assert (code, columns(result["definition"])) == (0, ["b int", "id int", "aa int"])
    code, result = published.asks("show", "shop", "shop.t")
    assert (code, result["state"]) == (1, "dropped")


ASKED = (
    "ALTER TABLE shop.i DROP COLUMN x",
    "ALTER TABLE shop.i RENAME COLUMN a TO b, MODIFY n smallint NOT NULL",
    "ALTER TABLE shop.i CHANGE b c bigint FIRST",
    "TRUNCATE TABLE shop.i",
    "ALTER TABLE shop.i DROP PRIMARY KEY",
    "RENAME TABLE shop.i TO shop.k",
    "DROP TABLE shop.k",
)


def test_the_impact_of_a_statement_is_the_same_before_and_after(published: Published) -> None:
    published.run("CREATE TABLE i (id int PRIMARY KEY, a int, n int, x varchar(40))")
    code, result = published.asks("impact", "shop", ASKED[0])
    assert (code, result["severity"]) == (3, "breaking")
    text = schema(published.folder, "impact", "shop", ASKED[0])
    assert (text.returncode, "column removed: shop.i.x" in text.stdout) == (3, True)
    # Nothing was run.
    assert all("shop.i" not in change.value["ddl"] for change in published.ddl())

    code, before = published.asks("impact", "shop", *ASKED)
    assert code == 3
    there = len(published.ddl())
    published.run(*ASKED)
    for one, change in zip(before["statements"], published.ddl()[there:], strict=True):
        assert one["effects"], one
        assert (one["type"], one["effects"]) == (
            change.value["statement_type"],
            change.value["effects"],
        )


def test_the_server_is_found_to_be_as_the_history_says_until_it_is_not(
    published: Published,
) -> None:
    assert published.asks("check", "shop")[0] == 0
    run(published.mysql, "SET sql_log_bin = 0", "ALTER TABLE shop.u ADD COLUMN unseen int")
    code, result = published.asks("check", "shop")
    run(published.mysql, "SET sql_log_bin = 0", "ALTER TABLE shop.u DROP COLUMN unseen")
    assert code == 1
    assert [(one["table"], one["name"]) for one in result["differences"]] == [("shop.u", "unseen")]


def test_statements_that_are_filtered_are_followed_all_the_same(
    published: Published, tmp_path: Path
) -> None:
    """Another worker reads the same binlog from its beginning."""
    wanted = settings(published.stack, published.mysql, tmp_path, server_id=6102)
    wanted["ddl"] = {"include": ALTERS, "exclude": "ALTER DATABASE"}
    prefix = wanted["prefix"]
    with running(wanted, tmp_path) as worker:
        has_read_all(worker, published.mysql)
        assert worker.destination()["set_aside"] == []
        assert "Traceback" not in worker.log
    found = everything(published.stack, prefix)
    assert checks.seq_faults([record_of(change) for change in found]) == []
    expected = [
        one for one in TOLD if one[0] != "shop" or one[1] in ("ALTER TABLE", "RENAME TABLE")
    ]
    assert [shown(change) for change in found][: len(expected)] == expected


def test_a_statement_states_the_version_that_it_gives_a_published_table(
    published: Published,
) -> None:
    there = len(published.ddl())
    published.run(
        "CREATE TABLE v (id int PRIMARY KEY, a decimal(10,2))",
        "ALTER TABLE v ADD b varchar(20)",
        "INSERT INTO v VALUES (1, 10.75, 'x')",
        "ALTER TABLE v MODIFY a int",
        "ALTER TABLE v MODIFY a decimal(10,2)",
        "ALTER TABLE v ADD INDEX (b)",
        "RENAME TABLE v TO w",
        "ALTER TABLE w MODIFY a int, ADD c enum('m','n') NOT NULL, ADD j json",
        "CREATE TABLE never (id int PRIMARY KEY)",
        "ALTER TABLE never ADD a int",
        "INSERT INTO w (id, c) VALUES (2, 'n')",
    )
    stated = [
        (one["table"], one["version"])
        for change in published.ddl()[there:]
        for one in change.value["tables"]
        if "version" in one
    ]
    # Of a table without a published row no version is known to anybody.
    assert stated == [("v", 2), ("v", 3), ("v", 3), ("w", 1), ("w", 2)]
    found = {
        (value["table"], value["version"]): [one["type"] for one in value["columns"]]
        for value in values(published.stack, f"{published.prefix}.__schemas")
        if value["table"] in {"v", "w", "never"}
    }
    text = "varchar(20)"
    assert found == {
        ("v", 1): ["int", "decimal(10,2)", text],
        ("v", 2): ["int", "int", text],
        ("v", 3): ["int", "decimal(10,2)", text],
        ("w", 1): ["int", "decimal(10,2)", text],
        # The row was of the version that the statement had announced.
        ("w", 2): ["int", "int", text, "enum('m','n')", "json"],
    }
