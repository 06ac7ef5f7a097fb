"""The warehouse against records: each kind of difference found, and what is none not taken for one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auditing.errors import WarehouseUnreadable
from app.auditing.published import Described
from app.auditing.table_verdict import TableVerdict, lines
from app.auditing.verdict import Verdict
from app.auditing.warehouse import Warehouse
from app.auditing.warehouse_dump import given
from app.auditing.warehouse_dump import lines as lines_of
from app.auditing.warehouse_store import WarehouseStore
from app.auditing.warehouse_values import different
from connectors.kafka.reading import StoredRecord

TOPIC = "aq.shop.t"
VERSION = Described(
    columns=("id", "v"),
    types=("int", "varchar(9)"),
    charsets=(None, "utf8mb4"),
    primary_key=("id",),
    topic=TOPIC,
)


def row(seq: int, *values: Any, **more: Any) -> dict[str, Any]:
    """A row as the sink tells it."""
    told = {"destination": "shop", "epoch": 1, "seq": seq, "deleted": False, "version": 1}
    named = {f"c{at}": value for at, value in enumerate(values)}
    return {**told, "unrepresentable": None, "delta": 0, "values": named, **more}


def change(op: str, seq: int, image: dict[str, Any], *, keyed: bool = True) -> dict[str, Any]:
    """A record's value."""
    source = {"db": "shop", "table": "t", "epoch": 1, "seq": seq, "schema": 1}
    images = {"before": image if op in "d" else None, "after": image if op in "cu" else None}
    return {**images, "op": op, "source": source, "keyed": keyed}


