"""A Canal server switched to Aqueduct under load, for a consumer of its flat messages that is never informed.

``make crash SUITE=switch`` runs it: it needs Canal's jars, which are fetched at first use, and a Java compiler.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import ConsumerRecord
from aiokafka.admin import NewTopic

from bench.peers import software
from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from devstack.processes import Children
from tests.crash.peers.switched import COLUMNS, Change, Changing, Load, Reader, Row, compare
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.topics import on_kafka
from tests.harness.wait import until
from tests.harness.worker import Worker, started

SOURCE = Path(software.__file__).with_name("canal_java") / "CanalMain.java"
OPENED = ("java.lang", "java.nio", "java.net", "sun.nio.ch")
TABLES = (
    f"CREATE TABLE inv_shop.items (id INT PRIMARY KEY, {COLUMNS})",
    f"CREATE TABLE inv_shop.my_orders (id DECIMAL(8,3) PRIMARY KEY, {COLUMNS})",
)
LATER = f"CREATE TABLE inv_shop.later_on (id BINARY(3) PRIMARY KEY, {COLUMNS})"


def _time(text: str) -> timedelta:
    hours, minutes, seconds = text.removeprefix("-").split(":")
    found = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return -found if text.startswith("-") else found


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


MEANINGS: dict[str, Callable[[str], Any]] = {
    "n": int, "price": Decimal, "big": int, "day": date.fromisoformat, "at": _utc, "sold": _utc, "lasts": _time,
    "flag": lambda text: text == "1", "bits": int, "bytes": _bytes, "doc": json.loads,
    "state": lambda text: ("", "new", "paid")[int(text)], "tags": lambda text: ("", "a", "b", "a,b")[int(text)],
    "made": int, "rate": float, "note": str,
}  # fmt: skip
"""Texts of a FlatMessage by the types of their columns; an ENUM and a SET are numbers."""
KEYS: dict[str, Callable[[str], Any]] = {"items": int, "my_orders": Decimal, "later_on": _bytes}


def _meant(table: str, texts: dict[str, str | None]) -> Row:
    means = {**MEANINGS, "id": KEYS[table]}
    return {name: None if text is None else means[name](text) for name, text in texts.items()}


def interpret(record: ConsumerRecord) -> Iterator[Change]:
    """The changes of a message, which may have several rows; a changed key is a delete and an insert."""
    message = json.loads(record.value)
    if message["isDdl"]:
        return
    table = message["table"]
    assert record.topic == f"inv_shop_{table}"
    assert message["database"] == "inv_shop"
    for data, old in itertools.zip_longest(message["data"], message["old"] or []):
        row = _meant(table, data)
        kind = message["type"]
        if kind == "INSERT":
            yield Change((table, row["n"], "c"), row["id"], None, row)
        elif kind == "DELETE":
            yield Change((table, row["n"], "d"), row["id"], row, None)
        else:
            was = {**row, **_meant(table, old)}
            if was["id"] != row["id"]:
                yield Change((table, was["n"], "d"), was["id"], was, None)
                yield Change((table, row["n"], "c"), row["id"], None, row)
            else:
                yield Change((table, row["n"], "u"), row["id"], was, row)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own."""
    with own_mysql(stack, options={"server_id": 32}) as server:
        yield server


