"""The schema history as rows of Canal's tables: each column has what belongs there, and it is read back."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from connectors.errors import JournalDamaged
from connectors.mysql.ddl.definition import Session
from connectors.mysql.schema_store import PART, HistoryRow, SnapshotRow, Stored
from tables.history.history import SchemaHistory
from tables.history.record import Given, SchemaRecord
from tables.history.schema_store_rows import (
    EXTRA_BYTES,
    history_of,
    key_of,
    record_rows,
    snapshot_rows,
)
from tests.unit.tables.made import (
    ORDERS,
    SERVER,
    UTF8,
    UUID,
    applied,
    at,
    begun,
    between,
    names_of,
    offset,
    table,
)  # fmt: skip


def stored(history: SchemaHistory) -> Stored:
    """All of a store's rows of a history."""
    return Stored(
        history=[row for record in history.records for row in record_rows(record)],
        snapshots=[
            row for head in history.checkpoints for row in snapshot_rows(history.content(head))
        ],
    )


def same(one: SchemaHistory | None, other: SchemaHistory) -> bool:
    assert one is not None
    for history in (one, other):
        assert history.destination == "shop"
    first, second = one.now(), other.now()
    return (
        one.records == other.records
        and [replace(head, parts=0) for head in one.checkpoints]
        == [replace(head, parts=0) for head in other.checkpoints]
        and first.tables() == second.tables()
        and first.databases() == second.databases()
        and first.unresolved() == second.unresolved()
        and first.dropped() == second.dropped()
    )


def mixed() -> SchemaHistory:
    """A history with all kinds of records, and a checkpoint within."""
    history = begun("orders", "gone")
    applied(history, 200, "ALTER TABLE orders ADD COLUMN a int")
    applied(history, 300, "DROP TABLE gone")
    history.checkpoint(between(400), made_ms=5)
    history.add_baseline({("late", "t"): table("x")}, {"late": UTF8}, between(400))
    applied(history, 500, "CREATE TABLE `ö` (id int PRIMARY KEY, e varchar(9) COMMENT '\"\\\\😀')")
    applied(history, 600, "ALTER TABLE orders FROBNICATE")
    history.resolve(ORDERS, table("a", "b"), at(600))
    applied(history, 700, "ALTER TABLE orders ADD COLUMN c int")
    applied(history, 710, "TRUNCATE TABLE orders")
    history.resolve(ORDERS, None, between(780), Given(by="anna", ts_ms=7, source="give-up"))
    return history


def test_the_history_read_back_is_the_one_written() -> None:
    history = mixed()
    found = history_of(stored(history))
    assert same(found, history)
    assert found is not None
    assert applied(found, 800, "ALTER TABLE orders ADD COLUMN d int") == applied(
        history, 800, "ALTER TABLE orders ADD COLUMN d int"
    )
    assert names_of(found.at(offset(250)).find(*ORDERS)) == ["id", "a"]


def test_each_column_has_what_canal_has_there() -> None:
    history = begun("orders")
    session = Session(sql_mode=frozenset({"ANSI_QUOTES"}), thread=12)
    position = replace(at(200, ts_ms=1_795_000_000_123, gtid=f"{UUID}:7"), user="dba@10.0.0.1")
    record = history.apply(position, "shop", 'ALTER TABLE "orders" ADD COLUMN a int', session)
    assert record is not None
    (row,) = record_rows(record)
    assert (row.destination, row.master_id, row.file, row.offset) == ("shop", UUID, "b.000001", 200)
    assert (row.use_schema, row.sql_schema, row.sql_table) == ("shop", "shop", "orders")
    assert (row.sql_type, row.ts_ms) == ("ALTER TABLE", 1_795_000_000_123)
    assert row.sql_text == 'ALTER TABLE "orders" ADD COLUMN a int'
    extra = orjson.loads(row.extra or "")
    assert (extra["gtid"], extra["thread"], extra["user"]) == (f"{UUID}:7", 12, "dba@10.0.0.1")
    assert (extra["outcome"], extra["session"]["sql_mode"]) == ("resolved", ["ANSI_QUOTES"])
    assert [len(extra["changes"][0][which]["columns"]) for which in ("old", "new")] == [1, 2]
    assert extra["changes"][0]["new"]["columns"][1] == {
        "name": "a",
        "type": "int",
        "nullable": True,
    }


