"""Delta's folders as another process leaves them: of an earlier version, or in the middle of a commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_sink.source.envelope import FIELDS
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.common.own_tables import records_of
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_rules import Layout
from tests.unit.spark_sink.conftest import Warehouse as Records
from tests.unit.spark_sink.conftest import of_delta
from tests.unit.spark_sink.history import Change, schema

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_images_that_were_stored_as_json_are_read(warehouse: Records) -> None:
    image = '{"id":1,"v":"a\\"b","doc":null}'
    columns = {name: f"CAST(NULL AS STRING) AS `{name}`" for name in FIELDS if name != "size"}
    columns["after"] = f"""'{image.replace(chr(92), chr(92) * 2)}' AS `after`"""
    held = warehouse.spark.range(1).selectExpr(*columns.values())

    (row,) = records_of(held).collect()

    assert set(row.asDict()) == set(FIELDS)
    assert row.after == {"id": "1", "v": 'a"b', "doc": None}
    assert (row.before, row.size) == (None, 0)


def test_a_table_whose_first_commit_is_being_written_does_not_exist_yet(
    warehouse: Records,
) -> None:
    held = warehouse.kept
    for folder in ("__recent", "shop/t"):
        log = Path(warehouse.path) / folder / "_delta_log"
        log.mkdir(parents=True)
        (log / ".00000000000000000000.json.1f0c.tmp").touch()

    assert not held.log.state()
    assert held.recent.newest() is None
    assert held.log.applied() == {}
    assert held.tables.names() == []


KINDS = (
    "int",
    "boolean",
    "binary",
    "string",
    "map<string,string>",
    "timestamp_ntz",
    "decimal(9,2)",
)


@pytest.mark.parametrize("key", [(), ("k`,.y",)], ids=["without a key", "with a late key"])
def test_a_wide_table_has_statistics_of_what_its_merges_search_for(
    warehouse: Records, key: tuple[str, ...]
) -> None:
    tables = warehouse.kept.tables
    columns = tuple((f"c,{at}", KINDS[at % len(KINDS)]) for at in range(60))
    wide = Shape("shop", "wide", (*columns, ("k`,.y", "int")), key, mapped=True)
    tables.evolve(None, wide)
    kinds = dict(wide.all_columns)
    for number in (1, 2, 3):
        values = {
            "__destination": "'shop'",
            "__epoch": "1",
            "__seq": f"{number}",
            "k`,.y": f"{number}",
        }
        values |= {"__deleted": "false", "__delta": "1", "__schema": "1", "__ts_ms": "1"}
        row = (
            f"CAST({values.get(name, 'NULL')} AS {kind}) AS {quoted(name)}"
            for name, kind in kinds.items()
        )
        tables.merge(wide, warehouse.spark.range(1).selectExpr(*row))
    folder = Path(warehouse.path) / "shop" / "wide"
    found = [
        json.loads(line)
        for one in sorted((folder / "_delta_log").glob("*.json"))
        for line in one.read_text().splitlines()
    ]
    (schema,) = (json.loads(one["metaData"]["schemaString"]) for one in found if "metaData" in one)
    stored = {
        one["name"]: one["metadata"]["delta.columnMapping.physicalName"] for one in schema["fields"]
    }
    added = [json.loads(one["add"]["stats"])["minValues"] for one in found if "add" in one]
    assert [one[stored["__seq"]] for one in added] == [1, 2, 3]
    assert [one.get(stored["k`,.y"]) for one in added] == ([1, 2, 3] if key else [None] * 3)
    assert all(
        stored["c,0"] in json.loads(one["add"]["stats"])["nullCount"]
        for one in found
        if "add" in one
    )
    # A column that it names may be renamed.
    tables.rename_columns(wide, {"k`,.y": "k", "c,0": "c0"})
    rows = warehouse.spark.read.format("delta").load(str(folder))
    assert sorted(row.k for row in rows.where("k > 1").collect()) == [2, 3]


@pytest.mark.parametrize(
    "layout",
    [Layout(partition_by=("k",)), Layout(cluster_by=("c50", "k"))],
    ids=["partitioned", "clustered"],
)
def test_a_wide_table_may_have_any_layout(warehouse: Records, layout: Layout) -> None:
    columns = tuple((f"c{at}", "int") for at in range(60))
    wide = Shape(
        "shop",
        "clustered" if layout.cluster_by else "partitioned",
        (*columns, ("k", "int")),
        ("k",),
    )
    root = warehouse.path
    tables = open_warehouse(warehouse.spark, root, layouts=lambda _: layout).tables
    tables.evolve(None, wide)
    tables.replace(
        wide,
        warehouse.spark.createDataFrame([], ", ".join(f"`{n}` {k}" for n, k in wide.all_columns)),
    )
    assert tables.shape("shop", wide.table) == wide


@of_delta
@pytest.mark.parametrize("late", ["checkpoint", "commit"])
def test_what_maintenance_still_writes_of_a_dropped_table_is_no_table(
    warehouse: Records, late: str
) -> None:
    warehouse.schemas = [schema(("id", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1}))
    warehouse.take(Change(op="u", seq=2, before={"id": 1}, after={"id": 1}))
    tables, folder = warehouse.kept.tables, Path(warehouse.path, "shop/t/_delta_log")
    shape = tables.shape("shop", "t")
    assert shape is not None
    rows = warehouse.spark.createDataFrame(tables.rows(shape).collect(), tables.rows(shape).schema)
    log = DeltaLog(warehouse.spark, str(folder.parent))
    log.checkpoint()
    version = log.version()
    left = {"_last_checkpoint": b"", f"{version:020}.checkpoint.parquet": b""}
    left = {name: (folder / name).read_bytes() for name in left}
    if late == "commit":
        left = {f"{version + 1:020}.json": b'{"commitInfo":{"timestamp":1}}'}
    tables.drop("shop", "t")
    # As if it had read the log before the folder was deleted.
    folder.mkdir(parents=True)
    for name, content in left.items():
        (folder / name).write_bytes(content)
    assert tables.shape("shop", "t") is None
    assert tables.names() == []
    assert warehouse.kept.commits.since(("shop", "t"), None) is None
    tables.merge(shape, rows, is_new=True)
    assert [row["id"] for row in warehouse.rows()] == [1]
