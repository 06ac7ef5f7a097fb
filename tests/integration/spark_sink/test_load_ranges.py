"""The ranges of a load on a real server, each row in one of them, and loads that are refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from devstack.mysql import Mysql
from spark_sink.errors import (
    LoadRefused,
    LoadStale,
    RowsRefused,
    SourceUnreachable,
    TableUnreadable,
)
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.loader import Loader, derived_table, selected
from spark_sink.jobs.load.origin import Origin
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import SourceServer
from spark_sink.jobs.load.state import Loads, LoadState
from spark_sink.settings.model import Load
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.opening import open_warehouse
from tests.harness.servers import own_server
from tests.harness.sql import ask, run
from tests.harness.worst_defaults import set_by_init_connect, set_globally
from tests.integration.process.conftest import mysql
from tests.integration.process.test_server_defaults import execute, session
from tests.integration.spark_sink.loads import load_settings
from tests.unit.spark_sink.conftest import FORMAT, spark
from tests.unit.spark_sink.history import schema

__all__ = ["mysql", "spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
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
    spark: SparkSession,
    mysql: Mysql,
    folder: Path,
    schemas: list[str],
    *,
    lock_seconds: int | None = None,
    **more: Any,
) -> Iterator[Loader]:
    """A loader without a worker."""
    settings = Load(**load_settings(mysql, **more))
    server = SourceServer(spark, settings, lock_seconds=lock_seconds)
    fixed: Any = Fixed(server)
    origin = Origin(server=server, cursors=fixed, stopped=lambda _: False, timeout=5)
    warehouse = open_warehouse(spark, str(folder / "wh"), table_format=FORMAT)
    try:
        yield Loader(
            spark=spark,
            settings=settings,
            origins={"shop": origin},
            warehouse=warehouse,
            topics=fixed,
            book=SchemaBook(lambda: schemas),
            loads=Loads(spark, str(folder / "wh"), warehouse.log),
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


@pytest.mark.long("unit/spark_sink/jobs/load/test_origin.py has the ranges")
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
        explained = own.origins["shop"].server.ask(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT __aqueduct_0 FROM {derived} WHERE {condition}"
        )
        assert [(row[1], row[6]) for row in explained] == [("SIMPLE", "PRIMARY")], condition
        assert explained[0][4] in ("range", "const", None), condition


@pytest.mark.remedy(
    "sink.LoadRefused",
    "sink.LoadStale",
    "sink.RowsRefused",
    "sink.SourceUnreachable",
    "sink.TableUnreadable",
)
def test_a_load_that_cannot_be_exact_is_refused_until_what_its_error_names_is_done(
    mysql: Mysql, spark: SparkSession, tmp_path: Path
) -> None:
    run(
        mysql,
        "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
        "CREATE USER few IDENTIFIED BY 'few'",
        "GRANT SELECT ON shop.t TO few",
    )
    columns, wide = [("id", "int"), ("x", "int")], [("id", "int"), ("x", "bigint")]
    name, source = ("shop", "t"), source_of("t", *columns)
    altered = replace(source_of("t", *wide), version=2)
    schemas = [schema(*columns), schema(*wide, version=2)]
    with (
        loading(spark, mysql, tmp_path, schemas, password="wrong") as own,
        pytest.raises(SourceUnreachable, match=r"Access denied.*load\.user, its password"),
    ):
        own.read(name, (source,), again=True)
    # No other privilege is needed.
    with loading(spark, mysql, tmp_path, schemas, user="few", password="few") as own:
        fixed: Any = own.origins["shop"].cursors
        own.read(name, (source,), again=False)
        # The offsets of the topics are from before the position that the rows get.
        assert fixed.asked == ["offsets", "cursor", "wait", "cursor"]
        # What is read stays, and is not read again.
        run(mysql, "INSERT INTO shop.t VALUES (3, 3)")
        assert own.loads.rows(own.read(name, (source,), again=False)).count() == 2
        assert own.loads.rows(own.read(name, (source,), again=True)).count() == 3
        with pytest.raises(LoadStale, match="differs from that of its unfinished load"):
            own.read(name, (source_of("t", *columns, key=("x",)),), again=False)
        run(mysql, "REVOKE SELECT ON shop.t FROM few")
        with pytest.raises(TableUnreadable, match=r"\(error 1142\)") as denied:
            own.read(name, (source,), again=True)
        assert "GRANT SELECT ON `shop`.`t` TO" in denied.value.advice
        run(mysql, "GRANT SELECT ON `shop`.`t` TO few")
        own.read(name, (source,), again=True)
        run(mysql, "ALTER TABLE shop.t MODIFY x bigint")
        with pytest.raises(
            LoadStale, match=r"column x of shop\.t is bigint at the source, and int"
        ) as stale:
            own.read(name, (source,), again=True)
        assert stale.value.advice.startswith("Make a new plan (python -m app snapshot plan)")
        assert own.loads.rows(own.read(name, (altered,), again=True)).count() == 3
        run(mysql, "SET GLOBAL binlog_order_commits = OFF")
        with pytest.raises(
            LoadRefused, match=r"binlog_order_commits=OFF.*Set binlog_order_commits"
        ):
            own.read(name, (altered,), again=True)
        run(mysql, "SET GLOBAL binlog_order_commits = ON")
        own.read(name, (altered,), again=True)
        run(mysql, "ALTER TABLE shop.t DROP COLUMN x")
        with pytest.raises(LoadStale, match=r"column x of shop\.t is gone at the source"):
            own.read(name, (altered,), again=True)
    # The sink has the column with a type that does not hold a value of it.
    run(mysql, "ALTER TABLE shop.t ADD x bigint", "UPDATE shop.t SET x = 1 << 40 WHERE id = 1")
    narrow, there = [schema(*columns)], source_of("t", *wide)
    with loading(spark, mysql, tmp_path, narrow) as own:
        with pytest.raises(RowsRefused, match="column x holds no int") as refused:
            own.read(name, (there,), again=True)
        assert "python -m app snapshot start shop shop.t" in refused.value.advice
        assert refused.value.advice.startswith("Correct the value at the source")
        run(mysql, "UPDATE shop.t SET x = 100 WHERE id = 1")
        assert own.loads.rows(own.read(name, (there,), again=True)).count() == 3


@pytest.mark.parametrize(
    "name", ["9.7", "8.0", pytest.param("5.7", marks=pytest.mark.long("the newest MySQL"))]
)
def test_the_worst_defaults_of_a_server_change_no_row_and_end_no_connection(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    texts = [f"{'x' * 90}é{n:05}" for n in range(2_000)]
    with (
        own_server(name, tmp_path / "server", "CREATE DATABASE shop") as mysql,
        session(mysql, user="aqueduct", password="aqueduct") as account,
        session(mysql) as root,
    ):
        words = ", ".join(f"('{text}', 'é')" for text in texts)
        execute(
            root,
            "CREATE TABLE shop.words (id varchar(120) PRIMARY KEY, v varchar(9)) CHARACTER SET utf8mb4",
            f"INSERT INTO shop.words VALUES {words}",
            "ANALYZE TABLE shop.words",
        )
        by_init_connect = set_by_init_connect(root, account)
        assert len(set_globally(root)) > len(by_init_connect) > 25
        # A row that is never committed.
        execute(root, "START TRANSACTION", "INSERT INTO shop.words VALUES ('never', 'x')")
        columns = [("id", "varchar(120)"), ("v", "varchar(9)")]
        source, body = source_of("words", *columns), schema(*columns, table="words")
        with loading(spark, mysql, tmp_path, [body], rows_per_range=300) as own:
            state = own.read(("shop", "words"), (source,), again=False)
            assert len(state.ranges) > 3
            found = own.loads.rows(state).select("id", "v").collect()
            assert sorted(map(tuple, found)) == [(text, "é") for text in texts]
            # Longer than wait_timeout.
            time.sleep(1.5)
            assert own.origins["shop"].server.executed()
