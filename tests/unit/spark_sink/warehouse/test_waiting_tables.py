"""A table that cannot be applied waits, the others continue, and a reload repairs it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.errors import (
    KeyChanged,
    MalformedRecord,
    ReloadRefused,
    TableError,
    TableReplaced,
    TypeConflict,
    UnknownSchema,
    UnsupportedPartialImage,
    UnsupportedWire,
    ValuesChanged,
)
from spark_sink.jobs import reload
from spark_sink.jobs.rebuild import Rebuild
from spark_sink.metrics import Metrics
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.iceberg.catalog import Catalog
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.unit.spark_sink.batch.drops_and_renames import statements
from tests.unit.spark_sink.conftest import TOPIC, CountedGate, Warehouse, of_delta
from tests.unit.spark_sink.history import Change, Image, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OLD = schema(("id", "int"), ("k", "int"))
REKEYED = schema(("id", "int"), ("k", "int"), key=("k",), version=2)
OTHER = schema(("id", "int"), ("v", "int"), table="other")


def put(seq: int, image: Image, **more: Any) -> Change:
    return Change(op="c", seq=seq, after=image, **more)


def other(seq: int) -> Change:
    return put(seq, {"id": seq, "v": seq}, table="other")


def rows(warehouse: Warehouse, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in warehouse.rows(table))


class Killed(BaseException):
    """The process is gone at this point."""


def killed(*_: Any, **__: Any) -> None:
    raise Killed


def test_a_changed_key_lets_one_table_wait_and_a_reload_brings_it_back(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [OLD, REKEYED, OTHER]
    warehouse.take(put(1, {"id": 1, "k": 10}), put(2, {"id": 2, "k": 20}), other(3))
    with pytest.raises(KeyChanged, match=r"shop\.t"):
        warehouse.take(
            # Of the old key still, in the same batch as the first of the new.
            Change(op="u", seq=4, before={"id": 2, "k": 20}, after={"id": 2, "k": 21}),
            Change(op="c", seq=5, version=2, after={"id": 1, "k": 30}),
            other(6),
        )
    # Batches pass it by, a new process too; the other table continues.
    warehouse.restart()
    removed = Change(op="d", seq=7, version=2, before={"id": 2, "k": 21})
    warehouse.take(removed, other(8), partition=1)
    assert sorted(row["id"] for row in warehouse.rows("other")) == [3, 6, 8]
    assert rows(warehouse) == [(1, 10), (2, 20)]
    (line,) = [one for one in status_lines(warehouse.kept) if "KeyChanged" in one]
    assert "reason: KeyChanged: shop.t has ['id'], its new version ['k']" in line
    text = "\n".join(status_lines(warehouse.kept))
    assert "shop.t: WAITING" in text
    assert "action: Run: python -m spark_sink reload shop.t" in text
    assert "topic aq.shop.t, partition 0, offsets 3 to 6" in text
    assert "topic aq.shop.t, partition 1, offsets 0 to 2" in text
    assert "shop.other: APPLIED" in text
    sample = warehouse.metrics.registry.get_sample_value
    assert sample("aqueduct_sink_tables_waiting", {"error": "KeyChanged"}) == 1

    with monkeypatch.context() as broken:
        broken.setattr(Waits, "loaded", killed)
        with pytest.raises(Killed):
            warehouse.reload()
    # The next process does it again.
    warehouse.restart()
    warehouse.meet_requests()
    assert rows(warehouse) == [(1, 10), (1, 30)]
    assert warehouse.waiting() is None
    warehouse.take(Change(op="c", seq=9, version=2, after={"id": 3, "k": 10}), other(10))
    assert rows(warehouse) == [(1, 30), (3, 10)]
    # What was applied by the reload changes nothing when the stream comes by again.
    warehouse.restart()
    warehouse.catch_up({TOPIC: 0})
    assert rows(warehouse) == [(1, 30), (3, 10)]
    assert warehouse.waiting() is None


def test_a_table_that_begins_or_ends_to_wait_without_a_batch_is_counted_at_once(
    warehouse: Warehouse,
) -> None:
    topic, versions = statements.Topic(warehouse), (("v", "int"), ("v", "text"))
    warehouse.follows = lambda waits: Ddl(
        topics=topic, warehouse=warehouse.kept, waits=waits, on_drop="keep", on_rename="keep"
    )
    warehouse.schemas = [
        schema(("id", "int"), column, version=number, topic=TOPIC[0])
        for number, column in enumerate(versions, start=1)
    ]
    warehouse.restart()
    warehouse.take(put(1, {"id": 1, "v": 1}))
    warehouse.reload(from_beginning=True)
    warehouse.take(put(2, {"id": 2, "v": 2}), put(3, {"id": 3, "v": 3}))
    # What follows the reload is applied, and some of it is removed.
    warehouse.first = 2
    altered = statements.table("t", "altered", version=2)
    topic.values.append(statements.record(4, "ALTER TABLE …", altered))

    def counted() -> float | None:
        labels = {"error": "TypeConflict"}
        value = warehouse.metrics.registry.get_sample_value
        return value("aqueduct_sink_tables_waiting", labels)

    warehouse.applier.apply_ddl(warehouse.read({}, {}))
    held = warehouse.waiting()
    assert held is not None
    assert (held.error, counted()) == ("TypeConflict", 1)
    assert all(offset >= 3 for offset in held.offsets.values())
    # In another process, before any batch.
    warehouse.metrics = Metrics()
    warehouse.restart()
    warehouse.applier.waits.refresh()
    assert counted() == 1
    warehouse.reload()
    assert counted() is None
    assert rows(warehouse) == [(1, "1"), (2, "2"), (3, "3")]


@pytest.mark.long("jobs/test_reload.py has which are read together")
def test_tables_that_are_reloaded_at_once_are_read_once_and_each_is_put_in_place_by_itself(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("t", "one", "bad")
    columns = (("id", "int"), ("k", "int"))
    warehouse.schemas = [schema(*columns, table=table) for table in tables]
    warehouse.schemas += [schema(*columns, table=table, key=("k",), version=2) for table in tables]
    for number, table in enumerate(tables, 1):
        warehouse.write(put(number, {"id": number, "k": 10}, table=table))
    warehouse.catch_up({TOPIC: 0})
    start = warehouse.ends()
    for number, table in enumerate(tables, 11):
        warehouse.write(put(number, {"id": number, "k": 20}, table=table, version=2))
    bad = put(31, {"id": 5, "k": 50}, table="bad", version=2).value()
    warehouse.write(bad.replace('"k":50', '"k":"no number"'))
    warehouse.catch_up(start)

    def ask(*requests: tuple[str, str]) -> None:
        """Asks for tables, by a number and a name."""
        warehouse.applier.waits.ask(
            *(Request(number=number, database="shop", table=table) for number, table in requests)
        )

    ask(("1", "t"), ("2", "one"))
    with monkeypatch.context() as broken:
        broken.setattr(Waits, "loaded", killed)
        with pytest.raises(Killed):
            warehouse.meet_requests()
    warehouse.restart()
    # One of them is in place. More are asked for, one of them again.
    ask(("3", "bad"), ("4", "other"), ("5", "one"))
    reads: list[tuple[Any, Any]] = []
    read = Warehouse.read

    def counted(self: Warehouse, start: Any, end: Any) -> Any:
        reads.append((start, end))
        return read(self, start, end)

    monkeypatch.setattr(Warehouse, "read", counted)
    monkeypatch.setattr(reload, "_SECONDS_FOR_TABLES", 1000.0)
    gate = CountedGate()
    warehouse.applier.gate = cast(Any, gate)
    warehouse.meet_requests()
    # To begin, to follow DDL, and to put tables in place; and for what one is refused for.
    assert gate.times == 4
    # The second is for the keys of the one that is refused.
    assert reads == [(start, warehouse.ends())] * 2
    states = warehouse.applier.waits.tables
    assert {table: (held.answered, held.error) for (_, table), held in states.items()} == {
        "t": ("1", ""), "one": ("2", ""), "bad": ("3", "MalformedRecord"), "other": ("4", "ReloadRefused")
    }  # fmt: skip
    for number, table in enumerate(tables[:2], 1):
        assert warehouse.waiting(table) is None
        found = sorted((row["id"], row["k"]) for row in warehouse.rows(table))
        assert found == [(number, 10), (number + 10, 20)]
    assert warehouse.waiting("bad") is not None
    # A second request for a table is answered by itself.
    (left,) = warehouse.applier.waits.requests
    assert left.number == "5"


@pytest.mark.long("the first test hands over at the stream's own place")
def test_a_reload_past_the_stream_hands_over_without_loss(warehouse: Warehouse) -> None:
    warehouse.schemas = [OLD, REKEYED]
    warehouse.take(put(1, {"id": 1, "k": 10}))
    with pytest.raises(KeyChanged):
        warehouse.take(put(2, {"id": 2, "k": 20}, version=2))
    behind = {TOPIC: len(warehouse.records)}
    warehouse.write(put(3, {"id": 3, "k": 30}, version=2))
    warehouse.reload()
    assert rows(warehouse) == [(1, 10), (2, 20), (3, 30)]
    warehouse.write(put(4, {"id": 4, "k": 40}, version=2))
    warehouse.catch_up(behind)
    assert rows(warehouse) == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.long("the first test kills a reload at its end")
@pytest.mark.parametrize("step", ["stage", "replace", "end", "drop"])
def test_a_reload_that_is_killed_at_any_step_is_done_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    warehouse.schemas = [OLD, REKEYED]
    warehouse.take(put(1, {"id": 1, "k": 10}), put(2, {"id": 2, "k": 20}))
    with pytest.raises(KeyChanged):
        warehouse.take(
            Change(op="u", seq=3, before={"id": 1, "k": 10}, after={"id": 1, "k": 11}),
            put(4, {"id": 2, "k": 30}, version=2),
        )

    with monkeypatch.context() as broken:
        if step == "stage":
            broken.setattr(Rebuild, "apply", killed)
        elif step == "end":
            broken.setattr(Waits, "loaded", killed)
        else:
            broken.setattr(type(warehouse.kept.tables), step, killed)
        with pytest.raises(Killed):
            warehouse.reload()
    warehouse.restart()
    # More comes before it is done again.
    warehouse.take(Change(op="d", seq=5, version=2, before={"id": 2, "k": 20}))
    warehouse.meet_requests()
    assert warehouse.waiting() is None
    assert rows(warehouse) == [(1, 11), (2, 30)]
    warehouse.restart()
    warehouse.catch_up({TOPIC: 0})
    assert rows(warehouse) == [(1, 11), (2, 30)]


@pytest.mark.long("the first test kills a reload")
def test_a_sink_killed_before_its_ledger_moved_records_the_wait_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [OLD, REKEYED, OTHER]
    warehouse.take(put(1, {"id": 1, "k": 10}), other(2))

    start = {TOPIC: len(warehouse.records)}
    warehouse.write(put(3, {"id": 2, "k": 20}, version=2))
    warehouse.write(other(4))
    with monkeypatch.context() as broken:
        broken.setattr(type(warehouse.kept.log), "append", killed)
        with pytest.raises(Killed):
            warehouse.catch_up(start)
    warehouse.restart()
    held = warehouse.waiting()
    assert held is not None
    warehouse.catch_up(start)
    again = warehouse.waiting()
    assert again == held
    warehouse.reload()
    assert rows(warehouse) == [(1, 10), (2, 20)]
    assert len(warehouse.rows("other")) == 2


@pytest.mark.long("test_convert has what needs a time zone, the first test a reload")
def test_a_datetime_that_became_a_timestamp_is_converted_in_the_sessions_time_zone(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("at", "datetime(3)")),
        schema(("id", "int"), ("at", "timestamp(3)"), version=2),
    ]
    warehouse.take(
        put(1, {"id": 1, "at": "2026-07-01T12:00:00.125"}), put(2, {"id": 2, "at": None})
    )
    with pytest.raises(TypeConflict, match=r"shop\.t\.at"):
        warehouse.take(put(3, {"id": 3, "at": "2026-07-01T10:00:00.000Z"}, version=2))
    with pytest.raises(TypeConflict, match="depend on a time zone") as refused:
        warehouse.reload()
    assert "--time-zone" in refused.value.advice
    assert warehouse.waiting() is not None
    warehouse.reload(time_zone="+02:00")
    texts = {row["id"]: str(row["at"]) for row in warehouse.rows()}
    assert texts == {1: "2026-07-01 10:00:00.125000", 2: "None", 3: "2026-07-01 10:00:00"}


@pytest.mark.long("the first test converts a key")
def test_a_number_that_became_text_and_text_that_became_a_number_keep_their_values(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("a", "int"), ("b", "varchar(9)")),
        schema(("id", "int"), ("a", "text"), ("b", "int"), version=2),
    ]
    warehouse.take(put(1, {"id": 1, "a": 7, "b": "12"}), put(2, {"id": 2, "a": None, "b": "12.5"}))
    with pytest.raises(TypeConflict):
        warehouse.take(put(3, {"id": 3, "a": "seven", "b": 3}, version=2))
    warehouse.reload()
    assert rows(warehouse) == [(1, "7", 12), (2, None, 13), (3, "seven", 3)]


def test_values_that_only_the_source_has_are_never_guessed_and_a_snapshot_brings_them(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("v", "varchar(9)")),
        schema(("id", "int"), ("v", "int"), version=2),
    ]
    warehouse.take(put(1, {"id": 1, "v": "12"}), put(2, {"id": 2, "v": "7 apples"}))
    with pytest.raises(TypeConflict):
        warehouse.take(put(3, {"id": 3, "v": 3}, version=2))
    with pytest.raises(ValuesChanged, match=r"v from varchar\(9\) to int") as refused:
        warehouse.reload()
    assert refused.value.advice == (
        "Run: python -m app snapshot start shop shop.t --replace; once it is done: "
        "python -m spark_sink reload shop.t"
    )
    # What that snapshot publishes.
    read = [
        Change(op="r", seq=4 + n, version=2, after={"id": n, "v": v})
        for n, v in ((1, 12), (2, 7), (3, 3))
    ]
    warehouse.take(Change(op="t", seq=4, version=2), *read)
    warehouse.reload()
    assert rows(warehouse) == [(1, 12), (2, 7), (3, 3)]


@pytest.mark.long("the first test changes a key")
def test_a_table_gets_and_loses_its_key(warehouse: Warehouse) -> None:
    columns = (("id", "int"), ("v", "int"))
    warehouse.schemas = [
        schema(*columns, key=()),
        schema(*columns, version=2),
        schema(*columns, key=(), version=3),
    ]
    warehouse.take(put(1, {"id": 1, "v": 1}), put(2, {"id": 2, "v": 2}))
    warehouse.take(Change(op="d", seq=3, before={"id": 1, "v": 1}))
    with pytest.raises(KeyChanged):
        warehouse.take(put(4, {"id": 4, "v": 4}, version=2))
    warehouse.reload()
    assert rows(warehouse) == [(2, 2), (4, 4)]
    with pytest.raises(KeyChanged):
        warehouse.take(
            Change(op="d", seq=5, version=2, before={"id": 4, "v": 4}),
            put(6, {"id": 2, "v": 2}, version=3),
        )
    warehouse.reload()
    assert rows(warehouse) == [(2, 2), (2, 2)]


@pytest.mark.long("test_apply.py refuses such records, the first test reloads")
def test_rows_without_a_value_in_the_new_key_are_refused_and_only_new_ones_can_be_kept(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [
        schema(("v", "int"), key=()),
        schema(("v", "int"), ("id", "int"), version=2),
    ]
    warehouse.take(put(1, {"v": 1}))
    with pytest.raises(KeyChanged):
        warehouse.take(put(2, {"v": 2, "id": 2}, version=2))
    with pytest.raises(KeyChanged, match=r"1 rows of shop\.t were written before") as refused:
        warehouse.reload()
    assert "--only-new" in refused.value.advice
    assert rows(warehouse) == [(1,)]
    warehouse.reload(only_new=True)
    assert rows(warehouse) == [(2, 2)]


@pytest.mark.remedy("sink.MalformedRecord")
@pytest.mark.long("test_apply.py refuses such records, the first test reloads")
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"after": {"id": 2}, "absent": ["k"]}, UnsupportedPartialImage),
        ({"after": {"id": 2, "k": "x"}}, MalformedRecord),
    ],
)
def test_a_record_that_cannot_be_used_no_longer_matters_once_its_row_was_written_again(
    warehouse: Warehouse, bad: dict[str, Any], error: type[TableError]
) -> None:
    warehouse.schemas = [OLD]
    warehouse.take(put(1, {"id": 1, "k": 10}))
    with pytest.raises(error):
        warehouse.take(put(2, {"id": 2, "k": 20}, more=bad), put(3, {"id": 3, "k": 30}))
    with pytest.raises(error, match="offset 1") as refused:
        warehouse.reload()
    assert "--skip-unusable" in refused.value.advice
    warehouse.take(put(4, {"id": 2, "k": 21}))
    warehouse.reload()
    assert rows(warehouse) == [(1, 10), (2, 21), (3, 30)]


@pytest.mark.long("the test above reads the advice")
def test_a_record_that_cannot_be_used_is_skipped_where_an_operator_says_so(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [OLD]
    with pytest.raises(UnsupportedPartialImage):
        warehouse.take(put(1, {"id": 1, "k": 1}), put(2, {"id": 2}, more={"absent": ["k"]}))
    warehouse.reload(skip_unusable=True)
    assert rows(warehouse) == [(1, 1)]


@pytest.mark.remedy("sink.UnknownSchema")
def test_a_version_that_the_topic_has_lost_ends_its_wait_once_the_rows_come_again(
    warehouse: Warehouse,
) -> None:
    columns = ("id", "int"), ("k", "int")
    warehouse.schemas = [schema(*columns)]
    warehouse.take(put(1, {"id": 1, "k": 1}))
    with pytest.raises(UnknownSchema, match=r"shop\.t version 2 of shop") as fault:
        warehouse.take(put(2, {"id": 2, "k": 2}, version=2), put(3, {"id": 3, "k": 3}))
    command = "python -m spark_sink reload shop.t"
    assert (
        "Give the table another comment at the source, which publishes its columns as a new version; then "
        f"run: python -m app snapshot start shop shop.t --replace; once it is done: {command}. "
        f"Or, to skip such records, run: {command} --skip-unusable"
    ) in fault.value.advice
    with pytest.raises(UnknownSchema):
        warehouse.reload()
    # The comment's version, and what the snapshot publishes with it.
    warehouse.schemas += [schema(*columns, version=3)]
    warehouse.write(Change(op="t", seq=100, version=3))
    warehouse.write(Change(op="r", seq=101, version=3, after={"id": 4, "k": 4}))
    warehouse.reload()
    assert rows(warehouse) == [(4, 4)]
    assert warehouse.waiting() is None


def test_records_of_a_version_that_the_topic_has_lost_are_skipped_on_request(
    warehouse: Warehouse,
) -> None:
    columns = ("id", "int"), ("k", "int")
    warehouse.schemas = [schema(*columns)]
    warehouse.take(put(1, {"id": 1, "k": 1}))
    with pytest.raises(UnknownSchema):
        warehouse.take(put(2, {"id": 2, "k": 2}, version=2), put(3, {"id": 3, "k": 3}))
    warehouse.reload(skip_unusable=True)
    assert rows(warehouse) == [(1, 1), (3, 3)]


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_version_that_another_program_has_damaged_makes_its_table_wait_and_no_other(
    warehouse: Warehouse, *, is_restored: bool
) -> None:
    columns = ("id", "int"), ("k", "int")
    key = {"destination": "shop", "database": "shop", "table": "t", "version": 2}
    damaged = json.dumps(key)
    warehouse.schemas = [schema(*columns), damaged, schema(*columns, table="other"), "{"]
    start = warehouse.ends()
    for change in (
        put(1, {"id": 1, "k": 1}),
        put(2, {"id": 2, "k": 2}, version=2),
        put(3, {"id": 3, "k": 3}, table="other"),
    ):
        warehouse.write(change)
    warehouse.catch_up(start)
    held = warehouse.waiting()
    assert held is not None
    assert (held.error, rows(warehouse, "other")) == ("UnknownSchema", [(3, 3)])
    assert "shop.t version 2 of shop, whose record cannot be read" in held.reason
    with pytest.raises(UnknownSchema):
        warehouse.reload()
    if is_restored:
        warehouse.schemas[1] = schema(*columns, version=2)
        warehouse.reload()
    else:
        warehouse.reload(skip_unusable=True)
    assert rows(warehouse) == ([(1, 1), (2, 2)] if is_restored else [(1, 1)])
    assert warehouse.waiting() is None


def test_a_version_of_a_later_contract_makes_its_table_wait_until_its_records_are_skipped(
    warehouse: Warehouse,
) -> None:
    columns = ("id", "int"), ("k", "int")
    later = json.dumps(json.loads(schema(*columns, version=2)) | {"wire": 2, "columns": "other"})
    warehouse.schemas = [schema(*columns), later, schema(*columns, table="other")]
    start = warehouse.ends()
    for change in (
        put(1, {"id": 1, "k": 1}),
        put(2, {"id": 2, "k": 2}, version=2),
        put(3, {"id": 3, "k": 3}, table="other"),
    ):
        warehouse.write(change)
    warehouse.catch_up(start)
    held = warehouse.waiting()
    assert held is not None
    assert (held.error, rows(warehouse, "other")) == ("UnsupportedWire", [(3, 3)])
    assert held.action.startswith("Use a sink of the worker's version, then run: python -m spark_")
    with pytest.raises(UnsupportedWire):
        warehouse.reload()
    warehouse.reload(skip_unusable=True)
    assert (rows(warehouse), warehouse.waiting()) == ([(1, 1)], None)


UNFIT = {
    "reserved": (("__seq", "int"), "ReservedName", "Rename the column"),
    "clash": (("ID", "int"), "ColumnClash", "Rename one of them"),
    "typed": (("v", "inet6"), "UnsupportedType", "Change the type"),
}
"""Columns that no table of the warehouse can have."""


@pytest.mark.remedy("sink.ReservedName", "sink.ColumnClash", "sink.UnsupportedType")
@pytest.mark.long("tables whose rows come again")
def test_tables_with_columns_that_none_can_have_end_their_wait_once_altered_and_published_again(
    warehouse: Warehouse,
) -> None:
    fit = ("id", "int"), ("v", "int")
    for table, (column, _, _) in UNFIT.items():
        warehouse.schemas += [
            schema(fit[0], column, table=table),
            schema(*fit, table=table, version=2),
        ]
        warehouse.write(put(1, {"id": 1, column[0]: 1}, table=table))
    warehouse.catch_up({})
    for table, (_, error, advice) in UNFIT.items():
        held = warehouse.waiting(table)
        assert held is not None
        assert (held.error, held.action.startswith(advice)) == (error, True)
        assert (
            f"then run: python -m app snapshot start shop shop.{table} --replace; once it is done: "
            f"python -m spark_sink reload shop.{table}. Or add its topic to exclude"
        ) in held.action
    with pytest.raises(
        TableError, match=r"'v' in shop\.typed version 1 of shop has the type 'inet6'"
    ):
        warehouse.reload("typed")

    # What the snapshot publishes; a transaction from before it may come later, in another partition.
    start = warehouse.ends()
    for table, (column, _, _) in UNFIT.items():
        warehouse.write(Change(op="t", seq=100, version=2, table=table))
        image = {"id": 2, "v": 20}
        warehouse.write(Change(op="r", seq=101, version=2, table=table, after=image), partition=1)
        warehouse.write(put(50, {"id": 3, column[0]: 1}, table=table), partition=2)
    for table in UNFIT:
        warehouse.reload(table)
        assert warehouse.rows(table) == [{"id": 2, "v": 20}]
        assert warehouse.waiting(table) is None
    # The batch that comes to these records takes none of them.
    warehouse.catch_up(start)
    assert not any(warehouse.waiting(table) for table in UNFIT)


@pytest.mark.remedy("sink.UnsupportedName")
def test_a_table_that_the_warehouse_cannot_have_is_mapped_or_excluded_and_its_wait_ends(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(spark=warehouse.spark, name="lake", kind="hive", prepare=lambda: None)
    tables = type(warehouse.kept.tables)

    def refusing(method: Callable[..., None]) -> Callable[..., None]:
        def refused(self: Any, *given: Any, **more: Any) -> None:
            for one in given:
                if isinstance(one, Shape):
                    catalog.refuse_name((one.database, one.table), (one.database, one.table))
            method(self, *given, **more)

        return refused

    for name in ("evolve", "merge", "replace"):
        monkeypatch.setattr(tables, name, refusing(getattr(tables, name)))
    columns = ("id", "int"), ("v", "int")
    warehouse.schemas = [
        schema(*columns, table="Orders"),
        schema(*columns, table="Orders", version=2),
        schema(("id", "int"), ("v", "inet6"), table="typed"),
    ]
    warehouse.write(put(1, {"id": 1, "v": 1}, table="Orders"))
    warehouse.write(put(1, {"id": 1, "v": "::1"}, table="typed"))
    warehouse.catch_up({})
    held = warehouse.waiting("Orders")
    assert held is not None
    assert "shop.Orders: a catalog of type hive has no table named Orders" in held.reason
    assert "Map the table" in held.action
    # As the mapping has it since, and the snapshot publishes it.
    start, mapped = warehouse.ends(), {"table": "Orders", "logical": ("shop", "orders")}
    warehouse.write(Change(op="r", seq=9, version=2, after={"id": 1, "v": 1}, **mapped))  # type: ignore[arg-type]
    warehouse.catch_up(start)
    assert warehouse.rows("orders") == [{"id": 1, "v": 1}]
    assert held.action.endswith("python -m spark_sink reload shop.Orders --skip-unusable")
    warehouse.reload("Orders", skip_unusable=True)
    assert warehouse.waiting("Orders") is None

    # In place of being mapped or altered, the topic of a table is excluded.
    with monkeypatch.context() as excluded:
        excluded.setattr(warehouse, "ranges", lambda _: ({}, {}))
        with pytest.raises(ReloadRefused, match="is not among those that are read") as refused:
            warehouse.reload("typed")
        assert "add --skip-unusable" in refused.value.advice
        warehouse.reload("typed", skip_unusable=True)
    assert warehouse.waiting("typed") is None
    assert set(warehouse.kept.tables.names()) == {("shop", "orders")}


@pytest.mark.long("the tests above have truncates of tables with one source")
def test_a_truncate_of_one_source_says_nothing_of_the_records_of_another(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    fit, logical = (("id", "int"), ("v", "int")), ("shop", "all")
    for table in ("a", "b"):
        warehouse.schemas += [
            schema(fit[0], ("__seq", "int"), table=table),
            schema(*fit, table=table, version=2),
        ]
        for seq in (1, 2):
            image = {"id": seq, "__seq": 1}
            warehouse.write(put(seq, image, table=table, logical=logical))

    def published_again(table: str) -> None:
        start = warehouse.ends()
        more: dict[str, Any] = {"version": 2, "table": table, "logical": logical}
        warehouse.write(Change(op="t", seq=100, **more))
        warehouse.write(Change(op="r", seq=101, after={"id": 1, "v": 1}, **more))
        warehouse.catch_up(start)

    warehouse.catch_up({})
    published_again("a")
    with pytest.raises(TableError) as refused:
        warehouse.reload("all")
    assert "then run: python -m app snapshot start shop shop.b --replace;" in refused.value.advice
    published_again("b")
    # One that follows the truncate is skipped only if the operator says so.
    warehouse.write(put(102, {"id": 3, "__seq": 1}, table="b", logical=logical))
    # It is one all the same if its own version cannot be read.
    warehouse.write(Change(op="t", seq=200, table="a", logical=logical))
    with pytest.raises(TableError):
        warehouse.reload("all")
    with caplog.at_level("WARNING"):
        warehouse.reload("all", skip_unusable=True)
    rows_of = warehouse.rows("all", bookkeeping=True)
    assert [(row["id"], row["__source_table"]) for row in rows_of] == [(1, "b")]
    line = [one for one in caplog.messages if one.startswith("records omitted")][-1]
    assert "table=shop.all number=6 first=topic aq.shop.t, partition 0, offset 0" in line


@pytest.mark.remedy("sink.ReloadRequested")
@pytest.mark.long("the other reloads read from a cut")
def test_a_healthy_table_is_read_again_only_from_its_beginning_and_only_if_kafka_has_it(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [OLD]
    warehouse.take(put(1, {"id": 1, "k": 10}), put(2, {"id": 2, "k": 20}))
    with pytest.raises(ReloadRefused, match="does not wait"):
        warehouse.reload()
    shape = warehouse.kept.tables.shape("shop", "t")
    assert shape is not None
    damaged = warehouse.kept.tables.rows(shape, fixed=True).where("id <> 1")
    warehouse.kept.tables.replace(shape, damaged)
    warehouse.reload(from_beginning=True)
    assert rows(warehouse) == [(1, 10), (2, 20)]
    warehouse.first = 1
    with pytest.raises(ReloadRefused, match="begins at offset 1"):
        warehouse.reload(from_beginning=True)
    assert rows(warehouse) == [(1, 10), (2, 20)]


@pytest.mark.remedy("sink.TableReplaced")
@of_delta
def test_a_table_that_is_gone_is_made_again_though_another_topic_has_lost_records(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [OLD]
    warehouse.take(put(1, {"id": 1, "k": 10}))
    shutil.rmtree(f"{warehouse.path}/shop/t")
    warehouse.restart()
    with pytest.raises(TableReplaced, match="it is gone"):
        warehouse.take(put(2, {"id": 2, "k": 20}))
    other, own = ("aq.shop.other", 0), warehouse.ranges

    def ranges(topics: Collection[str]) -> tuple[Offsets, Offsets]:
        first, last = own([one for one in topics if one != other[0]])
        return (first, last) if topics else ({**first, other: 5}, {**last, other: 5})

    monkeypatch.setattr(warehouse, "ranges", ranges)
    with pytest.raises(ReloadRefused, match=r"aq\.shop\.other, partition 0 begins") as refused:
        warehouse.reload(from_beginning=True, skip_unusable=True)
    assert (
        "python -m spark_sink reload shop.t --from-beginning --topic aq.shop.t --skip-unusable"
        in refused.value.advice
    )
    warehouse.reload(from_beginning=True, topics=("aq.shop.t",))
    assert rows(warehouse) == [(1, 10), (2, 20)]


@pytest.mark.long("test_apply.py refuses such records")
def test_changes_that_kafka_no_longer_has_are_a_named_refusal(warehouse: Warehouse) -> None:
    warehouse.schemas = [OLD, REKEYED]
    warehouse.take(put(1, {"id": 1, "k": 10}))
    with pytest.raises(KeyChanged):
        warehouse.take(put(2, {"id": 2, "k": 20}, version=2))
    warehouse.first = 2
    with pytest.raises(
        ReloadRefused, match="no longer holds the changes from offset 1 on"
    ) as fault:
        warehouse.reload()
    assert warehouse.waiting() is not None
    assert "snapshot start" in fault.value.advice
    assert "--only-new" in fault.value.advice
    warehouse.take(
        Change(op="t", seq=3, version=2),
        *(Change(op="r", seq=3 + n, version=2, after={"id": n, "k": n}) for n in (1, 2)),
    )
    warehouse.reload(only_new=True)
    assert rows(warehouse) == [(1, 1), (2, 2)]
    assert warehouse.waiting() is None


@pytest.mark.long("test_apply has truncates, the first test has what waits")
def test_a_truncate_while_a_table_waits_empties_it(warehouse: Warehouse) -> None:
    warehouse.schemas = [OLD, REKEYED]
    warehouse.take(put(1, {"id": 1, "k": 10}))
    with pytest.raises(KeyChanged):
        warehouse.take(put(2, {"id": 2, "k": 20}, version=2))
    warehouse.take(Change(op="t", seq=3, version=2), put(4, {"id": 4, "k": 40}, version=2))
    warehouse.reload()
    assert rows(warehouse) == [(4, 40)]


@pytest.mark.long("the first test changes a key once")
@pytest.mark.parametrize("seed", [3])
def test_two_key_changes_among_many_changes_give_what_the_source_has(
    warehouse: Warehouse, seed: int
) -> None:
    rng = random.Random(seed)
    columns = (("id", "int"), ("k", "int"))
    keys = [("id",), ("k",), ("id", "k")]
    warehouse.schemas = [schema(*columns, key=key, version=n) for n, key in enumerate(keys, 1)]
    held: dict[tuple[int, int], Image] = {}
    changes: list[Change] = []
    for seq in range(1, 61):
        version = 1 + (seq - 1) // 20
        image = {"id": rng.randrange(9), "k": rng.randrange(9)}
        same = [
            row
            for row in held.values()
            if all(row[name] == image[name] for name in keys[version - 1])
        ]
        # Both keys must be unique all the time, so that each change of key is possible.
        clash = any(row["id"] == image["id"] or row["k"] == image["k"] for row in held.values())
        if same and rng.random() < 0.5:
            del held[same[0]["id"], same[0]["k"]]
            changes.append(Change(op="d", seq=seq, version=version, before=same[0]))
        elif not clash:
            held[image["id"], image["k"]] = image
            changes.append(Change(op="c", seq=seq, version=version, after=image))
    for at in range(0, len(changes), 7):
        if warehouse.waiting() is None:
            try:
                warehouse.take(*changes[at : at + 7])
            except KeyChanged:
                continue
        else:
            warehouse.take(*changes[at : at + 7])
    warehouse.reload()
    assert rows(warehouse) == sorted((row["id"], row["k"]) for row in held.values())
    assert len(rows(warehouse)) > 3


@of_delta
@pytest.mark.long("test_column_reading has what new tables hold")
def test_an_srid_beyond_31_bits_is_held_by_old_tables_too(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(("id", "int"), ("g", "point"))]
    path = f"{warehouse.path}/shop/t"
    small = {"srid": 7, "wkb": "AQE="}
    warehouse.take(put(1, {"id": 1, "g": small}))
    # As it was made before.
    made = warehouse.spark.read.format("delta").load(path)
    old = made.selectExpr(
        *(
            "CAST(g AS STRUCT<srid: INT, wkb: BINARY>) AS g" if name == "g" else name
            for name in made.columns
        )
    )
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    warehouse.restart()
    warehouse.take(put(2, {"id": 2, "g": {"srid": 2**32 - 1, "wkb": "AQE="}}))
    assert {row["id"]: row["g"]["srid"] for row in warehouse.rows()} == {1: 7, 2: 2**32 - 1}
