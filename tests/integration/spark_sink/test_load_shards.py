"""One table of the warehouse, loaded from the shards of two destinations while they are changed."""

from __future__ import annotations

import os
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.views.recent.reading import current
from tests.harness import wait
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, connected, run
from tests.harness.worker import Worker, running, settings
from tests.integration.process.conftest import mysql
from tests.integration.spark_sink.loads import kill_load_after, load_settings, planned
from tests.integration.spark_sink.test_sink import Installation, until
from tests.unit.spark_sink.conftest import spark

__all__ = ["mysql", "spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
SHARDS = {"shop": int(os.environ.get("LOAD_SHARDS", "9")), "west": 3}
ROWS, LARGE = 200, 4000
MAPPING = "tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade}}"
Servers = dict[str, Mysql]


@pytest.fixture
def servers(stack: Stack, mysql: Mysql) -> Iterator[Servers]:
    """A server of each destination; their shards have the same names and the same keys."""
    with own_mysql(stack, "CREATE DATABASE shop", options={"server_id": 10}) as other:
        found = {"shop": mysql, "west": other}
        for destination, server in found.items():
            for shard in range(SHARDS[destination]):
                run(server, f"CREATE TABLE shop.orders_{shard} (id int PRIMARY KEY, v int)")
                with connected(server, autocommit=False) as cursor:
                    keys = range(ROWS if shard else LARGE)
                    cursor.executemany(
                        f"INSERT INTO shop.orders_{shard} VALUES (%s, %s)",
                        [(key, 0) for key in keys],
                    )
                    cursor.execute("COMMIT")
        yield found


@contextmanager
def changing(servers: Servers) -> Iterator[None]:
    """Rows of all shards are changed within the block, each time to another value."""
    stop = threading.Event()

    def change(destination: str, seed: int) -> None:
        chance, value = random.Random(seed), 1000 * seed
        with connected(servers[destination]) as cursor:
            while not stop.wait(0.05):
                value += 1
                table = f"shop.orders_{chance.randrange(SHARDS[destination])}"
                key, what = chance.randrange(ROWS + 50), chance.random()
                if what < 0.4:
                    cursor.execute(f"UPDATE {table} SET v = {value} WHERE id = {key}")
                elif what < 0.6:
                    cursor.execute(f"DELETE FROM {table} WHERE id = {key}")
                elif what < 0.7:
                    cursor.execute(f"UPDATE IGNORE {table} SET id = id + 300 WHERE id = {key}")
                else:
                    cursor.execute(f"REPLACE INTO {table} VALUES ({key}, {value})")

    writers = [
        threading.Thread(target=change, args=(destination, seed))
        for seed, destination in enumerate(servers, 1)
    ]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def two_destinations(stack: Stack, servers: Servers, folder: Path) -> dict[str, Any]:
    """Settings of a worker of both, which publishes no existing rows."""
    wanted = settings(stack, servers["shop"], folder, snapshot={"mode": "no_data"})
    one = wanted["destinations"]["shop"]
    del one["start"]
    own = {**one["source"], "host": servers["west"].host, "port": servers["west"].port}
    wanted["destinations"]["west"] = {**one, "source": own, "server_id": 6102}
    (folder / "mapping.yaml").write_text(MAPPING)
    wanted["mapping"] = {"file": str(folder / "mapping.yaml")}
    return wanted


def wait_for_all(worker: Worker, servers: Servers) -> None:
    """Wait until all is published that the servers have now."""
    for destination, server in servers.items():
        end = ask(server, "SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")

        def reached(destination: str = destination, end: str = end) -> bool:
            page = worker.get("/status")
            status = yaml.safe_load(page)["destinations"][destination] if page else {}
            return bool(status) and (status.get("cursor") or {}).get("gtid_set") == end

        wait.until(reached, seconds=wait.TIMEOUT, late=lambda: worker.log[-2000:])


def assert_equal(spark: SparkSession, warehouse: Path, servers: Servers) -> None:
    there: Counter[tuple[Any, ...]] = Counter()
    for destination, server in servers.items():
        for shard in range(SHARDS[destination]):
            table = f"orders_{shard}"
            there.update((destination, table, *row) for row in ask(server, f"TABLE shop.{table}"))
    rows = current(spark, str(warehouse), "trade", "orders", bookkeeping=True)
    found = rows.selectExpr("__destination", "__source_table", "id", "v").collect()
    assert Counter(map(tuple, found)) == there


@pytest.mark.long("unit/spark_sink/jobs/load/test_sources.py has two destinations without servers")
def test_shards_of_two_destinations_are_loaded_into_one_table(
    stack: Stack, servers: Servers, spark: SparkSession, tmp_path: Path
) -> None:
    wanted = two_destinations(stack, servers, tmp_path)
    at = Installation(tmp_path, stack.kafka, prefix=wanted["prefix"])
    own = {one: {"server": f"{on.host}:{on.port}"} for one, on in servers.items()}
    load = {
        **load_settings(servers["shop"], rows_per_range=700),
        "server": "",
        "destinations": own,
    }
    with at.config.open("a") as config:
        config.write(yaml.safe_dump({"load": load}))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        wait_for_all(worker, servers)
        for destination, server in servers.items():
            for shard in range(SHARDS[destination]):
                run(server, f"UPDATE shop.orders_{shard} SET v = 1 WHERE id = 1")
        wait_for_all(worker, servers)
        plans = [
            str(planned(tmp_path, "trade.orders", destination=destination))
            for destination in servers
        ]
        both = (plans[0], "--with", plans[1])
        with at.running() as sink, changing(servers):
            merged = 'applied_seq{destination="west"}'
            until(lambda: at.metric(merged) >= SHARDS["west"], sink)
            alone = at.run("load", plans[0])
            assert alone.returncode == 1
            assert "has rows of sources that are not in the load: west.shop.orders_" in alone.stderr
            kill_load_after(at, *both, ranges=6)
            done = at.run("load", *both)
            assert done.returncode == 0, done.stderr
            continued = re.search(
                r"load continued table=trade\.orders ranges=(\d+)/(\d+)", done.stderr
            )
            assert continued is not None, done.stderr
            assert 6 <= int(continued[1]) < int(continued[2])
            assert (
                done.stdout == f"trade.orders: loaded from {sum(SHARDS.values())} source table(s)\n"
            )
            compared = at.run("validate", *both)
            assert compared.returncode == 0, (compared.stdout, compared.stderr)
            assert re.fullmatch(
                r"trade\.orders: rows=(\d+) missing=0 extra=0 different=0\n"
                r"validation of shop, west: tables=1 not_compared=0 rows=\1 differences=0\n",
                compared.stdout,
            )
        run(
            servers["west"],
            "SET SESSION sql_log_bin = 0",
            "UPDATE shop.orders_2 SET v = -9 ORDER BY id LIMIT 1",
        )
        with at.running():
            compared = at.run("validate", *both)
        assert compared.returncode == 1, compared.stderr
        assert re.search(
            r'different: \{"id":\d+,"__destination":"west","__source_database":"shop",'
            r'"__source_table":"orders_2"\}: v\n',
            compared.stdout,
        ), compared.stdout
        run(
            servers["west"],
            "UPDATE shop.orders_2 SET v = -8 WHERE v = -9",
        )
        wait_for_all(worker, servers)
        assert worker.stop() == 0
    last = at.run("--mode", "available-now")
    assert last.returncode == 0, last.stderr
    assert_equal(spark, tmp_path / "wh", servers)
    assert not list((tmp_path / "wh" / "__loads").rglob("*.parquet"))
