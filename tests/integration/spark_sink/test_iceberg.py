"""A sink with Iceberg as a process: each command, a kill, and a catalog that others read by name."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devstack import Stack, jars, java
from devstack.paths import CACHE
from devstack.ports import free_port
from devstack.processes import Children
from tests.integration.spark_sink.test_sink import COLUMNS, TIMEOUT, Installation, insert, until
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long("the contract and unit/spark_sink/warehouse/test_iceberg.py have the parts"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def in_transaction(change: Change, name: str) -> Change:
    return replace(change, more={"transaction": {"id": name, "total_order": 1}})


_COMMANDS = """
import json, sys
from spark_sink import __main__ as command
config, lines = sys.argv[1], json.loads(sys.argv[2])
session = command.session
spark, close = session.start(command.read(command.Path(config))), session.close
session.start, session.close = lambda _: spark, lambda _: None
for words in lines:
    print("====", command.main(["--config", config, *words]), *words, flush=True)
close(spark)
"""
"""Runs commands one after the other in one JVM, of which each would start its own."""


def done(at: Installation, *lines: str) -> list[str]:
    """What each command prints."""
    words = json.dumps([line.split() for line in lines])
    ended = run([sys.executable, "-c", _COMMANDS, str(at.config), words])
    *printed, rest = re.split(r"^==== .*\n", ended.stdout, flags=re.MULTILINE)
    assert re.findall("^==== (.*)", ended.stdout, re.MULTILINE) == [f"0 {one}" for one in lines], (
        ended.stdout + ended.stderr
    )
    assert (rest, "Traceback" in ended.stderr) == ("", False), ended.stderr
    return printed


def shown(text: str) -> set[tuple[int, str]]:
    """The rows that `show` prints."""
    return {(int(k), v) for k, v in re.findall(r"\|(\d+)\s*\|(\w+)\s*\|", text)}


async def begun(at: Installation) -> None:
    """Makes the topics of a table."""
    transactions = f"{at.prefix}.__transactions.shop"
    await at.make_topics(f"{at.prefix}.__schemas", transactions, at.topic("t"))
    await at.write(schema(*COLUMNS), *(in_transaction(insert(n, "old"), "u:1") for n in (1, 2)))


async def test_each_command_does_on_iceberg_what_it_does_on_delta(
    stack: Stack, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "icecommands", table_format="iceberg")
    at.config.write_text(f"{at.config.read_text()}unusable_limit: 5\n")
    await begun(at)
    with at.running() as sink:
        until(lambda: at.applied("t") >= 3, sink)
        await at.write(in_transaction(insert(3, "new"), "u:2"))
        os.kill(sink.pid, signal.SIGKILL)
        sink.wait()
    with at.running() as sink:
        await at.write(
            in_transaction(Change(op="d", seq=4, before={"id": 1, "v": "old"}), "u:3"),
            insert(5, "x"),
            Change(op="c", seq=6, after={"id": "none", "v": "y"}),
        )
        until(lambda: at.applied("t") >= 9, sink)
        rows, maintained, *_ = done(
            at,
            "show shop.t",
            "maintain shop.t",
            "rebuild shop.t",
            "reload shop.t --from-beginning",
        )
        assert shown(rows) == {(2, "old"), (3, "new"), (5, "x")}
        assert maintained == "shop.t: maintained\n"
        sink.send_signal(signal.SIGTERM)
        output, _ = sink.communicate(timeout=TIMEOUT)
        assert sink.returncode == 0, output
        assert "Traceback" not in output
    rows, counted, listed, status, lag, maintained, cut, letters, _ = done(
        at,
        "show shop.t",
        "tables --json --count",
        "tables --json",
        "status",
        "lag",
        "maintain",
        "cut",
        "letters",
        f"dump {tmp_path}/dumped",
    )
    assert shown(rows) == {(2, "old"), (3, "new"), (5, "x")}
    (table,) = json.loads(counted)
    assert (table["state"], table["live"], table["deleted"]) == ("ok", 3, 1)
    assert table["destinations"] == ["shop"]
    (table,) = json.loads(listed)
    assert table["rows"] == 4
    assert "shop.t: APPLIED" in status
    assert "not merged: 0 offsets" in lag
    assert maintained == "shop.t: maintained\n"
    assert "shop.t" in cut
    assert "MalformedRecord: column id holds no int" in letters
    at.config.write_text(at.config.read_text().replace("format: iceberg", "format: delta"))
    refused = at.run("cut")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].endswith("Set format: iceberg, or name another folder")


_ANALYST = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1])
builder = builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
for key, value in json.loads(sys.argv[2]).items():
    builder = builder.config(f"spark.sql.catalog.lake.{key}", value)
spark = builder.getOrCreate()
print([row.tableName for row in spark.sql("SHOW TABLES IN lake.shop").collect()])
rows = spark.sql("SELECT id, v FROM lake.shop.t WHERE NOT __deleted ORDER BY id").collect()
print([(row.id, row.v) for row in rows])
"""


