"""Batches on a real Spark and Delta: any order, any mixture, the same tables."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import logging
import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch import table_merge
from spark_sink.errors import (
    ForeignRecords,
    MalformedRecord,
    SparkFailed,
    TypeConflict,
    UnknownSchema,
    UnknownTable,
    UnsupportedPartialImage,
    UnsupportedWire,
)
from spark_sink.source.envelope import FIELDS
from spark_sink.spark.jobs import Pace
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, held, logged, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def by_id(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {row["id"]: row for row in rows}


def random_history(rng: random.Random, length: int) -> list[Change]:
    """Inserts, updates, deletes, key changes and truncates of a table with few keys."""
    rows: dict[int, dict[str, Any]] = {}
    changes: list[Change] = []
    while len(changes) < length:
        seq, epoch = len(changes) + 1, 1 + len(changes) // 15
        key, new = rng.randrange(8), {"id": rng.randrange(8), "v": rng.randrange(1000)}
        row = rows.get(key)
        if rng.random() < 0.05:
            rows.clear()
            changes.append(Change(op="t", seq=seq, epoch=epoch))
        elif row is None:
            rows[key] = {**new, "id": key}
            changes.append(Change(op="c", seq=seq, epoch=epoch, after=rows[key]))
        elif rng.random() < 0.3 or new["id"] in rows:
            del rows[key]
            changes.append(Change(op="d", seq=seq, epoch=epoch, before=row))
        elif rng.random() < 0.5:
            del rows[key]
            rows[new["id"]] = new
            changes.append(Change(op="d", seq=seq, epoch=epoch, before=row))
            changes.append(Change(op="c", seq=seq + 1, epoch=epoch, after=new))
        else:
            rows[key] = {**new, "id": key}
            changes.append(Change(op="u", seq=seq, epoch=epoch, before=row, after=rows[key]))
    return changes


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(("id",), id="keyed"),
        pytest.param(
            (),
            id="log",
            marks=pytest.mark.long("the other parameter; test_shards.py has tables without a key"),
        ),
    ],
)
def test_batches_in_any_order_and_mixture_and_repeated_give_the_same_table(
    warehouse: Warehouse, seed: int, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every other batch is taken for one too large for the driver.
    sides = itertools.cycle([True, False])
    monkeypatch.setattr("spark_sink.batch.table_merge.few", lambda **_: next(sides))
    rng = random.Random(seed)
    history = random_history(rng, 40)
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), key=key)]
    mixed = rng.sample(history, len(history))
    batches = [mixed[:20], mixed[20:]]
    batches.append(rng.sample(history, 10))
    for batch in batches:
        warehouse.take(*batch)
        warehouse.restart()
    rows = warehouse.rows()
    if key:
        assert by_id(rows) == held(history)
    else:
        order = [(row["id"], row["v"]) for row in rows]
        assert sorted(order) == sorted((row["id"], row["v"]) for row in logged(history))


@pytest.mark.parametrize("at_hand", [True, False], ids=["driver", "executors"])
def test_a_change_that_comes_twice_in_a_batch_is_one_row_of_a_table_without_a_key(
    warehouse: Warehouse, at_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_sink.batch.table_merge.few", lambda **_: at_hand)
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), key=())]
    row = {"id": 1, "v": 1}
    first = Change(op="c", seq=1, after=row)
    second = Change(op="c", seq=2, after=row)
    changed = Change(op="u", seq=3, before=row, after={"id": 1, "v": 2})
    warehouse.take(first, second, changed, first, second, changed)
    assert sorted((row["id"], row["v"]) for row in warehouse.rows()) == [(1, 1), (1, 2)]


def test_between_destinations_the_later_commit_wins_then_the_name(warehouse: Warehouse) -> None:
    columns = (("id", "int"), ("v", "int"))
    warehouse.schemas = [schema(*columns), schema(*columns, destination="crm")]

    def change(destination: str, seq: int, ts_ms: int, **row: int) -> Change:
        return Change(op="r", seq=seq, ts_ms=ts_ms, destination=destination, after=row)

    # Within a batch; the warehouses' contract has it between batches.
    warehouse.take(
        change("shop", 9, 100, id=1, v=1),
        change("crm", 1, 200, id=1, v=2),
        change("crm", 2, 50, id=2, v=1),
        change("shop", 7, 50, id=2, v=2),
    )
    assert {k: row["v"] for k, row in by_id(warehouse.rows()).items()} == {1: 2, 2: 2}


def test_every_value_arrives_exact_and_a_zero_date_is_kept_aside(warehouse: Warehouse) -> None:
    kinds = {
        "id": "bigint unsigned",
        "d": "decimal(38,10)",
        "wide": "decimal(65,2)",
        "f": "float",
        "at": "datetime(6)",
        "day": "date",
        "zero": "date",
        "ts": "timestamp(3)",
        "bits": "bit(3)",
        "place": "point",
        "vec": "vector(2)",
        "odd `name.": "text",
    }
    row = {
        "id": 18446744073709551615,
        "d": "-1234567890123456789012345678.0123456789",
        "wide": "1" * 63 + ".00",
        "f": 0.1,
        "at": "1000-01-01T00:00:00.123456",
        "day": None,
        "zero": "2026-00-10",
        "ts": "2026-11-21T09:15:00.001Z",
        "bits": "BQ==",
        "place": {"srid": 4326, "wkb": "AQE="},
        "vec": [0.5, -1.25],
        "odd `name.": "Zoë 'n",
    }
    warehouse.schemas = [schema(*kinds.items())]
    warehouse.take(Change(op="c", seq=1, after=row))
    (got,) = warehouse.rows(bookkeeping=True)
    assert got["id"] == decimal.Decimal("18446744073709551615")
    assert got["d"] == decimal.Decimal(str(row["d"]))
    assert got["wide"] == row["wide"]
    assert got["f"] == pytest.approx(0.1)
    assert got["at"] == datetime.datetime(1000, 1, 1, 0, 0, 0, 123456)  # noqa: DTZ001 - a DATETIME
    assert got["day"] is None
    assert got["zero"] is None
    assert got["__unrepresentable"] == {"zero": "2026-00-10"}
    assert got["bits"] == b"\x05"
    assert got["place"] == {"srid": 4326, "wkb": b"\x01\x01"}
    assert got["vec"] == [0.5, -1.25]
    assert got["odd `name."] == "Zoë 'n"


def test_zero_dates_in_a_key_stay_apart(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("day", "date"), key=("id", "day"))]
    zero, partial = {"id": 1, "day": "0000-00-00"}, {"id": 1, "day": "2026-00-00"}
    warehouse.take(Change(op="c", seq=1, after=zero), Change(op="c", seq=2, after=partial))
    assert len(warehouse.rows()) == 2
    warehouse.take(Change(op="d", seq=3, before=zero))
    (left,) = warehouse.rows(bookkeeping=True)
    assert left["__unrepresentable"] == {"day": "2026-00-00"}


def test_columns_are_added_and_widened_within_one_batch_and_over_batches(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("gone", "int")),
        schema(("id", "bigint"), ("new at", "datetime"), version=2),
    ]
    new = {"id": 2**40, "new at": "2026-11-21T10:15:00"}
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "gone": 5}))
    warehouse.take(
        Change(op="c", seq=2, after={"id": 2, "gone": 6}),
        Change(op="c", seq=3, version=2, after=new),
    )
    rows = by_id(warehouse.rows())
    assert {k: row["gone"] for k, row in rows.items()} == {1: 5, 2: 6, 2**40: None}
    assert rows[2**40]["new at"] == datetime.datetime(2026, 11, 21, 10, 15)  # noqa: DTZ001 - a DATETIME


def test_a_type_that_cannot_be_widened_stops_before_any_row(warehouse: Warehouse) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("a", "int")),
        schema(("id", "int"), ("a", "text"), version=2),
    ]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "a": 1}))
    with pytest.raises(TypeConflict, match=r"shop\.t\.a"):
        warehouse.take(Change(op="c", seq=2, version=2, after={"id": 2, "a": "x"}))
    assert len(warehouse.rows()) == 1


GOOD = Change(op="c", seq=1, after={"id": 1, "v": 1})


UNUSABLE = [
    (GOOD.value() + "x", MalformedRecord, "not a JSON object"),
    (GOOD.value().replace('"seq":1,', ""), MalformedRecord, "source.seq is missing"),
    (GOOD.value().replace('"schema":1', '"schema":null'), MalformedRecord, "schema is missing"),
    (GOOD.value().replace('"op":"c"', '"op":"x"'), MalformedRecord, "op is none of"),
    (GOOD.value().replace('"op":"c"', '"op":"d"'), MalformedRecord, "do not fit op"),
    (GOOD.value().replace('"v":1', '"v":"x"'), MalformedRecord, "column v holds no int"),
    (GOOD.value().replace('"v":1', '"v":1.5'), MalformedRecord, "column v holds no int"),
    (GOOD.value().replace(',"v":1', ""), MalformedRecord, "columns are not those"),
    (GOOD.value().replace('"id":1', '"id":null'), MalformedRecord, "key column id is null"),
    (GOOD.value()[:-1] + ',"absent":["v"]}', MalformedRecord, "columns are not those"),
    (GOOD.value().replace(',"v":1', "")[:-1] + ',"absent":["v"]}', UnsupportedPartialImage, ""),
]
"""Records that name their table, each with its error."""


def test_unusable_records_stop_their_tables_by_topic_partition_and_offset(
    warehouse: Warehouse,
) -> None:
    tables = [f"t{number}" for number in range(len(UNUSABLE))]
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), table=table) for table in tables]
    # All in one batch, since a batch costs more than its records.
    warehouse.take(
        *(
            value.replace('"table":"t"', f'"table":"{table}"')
            for table, (value, _, _) in zip(tables, UNUSABLE, strict=True)
        )
    )
    for offset, (table, (_, error, reason)) in enumerate(zip(tables, UNUSABLE, strict=True)):
        held = warehouse.waiting(table)
        assert held is not None, (offset, reason)
        assert held.error == error.__name__
        place, _, described = held.reason.partition(": ")
        assert place == f"topic aq.shop.t, partition 0, offset {offset}"
        assert reason in described


def test_an_unusable_record_among_many_of_a_new_table_is_named_and_no_row_is_merged(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_merge, "_ROWS", 0)
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    bad = Change(op="c", seq=2, after={"id": 2, "v": "x"})
    with pytest.raises(
        MalformedRecord, match=r"topic aq\.shop\.t, partition 0, offset 1: column v holds"
    ):
        warehouse.take(GOOD, bad)
    assert warehouse.kept.tables.names() == []


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        ("{", MalformedRecord, "not a JSON object"),
        ("[]", MalformedRecord, "not a JSON object"),
        (GOOD.value().replace('"wire":1', '"wire":2'), UnsupportedWire, "wire 2"),
    ],
)
def test_a_record_without_a_known_table_makes_the_tables_of_its_topic_wait(
    warehouse: Warehouse, value: str, error: type[Exception], reason: str
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), topic="aq.shop.t")]
    with pytest.raises(error, match=reason) as fault:
        warehouse.take(None, value)
    assert "topic aq.shop.t, partition 0, offset 1" in str(fault.value)
    warehouse.reload(skip_unusable=True)
    assert warehouse.waiting() is None


@pytest.mark.remedy("sink.UnsupportedWire")
def test_a_table_with_records_of_a_newer_contract_waits_until_a_sink_that_knows_it_reloads_it(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    newer = Change(op="c", seq=2, after={"id": 2, "v": 2}).value().replace('"wire":1', '"wire":2')
    warehouse.write(GOOD)
    warehouse.write(newer)
    warehouse.catch_up({})
    held = warehouse.waiting()
    assert held is not None
    assert (held.error, warehouse.kept.tables.names()) == ("UnsupportedWire", [])
    assert held.reason.endswith("offset 1: wire 2")
    assert held.action.startswith(
        "Use a sink of the worker's version, then run: python -m spark_sink"
    )
    with pytest.raises(UnsupportedWire):
        warehouse.reload()
    # What a later version has there.
    known = FIELDS["reason"].replace("wire <> 1 ", "wire > 2 ")
    monkeypatch.setitem(FIELDS, "reason", known)
    warehouse.restart()
    warehouse.reload()
    assert sorted(row["id"] for row in warehouse.rows()) == [1, 2]


def test_a_version_that_nobody_wrote_is_a_named_error(warehouse: Warehouse) -> None:
    with pytest.raises(UnknownSchema, match=r"shop\.t version 1"):
        warehouse.take(GOOD)


def test_a_truncate_without_a_schema_is_a_floor_whether_or_not_the_table_is_there(
    warehouse: Warehouse,
) -> None:
    warehouse.take(Change(op="t", seq=5, version=None))
    with pytest.raises(UnknownTable):
        warehouse.rows()
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.restart()
    late = Change(op="c", seq=4, after={"id": 4, "v": 4})
    warehouse.take(late, Change(op="c", seq=6, after={"id": 6, "v": 6}))
    assert [row["id"] for row in warehouse.rows()] == [6]
    warehouse.take(Change(op="t", seq=7, version=None))
    assert warehouse.rows() == []


def test_the_ledger_has_what_was_applied_and_metrics_count_it(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(GOOD)
    warehouse.take(GOOD, None)
    assert warehouse.kept.log.applied() == {("aq.shop.t", 0): 3}
    count = warehouse.metrics.registry.get_sample_value
    assert count("aqueduct_sink_batches_total") == 2
    assert count("aqueduct_sink_rows_total", {"table": "shop.t", "op": "c"}) == 2
    assert count("aqueduct_sink_applied_offset", {"topic": "aq.shop.t", "partition": "0"}) == 3


def test_the_first_batch_of_each_process_is_announced_since_it_takes_longest(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "spark_sink"):
        for _ in range(2):
            warehouse.take(None)
            warehouse.take(None)
            warehouse.restart()
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("batch started")] == [
        "batch started batch=0 offsets=1; the first after a start takes longest",
        "batch started batch=2 offsets=1; the first after a start takes longest",
    ]


def test_a_table_that_is_missing_is_a_named_error(warehouse: Warehouse) -> None:
    with pytest.raises(UnknownTable, match=r"shop\.nothing"):
        warehouse.rows("nothing")


def test_json_text_and_null_differ(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("doc", "json"))]
    documents = {1: json.dumps({"a": 1}), 2: "null", 3: None, 4: ""}
    warehouse.take(
        *(Change(op="c", seq=n, after={"id": n, "doc": d}) for n, d in documents.items())
    )
    assert {row["id"]: row["doc"] for row in warehouse.rows()} == documents


def test_a_batch_is_parsed_as_suits_its_offsets_and_merged_as_suits_its_largest_table(
    warehouse: Warehouse,
) -> None:
    sizes: list[int] = []

    class Recorded(Pace):
        def keep(self, _session: SparkSession, rows: int) -> None:
            sizes.append(rows)

    warehouse.applier.pace = Recorded(given={})
    warehouse.schemas = [
        schema(("id", "int")),
        schema(("id", "int"), table="u"),
    ]
    insert = [Change(op="c", seq=seq, after={"id": seq}) for seq in (1, 2)]
    warehouse.take(*insert, None, Change(op="c", seq=3, after={"id": 3}, table="u"))
    assert sizes == [4, 2]


def test_members_in_another_order_are_the_same_row(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"), ("w", "int"))]
    warehouse.take(
        Change(op="c", seq=1, after={"id": 1, "v": 2, "w": 3}),
        Change(op="c", seq=2, after={"w": 6, "id": 4, "v": 5}),
    )
    assert by_id(warehouse.rows()) == {
        1: {"id": 1, "v": 2, "w": 3},
        4: {"id": 4, "v": 5, "w": 6},
    }


def test_a_batch_that_must_end_merges_no_further_table_and_is_applied_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [schema(("id", "int"), table=table) for table in ("t", "u")]
    applier = warehouse.applier
    merge, applier.threads = type(applier)._merge, 1

    def stopped(self: Any, *arguments: Any) -> None:
        merge(self, *arguments)
        self.stopping.set()

    monkeypatch.setattr(type(applier), "_merge", stopped)
    for table in ("t", "u"):
        warehouse.write(Change(op="c", seq=1, after={"id": 1}, table=table))
    with pytest.raises(SparkFailed):
        warehouse.catch_up({})
    assert len(warehouse.kept.tables.names()) == 1
    assert warehouse.kept.log.last() is None
    monkeypatch.setattr(type(applier), "_merge", merge)
    applier.stopping.clear()
    warehouse.catch_up({})
    assert warehouse.rows("t") == warehouse.rows("u") == [{"id": 1}]


@pytest.mark.remedy("sink.ForeignRecords")
@pytest.mark.long("integration/spark_sink/test_sink.py has topics that no version names")
def test_rows_of_a_version_that_names_another_topic_make_their_table_wait_until_they_are_skipped(
    warehouse: Warehouse,
) -> None:
    columns = ("id", "int"), ("v", "int")
    warehouse.schemas = [
        schema(*columns, topic="aq.shop.t"),
        schema(*columns, table="u", topic="aq.__shard.shop.shop.t"),
        schema(*columns, destination="other", topic="aq.other.t"),
    ]
    insert = {"op": "c", "after": {"id": 1, "v": 1}}
    warehouse.take(Change(seq=1, **insert), Change(seq=2, table="u", **insert))  # type: ignore[arg-type]
    assert [row["id"] for row in warehouse.rows("u")] == [1], "a merge writes it"
    foreign = Change(op="c", seq=9, after={"id": 2, "v": 2}, destination="other")
    with pytest.raises(ForeignRecords) as fault:
        warehouse.take(foreign)
    place = "topic aq.shop.t has rows of shop.t version 1 of other"
    assert fault.value.where == f"{place}, which is of topic aq.other.t"
    assert [row["id"] for row in warehouse.rows("t")] == [1]
    assert "python -m spark_sink reload shop.t --skip-unusable" in fault.value.advice
    warehouse.take(Change(op="c", seq=3, table="u", after={"id": 3, "v": 3}))
    assert sorted(row["id"] for row in warehouse.rows("u")) == [1, 3]
    # The other installation writes there no more; its truncate is none of this one's.
    warehouse.take(
        Change(op="t", seq=99, destination="other"),
        Change(op="c", seq=4, after={"id": 4, "v": 4}),
    )
    with pytest.raises(ForeignRecords):
        warehouse.reload()
    warehouse.reload(skip_unusable=True)
    assert sorted(row["id"] for row in warehouse.rows("t")) == [1, 4]
    assert warehouse.waiting() is None
