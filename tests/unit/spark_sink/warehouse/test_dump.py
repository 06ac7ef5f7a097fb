"""The warehouse dump: complete, with its origin, and never partial under the final file name."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_sink.text.quoting import ORIGIN
from spark_sink.warehouse.dump import dump, written
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema


class Watched(io.StringIO):
    """A text that has something done once a part of it is written."""

    def __init__(self, part: str, act: Callable[[], None]) -> None:
        super().__init__()
        self._part, self._act = part, act

    def write(self, text: str) -> int:
        if self._part in text:
            self._part = "\0"
            self._act()
        return super().write(text)


def described(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def write_half(file: Path) -> None:
    with written(file) as to:
        to.write("half")
        to.flush()
        raise TypeError


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_dump_says_whose_it_is_counts_its_rows_and_has_truncates_begun_meanwhile(
    warehouse: Warehouse,
) -> None:
    nobodys = io.StringIO()
    assert dump(warehouse.kept, warehouse.path, nobodys) == 0
    assert described(nobodys.getvalue())[0]["prefix"] is None
    warehouse.schemas.append(schema(("id", "int"), ("v", "int")))
    warehouse.take(
        Change(op="c", seq=1, after={"id": 1, "v": 1}),
        Change(op="c", seq=2, after={"id": 2, "v": 2}),
        Change(op="d", seq=3, before={"id": 2, "v": 2}),
    )
    (Path(warehouse.path) / ORIGIN).write_text(json.dumps({"prefix": "aq", "cluster": "c"}))
    to = Watched('"columns"', lambda: warehouse.take(Change(op="t", seq=4)))
    assert dump(warehouse.kept, warehouse.path, to) == 2
    head, table, *rows, end = described(to.getvalue())
    assert (head["prefix"], head["cluster"], head["applied"]) == ("aq", "c", [[*TOPIC, 3]])
    assert (table["columns"], table["types"], table["key"]) == (["id", "v"], ["int", "int"], ["id"])
    assert sorted(row["seq"] for row in rows) == [3, 4]  # emptied, and the ledger had not said so
    assert all(row["deleted"] for row in rows)
    assert end == {"end": True, "tables": 1, "rows": 2, "floors": [["shop", "t", "shop", 1, 4]]}


def test_a_dump_that_fails_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    with pytest.raises(TypeError):
        write_half(file)
    assert list(tmp_path.iterdir()) == []
    with written(file) as to:
        to.write("whole")
        assert not file.exists()
    with pytest.raises(TypeError):
        write_half(file)
    assert [(each, each.read_text()) for each in tmp_path.iterdir()] == [(file, "whole")]


def test_a_link_still_leads_to_the_file_and_a_pipe_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with written(tmp_path / "link") as to:
        to.write("whole")
    assert (tmp_path / "file").read_text() == "whole"
    assert (tmp_path / "link").is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with written(pipe) as to:
            to.write("row")
        assert os.read(reader, 9) == b"row"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
