"""Names that some layer could interpret as syntax, from the server to the warehouse."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from app.__main__ import main
from connectors.kafka.reading import read_to_end
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.servers import own_mysql
from tests.harness.sql import connected
from tests.harness.worker import Worker, running, settings
from tests.hostile import NAMES, quoted
from wire.topics import quarantine_topic

CANARY = "canary-of-the-environment"
FORGED = "FORGED"
FORGER = f"x\n{FORGED} shop: RUNNING"
DATABASES = ("orders_${env}", "${env:SECRET}", "`'\n\"", "r\u202eight", "x.y")
NARROW = ("${env:SECRET}", FORGER, "con\x1b[31mtrol", "r\u202eight")
LARGE, TORN, KEYLESS = "large\n${env:SECRET}", f"torn{FORGER}", "no\nkey\x01"
SUNK = (FORGER, "${x}", KEYLESS, "wide\n${x}")

pytestmark = [pytest.mark.stack]


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, options={"server_id": 9}) as server:
        yield server


@dataclass(slots=True)
class Person:
    """At a terminal, which shows what commands print."""

    printed: pytest.CaptureFixture[str]
    heard: str = ""

    def says(self, *words: str) -> tuple[int, str]:
        """A command's code, and its standard output."""
        self.printed.readouterr()
        code = main([*words])
        out, err = self.printed.readouterr()
        self.heard += out + err
        # JSON has names as they are, in escapes of its own.
        assert_lines_are_ours(err if "json" in words else out + err)
        assert "Traceback" not in err
        return code, out

    def answers(self, *words: str) -> Any:
        """A command's JSON output."""
        code, out = self.says(*words, "--format", "json")
        assert out, (code, self.heard[-500:])
        return json.loads(out)


def assert_lines_are_ours(text: str) -> None:
    """Nothing within a line ends it, moves the cursor, or turns the direction of reading."""
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
        assert not line.startswith(FORGED), repr(line)


def tables_of(cursor: Any, database: str, refused: list[str]) -> list[str]:
    """Makes a table for each name; those that the server does not take are noted."""
    made = []
    columns = ", ".join(f"{quoted(name)} varchar(20)" for name in NARROW)
    for name in (*NAMES, FORGER):
        try:
            cursor.execute(
                f"CREATE TABLE {quoted(database)}.{quoted(name)} (id int PRIMARY KEY, {columns})"
            )
            made.append(name)
        except pymysql.MySQLError:
            refused.append(name)
    return made


