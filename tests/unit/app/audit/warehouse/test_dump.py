"""A file that the sink has written of its warehouse: taken whole and of this warehouse, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.audit.errors import WarehouseUnreadable
from app.audit.warehouse.dump import Origin, given_dump, lines

WHOSE = Origin("aq", "c")
LINES: list[dict[str, Any]] = [
    {"format": 2, "prefix": "aq", "cluster": "c", "warehouse": "/wh", "applied": []},
    {"database": "shop", "table": "t", "columns": ["id"], "types": ["int"], "key": ["id"]},
    *({"seq": seq, "values": {"c0": seq}} for seq in range(3)),
    {"end": True, "tables": 1, "rows": 3, "floors": []},
]


@pytest.fixture
def whole_file(tmp_path: Path) -> Path:
    file = tmp_path / "dump.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return file


@pytest.mark.remedy("WarehouseUnreadable")
@pytest.mark.parametrize("text", ['{"format": 1}\n', '{"format": 3}\n', "no json\n", "[]\n"])
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, whole_file: Path, text: str) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(text)
    with given_dump(file) as found, pytest.raises(WarehouseUnreadable, match="not a dump"):
        list(lines(found, WHOSE))
    with pytest.raises(WarehouseUnreadable, match="not a file"), given_dump(tmp_path / "none"):
        pass
    # The sink's own, as `dump` has written it.
    with given_dump(whole_file) as found:
        assert list(lines(found, WHOSE))


@pytest.mark.parametrize("cut", range(6))
def test_a_dump_that_is_cut_anywhere_is_refused(whole_file: Path, cut: int) -> None:
    file = whole_file
    whole = file.read_text().splitlines(keepends=True)
    assert len(whole) == len(list(lines(file, WHOSE))) == 6
    for text in ("".join(whole[:cut]), "".join(whole[:cut]) + whole[cut][:9]):
        file.write_text(text)
        with pytest.raises(
            WarehouseUnreadable, match=r"is empty|incomplete|truncated or damaged|not a dump"
        ):
            list(lines(file, WHOSE))
    file.write_text("".join(whole[:3] + whole[4:]))
    with pytest.raises(WarehouseUnreadable, match="1 tables and 2 rows, expected 1 and 3"):
        list(lines(file, WHOSE))
    file.write_text("".join([*whole, whole[2]]))
    with pytest.raises(WarehouseUnreadable, match="continues past its end"):
        list(lines(file, WHOSE))


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({"prefix": None}, "no sink has ever written to this warehouse.*warehouse=/wh"),
        ({"prefix": "aq2"}, "with prefix 'aq2', the worker's is 'aq'"),
        ({"cluster": "d"}, "with Kafka cluster 'd', the worker's is 'c'"),
    ],
)
def test_a_dump_of_another_warehouse_is_refused(
    whole_file: Path, described: dict[str, Any], says: str
) -> None:
    file = whole_file
    assert list(lines(file, Origin("aq")))  # nothing states the cluster
    first, _, rest = file.read_text().partition("\n")
    file.write_text(json.dumps(json.loads(first) | described) + "\n" + rest)
    with pytest.raises(WarehouseUnreadable, match=says):
        list(lines(file, WHOSE))
