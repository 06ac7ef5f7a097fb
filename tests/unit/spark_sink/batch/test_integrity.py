"""A table that something else than the sink has changed: it waits by name, or the change is named."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.errors import (
    ColumnsChanged,
    HistoryReplaced,
    KeyChanged,
    SinkError,
    TableFailed,
    TableReplaced,
)
from spark_sink.settings.model import TableRule
from spark_sink.settings.required_conf import MARKS
from spark_sink.spark.java import java_class
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.iceberg.foreign_commits import IcebergCommits
from spark_sink.warehouse.iceberg.warehouse import IcebergWarehouse
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.table_status import status_lines
from tests.unit.spark_sink.conftest import FORMATS_LONG, Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
_MORE = pytest.mark.long("the first case has a table that is gone, and one that is altered")


class Scene:
    """A warehouse with tables t and u, and another program that has them too."""

    def __init__(self, spark: SparkSession, path: Path, table_format: Any) -> None:
        self.spark, self.format = spark, table_format
        self.warehouse = Warehouse(spark, path, table_format=table_format)
        self.warehouse.schemas = [
            schema(("id", "int"), ("v", "int")),
            schema(("id", "int"), ("v", "int"), table="u"),
        ]
        self.seq = 0
        self.own = spark.newSession()
        for key in MARKS:
            self.own.conf.set(key, "analyst")

    def put(self, key: int, table: str = "t", op: str = "c", **columns: Any) -> Change:
        self.seq += 1
        version = columns.pop("version", 1)
        row = {"id": key, "v": self.seq, **columns}
        before = row if op != "c" else None
        return Change(op=op, seq=self.seq, before=before, after=row, table=table, version=version)

    def stopped(self) -> None:
        """The sink ends; the next `started` is another process."""
        self.warehouse.restart()

    def started(self) -> None:
        """What a start does before the first batch."""
        if self.format == "delta":
            java_class(self.spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()
        self.warehouse.restart()
        applier = self.warehouse.applier
        applier.waits.refresh()
        applier.follow_ddl({})
        applier.hold_against_ledger()

    def name(self, table: str = "t") -> str:
        """The table in SQL."""
        kept = self.warehouse.kept
        if isinstance(kept, IcebergWarehouse):
            found = open_warehouse(self.own, self.warehouse.path, table_format="iceberg")
            assert isinstance(found, IcebergWarehouse)
            return found.tables.catalog.sql_name(found.tables.place("shop", table))
        return f"delta.`{self.warehouse.path}/shop/{table}`"

    def other(self, statement: str, table: str = "t") -> None:
        """A statement of another program."""
        self.own.sql(statement.format(t=self.name(table))).collect()

    def folder(self, table: str = "t") -> Path:
        return Path(self.warehouse.path) / "shop" / table

    def rows(self, table: str = "t") -> dict[int, Any]:
        return {row["id"]: row["v"] for row in self.warehouse.rows(table)}

    def waits(self, table: str = "t") -> str:
        held = self.warehouse.waiting(table)
        return "" if held is None else f"{held.error}: {held.reason}"

    def status(self) -> str:
        return "\n".join(status_lines(self.warehouse.kept))


@pytest.fixture(params=FORMATS_LONG)
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    # The other program is in the same application here.
    monkeypatch.setattr(IcebergCommits, "_own", lambda _: ["sink-0"])
    found = Scene(request.getfixturevalue("spark"), tmp_path / "wh", request.param)
    found.warehouse.take(found.put(1), found.put(2), found.put(1, "u"))
    return found


def deleted(scene: Scene) -> None:
    shutil.rmtree(scene.folder())


def put_back(scene: Scene, copy: Path) -> None:
    shutil.rmtree(scene.folder())
    shutil.copytree(copy, scene.folder())


@pytest.mark.remedy("sink.TableReplaced", "sink.ColumnsChanged")
def test_a_table_that_another_program_removed_or_altered_waits_until_it_is_read_again(
    scene: Scene,
) -> None:
    expected = scene.rows(), scene.rows("u")
    if scene.format == "delta":
        scene.other("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "u")
    scene.stopped()
    shutil.rmtree(scene.folder())
    scene.other("ALTER TABLE {t} RENAME COLUMN v TO w", "u")
    scene.started()
    assert "TableReplaced" in scene.waits()
    assert "ColumnsChanged" in scene.waits("u")
    scene.warehouse.take(scene.put(10), scene.put(10, "u"))
    with pytest.raises(TableReplaced, match="--from-beginning"):
        scene.warehouse.reload()
    with pytest.raises(ColumnsChanged, match="no column v"):
        scene.warehouse.reload("u")
    scene.warehouse.reload(from_beginning=True)
    scene.other("ALTER TABLE {t} RENAME COLUMN w TO v", "u")
    scene.warehouse.reload("u")
    expected[0][10], expected[1][10] = scene.seq - 1, scene.seq
    assert (scene.rows(), scene.rows("u")) == expected


def test_a_table_that_waits_from_a_start_on_lacks_nothing_from_before_its_last_reload(
    scene: Scene, tmp_path: Path
) -> None:
    warehouse = scene.warehouse
    warehouse.reload(from_beginning=True)
    warehouse.take(scene.put(3), scene.put(4))
    expected, end = scene.rows(), warehouse.ends()
    shutil.copytree(scene.folder(), tmp_path / "copy")
    # Kafka has removed records that follow the reload, all of which are applied.
    warehouse.first = 4
    scene.stopped()
    deleted(scene)
    scene.started()
    held = warehouse.waiting()
    assert held is not None
    assert all(offset >= end[at] for at, offset in held.offsets.items())
    put = scene.put(5)
    warehouse.take(put)
    (tmp_path / "wh" / "shop" / "t").mkdir(parents=True, exist_ok=True)
    put_back(scene, tmp_path / "copy")
    warehouse.restart()
    warehouse.reload()
    assert scene.rows() == expected | {5: put.seq}


def test_a_start_loads_no_log_of_a_table_that_is_as_the_sink_left_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    real = DeltaLog.__init__

    def loading(self: DeltaLog, spark: SparkSession, path: str) -> None:
        loads.append(path)
        real(self, spark, path)

    monkeypatch.setattr(DeltaLog, "__init__", loading)
    scene.started()
    scene.warehouse.applier.milestones.begin()
    assert [path for path in loads if path.endswith(("/shop/t", "/shop/u"))] == []
    assert not scene.waits()
    # Of one that differs by the number of its last commit alone.
    scene.warehouse.take(scene.put(3))
    if scene.format == "delta":
        log = sorted((scene.folder() / "_delta_log").glob("*.json"))[-1]
        (log.parent / f".{log.name}.crc").unlink()
        log.write_text(re.sub('"txnId":"[^"]*"', '"txnId":"another"', log.read_text()))
        scene.started()
        assert "is not the one of the ledger" in scene.waits()
    assert not scene.waits("u")


@pytest.mark.remedy("sink.TableFailed")
def test_a_table_that_cannot_be_read_waits_by_name_until_it_can_and_the_others_continue(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = scene.warehouse
    (file,) = (p for p in scene.folder().rglob("*.parquet") if "_delta_log" not in p.parts)
    file.rename(tmp_path / "kept.parquet")
    scene.stopped()
    with pytest.raises(TableFailed):
        warehouse.take(scene.put(1, op="u"), scene.put(7), other := scene.put(2, "u"))
    assert scene.rows("u")[2] == other.seq
    assert warehouse.kept.log.applied() == warehouse.ends()
    assert file.name in scene.waits().removeprefix("TableFailed: shop.t: ")
    assert f"table waits table=shop.t: {TableFailed.__name__}" in caplog.text
    scene.started()
    warehouse.take(scene.put(8))
    with pytest.raises(SinkError, match=re.escape(file.name)):
        warehouse.reload()
    assert scene.waits().startswith("TableFailed: shop.t: ")
    assert "reload shop.t --from-beginning" in scene.status()
    (tmp_path / "kept.parquet").rename(file)
    warehouse.reload()
    expected = {1: 4, 2: 2, 7: 5, 8: scene.seq}
    assert (scene.waits(), scene.rows()) == ("", expected)

    # Not even its log or metadata: it is found at the start, and the second command recreates it.
    scene.stopped()
    for one in (scene.folder() / "_delta_log", scene.folder() / "metadata"):
        for file in one.glob("*.json"):
            file.write_text("{")
    scene.started()
    assert "TableFailed" in scene.waits()
    warehouse.take(scene.put(9), other := scene.put(3, "u"))
    assert scene.rows("u")[3] == other.seq
    assert "reload shop.t --from-beginning" in scene.status()
    with pytest.raises(SinkError):
        warehouse.reload()
    warehouse.reload(from_beginning=True)
    assert (scene.waits(), scene.rows()) == ("", expected | {9: scene.seq - 1})
    scene.started()
    warehouse.take(scene.put(10))
    assert (scene.waits(), scene.rows()[10]) == ("", scene.seq)


@_MORE
def test_a_table_that_is_gone_or_an_older_copy_waits_and_is_read_again(
    scene: Scene, tmp_path: Path
) -> None:
    older = shutil.copytree(scene.folder(), tmp_path / "older")
    scene.warehouse.take(scene.put(3), scene.put(1, op="u"), scene.put(2, "u"))
    newest = shutil.copytree(scene.folder(), tmp_path / "newest")
    expected = scene.rows()
    breaks: list[Callable[[], object]] = [
        lambda: deleted(scene),
        lambda: put_back(scene, older),
    ]
    for number, damage in enumerate(breaks):
        scene.stopped()
        damage()
        scene.started()
        assert "TableReplaced" in scene.waits()
        assert not scene.waits("u")
        # It is found before there is any change, and the others continue.
        change, other = scene.put(10 + number), scene.put(10 + number, "u")
        scene.warehouse.take(change, other)
        assert other.after is not None
        assert scene.rows("u")[10 + number] == other.after["v"]
        assert "shop.t: WAITING" in scene.status()
        with pytest.raises(TableReplaced, match="--from-beginning"):
            scene.warehouse.reload()
        scene.started()
        assert "TableReplaced" in scene.waits()
        scene.warehouse.reload(from_beginning=True)
        expected |= {10 + number: scene.seq - 1}
        assert scene.rows() == expected
        scene.started()
        assert not scene.waits()
        scene.warehouse.take(scene.put(20 + number))
        expected |= {20 + number: scene.seq}
        assert scene.rows() == expected
        shutil.rmtree(newest)
        shutil.copytree(scene.folder(), newest)
    # What is put back is continued.
    scene.stopped()
    put_back(scene, older)
    scene.started()
    scene.warehouse.take(scene.put(30))
    put_back(scene, newest)
    scene.started()
    scene.warehouse.reload()
    assert scene.rows() == expected | {30: scene.seq}


@_MORE
def test_what_changes_no_row_makes_no_table_wait(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, name = scene.warehouse, ("shop", "t")
    scene.other("ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'x')")
    scene.other("ALTER TABLE {t} ADD COLUMNS (x INT COMMENT 'ours')")
    if scene.format == "delta":
        scene.other("OPTIMIZE {t}")
    warehouse.kept.upkeep.compact(name)
    scene.started()
    warehouse.take(scene.put(3))
    # A kill between a table's commit and the ledger's.
    with monkeypatch.context() as patch:
        patch.setattr(type(warehouse.kept.log), "append", lambda *_: 1 / 0)
        with pytest.raises((SinkError, ZeroDivisionError)):
            warehouse.take(scene.put(4))
    for _ in range(2):
        scene.started()
        assert (scene.waits(), scene.waits("u")) == ("", "")
        warehouse.catch_up(warehouse.kept.log.applied())
    warehouse.kept.upkeep.retain(name, 0)
    warehouse.kept.upkeep.compact(name)
    warehouse.kept.upkeep.remove_unused(name)
    warehouse.reload(from_beginning=True)
    scene.started()
    warehouse.take(scene.put(5), scene.put(2, op="u"))
    scene.started()
    assert (scene.waits(), sorted(scene.rows())) == ("", [1, 2, 3, 4, 5])
    # The log alone is put back, or is of another folder: the tables are newer than it.
    log = Path(warehouse.path) / "__log"
    if scene.format == "delta":
        copy = shutil.copytree(log, tmp_path / "log")
        warehouse.take(scene.put(6))
        shutil.rmtree(log)
        shutil.copytree(copy, log)
        scene.started()
        assert scene.waits() == ""
        warehouse.catch_up(warehouse.kept.log.applied())
        assert sorted(scene.rows()) == [1, 2, 3, 4, 5, 6]


@_MORE
def test_an_added_column_is_kept_until_the_source_has_one_of_its_name(scene: Scene) -> None:
    warehouse = scene.warehouse
    scene.other("ALTER TABLE {t} ADD COLUMNS (x INT)")
    scene.other("UPDATE {t} SET x = 7")
    warehouse.take(scene.put(1, op="u"), scene.put(3))
    held = scene.own.sql(f"SELECT id, v, x FROM {scene.name()} ORDER BY id").collect()
    assert [(row.id, row.x) for row in held] == [(1, 7), (2, 7), (3, None)]
    assert held[0].v == scene.seq - 1
    assert set(warehouse.rows()[0]) == {"id", "v"}
    start = warehouse.ends()
    warehouse.write(scene.put(3, op="u"))
    warehouse.store(start, Step.BEGIN)
    assert {row["id"]: row["v"] for row in warehouse.fresh()} == scene.rows() | {3: scene.seq}
    warehouse.catch_up(start)
    assert "another program changed rows" in scene.status()
    warehouse.schemas.append(schema(("id", "int"), ("v", "int"), ("x", "int"), version=2))
    with pytest.raises(ColumnsChanged, match="source has a column x now"):
        warehouse.take(scene.put(4, x=40, version=2))
    warehouse.reload(from_beginning=True)
    assert {row["id"]: row["x"] for row in warehouse.rows()} == {1: None, 2: None, 3: None, 4: 40}
    assert "another program changed rows" not in scene.status()
    warehouse.schemas.append(
        schema(("id", "int"), ("v", "bigint"), ("x", "int"), ("y", "int"), version=3)
    )
    warehouse.take(scene.put(5, x=50, y=5, version=3))
    scene.started()
    warehouse.take(scene.put(6, x=60, y=6, version=3))
    assert not scene.waits()


@_MORE
def test_columns_that_another_program_changed_are_not_filled_with_null(scene: Scene) -> None:
    warehouse = scene.warehouse
    if scene.format == "delta":
        scene.other("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        scene.other("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    changes = {
        "ALTER TABLE {t} RENAME COLUMN v TO w": "no column v",
        "ALTER TABLE {t} DROP COLUMN v": "no column v",
        "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT": "v is bigint, and was int",
    }
    expected = scene.rows()
    for number, (statement, reason) in enumerate(changes.items()):
        scene.other(statement)
        with pytest.raises(ColumnsChanged, match=reason):
            warehouse.take(scene.put(10 + number))
        with pytest.raises(ColumnsChanged, match=reason):
            warehouse.reload()
        if number == 0:
            scene.other("ALTER TABLE {t} RENAME COLUMN w TO v")
            warehouse.reload()
        else:
            warehouse.reload(from_beginning=True)
            if scene.format == "delta":
                scene.other(
                    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
                )
        expected |= {10 + number: scene.seq}
        assert scene.rows() == expected
    if scene.format == "delta":
        scene.other("ALTER TABLE {t} ADD CONSTRAINT small CHECK (v < 20)")
        with pytest.raises(ColumnsChanged, match="the constraint small"):
            warehouse.take(scene.put(30))
        scene.other("ALTER TABLE {t} DROP CONSTRAINT small")
        warehouse.reload()
        assert scene.rows() == expected | {30: scene.seq}


@_MORE
def test_rows_that_another_program_changed_are_named_and_a_table_that_it_replaced_waits(
    scene: Scene,
) -> None:
    warehouse = scene.warehouse
    scene.other("DELETE FROM {t} WHERE id = 1")
    scene.started()
    assert not scene.waits()
    warehouse.take(scene.put(3))
    assert "rows: another program changed rows" in scene.status()
    warehouse.reload(from_beginning=True)
    assert sorted(scene.rows()) == [1, 2, 3]
    assert "another program changed rows" not in scene.status()
    before = warehouse.kept.upkeep.version(("shop", "t"))
    warehouse.take(scene.put(4))
    if scene.format == "delta":
        scene.other(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
    else:
        tables: Any = warehouse.kept.tables
        table = tables.catalog.existing(tables.place("shop", "t"))._table
        table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit()
    with pytest.raises(TableReplaced):
        warehouse.take(scene.put(5))
    warehouse.reload(from_beginning=True)
    assert sorted(scene.rows()) == [1, 2, 3, 4, 5]
    warehouse.take(scene.put(6))
    scene.other(
        "CREATE OR REPLACE TABLE {t} AS SELECT * FROM {t} WHERE id > 1".replace(
            "{t} AS", "{t} USING " + scene.format + " AS"
        )
    )
    scene.started()
    assert "TableReplaced" in scene.waits()
    warehouse.reload(from_beginning=True)
    assert sorted(scene.rows()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("scene", [pytest.param("delta", marks=pytest.mark.spark)], indirect=True)
def test_an_overwrite_of_some_rows_is_named_and_a_damaged_entry_of_the_log_is_of_its_table(
    scene: Scene,
) -> None:
    path = str(scene.folder())
    frame = scene.own.read.format("delta").load(path).where("id = 2")
    some = frame.localCheckpoint().write.format("delta").mode("overwrite")
    some.option("replaceWhere", "id = 2").save(path)
    scene.started()
    assert not scene.waits()
    assert "another program changed rows: WRITE" in scene.status()
    # Delta itself reads a checkpoint, and not the entry.
    log = DeltaLog(scene.spark, path)
    entry = scene.folder() / "_delta_log" / f"{log.version():020}.json"
    log.checkpoint()
    (entry.parent / f".{entry.name}.crc").unlink()
    entry.write_text("{")
    scene.started()
    assert "TableFailed: shop.t: its log cannot be read" in scene.waits()
    assert not scene.waits("u")
    scene.warehouse.reload(from_beginning=True)
    scene.warehouse.take(scene.put(3))
    everything = frame.localCheckpoint().write.format("delta").mode("overwrite")
    everything.option("replaceWhere", "true").save(path)
    scene.started()
    assert "TableReplaced" in scene.waits()


@_MORE
def test_a_table_waits_in_the_next_process_too_and_a_copied_iceberg_table_is_refused(
    scene: Scene, tmp_path: Path
) -> None:
    warehouse = scene.warehouse
    warehouse.schemas.append(schema(("id", "int"), ("v", "int"), key=("v",), version=2))
    with pytest.raises(KeyChanged):
        warehouse.take(scene.put(3, version=2))
    warehouse.take(scene.put(2, "u"))
    scene.stopped()
    scene.started()
    warehouse.take(scene.put(4, version=2))
    warehouse.reload()
    assert scene.rows() == {1: 1, 2: 2, 3: 4, 4: scene.seq}
    # All of it in another folder: Delta's paths are relative, and Iceberg's are not.
    copy = shutil.copytree(warehouse.path, tmp_path / "copy")
    other = Scene(scene.spark, copy, scene.format)
    other.warehouse.schemas, other.warehouse.records = warehouse.schemas, warehouse.records
    other.seq = scene.seq
    other.started()
    if scene.format == "delta":
        other.warehouse.take(other.put(5, version=2))
        assert sorted(other.rows()) == [1, 2, 3, 4, 5]
    else:
        assert "does not follow a copy" in other.waits()
        assert "does not follow a copy" in other.waits("u")


RULES = TableRules([TableRule(match=r"shop\..*", deletes="hard", history=True)])


def beside(scene: Scene, kind: str, table: str = "t") -> Path:
    """The folder of a table's markers ("deleted") or history."""
    root = Path(scene.warehouse.path)
    (found,) = (
        path
        for path in root.rglob(table)
        if path.is_dir() and kind in str(path.relative_to(root).parent)
    )
    return found


