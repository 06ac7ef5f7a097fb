"""Rows that the sink reads from a server itself, while they are changed, and that the stream then continues."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.jobs.load.command import loader
from spark_sink.jobs.load.plan import read_plans
from spark_sink.settings.model import Settings
from spark_sink.views.recent.reading import current
from spark_sink.warehouse.opening import open_warehouse
from tests.harness.forked import run_command
from tests.harness.sql import ask, run
from tests.harness.worker import running
from tests.integration.process.conftest import mysql
from tests.integration.process.test_snapshot import changing, filled, wanted_settings
from tests.integration.snapshot.columns import OTHER_COLUMNS
from tests.integration.spark_sink.loads import kill_load_after, load_settings, planned
from tests.integration.spark_sink.test_sink import TIMEOUT, Installation, until
from tests.integration.worker.families import FAMILIES, statements_for
from tests.unit.spark_sink.conftest import FORMAT, spark

__all__ = ["filled", "mysql", "spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NAME = ("shop", "many")


@pytest.mark.long(
    "unit/spark_sink/jobs/load/test_in_place.py has the stream after it, the last two tests the load"
)
def test_a_killed_load_continues_while_rows_change(
    stack: Stack, filled: Mysql, spark: SparkSession, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["snapshot"] = {"mode": "no_data"}
    at = Installation(tmp_path, stack.kafka, prefix=wanted["prefix"])
    with at.config.open("a") as config:
        config.write(yaml.safe_dump({"load": load_settings(filled)}))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        refused = run_command(tmp_path / "aqueduct.yaml", "snapshot", "plan", "shop", "shop.many")
        assert refused.returncode == 1
        assert "no record of shop.many was published" in refused.stderr
        run(filled, "UPDATE shop.many SET v = 5 WHERE a = 1 AND b = 'c'")
        worker.wait(lambda status: status["rows"] > 0)
        plan = planned(tmp_path, "shop.many")
        with at.running() as sink, changing(filled, seed=11, pause=0.01) as stop:
            until(lambda: at.batches() > 0, sink)
            kill_load_after(at, str(plan), ranges=4)
            done = at.run("load", str(plan))
            assert done.returncode == 0, done.stderr
            continued = re.search(
                r"load continued table=shop\.many ranges=(\d+)/(\d+)", done.stderr
            )
            assert continued is not None, done.stderr
            assert 4 <= int(continued[1]) < int(continued[2])
            assert done.stdout == "shop.many: loaded from 1 source table(s)\n"
            rebuilt = at.run("rebuild", "shop.many")
            assert rebuilt.returncode == 1
            assert "were loaded from the source, and are not in its topics" in rebuilt.stderr
            compared = at.run("validate", str(plan))
            assert compared.returncode == 0, (compared.stdout, compared.stderr)
            assert re.fullmatch(
                r"shop\.many: rows=(\d+) missing=0 extra=0 different=0\n"
                r"validation of shop: tables=1 not_compared=0 rows=\1 differences=0\n",
                compared.stdout,
            )
            stop()
            assert_differences_are_found(at, filled, plan)
            end = ask(filled, "SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")
            worker.wait(lambda status: status["cursor"]["gtid_set"] == end)
            os.killpg(sink.pid, signal.SIGTERM)
            sink.communicate(timeout=TIMEOUT)
        assert worker.stop() == 0
    last = at.run("--mode", "available-now")
    assert last.returncode == 0, last.stderr
    assert_equal(spark, tmp_path / "wh", filled)
    assert not list((tmp_path / "wh" / "__loads").rglob("*.parquet"))


def assert_differences_are_found(at: Installation, mysql: Mysql, plan: Path) -> None:
    """Rows that were changed without a binlog; they are changed back."""
    (a, b, v), (c, d, w) = ask(mysql, "SELECT a, b, v FROM shop.many ORDER BY a DESC, b LIMIT 2")
    quiet = "SET SESSION sql_log_bin = 0"
    run(
        mysql,
        quiet,
        f"UPDATE shop.many SET v = {v + 1} WHERE a = {a} AND b = '{b}'",
        f"DELETE FROM shop.many WHERE a = {c} AND b = '{d}'",
        "INSERT INTO shop.many VALUES (-7, 'é', 1)",
    )
    compared = at.run("validate", str(plan), "shop.many")
    assert compared.returncode == 1, compared.stderr
    assert "TablesDiffer: Tables differ from their source: 3 rows" in compared.stderr
    assert compared.stdout.splitlines()[1:-1] == [
        '  missing: {"a":-7,"b":"é"}',
        f'  extra: {{"a":{c},"b":"{d}"}}',
        f'  different: {{"a":{a},"b":"{b}"}}: v',
    ]
    run(
        mysql,
        quiet,
        f"UPDATE shop.many SET v = {v} WHERE a = {a} AND b = '{b}'",
        f"INSERT INTO shop.many VALUES ({c}, '{d}', {w})",
        "DELETE FROM shop.many WHERE a = -7",
    )


def assert_equal(spark: SparkSession, warehouse: Path, mysql: Mysql) -> None:
    there = Counter(ask(mysql, "SELECT a, b, v FROM shop.many"))
    rows = current(spark, str(warehouse), *NAME).selectExpr("a", "b", "v").collect()
    assert Counter(map(tuple, rows)) == there


@pytest.mark.long(
    "test_each_row_is_in_one_range has values; tests/integration/snapshot each type by SELECT"
)
def test_each_type_is_loaded_as_the_stream_has_it(
    stack: Stack, mysql: Mysql, spark: SparkSession, tmp_path: Path
) -> None:
    families = {**{f"t_{name}": list(made()) for name, made in FAMILIES.items()}}
    families |= {f"o_{name}": columns for name, columns in OTHER_COLUMNS.items()}
    for table, columns in families.items():
        shortest = min(len(values) for _, values in columns)
        own = [(kind, values[:shortest]) for kind, values in columns]
        run(mysql, *statements_for(f"shop.{table}", own))
    wanted = wanted_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"] |= {"snapshot": {"mode": "never"}, "start": "earliest"}
    at = Installation(tmp_path, stack.kafka, prefix=wanted["prefix"])
    end = ask(mysql, "SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: (status["cursor"] or {}).get("gtid_set") == end)
        plan = planned(tmp_path, *(f"shop.{table}" for table in families))
        assert worker.stop() == 0
    applied = at.run("--mode", "available-now")
    assert applied.returncode == 0, applied.stderr
    settings = installed(at, mysql)
    warehouse = open_warehouse(spark, settings.warehouse, table_format=FORMAT)
    found = read_plans([plan], settings.prefix)
    stop, differing = threading.Event(), dict[Any, Any]()
    with loader(spark, settings, warehouse, found, timeout=60, stop=stop) as own_loader:
        for name, sources in found.tables.items():
            state = own_loader.read(name, sources, again=False)
            shape = warehouse.tables.shape(*name)
            assert shape is not None
            streamed = texts(warehouse.tables.rows(shape))
            assert streamed
            loaded = texts(own_loader.loads.rows(state))
            differing |= (
                {name: (loaded - streamed, streamed - loaded)} if loaded != streamed else {}
            )
    assert not differing, str(differing)[:20000]


def installed(at: Installation, mysql: Mysql, **more: Any) -> Settings:
    body = yaml.safe_load(at.config.read_text())
    return Settings(**{**body, "load": load_settings(mysql, **more)})


def texts(rows: DataFrame) -> Counter[str]:
    """Each row as text that distinguishes all values, -0.0 and 0.0 too, without its position in the stream."""
    place = ("__epoch", "__seq", "__ts_ms")
    columns = []
    for field in rows.drop(*place).schema:
        kind, name = field.dataType.simpleString(), field.name
        # JSON has milliseconds only, and Python no year 0.
        shown = (
            f"CAST({name} AS STRING)" if kind in ("date", "timestamp", "timestamp_ntz") else name
        )
        shown = f"array_sort(map_entries({name}))" if kind.startswith("map") else shown
        columns.append(f"{shown} AS {name}")
    text = f"to_json(struct({', '.join(columns)}), map('ignoreNullFields', 'false'))"
    return Counter(row[0] for row in rows.selectExpr(text).collect())
