"""Table and column names that Spark could interpret as variables, patterns or paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hostile import NAMES
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COLUMNS = tuple((name, "varchar(20)") for name in NAMES)


@pytest.mark.long("integration/process/test_hostile_names.py has such names, to the warehouse")
def test_columns_of_any_name_keep_their_values(warehouse: Warehouse) -> None:
    key = ("${env:HOME}", "new\nline")
    warehouse.schemas = [
        schema(*COLUMNS, key=key),
        schema(*COLUMNS, ("${late}", "int"), key=key, version=2),
    ]
    first: dict[str, Any] = {name: f"v{number}" for number, name in enumerate(NAMES)}
    second = first | {"${env:HOME}": "other", "${x}": "2"}
    warehouse.take(Change(op="c", seq=1, after=first), Change(op="c", seq=2, after=second))
    changed = first | {"${x}": "changed", "..": None, "${late}": 5}
    warehouse.take(Change(op="u", seq=3, before=first, after=changed, version=2))
    rows = warehouse.rows()
    assert sorted((row["${x}"], row["${late}"], row[".."]) for row in rows) == [
        ("2", None, second[".."]),
        ("changed", 5, None),
    ]
    assert all(set(row) == {*NAMES, "${late}"} for row in rows)
    warehouse.take(Change(op="t", seq=4), Change(op="c", seq=5, after=first))
    assert warehouse.rows() == [first | {"${late}": None}]


@pytest.mark.long("the keyed table above has the same names")
def test_a_table_without_a_key_takes_columns_of_any_name(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(*COLUMNS, key=())]
    one: dict[str, Any] = {name: f"v{number}" for number, name in enumerate(NAMES)}
    other, changed = one | {"${x}": None}, one | {"new\nline": "${x}"}
    warehouse.take(
        *(Change(op="c", seq=seq, after=one) for seq in (1, 2)), Change(op="c", seq=3, after=other)
    )
    warehouse.take(
        Change(op="u", seq=4, before=one, after=changed), Change(op="d", seq=5, before=other)
    )
    assert sorted(row["new\nline"] for row in warehouse.rows()) == ["${x}", one["new\nline"]]
    assert all(row in (one, changed) for row in warehouse.rows())


def test_tables_of_any_name_stay_apart_within_the_warehouse(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    names = ("${x}", "..", "`'\"\n")
    warehouse.schemas = [schema(("id", "int"), ("n", "int"), table=name) for name in names]
    warehouse.take(
        *(
            Change(op="c", seq=number, after={"id": 1, "n": number}, table=name)
            for number, name in enumerate(names)
        )
    )
    assert [warehouse.rows(name) for name in names] == [
        [{"id": 1, "n": number}] for number in range(len(names))
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"wh"}
