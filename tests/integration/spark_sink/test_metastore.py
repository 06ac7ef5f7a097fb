"""Tables by name in a real Hive metastore, kept up by a running sink."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack, java
from devstack.hive_metastore import HiveMetastore
from devstack.processes import Children
from spark_sink.jobs.metastore import Registered
from spark_sink.settings.model import Metastore, read
from spark_sink.spark import session
from spark_sink.text.quoting import METASTORE
from spark_sink.warehouse.opening import open_metastore
from tests.integration.spark_sink.test_sink import (
    COLUMNS,
    TIMEOUT,
    Installation,
    insert,
    until,
)
from tests.unit.spark_sink.conftest import FORMAT
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.long(
        "unit/spark_sink/jobs/test_metastore.py has what is registered, in a metastore in memory"
    ),
    pytest.mark.skipif(
        FORMAT != "delta", reason="metastore.uri is refused, as test_settings.py has it"
    ),
]


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[HiveMetastore]:
    owner = Children()
    try:
        program = java.find_or_install(owner)
        with HiveMetastore(tmp_path / "hive", java=program, owner=owner) as running:
            yield running
    finally:
        owner.close()


@pytest.mark.remedy("sink.MetastoreUnreachable")
async def test_analysts_find_tables_by_name_and_merging_continues_while_the_metastore_is_away(
    stack: Stack, metastore: HiveMetastore, tmp_path: Path
) -> None:
    at = Installation(tmp_path, stack.kafka, prefix="sinkmeta")
    at.config.write_text(f"{at.config.read_text()}metastore: {{uri: '{metastore.uri}'}}\n")

    def registered() -> Registered:
        note = tmp_path / "wh" / METASTORE
        return Registered.of(note.read_text() if note.exists() else None)

    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"), at.topic("late"), at.topic("log"))
    await at.write(schema(*COLUMNS), insert(1, "kept"), insert(2, "deleted"))
    await at.write(Change(op="d", seq=3, before={"id": 2, "v": "deleted"}))
    await at.write(schema(*COLUMNS, table="log", key=()))
    await at.write(
        insert(4, "x", "log"), Change(op="c", seq=5, after={"id": 4, "v": "x"}, table="log")
    )
    with at.running() as sink:
        until(lambda: len(registered().entries) == 2 and not registered().error, sink)
        metastore.kill()
        await at.write(schema(*COLUMNS, table="late"), insert(6, "late", "late"))
        until(lambda: at.applied("late") >= 1, sink)
        until(lambda: "MetastoreUnreachable" in registered().error, sink)
        status = at.run("status")
        assert "metastore: 2 tables, brought up to date " in status.stdout
        assert "  error: MetastoreUnreachable" in status.stdout
        refused = at.run("metastore")
        assert refused.returncode == 1
        assert "MetastoreIncomplete" in refused.stderr
        assert "Traceback" not in refused.stderr
        metastore.start()
        until(lambda: len(registered().entries) == 3 and not registered().error, sink)
        os.killpg(sink.pid, signal.SIGTERM)
        assert sink.wait(TIMEOUT) == 0
    settings = read(at.config)
    spark = session.start(settings)
    try:
        held = open_metastore(spark, Metastore(uri=metastore.uri))
        assert held.names("shop") == held.names("shop_current") == {"t", "late", "log"}
        sql = held._own().sql
        rows = {(row.id, row.v) for row in sql("SELECT * FROM shop_current.t").collect()}
        assert rows == {(1, "kept")}
        assert sql("SELECT * FROM shop_current.t").columns == ["id", "v"]
        assert [row.v for row in sql("SELECT * FROM shop_current.log").collect()] == ["x", "x"]
        assert sql("SELECT __deleted FROM shop.t").count() == 2
    finally:
        session.close(spark)
