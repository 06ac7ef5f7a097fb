"""What is Iceberg's own: statements, conflicts, files that are kept, and warehouses of another format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_sink.errors import ColumnClash, ForeignTable, ForeignWarehouse, UnsupportedName
from spark_sink.settings.model import Settings
from spark_sink.spark.files import Files
from spark_sink.spark.java import java_class
from spark_sink.views.recent.reading import current, fresh
from spark_sink.warehouse.common.statements import made_property, set_sql, shape_properties
from spark_sink.warehouse.iceberg import maintenance as iceberg_maintenance
from spark_sink.warehouse.iceberg.catalog import Catalog, conflicts_by_name, lists_by_prefix
from spark_sink.warehouse.iceberg.ddl import (
    alter_sql,
    former,
    lost_metrics_sql,
    properties_at,
    refuse_clash,
    replace_sql,
)
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import CommitConflict, OutOfTime, VersionGone
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import FAILURES
from tests.contract.test_recent_changes import FIRST, cut
from tests.contract.test_recent_changes import Case as Recorded
from tests.harness.wait import TIMEOUT
from tests.unit.spark_sink.conftest import FORMATS, Warehouse, spark
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
COLUMNS = (("id", "int"), ("v", "int"))
POINT = "struct<srid:bigint,wkb:binary>"

_LONG = pytest.mark.long(
    "the contract and its Delta twin have the rule; the rest of this file is in make test"
)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def shape(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> Shape:
    return Shape("shop", "t", (("id", "int"), *columns), key)


@pytest.mark.parametrize(
    ("before", "after", "is_altered"),
    [
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,3)", False),
        ("int", "decimal(20,0)", False),
        ("int", "double", False),
        ("date", "timestamp_ntz", False),
    ],
)
def test_a_type_is_altered_only_where_iceberg_reads_old_files_as_the_new_one(
    before: str, after: str, *, is_altered: bool
) -> None:
    held, wanted = shape(("v", before)), shape(("v", after), ("w", "int"))
    statements = alter_sql("`c`.`n`.`t`", held, wanted)
    altered = [
        set_sql("`c`.`n`.`t`", made_property(held, coming=wanted)),
        "ALTER TABLE `c`.`n`.`t` ADD COLUMNS (`w` int)",
        f"ALTER TABLE `c`.`n`.`t` ALTER COLUMN `v` TYPE {after}",
        set_sql("`c`.`n`.`t`", made_property(wanted)),
    ]
    assert statements == (altered if is_altered else None)


def test_comments_are_set_where_they_differ_and_up_to_where_columns_are_followed_last() -> None:
    held = replace(shape(("v", "int")), comments=(("v", "old"),))
    followed = (("shop", "shop", "t", 2),)
    wanted = replace(shape(("v", "int")), comments=(("", "it's"), ("id", "new")), followed=followed)
    text = '[["shop", "shop", "t", 2]]'
    assert alter_sql("`t`", held, wanted, more={"more": "[]"}) == [
        "ALTER TABLE `t` ALTER COLUMN `id` COMMENT 'new'",
        "ALTER TABLE `t` ALTER COLUMN `v` COMMENT ''",
        "COMMENT ON TABLE `t` IS 'it\\'s'",
        f"ALTER TABLE `t` SET TBLPROPERTIES ('aqueduct.followed' = '{text}', 'more' = '[]')",
    ]


def test_a_replacement_sets_what_would_stay_of_the_table_it_replaces() -> None:
    statement = replace_sql("`t`", shape(("v", "int")), source="s", more={})
    assert "USING iceberg COMMENT '' TBLPROPERTIES" in statement
    assert "'aqueduct.followed' = '[]'" in statement
    start = "write.metadata.metrics.column."
    held = {f"{start}{name}": "full" for name in ("id", "__seq", "gone")} | {"other": "x"}
    assert lost_metrics_sql("`t`", held, shape(("v", "int"))) == [
        f"ALTER TABLE `t` UNSET TBLPROPERTIES IF EXISTS ('{start}gone')"
    ]
    del held[f"{start}gone"]
    assert lost_metrics_sql("`t`", held, shape(("v", "int"))) == []


def test_earlier_versions_have_the_key_and_the_followed_versions_that_they_had() -> None:
    def followed(number: int, key: str) -> Shape:
        made = shape(("v", "int"), key=(key,))
        return replace(made, followed=(("shop", "shop", "t", number),))

    def said(properties: dict[str, str], version: int) -> tuple[str, str] | None:
        found = properties_at(properties, version)
        if found is None:
            return None
        return found["aqueduct.primary_key"], found["aqueduct.followed"][-4:-2]

    properties = shape_properties(followed(1, "id"))
    # The second has no rows of its own: it is followed at once.
    for version, wanted in ((3, followed(2, "v")), (3, followed(3, "v")), (7, followed(4, "v"))):
        properties |= former(properties, version, wanted, oldest=0)
        properties |= shape_properties(wanted)
    assert former(properties, 8, followed(4, "v"), oldest=0) == {}
    assert said(properties, 1) == said(properties, 3) == ('["id"]', " 1")
    assert said(properties, 4) == said(properties, 7) == ('["v"]', " 3")
    assert said(properties, 8) == ('["v"]', " 4")
    pruned = properties | former(properties, 8, followed(5, "v"), oldest=5)
    assert len(json.loads(pruned["aqueduct.former"])) == 2
    for version in range(8, 61):
        properties |= former(properties, version, followed(version, "v"), oldest=0)
        properties |= shape_properties(followed(version, "v"))
    # Nothing that is forgotten is taken for something else.
    assert (said(properties, 7), said(properties, 10)) == (None, None)
    assert said(properties, 60) == ('["v"]', "59")
    assert len(properties["aqueduct.former"]) < 10_000


@pytest.mark.parametrize(
    ("name", "kind", "other"),
    [
        ("at", POINT, "AT.srid"),
        ("e", "array<float>", "e.element"),
        ("x", "int", "__unrepresentable.key"),
    ],
)
def test_a_column_named_like_a_part_of_another_is_refused(name: str, kind: str, other: str) -> None:
    refuse_clash(shape((name, kind), (f"{other}s", "int")))
    with pytest.raises(ColumnClash, match=rf"shop\.t: .*{other.partition('.')[2]}"):
        refuse_clash(shape((name, kind), (other, "int")))


@pytest.mark.parametrize(
    ("kind", "name", "is_allowed"),
    [
        ("hive", "orders_2", True),
        ("hive", "%4Frders", False),
        ("glue", "order-lines", False),
        ("rest", "%4Frders", True),
        ("jdbc", "order-lines", True),
    ],
)
def test_a_table_has_a_name_that_the_catalog_allows_or_is_refused(
    kind: str, name: str, *, is_allowed: bool
) -> None:
    catalog = Catalog(spark=cast(Any, None), name="lake", kind=kind, prepare=lambda: None)
    if is_allowed:
        catalog.refuse_name(("shop", name), ("shop", "t"))
        return
    with pytest.raises(
        UnsupportedName, match=rf"shop\.t: a catalog of type {kind} has no .*{name}"
    ):
        catalog.refuse_name(("shop", name), ("shop", "t"))


def test_a_name_in_a_catalog_has_no_dot_at_which_it_would_be_divided() -> None:
    catalog = Catalog(spark=cast(Any, None), name="lake", kind="jdbc", prepare=lambda: None)
    tables = IcebergTables(spark=cast(Any, None), catalog=catalog, root=None, prefix="p_")
    assert tables.place("a.b", "c.d") == ("p_a%2Eb", "c%2Ed")
    assert replace(tables, root="/wh").place("a.b", "c.d") == ("p_a.b", "c.d")


@pytest.mark.spark
def test_compaction_keeps_rows_and_what_a_batch_has_not_committed_yet(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format="iceberg")
    # The folder of this name is percent-encoded.
    name = ("shop", "T x")
    warehouse.schemas = [schema(*COLUMNS, table=name[1])]
    for seq in (1, 2, 3):
        row = {"id": seq % 2, "v": seq}
        warehouse.take(Change(op="c", seq=seq, after=row, table=name[1]))
    files = tmp_path / "shop/%54%20x/data"
    young, old = files / "young.parquet", files / "old.parquet"
    for file in (young, old):
        file.write_bytes(b"rows of a MERGE")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    upkeep = warehouse.kept.upkeep
    held = set(files.glob("*.parquet"))
    upkeep.retain(name, 3600)
    upkeep.compact(name)
    upkeep.remove_unused(name)
    assert held - set(files.glob("*.parquet")) == {old}
    assert warehouse.files(name[1]) == 1
    young.unlink()
    time.sleep(1.1)
    upkeep.retain(name, 1)
    upkeep.remove_unused(name)
    # One file of rows: what it replaced, and the positions deleted in it, are gone.
    assert len(list(files.glob("*.parquet"))) == 1
    assert sorted((row["id"], row["v"]) for row in warehouse.rows(name[1])) == [(0, 2), (1, 3)]


@pytest.mark.spark
def test_a_snapshot_has_readers_until_it_was_replaced_for_long_however_old_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format="iceberg")
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    kept, name = warehouse.kept, ("shop", "t")
    first, held = kept.upkeep.version(name), kept.tables.shape(*name)
    assert held is not None
    reader = kept.tables.rows(held, fixed=True)
    kept.upkeep.retain(name, 3600)
    row = {"id": 1, "v": 1}
    warehouse.take(Change(op="u", seq=2, before=row, after={**row, "v": 2}))
    tables: Any = kept.tables
    replaced_ms = tables.catalog.table(name)._table.currentSnapshot().timestampMillis()

    def remove_at(now_ms: int) -> None:
        monkeypatch.setattr(time, "time", lambda: now_ms / 1000)
        kept.upkeep.remove_unused(name)

    remove_at(replaced_ms + 3_599_000)
    assert [one.v for one in reader.collect()] == [1]
    assert [one.v for one in kept.tables.as_of(*name, first)[1].collect()] == [1]
    remove_at(replaced_ms + 3_601_000)
    with pytest.raises(VersionGone, match=rf"shop\.t, version {first}"):
        kept.tables.as_of(*name, first)
    assert [one["v"] for one in warehouse.rows()] == [2]


RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"


@pytest.mark.spark
def test_unused_files_are_listed_by_what_wrote_them_and_a_neighbour_keeps_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Hadoop catalog writes by Hadoop unless it is set otherwise, as catalogs on object stores are."""
    catalog = {"type": "hadoop", "io-impl": RESOLVING}
    kept = open_warehouse(spark, f"{tmp_path}/wh", table_format="iceberg", catalog=catalog)
    for one in (shape(("v", "int")), replace(shape(("v", "int")), table="t2")):
        kept.tables.evolve(None, one)
        kept.upkeep.retain((one.database, one.table), 3600)
    tables: Any = kept.tables
    first, second = (tables.catalog.table(("shop", name)) for name in ("t", "t2"))
    # A prefix without a final / would have the second table's files too.
    assert second.location() == first.location() + "2"
    spark.range(3).selectExpr("CAST(id AS int) id", "1 AS v").writeTo(
        f"{tables.catalog.name}.shop.t"
    ).append()
    orphans = [
        Path(urlsplit(one.location()).path) / "data/orphan.parquet" for one in (first, second)
    ]
    for orphan in orphans:
        orphan.parent.mkdir(exist_ok=True)
        orphan.touch()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3_700)
    kept.upkeep.remove_unused(("shop", "t"))
    assert [orphan.exists() for orphan in orphans] == [False, True]
    assert spark.table(f"{tables.catalog.name}.shop.t").count() == 3


