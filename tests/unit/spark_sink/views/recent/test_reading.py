"""Tables with recent changes are what they will be once these are merged."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from pyspark.sql import DataFrame

from spark_sink.errors import UnknownTable
from spark_sink.text.quoting import literal
from spark_sink.views.recent.follower import stored
from spark_sink.views.recent.reading import fresh, fresh_tables
from spark_sink.warehouse.common.own_tables import joined, texts
from spark_sink.warehouse.coverage import Cut, Step
from tests.unit.spark_sink.batch.test_apply import by_id, random_history
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, held, logged, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(("id",), id="keyed"),
        pytest.param((), id="log", marks=pytest.mark.long("the other parameter")),
    ],
)
def test_recent_changes_before_while_and_after_they_are_merged(
    warehouse: Warehouse, key: tuple[str, ...]
) -> None:
    history = random_history(random.Random(7), 60)
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), key=key)]

    def expected(until: int) -> Any:
        rows = held(history[:until]) if key else logged(history[:until])
        return rows if key else sorted((row["id"], row["v"]) for row in rows)

    def found() -> Any:
        rows = warehouse.fresh()
        return by_id(rows) if key else sorted((row["id"], row["v"]) for row in rows)

    warehouse.take(*history[:20])
    start = warehouse.ends()
    for change in history[20:35]:
        warehouse.write(change)
    warehouse.store(start, Step.BEGIN)
    middle = warehouse.ends()
    for change in history[35:50]:
        warehouse.write(change)
    warehouse.store(middle)
    assert found() == expected(50)
    # Merged up to the middle, and again with all of it.
    warehouse.catch_up(start)
    assert found() == expected(50), "all is merged, and still stored"
    last = warehouse.ends()
    for change in history[50:]:
        warehouse.write(change)
    warehouse.store(last, Step.ADVANCE)
    assert found() == expected(60), "what is merged was removed"
    recent = warehouse.kept.recent.newest()
    assert recent is not None
    assert recent.records.count() == 10


def test_a_table_is_read_before_its_first_merge_and_with_columns_of_a_later_version(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.write(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    warehouse.store({TOPIC: 0}, Step.BEGIN)
    assert warehouse.fresh() == [{"id": 1, "v": 1}]
    with pytest.raises(UnknownTable):
        warehouse.fresh("other")
    warehouse.catch_up({TOPIC: 0})
    start = warehouse.ends()
    warehouse.schemas += [schema(("id", "int"), ("v", "bigint"), ("w", "date"), version=2)]
    warehouse.write(
        Change(op="c", seq=2, version=2, after={"id": 2, "v": 2**40, "w": "2026-01-02"})
    )
    warehouse.store(start, Step.BEGIN)
    rows = by_id(warehouse.fresh())
    assert rows[1] == {"id": 1, "v": 1, "w": None}
    assert (rows[2]["v"], str(rows[2]["w"])) == (2**40, "2026-01-02")


def test_recent_changes_after_a_gap_are_not_read(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    missed = Change(op="u", seq=2, before={"id": 1, "v": 1}, after={"id": 1, "v": 2})
    start = warehouse.ends()
    warehouse.write(missed)
    later = warehouse.ends()
    warehouse.write(Change(op="c", seq=3, after={"id": 3, "v": 3}))
    warehouse.store(later, Step.BEGIN)
    assert by_id(warehouse.fresh()) == {1: {"id": 1, "v": 1}}
    warehouse.catch_up(start)
    assert set(by_id(warehouse.fresh())) == {1, 3}


def test_a_waiting_table_and_one_with_an_unusable_change_are_read_as_merged(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    start = warehouse.ends()
    warehouse.schemas += [schema(("id", "int"), ("v", "int"), key=("v",), version=2)]
    warehouse.write(Change(op="c", seq=2, version=2, after={"id": 2, "v": 2}))
    warehouse.store(start, Step.BEGIN)
    assert by_id(warehouse.fresh()) == {1: {"id": 1, "v": 1}}, "another key"
    warehouse.catch_up(start)
    assert warehouse.waiting() is not None
    assert by_id(warehouse.fresh()) == {1: {"id": 1, "v": 1}}


def test_images_that_lack_columns_are_completed_by_the_merged_rows(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), ("w", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1, "w": 5}))
    start = warehouse.ends()
    more = {"absent": ["w"]}
    image = {"id": 1, "v": 2}
    warehouse.write(Change(op="u", seq=2, before={"id": 1, "v": 1}, after=image, more=more))
    warehouse.store(start, Step.BEGIN)
    assert warehouse.fresh() == [{"id": 1, "v": 2, "w": 5}]


def test_a_deleted_row_does_not_return_once_its_marker_is_purged(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    start = warehouse.ends()
    row = {"id": 1, "v": 1}
    warehouse.write(Change(op="c", seq=1, after=row))
    warehouse.store(start, Step.BEGIN)
    warehouse.write(Change(op="d", seq=2, before=row))
    # From here on, nothing is stored as recent.
    warehouse.catch_up(start)
    warehouse.kept.upkeep.purge(("shop", "t"), 2**62)
    assert warehouse.fresh() == []


def test_tables_read_together_end_at_the_same_offsets(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), table=name) for name in ("a", "b")]
    start = warehouse.ends()
    for seq, name in enumerate("abab"):
        warehouse.write(Change(op="c", seq=seq + 1, table=name, after={"id": seq, "v": 1}))
    warehouse.store(start, Step.BEGIN)
    names = [("shop", "a"), ("shop", "b"), ("shop", "t")]
    with pytest.raises(UnknownTable, match=r"shop\.t"):
        fresh_tables(warehouse.spark, warehouse.path, names)
    both = fresh_tables(warehouse.spark, warehouse.path, names[:2])
    warehouse.catch_up(start)
    assert {name: [row.id for row in rows.collect()] for name, rows in both.items()} == {
        ("shop", "a"): [0, 2],
        ("shop", "b"): [1, 3],
    }


@pytest.mark.long("recent/test_follower.py has what a beginning holds")
def test_what_a_reader_is_handed_and_its_plan_are_flat_beside_5000_other_tables(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(number: int) -> None:
        warehouse.write(Change(op="c", seq=number, version=number, after={"id": number, "v": 1}))

    def read(number: int, *, others: int) -> tuple[int, int]:
        """Reads a change beside versions of others; the sizes of what the driver gets, and of the plan."""
        start = warehouse.ends()
        change(number)
        rows = stored(warehouse.read(start, warehouse.ends()), "aq.__schemas", "aq.__ddl.")
        rows = joined(rows, texts(rows, "version", warehouse.schemas))
        other = literal(schema(("id", "int"), ("w", "int"), table="other@"))
        beside = warehouse.spark.range(others, numPartitions=1).selectExpr(
            "'version' AS kind", f"replace({other}, '@', id) AS text"
        )
        cut = Cut(since=start, until=warehouse.ends(), at_ms=number)
        warehouse.kept.recent.begin(joined(rows, beside), cut)
        sizes.clear()
        found = fresh(warehouse.spark, warehouse.path, "shop", "t")
        handed = sum(sizes)
        assert sorted(found.collect()) == [(one, 1) for one in (*merged, number)]
        plan: Any = found._jdf.queryExecution()
        warehouse.catch_up(start)
        merged.append(number)
        return handed, len(re.sub(r"#\d+L?", "", plan.toString()))

    sizes, merged = list[int](), [1]
    kind: Any = type(warehouse.spark.range(1))
    collect = kind.collect

    def counted(frame: DataFrame) -> Any:
        rows = collect(frame)
        sizes.append(sum(len(str(row)) for row in rows))
        return rows

    monkeypatch.setattr(kind, "collect", counted)
    warehouse.schemas = [
        schema(("id", "int"), ("v", "int"), version=number) for number in (1, 2, 3)
    ]
    change(1)
    warehouse.catch_up({TOPIC: 0})
    alone = read(2, others=0)
    beside = read(3, others=5_000)
    assert beside[0] < alone[0] + 1_000, "versions of other tables were handed to it"
    assert beside[1] < alone[1] + 100
