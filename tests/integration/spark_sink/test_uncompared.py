"""The trouble of single tables in a validation of the warehouse: it is stated, and all others are compared.

A table is dropped, denied, altered, locked or damaged at the source, is not in the warehouse, or is refused.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from devstack import Stack
from devstack.mysql import Mysql
from spark_sink.errors import LoadStale, SourceUnreachable, TableUnreadable
from spark_sink.jobs.load.loader import Loader
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.process.test_snapshot import is_done
from tests.integration.spark_sink.loads import load_settings, planned
from tests.integration.spark_sink.test_load_ranges import loading, source_of
from tests.integration.spark_sink.test_sink import TIMEOUT, Installation, until
from tests.integration.validation.shop import unlogged
from tests.unit.spark_sink.conftest import spark
from tests.unit.spark_sink.history import schema

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
READER = "'reader'@'%'"
KEYED = ("altered", "broken", "crashed", "denied", "differs", "dropped", "equal", "missing")
TABLES = tuple(sorted((*KEYED, "keyless")))
REASONS = {
    "altered": (
        "NotComparable",
        "column v of shop.altered is varchar(60) at the source",
        "Make a new plan",
    ),
    "broken": ("JSON", "(error 3141)", "Run a SELECT of all its columns"),
    "crashed": ("crashed", "(error 1", "Run CHECK TABLE"),
    "denied": ("SELECT command denied", "(error 1142)", "GRANT SELECT ON `shop`.`denied` TO"),
    "dropped": ("'shop.dropped' doesn't exist", "(error 1146)", "make a new plan"),
    "keyless": ("it has no primary key", "Let the worker read the existing rows"),
    "missing": ("the warehouse has no table shop.missing", "include and exclude"),
}
"""Parts of the reason why a table is not compared."""


def made(table: str) -> str:
    key = "id int" if table == "keyless" else "id int PRIMARY KEY"
    more = ", made json AS (CAST(v AS json)) VIRTUAL" if table == "broken" else ""
    return f"CREATE TABLE shop.{table} ({key}, v varchar(40){more})"


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with an account that may read single tables."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *map(made, TABLES),
        "ALTER TABLE shop.crashed ENGINE = MyISAM",
        *(f"INSERT INTO shop.{one} (id, v) VALUES (1, '1'), (2, '2')" for one in TABLES),
        f"CREATE USER {READER} IDENTIFIED BY 'reader'",
        *(f"GRANT SELECT ON shop.{one} TO {READER}" for one in TABLES),
        options={"server_id": 9},
    ) as server:
        yield server


def spoil(mysql: Mysql) -> None:
    unlogged(
        mysql,
        f"REVOKE SELECT ON shop.denied FROM {READER}",
        "UPDATE shop.differs SET v = 'other' WHERE id = 2",
        # Its rows are not tried: the SELECT finds what is no JSON.
        "ALTER TABLE shop.broken DROP COLUMN made",
        "ALTER TABLE shop.broken ADD made json AS (CAST(CONCAT('x', v) AS json)) VIRTUAL",
        "FLUSH TABLES shop.crashed",
    )
    index = mysql.data / "shop" / "crashed.MYI"
    index.write_bytes(b"\0" * index.stat().st_size)
    run(mysql, "DROP TABLE shop.dropped", "ALTER TABLE shop.altered MODIFY v varchar(60)")


@pytest.mark.remedy(
    "sink.ComparisonIncomplete",
    "sink.LoadRefused",
    "sink.NotComparable",
    "sink.SourceUnreachable",
    "sink.TableUnreadable",
    "sink.TablesDiffer",
    "sink.WarehouseUnusable",
)
@pytest.mark.long(
    "unit/spark_sink/jobs/load/test_validate.py, test_validation.py, test_uncompared.py have each kind"
)
def test_the_trouble_of_single_tables_is_stated_and_the_others_are_compared_until_it_is_gone(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, snapshot={"mode": "initial"})
    wanted["destinations"]["shop"].pop("start")
    at = Installation(tmp_path, stack.kafka, prefix=wanted["prefix"])
    load = {**load_settings(mysql), "user": "reader", "password": "reader"}
    own = {"exclude": r".*\.missing", "load": load}
    with at.config.open("a") as config:
        config.write(yaml.safe_dump(own))
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        plan = str(planned(tmp_path, *(f"shop.{one}" for one in TABLES), "--keep-refused"))
        with at.running() as sink:
            there = [one for one in TABLES if one != "missing"]
            until(lambda: all(at.applied(one) for one in there), sink)
            spoil(mysql)
            assert_found(at.run("validate", plan))
            # The others are equal, so the end is that of what was not judged.
            some = "shop.equal", "shop.denied", "shop.keyless"
            assert_incomplete(at.run("validate", plan, *some, "--format", "json"))
            equal = at.run("validate", plan, "shop.equal")
            assert equal.returncode == 0, equal.stderr
            refused = at.run("load", plan)
            assert refused.returncode == 1
            assert "LoadRefused" in refused.stderr
            assert "shop.keyless cannot be read by the sink" in refused.stderr
            # The others are loaded as they are at the source.
            assert_done(at, "load", plan, "shop.differs")
            assert_equal_once_repaired(at, plan, mysql, tmp_path)
            assert_one_error(at, plan, mysql)
            mysql.start()
            assert_done(at, "validate", plan, "shop.equal")
        assert worker.destination()["state"] != "FAILED"


def assert_found(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "TablesDiffer: Tables differ from their source: 1 rows" in done.stderr
    assert "Traceback" not in done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "validation of shop: tables=9 not_compared=7 rows=4 differences=1"
    reasons = dict[str, str]()
    for line in lines:
        table, _, rest = line.strip().partition(": ")
        if rest.startswith("not compared: "):
            reasons[table.removeprefix("shop.")] = rest
    assert reasons.keys() == REASONS.keys(), done.stdout
    for name, parts in REASONS.items():
        assert [one for one in parts if one not in reasons[name]] == [], (name, reasons[name])
    others = [line for line in lines if "not compared" not in line]
    assert others == [
        "shop.differs: rows=2 missing=0 extra=0 different=1",
        '  different: {"id":2}: v',
        "shop.equal: rows=2 missing=0 extra=0 different=0",
    ]


def assert_incomplete(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert "ComparisonIncomplete" in done.stderr
    assert "2 of 3 tables not compared" in done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    assert (body["equal"], body["complete"], body["differences"]) == (False, False, 0)
    found = {one["table"]: one["not_compared"] for one in body["tables"]}
    assert list(found) == ["shop.denied", "shop.equal", "shop.keyless"]
    assert found["shop.equal"] is None
    assert "(error 1142)" in found["shop.denied"]


def assert_done(at: Installation, *command: str) -> None:
    done = at.run(*command)
    assert done.returncode == 0, (done.stdout, done.stderr)


def assert_equal_once_repaired(at: Installation, plan: str, mysql: Mysql, folder: Path) -> None:
    """What each line says is done, and then all of these tables are equal."""
    run(mysql, f"GRANT SELECT ON `shop`.`denied` TO {READER}")
    assert_done(at, "validate", plan, "shop.equal", "shop.denied", "shop.differs")
    # A new plan needs columns that the sink knows.
    run(mysql, "INSERT INTO shop.altered VALUES (3, '3')")
    (folder / "new").mkdir()
    (folder / "new" / "aqueduct.yaml").write_text((folder / "aqueduct.yaml").read_text())
    assert_done(at, "validate", str(planned(folder / "new", "shop.altered")), "shop.altered")


def assert_one_error(at: Installation, plan: str, mysql: Mysql) -> None:
    """What ends the comparison of all: a lost Kafka, a lost warehouse, a lost MySQL."""
    config = at.config.read_text()
    quick = {"request.timeout.ms": "4000", "default.api.timeout.ms": "5000"}
    lost = {**yaml.safe_load(config), "bootstrap_servers": "127.0.0.1:1", "kafka_options": quick}
    at.config.write_text(yaml.safe_dump(lost))
    assert_ended(at.run("validate", plan, "shop.equal"), "KafkaUnreachable")
    (at.folder / "other" / "shop").mkdir(parents=True)
    other = {**yaml.safe_load(config), "warehouse": str(at.folder / "other")}
    at.config.write_text(yaml.safe_dump(other))
    assert_ended(at.run("validate", plan, "shop.equal"), "WarehouseUnusable")
    shutil.rmtree(at.folder / "other")
    at.config.write_text(config)
    assert_done(at, "validate", plan, "shop.equal")
    # It is lost after the first table.
    with subprocess.Popen(
        at.command("validate", plan), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        mysql.kill()
        rest, errors = process.communicate(timeout=TIMEOUT)
    done = subprocess.CompletedProcess(process.args, process.returncode, rest, errors)
    assert first.startswith("shop.altered: not compared: "), first
    assert_ended(done, "SourceUnreachable")


def assert_ended(done: subprocess.CompletedProcess[str], name: str) -> None:
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "validation of" not in done.stdout
    assert "not compared" not in done.stdout
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert len(errors) == 1, done.stderr
    assert f"{name}: " in errors[0]


@pytest.mark.long("the test above has them through processes, but for locks and single columns")
def test_each_error_of_mysql_that_is_one_of_a_table_has_its_own(
    mysql: Mysql, spark: SparkSession, tmp_path: Path
) -> None:
    columns = [("id", "int"), ("v", "varchar(40)")]
    more = {"broken": [*columns, ("made", "json")]}
    schemas = [schema(*more.get(one, columns), table=one) for one in KEYED]
    spoil(mysql)
    run(mysql, "CREATE USER few IDENTIFIED BY 'few'", "GRANT SELECT (id) ON shop.equal TO few")

    def reading(user: str) -> Any:
        account = {"user": user, "password": user}
        return loading(spark, mysql, tmp_path, schemas, lock_seconds=1, **account)

    def read(own: Loader, table: str) -> None:
        source = source_of(table, *more.get(table, columns))
        own.read(("shop", table), (source,), again=True)

    def refused(own: Loader, table: str, error: type[Exception] = TableUnreadable) -> str:
        with pytest.raises(error) as raised:
            read(own, table)
        return str(raised.value)

    with reading("reader") as own:
        for table in ("broken", "crashed", "denied", "dropped"):
            found = refused(own, table)
            assert [one for one in REASONS[table] if one not in found] == [], found
        assert "column v of shop.altered is varchar(60)" in refused(own, "altered", LoadStale)
        with connected(mysql) as cursor:
            cursor.execute("LOCK TABLES shop.equal WRITE")
            found = refused(own, "equal")
            assert "Lock wait timeout exceeded" in found
            assert "(error 1205). End the session that holds the lock" in found
            # The executors wait for it as long.
            server = own.origins["shop"].server
            state = replace(
                own.begun(("shop", "differs"), (source_of("differs", *columns),)),
                sources=(source_of("equal", *columns),),
            )
            with pytest.raises(TableUnreadable, match="Lock wait timeout"):
                own.read_ranges(state, own.traced(("shop", "equal"), state.sources))
        read(own, "equal")
        assert server.one("SELECT @@lock_wait_timeout") == "1"
    with reading("few") as own:
        found = refused(own, "equal")
        assert "for column 'v'" in found
        assert "(error 1143). Run GRANT SELECT ON `shop`.`equal`" in found
    with reading("reader") as own:
        server = own.origins["shop"].server
        server.executed()
        mysql.kill()
        refused(own, "equal", SourceUnreachable)
