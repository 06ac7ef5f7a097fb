"""Snapshots of a real warehouse, as plain Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import SnapshotUnusable, TableNotInCut, UnknownTable
from spark_sink.spark.files import Files
from spark_sink.views.export import MANIFEST, SnapshotWriter, root_of, snapshot_lines
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.views.cuts.bank import TABLES, Bank
from tests.unit.spark_sink.views.cuts.test_cut_tables import Sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Killed(Exception):
    """The process ended here."""


def rows_in(warehouse: Warehouse, snapshot: str, table: str) -> dict[int, int]:
    """The rows of a table by what its files alone have."""
    found = warehouse.spark.read.parquet(f"{snapshot}/shop/{table}")
    assert found.columns == ["id", "v"]
    return {row.id: row.v for row in found.collect()}


def test_a_snapshot_has_whole_transactions_and_is_complete_or_absent(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, root, clock = Bank(seed=5), tmp_path / "snapshots", iter(range(1, 100))
    sink = Sink(warehouse, bank)
    files = Files(warehouse.spark)
    writer = SnapshotWriter(
        spark=warehouse.spark, files=files, root=root_of(str(root)), clock=lambda: next(clock)
    )
    bank.transfer()
    bank.settle()
    sink.store()
    sink.merge(sink.rows())
    ends = sorted(bank.states)[1:]

    # Killed before the manifest, which is the last step.
    put = Files.put

    def put_until_manifest(self: Files, path: str, text: str) -> None:
        if path.endswith(MANIFEST):
            raise Killed
        put(self, path, text)

    monkeypatch.setattr(Files, "put", put_until_manifest)
    with pytest.raises(Killed):
        writer.write(sink.cut())
    monkeypatch.setattr(Files, "put", put)
    (folder,) = root.iterdir()
    assert not (folder / MANIFEST).exists()
    # One table is whole, of the other a part.
    before = {file.name for file in (folder / "shop/a").glob("*.parquet")}
    (folder / "shop/b/_SUCCESS").unlink()
    for file in (folder / "shop/b").glob("*.parquet"):
        file.unlink()

    first = writer.write(sink.cut())
    assert first.path == str(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["positions"]["shop"]["seq"] == ends[-1]
    assert [one["table"] for one in manifest["tables"]] == list(TABLES)
    assert set(manifest["tables"][0]["files"]) == before
    for one in manifest["tables"]:
        held = rows_in(warehouse, first.path, one["table"])
        assert held == bank.states[ends[-1]][one["table"]]
        assert one["rows"] == len(held)
        assert one["columns"] == [{"name": "id", "type": "int"}, {"name": "v", "type": "int"}]
        assert all((folder / one["path"] / file).is_file() for file in one["files"])
    again = writer.write(sink.cut())
    assert (again.is_new, again.path) == (False, first.path)
    assert "complete before this run: nothing was written" in snapshot_lines(again)

    bank.transfer()
    bank.settle()
    sink.store()
    monkeypatch.setattr(Files, "put", put_until_manifest)
    with pytest.raises(Killed):
        # Of one table only: another snapshot of the same cut.
        writer.write(sink.cut(), [("shop", "b")])
    monkeypatch.setattr(Files, "put", put)
    (foreign := root / "20261122T150211Z-aaaaaaaa").mkdir()
    newest = writer.write(sink.cut(), keep=1)
    assert rows_in(warehouse, newest.path, "a") == bank.states[max(bank.states)]["a"]
    assert len(newest.removed) == 2
    assert {path.name for path in root.iterdir()} == {Path(newest.path).name, foreign.name}
    # An earlier cut, of the same table: the one that was just written is never removed.
    earlier = writer.write(sink.cut(bank.ids[ends[-1]]), [("shop", "a")], keep=1)
    assert rows_in(warehouse, earlier.path, "a") == bank.states[ends[-1]]["a"]
    assert earlier.removed == (newest.path,)


@pytest.mark.remedy("sink.SnapshotUnusable")
def test_a_table_that_has_no_state_in_the_cut_is_omitted_by_name(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank(seed=1)
    sink = Sink(warehouse, bank)
    bank.settle()
    sink.store()
    sink.merge(sink.rows())
    cut = sink.cut()
    missing: dict[Any, str] = {("shop", "b"): "it waits since 2026"}
    monkeypatch.setattr(type(cut), "missing", lambda _, name: missing.get(name, ""))
    files = Files(warehouse.spark)
    writer = SnapshotWriter(spark=warehouse.spark, files=files, root=str(tmp_path / "s"))
    (tmp_path / "file").touch()
    nowhere = SnapshotWriter(spark=warehouse.spark, files=files, root=str(tmp_path / "file/s"))
    with pytest.raises(SnapshotUnusable, match="Name a folder"):
        nowhere.write(cut)
    found = writer.write(cut)
    assert "shop.b: omitted: it waits since 2026" in snapshot_lines(found)
    (left,) = json.loads((Path(found.path) / MANIFEST).read_text())["omitted"]
    assert left == {"database": "shop", "table": "b", "reason": "it waits since 2026"}
    assert not (Path(found.path) / "shop/b").exists()
    with pytest.raises(TableNotInCut, match=r"shop\.b: it waits"):
        writer.write(cut, [("shop", "b")])
    with pytest.raises(UnknownTable, match=r"shop\.c"):
        writer.write(cut, [("shop", "c")])