def test_tables_of_several_databases_come_with_these() -> None:
    history = begun("orders")
    history.apply(at(200), None, "CREATE DATABASE other", Session())
    record = applied(history, 300, "RENAME TABLE orders TO other.orders")
    (row,) = record_rows(record)
    assert (row.sql_schema, row.sql_table) == ("shop,other", "shop.orders,other.orders")


def test_a_snapshot_is_an_object_of_schemas_and_their_statements() -> None:
    history = begun("orders")
    *parts, main = snapshot_rows(history.content(history.checkpoints[0]))
    assert orjson.loads(main.data or "") == dict(history.snapshot())
    assert main.master_id == UUID
    assert all(PART in row.master_id for row in parts)


@pytest.fixture(scope="module")
def vast() -> tuple[SchemaHistory, SchemaRecord]:
    """A statement that touches more tables than a column can name, and more than a row holds."""
    history = begun(*(f"a_table_with_a_name_that_is_quite_long_{n:05}" for n in range(2000)))
    return history, applied(history, 200, "DROP DATABASE shop")


def test_what_a_row_cannot_hold_continues_in_others(
    vast: tuple[SchemaHistory, SchemaRecord],
) -> None:
    history, record = vast
    rows = record_rows(record)
    assert len(rows) > 5
    assert all(len((row.extra or "").encode()) <= EXTRA_BYTES + 500 for row in rows)
    assert len({row.key for row in rows}) == len(rows)
    assert len(rows[-1].sql_table or "") == 1024
    assert rows[-1].key == key_of(record)
    assert same(history_of(stored(history)), history)


def test_no_part_is_too_large_whatever_its_characters(
    vast: tuple[SchemaHistory, SchemaRecord],
) -> None:
    _, record = vast
    for reason in ("😀" * 40_000, '"\\' * 40_000, "\x01" * 40_000):
        result = replace(record, changes=(), reason=reason, unresolved=(ORDERS,))
        rows = record_rows(result)
        assert all(len((row.extra or "").encode()) <= EXTRA_BYTES for row in rows)
        assert len(rows) > 2


def test_names_of_rows_fit_into_their_columns() -> None:
    history = mixed()
    long = replace(history.records[-1], number=9_999_999_999)
    kinds = [replace(long, kind=kind) for kind in ("statement", "baseline", "resolution")]
    for record in kinds:
        file = replace(at(4), start=replace(at(4).start, file="b" * 200 + ".000001"))
        row = record_rows(replace(record, position=file))[-1]
        assert len(f"{row.master_id}{PART}9999") <= 64
        assert (len(row.file), row.file[-6:]) == (64, "000001")


def test_a_record_that_is_missing_makes_the_history_begin_after_it() -> None:
    history = mixed()
    found = stored(history)
    holed = replace(found, history=[row for row in found.history if row.offset != 200])
    read = history_of(holed)
    assert read is not None
    assert read.checkpoints[0].number == 2
    assert same(read, _since(history, 2))


def test_a_record_that_is_missing_at_the_end_ends_it() -> None:
    history = mixed()
    found = stored(history)
    numbers = [record.number for record in history.records if record.position.start.pos < 500]
    holed = replace(found, history=[row for row in found.history if row.offset != 500])
    read = history_of(holed)
    assert read is not None
    assert [record.number for record in read.records] == numbers


def test_of_several_beginnings_the_last_one_counts() -> None:
    history = mixed()
    before = stored(history)
    history.baseline({}, {}, between(5000), SERVER)
    after = stored(history)
    both = Stored(
        history=[*before.history, *after.history], snapshots=[*before.snapshots, *after.snapshots]
    )
    assert same(history_of(both), history)


def test_a_row_that_cannot_be_read_is_named() -> None:
    found = stored(mixed())
    torn = [replace(row, extra='{"format": 1, "number": 3}') for row in found.history]
    with pytest.raises(JournalDamaged, match="central schema store"):
        history_of(replace(found, history=torn))


def test_there_is_no_history_without_a_snapshot() -> None:
    rows: list[HistoryRow] = stored(mixed()).history
    nothing: list[SnapshotRow] = []
    assert history_of(Stored(history=rows, snapshots=nothing)) is None


def _since(history: SchemaHistory, checkpoint: int) -> SchemaHistory:
    history.forget_before(checkpoint)
    return history