@pytest.mark.spark
def test_where_nothing_can_list_files_the_rest_is_done_and_one_line_says_so(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    catalog = {
        "catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "warehouse": "mem://lake",
    }
    kept = open_warehouse(spark, f"{tmp_path}/wh", table_format="iceberg", catalog=catalog)
    for table in ("t", "u"):
        kept.tables.evolve(None, replace(shape(("v", "int")), table=table))
        kept.upkeep.retain(("shop", table), 3600)
        kept.upkeep.remove_unused(("shop", table))
    (line,) = [one.getMessage() for one in caplog.records if "unused files" in one.getMessage()]
    assert line == (
        "unused files stay, as neither org.apache.iceberg.inmemory.InMemoryFileIO nor Hadoop lists mem: "
        "files (docs/sink/iceberg.md)"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("file_io", "lists"),
    [
        (RESOLVING, True),
        # Hadoop lists folders in parallel.
        ("org.apache.iceberg.hadoop.HadoopFileIO", False),
        ("org.apache.iceberg.inmemory.InMemoryFileIO", False),
    ],
)
def test_a_file_io_of_a_store_is_asked_for_its_files_itself(
    spark: SparkSession, file_io: str, lists: bool
) -> None:
    made = java_class(spark._jvm, file_io)()
    assert lists_by_prefix(spark._jvm, made) is lists


@pytest.mark.spark
@_LONG
def test_facts_have_long_names_whole_and_no_deletes_that_a_compaction_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = open_warehouse(spark, str(tmp_path), table_format="iceberg")
    wide = shape(*((f"c{number}", "int") for number in range(120)))
    kept.tables.evolve(None, wide)
    destination = "a-destination-with-a-name-of-more-than-32-bytes"
    for seq in range(1, 4):
        values = {
            "__destination": f"'{destination}'",
            "__epoch": "1",
            "__seq": f"{seq}",
            "__ts_ms": f"{seq}",
            "__deleted": "false",
            **{name: f"{seq}" for name, _ in wide.columns[1:]},
        }
        kept.tables.merge(
            wide,
            spark.range(1, 3, numPartitions=1).selectExpr(
                *(
                    f"CAST({'id' if name == 'id' else values.get(name, 'NULL')} AS {kind}) AS {name}"
                    for name, kind in wide.all_columns
                )
            ),
        )
        if seq == 2:
            name = cast(Any, kept.tables).catalog.sql_name(("shop", "t"))
            catalog, _, table = name.partition(".")
            call = f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => "
            spark.sql(f"{call}map('rewrite-all', 'true', 'remove-dangling-deletes', 'false'))")
    facts = kept.facts.of(("shop", "t"))
    assert facts is not None
    assert (facts.rows, facts.newest_ms, facts.destinations) == (2, 3, (destination,))
    assert facts.files == 2
    assert facts.last_merge is not None
    assert (facts.last_merge.rows_updated, facts.last_merge.files_added) == (2, 2)


@pytest.mark.spark
@_LONG
def test_a_commit_that_loses_to_another_is_a_conflict_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format="iceberg")
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(*(Change(op="c", seq=seq, after={"id": seq, "v": seq}) for seq in (1, 2)))
    tables: Any = warehouse.kept.tables
    table = tables.catalog.table(("shop", "t"))._table
    files = table.newScan().planFiles().iterator()
    file, at = files.next().file(), table.currentSnapshot().snapshotId()
    rewritten = table.newRewrite().validateFromSnapshot(at)
    rewritten.deleteFile(file)
    rewritten.addFile(file.copy())
    stale = table.operations().current()
    changed = Change(op="u", seq=3, before={"id": 1, "v": 1}, after={"id": 1, "v": 3})
    warehouse.take(changed)
    with pytest.raises(CommitConflict, match="found new delete"), conflicts_by_name():
        rewritten.commit()
    table.refresh()
    with pytest.raises(CommitConflict, match="CommitFailed"), conflicts_by_name():
        table.operations().commit(stale, stale)
    warehouse.kept.upkeep.compact(("shop", "t"))
    jvm: Any = spark._jvm
    paths = jvm.java.util.ArrayList([file.location()])
    late = table.newRowDelta().validateFromSnapshot(at).validateDataFilesExist(paths)
    with pytest.raises(CommitConflict, match="missing data files"), conflicts_by_name():
        late.validateDeletedFiles().commit()
    assert sorted((row["id"], row["v"]) for row in warehouse.rows()) == [(1, 3), (2, 2)]


