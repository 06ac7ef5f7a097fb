"""Rows that the sink reads from a server itself, while they are changed, and that the stream then continues."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.errors import LoadRefused, LoadStale, SourceUnreachable
from spark_sink.load.command import loader
from spark_sink.load.cursor import SourceCursor
from spark_sink.load.loader import Loader
from spark_sink.load.plan import SourceTable, read_plan
from spark_sink.load.rows import derived_table
from spark_sink.load.select_list import selected
from spark_sink.load.server import SourceServer
from spark_sink.load.state import Loads, LoadState
from spark_sink.recent.reading import current
from spark_sink.settings import Load, Settings
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.opening import open_warehouse
from tests.harness.forked import run_command
from tests.harness.sql import ask, run
from tests.harness.worker import running
from tests.integration.process.conftest import mysql
from tests.integration.process.test_snapshot import changing, filled, wanted_settings
from tests.integration.snapshot.columns import OTHER_COLUMNS
from tests.integration.spark_sink.test_sink import TIMEOUT, Installation, until
from tests.integration.worker.families import FAMILIES, statements_for
from tests.unit.spark_sink.conftest import FORMAT, spark
from tests.unit.spark_sink.history import schema

__all__ = ["filled", "mysql", "spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NAME = ("shop", "many")


def load_settings(mysql: Mysql, **more: Any) -> dict[str, Any]:
    return {
        "server": f"{mysql.host}:{mysql.port}",
        "user": "aqueduct",
        "password": "aqueduct",
        "rows_per_range": 1500,
        "connections": 2,
        **more,
    }


def planned(folder: Path, *tables: str) -> Path:
    """The plan of tables, in a file."""
    made = run_command(folder / "aqueduct.yaml", "snapshot", "plan", "shop", *tables)
    assert made.returncode == 0, made.stderr
    file = folder / "plan.json"
    file.write_text(made.stdout)
    return file


@pytest.mark.long(
    "unit/spark_sink/load/test_in_place.py has the stream after it, the last two tests the load"
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
            kill_load_after(at, plan, ranges=4)
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
                r"shop\.many: rows=\d+ missing=0 extra=0 different=0\n", compared.stdout
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


def kill_load_after(at: Installation, plan: Path, *, ranges: int) -> None:
    """Begins a load and kills it, its JVM too, once it has read so many ranges."""
    command = at.command("load", str(plan))
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if re.search(rf"ranges read .* ranges={ranges}/", line):
                os.killpg(killed.pid, signal.SIGKILL)
                break
    assert killed.returncode == -signal.SIGKILL


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
    assert compared.stdout.splitlines()[1:] == [
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
        own = [one for one in columns if not one[0].startswith("vector")]
        shortest = min(len(values) for _, values in own)
        own = [(kind, values[:shortest]) for kind, values in own]
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
    found = read_plan(plan, settings.prefix)
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


KEYS = {
    "sparse": ("id bigint", ["-9223372036854775808", *map(str, range(60)), "9223372036854775807"]),
    "unsigned": ("id bigint unsigned", ["0", *(str(2**64 - n) for n in range(1, 60))]),
    "exact": ("id decimal(20,5)", [f"{n}.{n:05}" for n in range(-30, 30)]),
    "folded": (
        "id varchar(20) collate utf8mb4_0900_ai_ci",
        [f"'{letter}{n}'" for n in range(10) for letter in ("a", "B", "é", "ß", "Z", "😀")],
    ),
    "chinese": ("id char(9) character set gbk", [f"'中{n}'" for n in range(60)]),
    "octets": ("id varbinary(9)", [f"X'{n:04x}'" for n in range(60)]),
    "times": ("id datetime(6)", [f"'2026-01-01 00:00:00.{n:06}'" for n in range(60)]),
    "bits": ("id bit(9)", [str(n) for n in range(60)]),
    "quoted": ("id varchar(20)", [f"'it''s \\\\ {n}'" for n in range(60)]),
}  # fmt: skip


class Fixed:
    """A stream that is where the server is; the topics have nothing."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.asked: list[str] = []

    def now(self) -> SourceCursor:
        self.asked.append("cursor")
        gtids = self.server.executed()
        return SourceCursor(
            epoch=1, seq=10, gtids=gtids, written_ms=1, is_whole=True, by=None, installation="i"
        )

    def between(self, **_: Any) -> SourceCursor:
        return self.now()

    def wait_past(self, is_past: Any, **_: Any) -> None:
        self.asked.append("wait")
        now = self.now()
        assert is_past(now)
        assert not is_past(replace(now, gtids=""))

    def ranges(self, _topics: Any) -> tuple[dict[Any, int], dict[Any, int]]:
        self.asked.append("offsets")
        return {("t", 0): 0}, {("t", 0): 0}


@contextmanager
def loading(
    spark: SparkSession, mysql: Mysql, folder: Path, schemas: list[str], **more: Any
) -> Iterator[Loader]:
    """A loader without a worker."""
    settings = Load(**load_settings(mysql, **more))
    server = SourceServer(spark, settings)
    fixed: Any = Fixed(server)
    warehouse = open_warehouse(spark, str(folder / "wh"), table_format=FORMAT)
    try:
        yield Loader(
            spark=spark,
            settings=settings,
            server=server,
            warehouse=warehouse,
            topics=fixed,
            book=SchemaBook(lambda: schemas),
            cursors=fixed,
            loads=Loads(spark, str(folder / "wh"), warehouse.notes),
            stopped=lambda _: False,
            timeout=5,
        )
    finally:
        server.close()


