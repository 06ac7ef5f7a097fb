"""Statements on their topic: where each stands among the rows, what it did, and what that means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tests.integration.process.consumed import Change, changes, statements
from tests.integration.process.test_quarantine import record_of, schema
from tests.integration.process.worker import Worker, running, settings
from tests.integration.worker.source import connected, run

STORY = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, x varchar(40))",
    "INSERT INTO t VALUES (1, 10, 'one')",
    "ALTER TABLE t ADD COLUMN b int FIRST, MODIFY x varchar(10)",
    "INSERT INTO t VALUES (20, 2, 200, 'two')",
    "ALTER TABLE t RENAME COLUMN a TO aa",
    "UPDATE t SET aa = aa + 1 WHERE id = 2",
    "ALTER TABLE t DROP COLUMN x",
    "INSERT INTO t VALUES (30, 3, 300)",
    "CREATE INDEX by_b ON t (b)",
    "CREATE TABLE copy SELECT id, aa FROM t",
    "TRUNCATE TABLE t",
    "INSERT INTO t VALUES (40, 4, 400)",
    "CREATE DATABASE aside CHARACTER SET latin1",
    "RENAME TABLE t TO u",
    "INSERT INTO u VALUES (50, 5, 500)",
    "CREATE VIEW seen AS SELECT id FROM u",
    "DROP TABLE copy",
    "DELETE FROM u WHERE id = 5",
)
ALTERS = "ALTER, RENAME TABLE"
"""Types of those that stay, where others are filtered."""

ONE, TWO = {"id": 1, "a": 10, "x": "one"}, {"b": 20, "id": 2, "aa": 201, "x": "two"}
FIVE = {"b": 50, "id": 5, "aa": 500}
TOLD: list[tuple[str, Any]] = [
    ("shop", "CREATE DATABASE"),
    ("shop", "CREATE TABLE"),
    ("t", ONE),
    ("shop", "ALTER TABLE"),
    ("t", {"b": 20, "id": 2, "a": 200, "x": "two"}),
    ("shop", "ALTER TABLE"),
    ("t", TWO),
    ("shop", "ALTER TABLE"),
    ("t", {"b": 30, "id": 3, "aa": 300}),
    ("shop", "CREATE INDEX"),
    ("shop", "CREATE TABLE"),
    ("copy", {"id": 1, "aa": 10}),
    ("copy", {"id": 2, "aa": 201}),
    ("copy", {"id": 3, "aa": 300}),
    ("shop", "TRUNCATE TABLE"),
    ("t", "t"),
    ("t", {"b": 40, "id": 4, "aa": 400}),
    ("shop", "CREATE DATABASE"),
    ("shop", "RENAME TABLE"),
    ("u", FIVE),
    ("shop", "CREATE VIEW"),
    ("shop", "DROP TABLE"),
    ("u", "d"),
    ("shop", "CREATE TABLE"),
    ("done", {"id": 1}),
]
"""Each record in the order of ``source.seq``: a statement's type, or a row of a table."""


@pytest.fixture(
    scope="module",
    params=[("FULL", "OFF"), ("MINIMAL", "ON")],
    ids=["FULL", "MINIMAL-compressed"],
)
def mysql(
    request: pytest.FixtureRequest, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mysql]:
    """A server of these tests' own, with what rows tell and whether transactions are compressed;
    a person called ``dba`` may all."""
    metadata, compression = request.param
    options: dict[str, str | int] = {
        "server_id": 9,
        "binlog_row_metadata": metadata,
        "binlog_transaction_compression": compression,
    }
    name = tmp_path_factory.mktemp(f"ddl-{metadata}".lower()).name
    server = stack.second_mysql(name, options)
    server.start()
    run(
        server,
        "SET sql_log_bin = 0",
        "CREATE USER dba@'%'",
        "GRANT ALL ON *.* TO dba@'%'",
    )
    yield server
    server.kill()  # an orderly end takes seconds, for data that nobody wants


@dataclass(slots=True)
class Published:
    """A worker that has read the story, and what it has published of it."""

    stack: Stack
    mysql: Mysql
    folder: Path
    wanted: dict[str, Any]
    worker: Worker

    @property
    def prefix(self) -> str:
        return str(self.wanted["prefix"])

    def asks(self, *words: str) -> tuple[int, Any]:
        """What ``python -m app schema …`` answers."""
        done = schema(self.folder, *words, "--format", "json")
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    def ddl(self) -> list[Change]:
        return statements(self.stack, self.prefix)

    def statement(self, begin: str) -> dict[str, Any]:
        """The first record of a statement that begins so."""
        values = (change.value for change in self.ddl())
        return next(value for value in values if value["ddl"].startswith(begin))

    def run(self, *sql: str) -> None:
        """Run statements, and wait until all of them are published."""
        last = "INSERT INTO done SELECT MAX(id) + 1 FROM done"
        run(self.mysql, "USE shop", *sql, last, user="dba")
        has_read_all(self.worker, self.mysql)


def has_read_all(worker: Worker, mysql: Mysql) -> None:
    """Wait until all that the server has written is published."""
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@gtid_executed")
        (end,) = cursor.fetchone()
    worker.wait(lambda status: (status["cursor"] or {}).get("gtid_set") == end)


