"""Small texts in files: replaced in one step, whatever their names are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.spark.files import Files
from spark_sink.warehouse.notes import FileNotes
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("name", ["note.json", "a b%20é [1].json", "sub/folder/note.json"])
def test_a_text_is_made_and_replaced(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files, path = Files(spark), f"{tmp_path}/{name}"
    assert files.read(path) is None
    for text in ("first", "é" * 100_000, ""):
        files.write(path, text)
        assert files.read(path) == text
    assert files.names(str(Path(path).parent)) == [Path(path).name]


def test_a_kill_while_a_text_is_replaced_leaves_the_earlier_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(spark)
    notes = FileNotes(files, str(tmp_path))
    notes.write("n/note.json", "whole")
    real = Files._create

    def cut_short(self: Files, path: str, text: str) -> None:
        real(self, path, text[:3])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Files, "_create", cut_short)
        with pytest.raises(KeyboardInterrupt):
            notes.write("n/note.json", "the next one")
    assert notes.read("n/note.json") == "whole"
    assert notes.names("n") == ["note.json"]


def test_an_object_store_gets_the_text_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[str] = []
    monkeypatch.setattr(Files, "_create", lambda _, path, __: created.append(path))
    store: Any = Files(spark)
    monkeypatch.setattr(store, "_at", lambda path: (path, _Bucket()))
    store.write("s3a://bucket/note.json", "text")
    assert created == ["s3a://bucket/note.json"]


class _Bucket:
    def getScheme(self) -> str:  # noqa: N802 - Hadoop's name
        return "s3a"