def test_a_consumer_of_canals_topics_reads_on_after_the_switch(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(mysql, "CREATE DATABASE inv_shop", *TABLES)
    names = ("inv_shop_items", "inv_shop_my_orders")
    made = [NewTopic(name, 2, 1, topic_configs={"retention.ms": "604800000"}) for name in names]
    on_kafka(stack, lambda admin: admin.create_topics(made))
    changing = Changing(["items", "my_orders"])
    load, reader = Load(mysql, changing), Reader(stack.kafka, r"^inv_shop_.*", interpret)
    reader.start()
    with canal(stack, mysql, tmp_path) as log:
        load.start()
        until(lambda: len(reader.found) > 200, late=lambda: log.read_text()[-3000:])
    before = len(reader.found)
    with switched(stack, mysql, tmp_path) as worker:
        until(lambda: len(reader.found) > before + 200, late=lambda: worker.log[-3000:])
        run(mysql, LATER)
        changing.tables.append("later_on")
        until(
            lambda: any(one.name[0] == "later_on" for one in reader.found[-200:]),
            late=lambda: worker.log[-3000:],
        )
        done = load.end()
        wanted = {one.name for one in done}
        until(
            lambda: wanted <= {one.name for one in list(reader.found)},
            late=lambda: f"{compare(done, reader.found)}"[-3000:] + worker.log[-3000:],
        )
        # What would come again has come.
        time.sleep(2)
        found = reader.end()
    outcome = compare(done, found)
    print(outcome.line())  # noqa: T201 - it is what the command is for
    assert before > 200
    assert (outcome.lost, outcome.repeated, outcome.different[:3]) == ([], [], [])


@contextlib.contextmanager
def canal(stack: Stack, mysql: Mysql, folder: Path) -> Iterator[Path]:
    """A Canal server with its Kafka producer; ended as by an operator."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("it needs a Java compiler, and there is no javac")
    java, jars = software.java_and_jars("canal", Children())
    classes = folder / "classes"
    subprocess.run([compiler, "-d", str(classes), "-cp", f"{jars}/*", str(SOURCE)], check=True)
    ((file, pos, *_),) = ask(mysql, "SHOW BINARY LOG STATUS")
    settings = {
        "host": mysql.host, "port": mysql.port, "user": "aqueduct", "password": "aqueduct",
        "database": "inv_shop",
        "server_id": 6300, "position": json.dumps({"journalName": file, "position": pos, "timestamp": 0}),
        "filter": r"inv_shop\\..*", "topic": "inv_shop_others", "dynamicTopic": r".*\\..*", "batch": 1000,
        "meta": folder / "meta", "canal.mq.flatMessage": "true", "kafka.bootstrap.servers": stack.kafka,
        "kafka.acks": "all", "kafka.max.in.flight.requests.per.connection": 1, "kafka.retries": 0,
        "kafka.compression.type": "lz4", "kafka.linger.ms": 1,
    }  # fmt: skip
    properties = folder / "canal.properties"
    properties.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    log = folder / "canal.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [java, "-Xmx512m", "-Duser.timezone=UTC", *opens, "-cp", f"{classes}:{SOURCE.parent}:{jars}/*",
             "CanalMain", str(properties)],
            stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield log
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def switched(stack: Stack, mysql: Mysql, folder: Path) -> Iterator[Worker]:
    """The worker with what is imported, as an operator starts it."""
    conf, out, nothing = folder / "conf", folder / "imported", folder / "none.yaml"
    (conf / "orders").mkdir(parents=True)
    (conf / "canal.properties").write_text(
        f"canal.serverMode=kafka\ncanal.destinations=orders\nkafka.bootstrap.servers={stack.kafka}\n"
    )
    (conf / "orders" / "instance.properties").write_text(
        f"canal.instance.master.address={mysql.host}:{mysql.port}\ncanal.instance.dbUsername=aqueduct\n"
        "canal.instance.dbPassword=aqueduct\ncanal.instance.mysql.slaveId=6300\n"
        "canal.instance.filter.regex=inv_shop\\\\..*\ncanal.mq.topic=inv_shop_others\n"
        "canal.mq.dynamicTopic=.*\\\\..*\n"
    )
    words = [
        "import-canal", str(conf), "--output", str(out),
        "--cursor", f"orders={folder / 'meta' / 'bench' / 'meta.dat'}",
    ]  # fmt: skip
    refused = run_command(nothing, *words)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    accepted = ("--accept", "canal.instance.filter.query.ddl")
    assert refused.stdout.endswith(f"to accept that: {' '.join(accepted)}\n")
    done = run_command(nothing, *words, *accepted)
    assert done.returncode == 0, done.stdout + done.stderr
    settings = yaml.safe_load((out / "aqueduct.yaml").read_text())
    assert "event" in settings["destinations"]["orders"]["start"]
    secret = out / settings["destinations"]["orders"]["source"]["password_file"]
    secret.parent.mkdir()
    secret.write_text("aqueduct")
    http = free_port()
    process = started(
        folder / "worker.log",
        cwd=out,
        AQUEDUCT_CONFIG=str(out / "aqueduct.yaml"),
        AQUEDUCT_HTTP__PORT=str(http),
        AQUEDUCT_DATA_DIR=str(folder / "data"),
        AQUEDUCT_TOPICS__REPLICATION_FACTOR="1",
    )
    try:
        yield Worker(process, http, folder / "worker.log")
    finally:
        process.kill()
        process.wait()