@pytest.mark.spark
def test_a_compaction_commits_group_by_group_and_names_a_file_that_is_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, files = open_warehouse(spark, str(tmp_path), table_format="iceberg"), 12
    kept.tables.evolve(None, shape(("v", "int")))
    tables: Any = kept.tables
    named = tables.catalog.sql_name(("shop", "t"))
    some = spark.range(240).selectExpr("CAST(id AS INT) AS id", "1 AS v").repartition(files)
    columns = [
        one.name
        if one.name in {"id", "v"}
        else f"CAST(NULL AS {one.dataType.simpleString()}) AS {one.name}"
        for one in spark.table(named).schema
    ]
    some.selectExpr(*columns).writeTo(named).append()
    data = sorted(tmp_path.glob("shop/t/data/*.parquet"))
    group = {"max_file_group_size_bytes": str(data[0].stat().st_size * 5 // 2)}
    # In the sink's own session a step is of 64 MiB.
    monkeypatch.setattr(iceberg_maintenance, "_SMALL_STEPS", group)
    upkeep, name, before = kept.upkeep, ("shop", "t"), kept.upkeep.version(("shop", "t"))
    with pytest.raises(OutOfTime):
        upkeep.compact(name, seconds=0)
    done = upkeep.version(name) - before
    assert done < files // 2
    moved = tmp_path / "moved"
    listed = spark.table(f"{named}.files").select("file_path").collect()
    # One that a group of the first step has joined is not read again.
    gone = next(one for row in listed if (one := Path(urlsplit(row[0]).path)) in data)
    gone.rename(moved)
    # Without batches it is no conflict.
    with pytest.raises(CommitConflict):
        upkeep.compact(name)
    with pytest.raises(FAILURES, match=gone.name):
        upkeep.compact(name, seconds=600)
    moved.rename(gone)
    upkeep.compact(name, seconds=600)
    assert upkeep.version(name) - before > done, "each group of files is a commit"
    assert sorted(row.id for row in spark.table(named).select("id").collect()) == [*range(240)]


@pytest.mark.spark
def test_a_warehouse_is_opened_in_the_format_and_catalog_that_it_was_made_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = {}
    for kind in FORMATS:
        made = Warehouse(spark, tmp_path / kind, table_format=kind)
        made.schemas = [schema(*COLUMNS)]
        made.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
        paths[kind] = made.path
        for read in (current, fresh):
            rows = read(spark, made.path, "shop", "t").collect()
            assert [row.asDict() for row in rows] == [{"id": 1, "v": 1}]
    with pytest.raises(
        ForeignWarehouse, match=r"is in iceberg, and delta is wanted.*format: iceberg"
    ):
        open_warehouse(spark, paths["iceberg"], table_format="delta")
    with pytest.raises(ForeignWarehouse, match=r"is in delta, and iceberg is wanted"):
        fresh(spark, paths["delta"], "shop", "t", table_format="iceberg")
    with pytest.raises(ForeignWarehouse, match=r"a catalog of type hadoop, not rest"):
        current(spark, paths["iceberg"], "shop", "t", catalog={"type": "rest", "uri": "x:1"})
    for note in (json.dumps({"version": 2}), "{"):
        Files(spark).write(f"{paths['iceberg']}/__format.json", note)
        with pytest.raises(ForeignWarehouse, match="cannot be read by this version"):
            current(spark, paths["iceberg"], "shop", "t")


@pytest.mark.spark
@_LONG
def test_a_folder_with_something_else_in_it_is_refused_and_what_a_killed_sink_left_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = open_warehouse(spark, str(tmp_path), table_format="iceberg").tables
    folder = tmp_path / "shop/t"
    (folder / "_delta_log").mkdir(parents=True)
    with pytest.raises(ForeignTable, match="shop/t"):
        tables.shape("shop", "t")
    (folder / "_delta_log").rmdir()
    (folder / "metadata").mkdir()
    assert tables.shape("shop", "t") is None
    tables.evolve(None, shape(("v", "int")))
    assert tables.shape("shop", "t") == shape(("v", "int"))


@pytest.mark.spark
def test_tables_in_another_catalog_are_found_by_their_names_beside_foreign_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = {
        "catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "warehouse": f"{tmp_path}/lake",
    }
    root = f"{tmp_path}/wh"
    kept = open_warehouse(spark, root, table_format="iceberg", catalog=catalog)
    kept.tables.evolve(None, shape(("v", "int")))
    stage = shape(("v", "bigint"))
    kept.stage.evolve(None, stage)
    name = cast(Any, kept.tables).catalog.name
    spark.sql(f"CREATE TABLE {name}.shop.other (n int) USING iceberg")
    again = open_warehouse(spark, root, catalog=catalog)
    assert again.tables.names() == [("shop", "t")]
    assert again.tables.shape("shop", "t") == shape(("v", "int"))
    with pytest.raises(ForeignTable, match="other"):
        again.tables.shape("shop", "other")
    assert spark.table(f"{name}.shop.t").columns[:2] == ["id", "v"]
    assert (again.stage.names(), again.stage.shape("shop", "t")) == ([("shop", "t")], stage)
    again.tables.drop("shop", "t")
    assert again.tables.names() == []


@pytest.mark.spark
@_LONG
def test_a_thread_without_a_session_of_its_own_opens_a_catalog_and_several_make_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = open_warehouse(spark, str(tmp_path), table_format="iceberg").tables
    names = [("a", "t"), ("b", "t"), ("c", "t"), ("d", "t")]
    with ThreadPoolExecutor(len(names)) as pool:
        wanted = [Shape(*name, (("id", "int"),), ("id",)) for name in names]
        assert (
            list(pool.map(lambda one: tables.shape(one.database, one.table), wanted)) == [None] * 4
        )
        for made in [pool.submit(tables.evolve, None, one) for one in wanted]:
            made.result()
    assert tables.names() == names


@pytest.mark.spark
def test_a_column_renamed_without_a_commit_of_rows_has_its_values_at_the_newest_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format="iceberg")
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 7}))
    tables, name = warehouse.kept.tables, ("shop", "t")
    # As a kill within a call of rename_columns leaves it.
    table = cast(Any, tables).catalog.sql_name(name)
    before = tables.shape(*name)
    assert before is not None
    coming = made_property(before, coming=before.with_names({"v": "w"}))
    spark.sql(set_sql(table, coming))
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    held, version = tables.shape(*name), warehouse.kept.upkeep.version(name)
    assert held is not None
    for rows in (tables.rows(held, fixed=True), tables.as_of(*name, version)[1]):
        assert [(row.id, row.w) for row in rows.collect()] == [(1, 7)]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        tables.rows(shape(("v", "int")), fixed=True).collect()
    assert tables.rename_columns(held, {"id": "v"}).key == ("v",)
    assert tables.as_of(*name, version)[0].columns == COLUMNS
    # A key that is replaced leaves no setting by which Iceberg would refuse others.
    other = shape(("w", "int"), key=("w",))
    present = tables.shape(*name)
    assert present is not None
    tables.replace(other, tables.rows(present).selectExpr("v AS id", "*"))
    warehouse.kept.upkeep.retain(name, 60)