class Case:
    """A dump, and the records that it is held against."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applied = 100
        self.floors: list[list[Any]] = []
        self.cut: set[str] = set()

    def dump(self, rows: Iterable[dict[str, Any]]) -> Path:
        head = {
            "format": 1,
            "applied": [[TOPIC, 0, self.applied]],
            "floors": self.floors,
        }
        table = {"database": "shop", "table": "t", "columns": ["id", "v"], "key": ["id"]}
        file = self.folder / "dump.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in (head, table, *rows)))
        return file

    def verdict(
        self, rows: Iterable[dict[str, Any]], changes: Iterable[dict[str, Any]]
    ) -> TableVerdict:
        """Records have their number as their offset."""
        seen = set()
        with WarehouseStore() as store:
            warehouse = Warehouse(store, self.dump(rows), "shop")
            for value in changes:
                seq = value["source"]["seq"]
                seen.add(seq)
                image = value["after"] or value["before"] or {}
                key = orjson.dumps({"id": image.get("id")}) if value["keyed"] else b""
                record = StoredRecord(key, orjson.dumps(value), seq)
                warehouse.take(TOPIC, 0, record, value)
            (found,) = warehouse.judge({("shop", "t", 1): VERSION}, seen.__contains__, cut=self.cut)
        return found


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


HISTORY = [
    change("c", 1, {"id": 1, "v": "a"}),
    change("c", 2, {"id": 2, "v": "b"}),
    change("u", 3, {"id": 1, "v": "c"}),
    change("c", 4, {"id": 3, "v": "d"}),
    change("d", 5, {"id": 3, "v": "d"}),
]
RIGHT = [row(2, 2, "b"), row(3, 1, "c"), row(5, 3, None, deleted=True)]


def counted(found: TableVerdict) -> tuple[int, int, int]:
    return found.missing, found.extra, found.different


def test_a_table_that_is_equal_has_no_fault(case: Case) -> None:
    found = case.verdict(RIGHT, HISTORY)
    assert found.line() == "shop.t: rows=2 missing=0 extra=0 different=0 behind=0"
    assert counted(case.verdict(RIGHT[:2], HISTORY)) == (0, 0, 0)  # the marker may be gone


@pytest.mark.parametrize(
    ("rows", "counts", "told"),
    [
        (RIGHT[1:], (1, 0, 0), "missing: seq 2 [0]@2"),
        ([RIGHT[0] | {"deleted": True}, *RIGHT[1:]], (1, 0, 0), "missing: seq 2"),
        ([*RIGHT[:2], row(4, 3, "d")], (0, 1, 0), "extra: seq 4"),
        ([*RIGHT, row(9, 9, "z")], (0, 1, 0), "extra: seq 9"),
        ([*RIGHT, RIGHT[0]], (0, 1, 0), "extra: seq 2: this row is there 2 times"),
        ([row(2, 2, "B"), *RIGHT[1:]], (0, 0, 1), "different: seq 2 [0]@2: v has another value"),
        ([row(2, 2, None), *RIGHT[1:]], (0, 0, 1), "v has another value"),
        ([RIGHT[0], row(1, 1, "a")], (0, 0, 1), "different: seq 3 [0]@3: the row is as seq 1"),
        ([row(2, 2, "b", version=2), *RIGHT[1:]], (0, 0, 1), "version 2"),
        ([row(2, 2, "b", epoch=2), *RIGHT[1:]], (0, 0, 1), "the row is as seq 2 made it"),
    ],
)
def test_each_difference_is_found_and_told_by_its_change(
    case: Case, rows: list[dict[str, Any]], counts: tuple[int, int, int], told: str
) -> None:
    found = case.verdict(rows, HISTORY)
    assert counted(found) == counts
    assert any(told in line for line in found.shown), found.shown
    assert found.faults == 1
    verdict = Verdict(destination="shop", tables=[found])
    assert not verdict.is_clean
    assert verdict.to_json()["warehouse"][0]["findings"] == found.shown
    assert verdict.lines()[-2].startswith("warehouse: tables=1 rows=2 ")
    assert lines([found])[1].startswith("  ")


def test_what_the_sink_has_not_applied_yet_is_behind_and_no_fault(case: Case) -> None:
    case.applied = 3
    found = case.verdict([row(1, 1, "a"), row(2, 2, "b")], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.behind == 3


def test_what_a_sink_at_work_has_merged_ahead_of_its_ledger_is_no_fault(case: Case) -> None:
    case.applied = 2
    assert counted(case.verdict(RIGHT, HISTORY)) == (0, 0, 0)
    ahead = [row(3, 1, "wrong"), *RIGHT[:1]]
    assert counted(case.verdict(ahead, HISTORY)) == (0, 0, 1)


def test_a_truncate_leaves_nothing_of_what_came_before_it(case: Case) -> None:
    history = [*HISTORY, change("t", 6, {}, keyed=False), change("c", 7, {"id": 1, "v": "n"})]
    emptied = [row(6, 2, None, deleted=True), row(6, 3, None, deleted=True), row(7, 1, "n")]
    assert counted(case.verdict(emptied, history)) == (0, 0, 0)
    assert counted(case.verdict([*emptied, row(2, 2, "b")], history)) == (0, 1, 0)
    # While a sink is about to apply it, its rows may be there or not.
    case.applied, case.floors = 6, [["shop", "t", "shop", 1, 6]]
    for rows in (RIGHT, RIGHT[:1], emptied[:2]):
        assert counted(case.verdict(rows, history)) == (0, 0, 0)


def test_a_log_without_key_has_each_image_once(case: Case) -> None:
    history = [
        change("c", 1, {"id": 1, "v": "a"}, keyed=False),
        change("c", 2, {"id": 1, "v": "a"}, keyed=False),
        change("d", 3, {"id": 1, "v": "a"}, keyed=False),
    ]
    log = [row(1, 1, "a", delta=1), row(2, 1, "a", delta=1), row(3, 1, "a", delta=-1)]
    assert counted(case.verdict(log, history)) == (0, 0, 0)
    assert counted(case.verdict(log[1:], history)) == (1, 0, 0)
    assert counted(case.verdict([*log, row(3, 1, "a", delta=1)], history)) == (0, 1, 0)


def test_rows_of_others_and_of_records_that_are_gone_are_not_judged(case: Case) -> None:
    other = row(2, 2, "theirs", destination="other")
    found = case.verdict([other, *RIGHT[1:]], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.unjudged.total() == 1
    case.cut = {TOPIC}
    found = case.verdict([*RIGHT, row(9, 9, "older")], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.unjudged.total() == 1


def test_a_row_whose_images_are_not_at_hand_is_looked_for_all_the_same(case: Case) -> None:
    pointer = change("c", 6, {"id": 4, "v": "x"})
    pointer["after"] = None
    found = case.verdict([*RIGHT, row(6, 4, "x")], [*HISTORY, pointer])
    assert counted(found) == (0, 0, 0)
    assert found.unjudged.total() == 1
    assert counted(case.verdict(RIGHT, [*HISTORY, pointer])) == (1, 0, 0)


@pytest.mark.parametrize(
    ("kind", "wire", "held", "same"),
    [
        ("bigint unsigned", 18446744073709551615, "18446744073709551615", True),
        ("bigint unsigned", 18446744073709551615, "18446744073709551614", False),
        ("decimal(5,2)", "12.50", "12.5000", True),
        ("decimal(5,2)", "12.50", "12.51", False),
        ("float", 0.1, 0.10000000149011612, True),
        ("double", 0.1, 0.10000000149011612, False),
        ("date", "2026-01-01", "2026-01-01 00:00:00", True),
        ("datetime(6)", "2026-01-01T10:00:00.120000", "2026-01-01 10:00:00.12", True),
        ("datetime", "2026-01-01T10:00:01", "2026-01-01 10:00:00", False),
        ("timestamp", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00", True),
        ("varchar(9)", "12.50", "12.5", False),
        ("vector(2)", [0.5, 0.1], [0.5, 0.10000000149011612], True),
        ("geometry", {"srid": 0, "wkb": "AQ=="}, {"srid": 0, "wkb": "AQ=="}, True),
        ("int", 5, "five", False),
    ],
)
def test_values_are_equal_by_value_and_not_by_form(
    kind: str, wire: Any, held: Any, same: bool
) -> None:
    assert (different({"V": wire}, {"V": kind}, {"v": held}, {}) is None) is same


def test_a_zero_date_is_what_stands_beside_and_no_null() -> None:
    zero, types = {"d": "0000-00-00"}, {"d": "date"}
    assert different(zero, types, {"d": None}, {"d": "0000-00-00"}) is None
    assert different(zero, types, {"d": None}, {}) == "d"
    assert different({"d": None}, types, {"d": None}, {"d": "0000-00-00"}) == "d"
    assert different({"d": None}, types, {"d": None}, {}) is None


def test_a_column_that_a_version_does_not_have_is_empty_in_its_rows() -> None:
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": None}, {}) is None
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": 2}, {}) == "dropped"
    assert different({"a": 1, "b": 2}, {"a": "int"}, {"a": 1}, {}) == "b"


@pytest.mark.parametrize("text", ['{"format": 2}\n', "no json\n", "[]\n"])
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_text(text)
    with given(file) as found, pytest.raises(WarehouseUnreadable, match="no dump"):
        list(lines_of(found))
    with pytest.raises(WarehouseUnreadable, match="not a file"), given(tmp_path / "none"):
        pass