def with_rules(scene: Scene) -> None:
    """Rows that are deleted are removed, and histories kept; a row of t is, and u is truncated."""
    scene.warehouse.rules = RULES
    scene.stopped()
    truncate = Change(op="t", seq=scene.put(0).seq, table="u", version=None)
    scene.warehouse.take(removed(scene, 2), truncate, scene.put(5, "u"))


def removed(scene: Scene, key: int) -> Change:
    """A delete of a row of t."""
    return replace(scene.put(key, op="d"), after=None)


def changes(scene: Scene, table: str = "t") -> list[int]:
    """The numbers of the changes in a table's history."""
    tables = scene.warehouse.kept.histories.tables
    shape = tables.shape("shop", table)
    return sorted(row["__seq"] for row in tables.rows(shape).collect()) if shape else []


@pytest.mark.remedy("sink.HistoryReplaced")
def test_markers_and_a_history_that_are_gone_are_noticed_and_come_again(scene: Scene) -> None:
    with_rules(scene)
    expected, known = (scene.rows(), scene.rows("u")), changes(scene, "u")
    scene.stopped()
    shutil.rmtree(beside(scene, "deleted"))
    shutil.rmtree(beside(scene, "history", "u"))
    # Another process does not remember which tables it has made.
    path = scene.warehouse.path
    scene.warehouse.kept = open_warehouse(scene.spark, path, table_format=scene.format)
    scene.started()
    assert (
        "TableReplaced: the table of markers of deleted rows beside shop.t: it is" in scene.waits()
    )
    assert "HistoryReplaced: the history of shop.u: it is gone" in scene.waits("u")
    with pytest.raises(TableReplaced, match="--from-beginning"):
        scene.warehouse.reload()
    scene.warehouse.reload(from_beginning=True)
    scene.warehouse.reload("u", from_beginning=True)
    # Also what was before the history began.
    assert changes(scene, "u") == [3, *known]
    # Of a partition that is read later: before the delete, and before the truncate.
    late = Change(op="c", seq=2, after={"id": 2, "v": 0})
    scene.warehouse.take(late, replace(late, table="u"), scene.put(6), partition=1)
    expected[0][6] = scene.seq
    assert (scene.rows(), scene.rows("u")) == expected


