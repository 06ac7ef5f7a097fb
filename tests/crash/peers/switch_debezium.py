"""A Debezium connector switched to Aqueduct under load, for a consumer of its topics that is never informed.

``make crash SUITE=switch`` runs it: it needs Debezium's jars, which are fetched at first use.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import ConsumerRecord

from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from tests.crash.peers import debezium
from tests.crash.peers.switched import COLUMNS, Change, Changing, Load, Name, Reader, Row, compare
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import on_kafka
from tests.harness.wait import until
from tests.harness.worker import Worker, started

PREFIX = "inv_shop"
TABLES = (
    f"CREATE TABLE inv_shop.items (id INT PRIMARY KEY, {COLUMNS})",
    f"CREATE TABLE inv_shop.`my orders` (id DECIMAL(8,3) PRIMARY KEY, {COLUMNS})",
)
LATER = f"CREATE TABLE inv_shop.later_on (id BINARY(3) PRIMARY KEY, {COLUMNS})"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decimal(scale: int) -> Callable[[str], Decimal]:
    """``org.apache.kafka.connect.data.Decimal`` in JSON: the unscaled number's bytes."""

    def value(text: str) -> Decimal:
        unscaled = int.from_bytes(base64.b64decode(text), "big", signed=True)
        return Decimal(unscaled).scaleb(-scale)

    return value


MEANINGS: dict[str, Callable[[Any], Any]] = {
    "price": decimal(2),
    "big": lambda value: value % 2**64,
    "day": lambda value: date(1970, 1, 1) + timedelta(days=value),
    "at": lambda value: EPOCH + timedelta(microseconds=value),
    "sold": datetime.fromisoformat,
    "lasts": lambda value: timedelta(microseconds=value),
    "bits": lambda value: int.from_bytes(base64.b64decode(value), "little"),
    "bytes": base64.b64decode,
    "doc": json.loads,
}
"""Values by the documentation of Debezium's connector for MySQL, with its defaults."""
KEYS: dict[str, Callable[[Any], Any]] = {
    "items": int,
    "my orders": decimal(3),
    "later_on": base64.b64decode,
}


def _meant(table: str, image: dict[str, Any] | None) -> Row | None:
    if image is None:
        return None
    means = {**MEANINGS, "id": KEYS[table]}
    return {
        name: means[name](value) if value is not None and name in means else value
        for name, value in image.items()
    }


def interpret(record: ConsumerRecord) -> Iterator[Change]:
    """The change of a record; a tombstone is none, and is of a key that was deleted before."""
    if record.value is None:
        return
    value = json.loads(record.value)
    table = value["source"]["table"]
    assert record.topic == f"{PREFIX}.inv_shop.{table.replace(' ', '_')}"
    assert (value["source"]["name"], value["source"]["db"]) == (PREFIX, "inv_shop")
    before, after = _meant(table, value["before"]), _meant(table, value["after"])
    key = KEYS[table](json.loads(record.key)["id"])
    image = after or before
    assert image is not None
    assert image["id"] == key
    yield Change((table, image["n"], value["op"]), key, before, after)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own."""
    with own_mysql(stack, options={"server_id": 31}) as server:
        yield server


def test_a_consumer_of_a_connectors_topics_reads_on_after_the_switch(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(mysql, "CREATE DATABASE inv_shop", *TABLES)
    port = free_port()
    links = debezium.Links(
        mysql=mysql.port, kafka=int(stack.kafka.rpartition(":")[2]), tls="preferred"
    )
    changing = Changing(["items", "my orders"])
    load, reader = (
        Load(mysql, changing),
        Reader(stack.kafka, rf"^{PREFIX}\.inv_shop\.(?!ready$)", interpret),
    )
    properties = tmp_path / "worker.properties"
    properties.write_text(
        debezium.properties(
            debezium.worker(debezium.AT_LEAST_ONCE, links, group=tmp_path.name, port=port)
        )
    )
    with (tmp_path / "connect.log").open("wb") as log:
        connect = subprocess.Popen(
            debezium.command(tmp_path, properties), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        config = debezium.connector(debezium.AT_LEAST_ONCE, links, prefix=PREFIX)
        config |= {"database.include.list": "inv_shop"}
        until(lambda: debezium.ask(port, "connectors") is not None)
        debezium.ask(port, "connectors/inventory/config", method="PUT", body=config)
        until(lambda: streams(stack, mysql), glance=0.5)
        reader.start()
        load.start()
        until(lambda: len(reader.found) > 200)
        debezium.ask(port, "connectors/inventory/stop", method="PUT")
        until(lambda: _is_stopped(port))
        files = {
            "connector.json": {"name": "inventory", "config": config},
            "offsets.json": debezium.ask(port, "connectors/inventory/offsets"),
        }
    finally:
        connect.terminate()
        connect.wait(60)
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    before = len(reader.found)
    with switched(tmp_path) as worker:
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
    assert (outcome.lost, outcome.different[:3]) == ([], [])
    # If the connector ends between the two records of a changed key, its offset has both already.
    assert outcome.repeated in ([], *_changed_keys(done))


def _changed_keys(done: list[Change]) -> list[list[Name]]:
    """The two changes of each update of a key."""
    return [
        [one.name, then.name]
        for one, then in pairwise(done)
        if (one.name[0], one.name[2], then.name[2]) == (then.name[0], "d", "c")
    ]


def streams(stack: Stack, mysql: Mysql) -> bool:
    """Write a row; return whether an earlier one was published, as a connector is RUNNING before it reads."""
    run(
        mysql,
        "CREATE TABLE IF NOT EXISTS inv_shop.ready (id INT)",
        "INSERT INTO inv_shop.ready VALUES (1)",
    )
    return f"{PREFIX}.inv_shop.ready" in on_kafka(stack, lambda admin: admin.list_topics())


def _is_stopped(port: int) -> bool:
    status = debezium.ask(port, "connectors/inventory/status")
    return bool(status) and status["connector"]["state"] == "STOPPED" and not status["tasks"]


@contextlib.contextmanager
def switched(folder: Path) -> Iterator[Worker]:
    """The worker with what is imported, as an operator starts it."""
    out, nothing = folder / "imported", folder / "none.yaml"
    words = [
        "import-debezium", str(folder / "connector.json"), "--offsets", str(folder / "offsets.json"),
        "--worker", str(folder / "worker.properties"), "--output", str(out),
    ]  # fmt: skip
    refused = run_command(nothing, *words)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert refused.stdout.endswith("to accept that: --accept include.schema.changes\n")
    done = run_command(nothing, *words, "--accept", "include.schema.changes")
    assert done.returncode == 0, done.stdout + done.stderr
    settings = yaml.safe_load((out / "aqueduct.yaml").read_text())
    (destination,) = settings["destinations"].values()
    secret = out / destination["source"]["password_file"]
    secret.parent.mkdir()
    secret.write_text("aqueduct")
    http = free_port()
    process = started(
        folder / "worker.log",
        cwd=out,
        AQUEDUCT_CONFIG=str(out / "aqueduct.yaml"),
        AQUEDUCT_HTTP__PORT=str(http),
        AQUEDUCT_DATA_DIR=str(folder / "data"),
    )
    try:
        yield Worker(process, http, folder / "worker.log")
    finally:
        process.kill()
        process.wait()