def listed_in(folder: Path) -> str:
    """The jars of a folder, as Spark's settings list them."""
    return ",".join(map(str, folder.glob("*.jar")))


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)


@pytest.fixture
def iceberg_jars(tmp_path: Path) -> Iterator[Path]:
    """A folder with Iceberg's jar and the driver of a catalog's database."""
    owner = Children()
    program = java.find_or_install(owner)
    jars.fetch(["iceberg", "sqlite"], program, owner=owner)
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("iceberg", "sqlite"):
        for jar in (CACHE / "jars" / name).glob("*.jar"):
            (folder / jar.name).symlink_to(jar)
    yield folder
    owner.kill()


async def test_tables_in_a_catalog_of_their_own_are_seen_by_name_and_two_sinks_fill_them(
    stack: Stack, tmp_path: Path, iceberg_jars: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, "icenames", table_format="iceberg")
    catalog = {
        "type": "jdbc",
        "name": "lake",
        "uri": f"jdbc:sqlite:{tmp_path}/catalog.db?busy_timeout=60000",
        "warehouse": f"{tmp_path}/lake",
    }
    own = f"catalog: {json.dumps(catalog)}\niceberg_jars: {iceberg_jars}\n"
    apart = "on_rename: keep\non_drop: keep\nname: {}\ninclude: {}\nfresh: {}\n"
    text = at.config.read_text() + own
    await begun(at)
    await at.make_topics(at.topic("late"))
    await at.write(schema(*COLUMNS, table="late"), insert(7, "other", "late"))
    second = at.config.with_name("second.yaml")
    port = f"metrics: {{port: {at.port}}}"
    second.write_text(
        text.replace(port, f"metrics: {{port: {free_port()}}}")
        + apart.format("second", at.topic("late"), "false")
    )
    at.config.write_text(text + apart.format("first", at.topic("t"), "true"))
    with at.running() as one:
        until(lambda: at.applied("t") >= 3, one)
        other = run([*at.command()[:-1], str(second), "--mode", "available-now"])
        assert other.returncode == 0, other.stderr
        await at.write(insert(3, "new"))
        until(lambda: at.applied("t") >= 5, one)
    rows, listed = done(at, "show shop.t", "tables --json")
    assert shown(rows) == {(1, "old"), (2, "old"), (3, "new")}
    assert [(one["table"], one["rows"]) for one in json.loads(listed)] == [("late", 1), ("t", 3)]
    assert not list((tmp_path / "wh").glob("shop/*"))
    seen = run([sys.executable, "-c", _ANALYST, listed_in(iceberg_jars), json.dumps(catalog)])
    assert seen.stdout.splitlines() == [
        "['late', 't']",
        "[(1, 'old'), (2, 'old'), (3, 'new')]",
    ], seen.stderr
