"""Statements among rows, and the worker's records of them, for the tests of the DDL topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.topics import Change, changes, statements
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_quarantine import schema

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
    params=[
        pytest.param(("FULL", "OFF"), marks=pytest.mark.long("most tests of statements have FULL")),
        ("MINIMAL", "ON"),
    ],
    ids=["FULL", "MINIMAL-compressed"],
)
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of these tests' own, with what rows state and whether transactions are compressed;
    a user called ``dba`` may all."""
    metadata, compression = request.param
    options: dict[str, str | int] = {
        "server_id": 9,
        "binlog_row_metadata": metadata,
        "binlog_transaction_compression": compression,
    }
    with own_mysql(
        stack,
        "SET sql_log_bin = 0",
        "CREATE USER dba@'%'",
        "GRANT ALL ON *.* TO dba@'%'",
        options=options,
    ) as server:
        yield server


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
        """The output of ``python -m app schema …``."""
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
    """All records with a sequence number, by that number."""
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