@pytest.mark.spark
@pytest.mark.long("the contract tidies between batches")
def test_no_batch_is_lost_and_none_is_in_the_way_while_recent_changes_are_tidied(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = open_warehouse(spark, str(tmp_path / "wh"), table_format="iceberg")
    case, log = Recorded(kept, Warehouse(spark, tmp_path / "other")), kept.recent
    log.begin(case.rows(0, versions=(FIRST,)), cut(0, 1))

    def add() -> None:
        for offset in range(1, 9):
            log.add(case.rows(offset), cut(0, offset + 1))

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add)
        while not adding.done():
            log.tidy(cut(0, 1))
        adding.result()
    log.tidy(cut(4, 9))
    assert case.found() == ([4, 5, 6, 7, 8], ["v1"])
    newest = log.newest()
    assert newest is not None
    assert newest.cut == cut(0, 9)


_READER = """
import sys
from pyspark.sql import SparkSession
from spark_sink.errors import JarMissing
from spark_sink.views.recent.reading import current
spark = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[2]).getOrCreate()
try:
    print([row.asDict() for row in current(spark, sys.argv[1], "shop", "t").collect()])
except JarMissing as fault:
    print(fault)
"""


@pytest.mark.remedy("sink.JarMissing")
@pytest.mark.spark
@pytest.mark.long(
    "a session of a reader's own, in two processes; `make test` has one with all jars"
)
def test_a_reader_adds_the_jar_that_the_error_names_to_its_own_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Warehouse(spark, tmp_path / "wh", table_format="iceberg")
    made.schemas = [schema(*COLUMNS)]
    made.take(Change(op="c", seq=1, after={"id": 1, "v": 2}))

    def read(*fields: str) -> str:
        jars = [jar for one in fields for jar in Settings.model_fields[one].default.glob("*.jar")]
        command = [sys.executable, "-c", _READER, made.path, ",".join(map(str, jars))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    missing = read("jars")
    assert missing.startswith("JarMissing: Spark lacks a jar"), missing
    assert "Add the jar of spark_sink/iceberg.lock to the session (spark.jars)" in missing
    assert read("jars", "iceberg_jars") == "[{'id': 1, 'v': 2}]"