def play(mysql: Mysql) -> None:
    run(mysql, "CREATE DATABASE shop", "USE shop", *STORY, user="dba")
    run(mysql, "CREATE TABLE shop.done (id int PRIMARY KEY)", "INSERT INTO shop.done VALUES (1)")


@pytest.fixture(scope="module")
def published(
    stack: Stack, mysql: Mysql, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Published]:
    """Of a worker that was there before."""
    folder = tmp_path_factory.mktemp("ddl-topic")
    wanted = settings(stack, mysql, folder, start="latest")
    with running(wanted, folder) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        play(mysql)
        has_read_all(worker, mysql)
        yield Published(stack, mysql, folder, wanted, worker)
        assert worker.destination()["set_aside"] == []
        assert "Traceback" not in worker.log


def everything(stack: Stack, prefix: str, *, most: int | None = None) -> list[Change]:
    """All that has a number, by its number."""
    found = statements(stack, prefix)
    for topic in row_topics(stack, prefix, "shop"):
        found += changes(stack, topic, partitions=2)
    return sorted(found, key=lambda change: change.seq)[:most]


def row_topics(stack: Stack, prefix: str, database: str) -> set[str]:
    """The topics of a database's tables."""

    async def listed() -> list[str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
        await admin.start()
        try:
            return list(await admin.list_topics())
        finally:
            await admin.close()

    return {name for name in asyncio.run(listed()) if name.startswith(f"{prefix}.{database}.")}


def shown(change: Change) -> tuple[str, Any]:
    value = change.value
    if "ddl" in value:
        return value["source"]["name"], statement_type(value["ddl"])
    op = value["op"]
    return value["source"]["table"], value["after"] if op in "cu" else op


def statement_type(sql: str) -> str:
    """Its first words; of a view, the server writes more between them."""
    return "CREATE VIEW" if " VIEW " in sql else " ".join(sql.split()[:2])


def columns(definition: dict[str, Any] | None) -> list[str] | None:
    if definition is None:
        return None
    return [f"{each['name']} {each['type']}" for each in definition["columns"]]


def kinds(value: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Of each effect what it is, of which table and column."""
    return [(each["kind"], each["table"], each["column"]) for each in value["effects"]]


def test_each_statement_stands_between_the_rows_around_it(published: Published) -> None:
    found = everything(published.stack, published.prefix, most=len(TOLD))
    assert [shown(change) for change in found] == TOLD
    assert checks.seq_faults([record_of(change) for change in found]) == []
    (copied,) = [
        change for change in found if change.value.get("ddl", "").startswith("CREATE TABLE `copy`")
    ]
    inside = [change for change in found if change.value["source"]["table"] == "copy"]
    # The statement and its rows are one transaction.
    assert {change.value["source"]["gtid"] for change in inside} == {copied.value["source"]["gtid"]}


def test_a_statement_is_told_with_the_tables_before_and_behind_it(published: Published) -> None:
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


def test_a_statement_is_told_with_what_it_means_and_who_ran_it(published: Published) -> None:
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
    code, told = published.asks("audit", "shop")
    listed = {one["statement"]: one for one in told["statements"]}
    assert code == 0
    for change in published.ddl():
        value, source = change.value, change.value["source"]
        if "tables" not in value or value["statement_type"] == "TRUNCATE TABLE":
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


def test_a_table_is_shown_as_it_was_before_and_behind_a_statement(published: Published) -> None:
    def at(value: dict[str, Any], behind: int = 0) -> list[str] | None:
        source = value["source"]
        place = f"{source['file']}:{source['pos'] + behind}"
        code, told = published.asks("show", "shop", "shop.t", "--at", place)
        return columns(told["definition"]) if code == 0 else None

    dropped = published.statement("ALTER TABLE t DROP")
    assert at(dropped) == ["b int", "id int", "aa int", "x varchar(10)"]
    assert at(dropped, 1) == ["b int", "id int", "aa int"]
    gtid = dropped["source"]["gtid"]
    code, told = published.asks("show", "shop", "shop.t", "--at", gtid)
    assert (code, columns(told["definition"])) == (0, ["b int", "id int", "aa int"])
    code, told = published.asks("show", "shop", "shop.t")
    assert (code, told["state"]) == (1, "dropped")


ASKED = (
    "ALTER TABLE shop.i DROP COLUMN x",
    "ALTER TABLE shop.i RENAME COLUMN a TO b, MODIFY n smallint NOT NULL",
    "ALTER TABLE shop.i CHANGE b c bigint FIRST",
    "TRUNCATE TABLE shop.i",
    "ALTER TABLE shop.i DROP PRIMARY KEY",
    "RENAME TABLE shop.i TO shop.k",
    "DROP TABLE shop.k",
)


def test_what_a_statement_means_is_told_alike_before_and_after(published: Published) -> None:
    published.run("CREATE TABLE i (id int PRIMARY KEY, a int, n int, x varchar(40))")
    code, told = published.asks("impact", "shop", ASKED[0])
    assert (code, told["severity"]) == (3, "breaking")
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
    code, told = published.asks("check", "shop")
    run(published.mysql, "SET sql_log_bin = 0", "ALTER TABLE shop.u DROP COLUMN unseen")
    assert code == 1
    assert [(one["table"], one["name"]) for one in told["differences"]] == [("shop.u", "unseen")]


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