@pytest.mark.parametrize(
    "from_beginning",
    [False, pytest.param(True, marks=pytest.mark.long("the other command has the same"))],
)
def test_a_history_that_is_removed_while_the_sink_runs_is_made_again_by_a_reload(
    scene: Scene, *, from_beginning: bool
) -> None:
    with_rules(scene)
    shutil.rmtree(beside(scene, "history"))
    with pytest.raises(HistoryReplaced):
        scene.warehouse.take(scene.put(10))
    scene.warehouse.reload(from_beginning=from_beginning)
    expected = [1, 2, 5, scene.seq] if from_beginning else [scene.seq]
    assert changes(scene) == expected
    scene.warehouse.take(scene.put(11))
    assert changes(scene) == [*expected, scene.seq]


@pytest.mark.long("the test above has what is gone")
def test_older_copies_of_markers_and_of_a_history_are_noticed_and_the_right_ones_put_back(
    scene: Scene, tmp_path: Path
) -> None:
    with_rules(scene)
    kinds = "deleted", "history"
    older = {kind: shutil.copytree(beside(scene, kind), tmp_path / kind) for kind in kinds}
    scene.warehouse.take(removed(scene, 1), scene.put(7))
    newest = {
        kind: shutil.copytree(beside(scene, kind), tmp_path / f"new-{kind}") for kind in kinds
    }
    expected, known = scene.rows(), changes(scene)
    for kind, error in zip(kinds, ("TableReplaced", "HistoryReplaced"), strict=True):
        folder = beside(scene, kind)
        for copy in (older, newest):
            scene.stopped()
            shutil.rmtree(folder)
            shutil.copytree(copy[kind], folder)
            scene.started()
            assert error in scene.waits()
            if kind == "deleted" and copy is older:
                with pytest.raises(TableReplaced, match="older copy"):
                    scene.warehouse.reload()
        scene.warehouse.reload()
        assert not scene.waits()
        scene.warehouse.take(scene.put(8 if kind == "deleted" else 9))
        expected |= {8 if kind == "deleted" else 9: scene.seq}
        known.append(scene.seq)
        newest["history"] = shutil.copytree(beside(scene, "history"), tmp_path / f"last-{kind}")
        scene.started()
        assert not scene.waits()
    assert (scene.rows(), changes(scene)) == (expected, known)
    # Kept as it is, also without what is lost.
    scene.stopped()
    shutil.rmtree(beside(scene, "history"))
    scene.started()
    scene.warehouse.reload()
    scene.warehouse.take(scene.put(10))
    assert changes(scene) == [scene.seq]
    scene.started()
    assert not scene.waits()


@pytest.mark.long("the tests above have what another program removes")
def test_markers_that_the_sink_has_put_back_and_a_history_that_is_off_are_not_missed(
    scene: Scene,
) -> None:
    with_rules(scene)
    expected = scene.rows()
    # Killed before the next batch.
    scene.warehouse.applier.deleted.put_back(("shop", "t"))
    scene.started()
    assert not scene.waits()
    scene.warehouse.rules = TableRules([TableRule(match=r"shop\..*", deletes="hard")])
    shutil.rmtree(beside(scene, "history"))
    scene.started()
    assert not scene.waits()
    scene.warehouse.take(scene.put(8), Change(op="c", seq=2, after={"id": 2, "v": 0}))
    assert scene.rows() == expected | {8: scene.seq}
