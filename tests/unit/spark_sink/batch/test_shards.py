"""Shards in one table: several source tables with the same keys, none of which touches another's rows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_sink.errors import KeyChanged
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.warehouse.delta.ddl import create_sql
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.conftest import TOPIC, Warehouse, of_delta
from tests.unit.spark_sink.history import Change, Image, schema
from tests.unit.spark_sink.warehouse.test_maintenance_schedule import kept

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
COLUMNS = (("id", "int"), ("v", "int"))
TABLES = [("shop", "t_0"), ("shop", "t_1")]
SERVERS = [("shop", "t"), ("crm", "t")]
"""Source tables that a mapping maps to one warehouse table."""


def shards(warehouse: Warehouse, sources: list[tuple[str, str]], **more: Any) -> list[Any]:
    """The writer of a change of each shard."""
    warehouse.schemas += [
        schema(*COLUMNS, destination=destination, table=table, **more)
        for destination, table in sources
    ]

    def written(destination: str, table: str) -> Any:
        def change(op: str, seq: int, image: Image | None = None, **other: Any) -> Change:
            images = {"before": image} if op == "d" else {"after": image} if image else {}
            where: dict[str, Any] = {"destination": destination, "table": table}
            return Change(op=op, seq=seq, logical=("shop", "t"), **{**where, **images, **other})

        return change

    return [written(*source) for source in sources]


def row(key: int, value: int) -> Image:
    return {"id": key, "v": value}


def held(warehouse: Warehouse) -> dict[tuple[str, str, int], int]:
    """The value of each key of each source."""
    return {
        (one["__destination"], one["__source_table"] or "t", one["id"]): one["v"]
        for one in warehouse.rows(bookkeeping=True)
    }


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param(TABLES, id="tables"),
        pytest.param(
            SERVERS,
            id="servers",
            marks=pytest.mark.long("the other parameter; the warehouses' contract has servers"),
        ),
    ],
)
def test_equal_keys_of_two_shards_are_two_rows_whatever_becomes_of_one(
    warehouse: Warehouse, sources: list[tuple[str, str]]
) -> None:
    a, b = shards(warehouse, sources)
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)), b("c", 4, row(2, 22)))
    (one, other) = sources
    assert held(warehouse) == {(*one, 1): 10, (*other, 1): 20, (*other, 2): 22}
    warehouse.take(a("c", 5, row(2, 12)), a("d", 6, row(1, 10)))
    assert held(warehouse) == {(*one, 2): 12, (*other, 1): 20, (*other, 2): 22}
    # What marks a deleted row has none of its values.
    assert [(row.id, row.v) for row in warehouse.stored().where("__deleted").collect()] == [
        (1, None)
    ]
    # A truncate of one, in the same batch as a row of the other that was written before it.
    warehouse.take(b("c", 7, row(3, 23)), a("t", 8), a("c", 9, row(3, 13)))
    left = {(*one, 3): 13, (*other, 1): 20, (*other, 2): 22, (*other, 3): 23}
    assert held(warehouse) == left
    warehouse.restart()
    warehouse.catch_up({TOPIC: 0})
    assert held(warehouse) == left
    # The floor of one keeps its late rows out, and those of the other in.
    warehouse.restart()
    warehouse.take(a("c", 3, row(4, 14)), b("c", 3, row(4, 24)))
    assert held(warehouse) == {**left, (*other, 4): 24}
    warehouse.reload(from_beginning=True)
    assert held(warehouse) == {**left, (*other, 4): 24}


def test_two_shards_without_a_key_keep_their_own_images(warehouse: Warehouse) -> None:
    a, b = shards(warehouse, TABLES, key=())
    warehouse.take(a("c", 1, row(1, 1)), b("c", 2, row(1, 1)), b("c", 3, row(2, 2)))
    # Whatever removes an image that is still to come leaves that of the other shard in sight.
    warehouse.take(b("d", 9, row(1, 1)), b("d", 10, row(1, 1)))
    assert [one["v"] for one in warehouse.rows()].count(1) == 1
    warehouse.take(a("t", 11))
    assert [one["v"] for one in warehouse.rows()] == [2]


@pytest.mark.long("test_waiting_tables.py converts a key, the contract keeps sources apart")
def test_a_key_that_changes_converts_each_shards_rows(warehouse: Warehouse) -> None:
    a, b = shards(warehouse, TABLES)
    warehouse.take(a("c", 1, row(1, 5)), b("c", 2, row(1, 5)))
    warehouse.schemas += [schema(*COLUMNS, table=t, key=("v",), version=2) for _, t in TABLES]
    with pytest.raises(KeyChanged, match=r"shop\.t"):
        warehouse.take(a("u", 3, row(1, 5), before=row(1, 5), version=2))
    warehouse.write(b("c", 4, row(2, 6), version=2))
    warehouse.reload()
    assert held(warehouse) == {("shop", "t_0", 1): 5, ("shop", "t_1", 1): 5, ("shop", "t_1", 2): 6}


def test_an_image_that_lacks_columns_is_completed_from_its_own_shard(warehouse: Warehouse) -> None:
    a, b = shards(warehouse, TABLES)
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)))
    partial = {"before": {"id": 1}, "more": {"absent": ["v"]}}
    warehouse.take(a("u", 3, {"id": 1}, **partial), b("u", 4, row(1, 21), before=row(1, 20)))
    assert held(warehouse) == {("shop", "t_0", 1): 10, ("shop", "t_1", 1): 21}


@pytest.mark.long(
    "the contract purges markers and keeps sources apart; test_marker_purge.py has the rule"
)
def test_the_purge_of_one_shards_markers_waits_for_no_other_and_spares_its_rows(
    warehouse: Warehouse,
) -> None:
    a, b = shards(warehouse, [("shop", "t_0"), ("crm", "t_1")])
    old = int(time.time() * 1000) - 50 * 3_600_000
    warehouse.take(a("c", 1, row(1, 10), ts_ms=old), b("c", 1, row(1, 20), ts_ms=old))
    warehouse.take(a("d", 2, row(1, 10), ts_ms=old), b("t", 2, ts_ms=old), b("c", 3, row(1, 30)))
    kept(warehouse, Plan(every=1, purge_deleted_hours=10)).maintain(("shop", "t"))
    rows = warehouse.stored().collect()
    assert [(one["__source_table"], one["v"]) for one in rows] == [("t_1", 30)]


@of_delta
def test_a_table_of_the_version_before_takes_mapped_rows_beside_its_own(
    warehouse: Warehouse,
) -> None:
    spark, path = warehouse.spark, f"{warehouse.path}/shop/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (`id` int, `v` int, `__destination` string, `__epoch` bigint, "
        "`__seq` bigint, `__deleted` boolean, `__schema` int, `__ts_ms` bigint, "
        "`__unrepresentable` map<string,string>) USING delta TBLPROPERTIES "
        """('aqueduct.primary_key' = '["id"]', 'aqueduct.table' = '["shop", "t"]')"""
    )
    spark.sql(
        f"INSERT INTO delta.`{path}` VALUES (1, 10, 'shop', 1, 5, false, 1, 1, NULL),"
        "(2, 20, 'shop', 1, 2, true, 1, 1, NULL)"
    )
    spark.sql("SELECT 'shop' AS database, 't' AS `table`, 'shop' AS destination, 1L AS epoch, 4L AS seq,"
              " 1L AS ts_ms").write.format("delta").save(f"{warehouse.path}/__floors")  # fmt: skip
    own = Source("shop", "shop", "t")
    assert [(one.source, one.place) for one in warehouse.kept.log.floors()] == [(own, (1, 4))]
    warehouse.kept.log.make()
    warehouse.schemas = [schema(*COLUMNS)]
    late = Change(op="c", seq=3, after=row(3, 30))
    warehouse.take(late, Change(op="c", seq=6, after=row(4, 40)))
    names = spark.read.format("delta").load(path).columns
    assert not [name for name in names if name.startswith("__source")]
    (a,) = shards(warehouse, [("shop", "t_0")])
    warehouse.take(a("c", 3, row(1, 11)), a("t", 2))
    assert held(warehouse) == {
        ("shop", "t", 1): 10,
        ("shop", "t", 4): 40,
        ("shop", "t_0", 1): 11,
    }
    # Once mapped too, it keeps the rows that it had.
    (same,) = shards(warehouse, [("shop", "t")])
    warehouse.take(same("c", 7, row(1, 12)), late)
    assert held(warehouse)["shop", "t", 1] == 12
    assert len(held(warehouse)) == 3
    places = {one.source: one.place for one in open_warehouse(spark, warehouse.path).log.floors()}
    assert places == {own: (1, 4), Source("shop", "shop", "t_0"): (1, 2)}


def test_a_table_with_one_source_has_the_columns_that_it_always_had() -> None:
    shape = Shape("shop", "t", (("id", "int"),), ("id",))
    assert create_sql("/w", shape) == (
        "CREATE TABLE IF NOT EXISTS delta.`/w` (`id` int, `__destination` string, `__epoch` bigint, `__seq` "
        "bigint, `__deleted` boolean, `__schema` int, `__ts_ms` bigint, `__unrepresentable` "
        "map<string,string>) USING delta TBLPROPERTIES ('aqueduct.primary_key' = '[\"id\"]', "
        '\'aqueduct.table\' = \'["shop", "t"]\', \'aqueduct.columns\' = \'{"made":{"id":"int",'
        '"__destination":"string","__epoch":"bigint","__seq":"bigint","__deleted":"boolean","__schema":"int",'
        '"__ts_ms":"bigint","__unrepresentable":"map<string,string>"}}\', \'delta.enableDeletionVectors\' = '
        "'true')"
    )


def test_a_table_that_comes_under_a_mapping_within_a_batch_has_rows_in_two_tables(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table="t_0")]
    warehouse.take(
        Change(op="c", seq=1, table="t_0", after=row(1, 10)),
        Change(op="c", seq=2, table="t_0", logical=("shop", "t"), after=row(2, 20)),
    )
    assert [(one["id"], one["v"]) for one in warehouse.rows("t_0")] == [(1, 10)]
    assert [(one["id"], one["v"]) for one in warehouse.rows("t")] == [(2, 20)]