def test_names_are_nothing_but_names_from_the_server_to_the_warehouse(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SECRET", CANARY)
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    person = Person(capsys)
    first = DATABASES[0]
    wide = [name for name in NAMES if "😀" not in name]
    refused: list[str] = []
    with connected(mysql) as cursor:
        for database in DATABASES:
            cursor.execute(f"CREATE DATABASE {quoted(database)}")
        tables = tables_of(cursor, first, refused)
        # What the server does not take: four bytes, and files with names that are too long.
        assert set(refused) <= {"😀" * 64, "表" * 64}
        assert "😀" * 64 in refused
        for database in DATABASES[1:]:
            cursor.execute(
                f"CREATE TABLE {quoted(database)}.{quoted(database)} (id int PRIMARY KEY)"
            )
        at = quoted(first)
        columns = ", ".join(f"{quoted(name)} varchar(20)" for name in wide)
        cursor.execute(f"CREATE TABLE {at}.{quoted(SUNK[3])} (id int PRIMARY KEY, {columns})")
        cursor.execute(f"CREATE TABLE {at}.{quoted(KEYLESS)} ({quoted(FORGER)} int, b int)")
        cursor.execute(f"CREATE TABLE {at}.{quoted(LARGE)} (id int PRIMARY KEY, b longtext)")
        key = quoted(FORGER)
        cursor.execute(
            f"CREATE TABLE {at}.{quoted(TORN)} ({key} varchar(9) CHARACTER SET big5 PRIMARY KEY)"
        )
    (tmp_path / "claims").mkdir()
    wanted = settings(
        stack,
        mysql,
        tmp_path,
        filter={"include": r".*\..*"},
        decoders=0,
        oversize="claim_check",
        claim_check_path=str(tmp_path / "claims"),
    )
    wanted["topics"] |= {"partitions": 1, "max_message_bytes": 1 << 20}
    with running(wanted, tmp_path) as worker:
        rows = fill(mysql, tables, wide)
        status = worker.wait(lambda status: status["rows"] == rows and bool(status["set_aside"]))
        assert [one["table"] for one in status["set_aside"]] == [f"{first}.{TORN}"]
        heard = pages(worker)
        commands(person, first)
        others = [(one, one) for one in DATABASES[1:]]
        read = [*((first, name) for name in tables), *others]
        existing(person, worker, read)
        assert worker.stop() == 0
        assert_lines_are_ours(worker.log)
        heard += worker.log
    claims = [
        path.relative_to(tmp_path / "claims") for path in (tmp_path / "claims").rglob("*.json")
    ]
    routes = Routes(prefix=wanted["prefix"])
    assert [path.parts[0] for path in claims] == [routes.topic((first, LARGE))]
    topics = asyncio.run(everything(stack, wanted["prefix"]))
    for database, table in read:
        records = [json.loads(one) for one in topics[routes.topic((database, table))]]
        assert [one["op"] for one in records] == ["c", "r"]
        assert all(
            (one["source"]["db"], one["source"]["table"]) == (database, table) for one in records
        )
    (record,) = topics[routes.topic((first, SUNK[3]))]
    assert json.loads(record)["after"] == {"id": 1} | {n: f"v{i}" for i, n in enumerate(wide)}
    assert topics[quarantine_topic(wanted["prefix"], "shop")]
    for witness in ("mysqlbinlog", "mysql-replication"):
        code, _ = person.says("audit", "shop", "--witness", witness)
        assert code == 0, person.heard[-500:]
    heard += person.heard + "".join(
        one.decode("latin-1") for each in topics.values() for one in each
    )
    assert CANARY not in heard
    if os.environ.get("LONG") == "all":
        sunk(wanted, stack, tmp_path, wide)


def fill(mysql: Mysql, tables: list[str], wide: list[str]) -> int:
    """Writes a row or two into each table; how many rows are published of that."""
    at = quoted(DATABASES[0])
    with connected(mysql) as cursor:
        for name in tables:
            values = ", ".join(f"'{number}'" for number in range(len(NARROW)))
            cursor.execute(f"INSERT INTO {at}.{quoted(name)} VALUES (1, {values})")
        for database in DATABASES[1:]:
            cursor.execute(f"INSERT INTO {quoted(database)}.{quoted(database)} VALUES (1)")
        values = ", ".join(f"'v{number}'" for number in range(len(wide)))
        cursor.execute(f"INSERT INTO {at}.{quoted(SUNK[3])} VALUES (1, {values})")
        cursor.execute(f"INSERT INTO {at}.{quoted(KEYLESS)} VALUES (1, 1), (1, 1), (2, 2)")
        cursor.execute(f"DELETE FROM {at}.{quoted(KEYLESS)} WHERE b = 1 LIMIT 1")
        large = secrets.token_urlsafe(3 << 19)
        cursor.execute(f"INSERT INTO {at}.{quoted(LARGE)} VALUES (1, %s)", [large])
        cursor.execute(f"INSERT INTO {at}.{quoted(TORN)} VALUES (_big5 0xA15A)")
    return len(tables) + len(DATABASES) - 1 + 1 + 4 + 1


def pages(worker: Worker) -> str:
    """All pages of the HTTP server, with the metrics that Prometheus scrapes."""
    found = {path: worker.get(path) for path in ("/metrics", "/status", "/health")}
    families = list(text_string_to_metric_families(found["/metrics"]))
    assert any(family.name == "aqueduct_rows_published" for family in families)
    assert_lines_are_ours(found["/metrics"])
    json.loads(found["/status"])
    return "".join(found.values())


def commands(person: Person, first: str) -> None:
    """An operator's commands for tables with such names."""
    person.says("destination", "list")
    person.says("cursor", "show", "shop")
    person.says("schema", "history", "shop")
    person.says("schema", "audit", "shop")
    person.says("schema", "check", "shop")
    assert f"{first}.{FORGER}" in {
        one["table"] for one in person.answers("schema", "history", "shop")["tables"]
    }
    for name in (FORGER, SUNK[3], "${x}"):
        code, out = person.says("schema", "show", "shop", f"{first}.{name}")
        assert code == 0, out
    shown = person.answers("schema", "show", "shop", f"{first}.{FORGER}")
    assert [one["name"] for one in shown["definition"]["columns"]] == ["id", *NARROW]
    assert person.says("schema", "show", "shop", "`x.y`.`x.y`")[0] == 0
    person.says("schema", "history", "shop", f"{first}.{FORGER}")
    code, out = person.says("schema", "quarantine", "shop")
    assert code == 1
    assert person.answers("schema", "quarantine", "shop")[0]["table"] == TORN
    person.says("dead-letters", "list", "shop")
    impact = f"ALTER TABLE {quoted(first)}.{quoted(FORGER)} DROP COLUMN {quoted(FORGER)}"
    person.says("schema", "impact", "shop", impact)


def existing(person: Person, worker: Worker, tables: list[tuple[str, str]]) -> None:
    """The rows that the tables have already, read at an operator's request."""
    names = [".".join(map(quoted, table)) for table in tables]
    code, out = person.says("snapshot", "start", "shop", *names)
    assert code == 0, out
    worker.wait(
        lambda status: (
            len(status["snapshot"]) == len(tables)
            and {one["state"] for one in status["snapshot"].values()} == {"done"}
        )
    )
    code, out = person.says("snapshot", "status", "shop")
    assert code == 0, out


async def everything(stack: Stack, prefix: str) -> dict[str, list[bytes]]:
    """The values of all topics of an installation."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    described = await admin.describe_topics(
        [name for name in await admin.list_topics() if name.startswith(f"{prefix}.")]
    )
    await admin.close()
    options = {"bootstrap_servers": stack.kafka}
    found: dict[str, list[bytes]] = {}
    for topic in described:
        records = [
            record
            for partition in topic["partitions"]
            for record in await read_to_end(options, topic["topic"], partition["partition"])
        ]
        found[topic["topic"]] = [record.value for record in records if record.value]
    return found


def sunk(wanted: dict[str, Any], stack: Stack, folder: Path, wide: list[str]) -> None:
    """The sink makes tables of them, and prints nothing but names."""
    prefix, first, warehouse = wanted["prefix"], DATABASES[0], folder / "wh"
    topics = [Routes(prefix=prefix).topic((first, name)) for name in SUNK]
    config = folder / "sink.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "prefix": prefix,
                "bootstrap_servers": stack.kafka,
                "warehouse": str(warehouse),
                "include": "|".join(topic.replace(".", r"\.") for topic in topics),
                "metrics": {"port": 0},
                "log": {"file": str(folder / "sink.log")},
            }
        )
    )
    heard = ""
    for words in (["--mode", "available-now"], ["dump", str(folder / "dump")], ["status"]):
        command = [sys.executable, "-m", "spark_sink", "--config", str(config), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert ended.returncode == 0, ended.stderr
        assert_lines_are_ours(ended.stdout + ended.stderr)
        heard += ended.stdout + ended.stderr
    assert dumped(folder / "dump") == {
        FORGER: [[1, "0", "1", "2", "3"]],
        "${x}": [[1, "0", "1", "2", "3"]],
        KEYLESS: [[1, 1], [1, 1], [1, 1], [2, 2]],
        SUNK[3]: [[1, *(f"v{number}" for number in range(len(wide)))]],
    }
    heard += (folder / "dump").read_text() + (folder / "sink.log").read_text()
    for path in warehouse.rglob("*"):
        heard += str(path)
        heard += path.read_bytes().decode("latin-1") if path.is_file() else ""
    assert CANARY not in heard


def dumped(file: Path) -> dict[str, list[list[Any]]]:
    """The images that the warehouse holds of each table."""
    found: dict[str, list[list[Any]]] = {}
    name = ""
    # Not splitlines, which would end a line within a name.
    for line in file.read_text().strip().split("\n"):
        answer = json.loads(line)
        if "table" in answer:
            name = answer["table"]
            assert answer["database"] == DATABASES[0]
        elif "values" in answer:
            found.setdefault(name, []).append(list(answer["values"].values()))
    return {name: sorted(rows) for name, rows in found.items()}