def source_of(table: str, *columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> SourceTable:
    return SourceTable(
        destination="shop",
        database="shop",
        table=table,
        version=1,
        topic="t",
        is_mapped=False,
        key=key,
        columns=tuple((name, name, kind) for name, kind in columns),
    )


def types_of(mysql: Mysql, table: str) -> list[tuple[str, str]]:
    listed = "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = 'shop'"
    return list(ask(mysql, f"{listed} AND table_name = '{table}' ORDER BY ordinal_position"))


def test_each_row_is_in_one_range(mysql: Mysql, spark: SparkSession, tmp_path: Path) -> None:
    for table, (column, values) in KEYS.items():
        run(
            mysql,
            f"CREATE TABLE shop.{table} ({column} PRIMARY KEY, v float)",
            f"INSERT INTO shop.{table} VALUES {', '.join(f'({value}, 0.1)' for value in values)}",
            f"ANALYZE TABLE shop.{table}",
        )
    run(
        mysql,
        "CREATE TABLE shop.pair (a varchar(9) character set latin1, id int, v float, PRIMARY KEY (a, id))",
        "INSERT INTO shop.pair SELECT IF(id % 9, 'many', CONCAT('é', id)), id, v FROM "
        "(SELECT id, v FROM shop.sparse WHERE id BETWEEN 0 AND 99) AS s",
    )
    for table in (*KEYS, "pair"):
        columns = types_of(mysql, table)
        key = ("a", "id") if table == "pair" else ("id",)
        body = schema(*columns, key=key, table=table)
        with loading(spark, mysql, tmp_path, [body], rows_per_range=7, connections=1000) as own:
            state = own.read(("shop", table), (source_of(table, *columns, key=key),), again=False)
            rows = own.loads.rows(state)
            there = ask(
                mysql, f"SELECT COUNT(*), COUNT(DISTINCT {', '.join(key)}) FROM shop.{table}"
            )
            found = rows.selectExpr("count(*)", f"count(DISTINCT {', '.join(key)})").collect()[0]
            assert (found[0], found[1]) == there[0], table
            assert len(state.ranges) > 5, table
            alike = rows.select("v", "__destination", "__epoch", "__seq", "__deleted", "__schema")
            assert list(map(tuple, alike.distinct().collect())) == [
                (pytest.approx(0.1), "shop", 1, 10, False, 1)
            ]
            assert_by_index(own, state)


def assert_by_index(own: Loader, state: LoadState) -> None:
    """The server merges the derived table, and reads each range by the primary key."""
    (version,) = own.book.versions([state.sources[0].version_key]).values()
    columns = [selected(column.mysql_type) for column in version.columns]
    derived = derived_table(state.sources[0], [one.name for one in version.columns], columns)
    for _, condition in state.ranges[1:-1]:
        explained = own.server.ask(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT __aqueduct_0 FROM {derived} WHERE {condition}"
        )
        assert [(row[1], row[6]) for row in explained] == [("SIMPLE", "PRIMARY")], condition
        assert explained[0][4] in ("range", "const", None), condition


def test_a_load_that_cannot_be_exact_is_refused(
    mysql: Mysql, spark: SparkSession, tmp_path: Path
) -> None:
    run(
        mysql,
        "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
        "CREATE USER few IDENTIFIED BY 'few'",
        "GRANT SELECT ON shop.* TO few",
    )
    columns = [("id", "int"), ("x", "int")]
    name, source = ("shop", "t"), source_of("t", *columns)
    body = schema(*columns)
    # No other privilege is needed.
    with loading(spark, mysql, tmp_path, [body], user="few", password="few") as own:
        fixed: Any = own.cursors
        own.read(name, (source,), again=False)
        # The offsets of the topics are from before the position that the rows get.
        assert fixed.asked == ["offsets", "cursor", "wait", "cursor"]
        # What is read stays, and is not read again.
        run(mysql, "INSERT INTO shop.t VALUES (3, 3)")
        assert own.loads.rows(own.read(name, (source,), again=False)).count() == 2
        assert own.loads.rows(own.read(name, (source,), again=True)).count() == 3
        with pytest.raises(LoadStale, match="differs from that of its unfinished load"):
            own.read(name, (source_of("t", *columns, key=("x",)),), again=False)
        run(mysql, "ALTER TABLE shop.t MODIFY x bigint")
        with pytest.raises(
            LoadStale, match=r"column x of shop\.t is bigint at the source, and int"
        ):
            own.read(name, (source,), again=True)
        run(mysql, "ALTER TABLE shop.t DROP COLUMN x")
        with pytest.raises(LoadStale, match=r"column x of shop\.t is gone at the source"):
            own.read(name, (source,), again=True)
        run(mysql, "SET GLOBAL binlog_order_commits = OFF")
        with pytest.raises(LoadRefused, match="binlog_order_commits=OFF"):
            own.read(name, (source,), again=True)
        run(mysql, "SET GLOBAL binlog_order_commits = ON")
    with (
        loading(spark, mysql, tmp_path, [body], password="wrong") as own,
        pytest.raises(SourceUnreachable, match="Access denied"),
    ):
        own.read(name, (source,), again=True)
