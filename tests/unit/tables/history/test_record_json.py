"""Schema history records are read as written; an unreadable one is reported as damage."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest

from connectors.errors import JournalDamaged, JournalTooNew
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Column, Index, TableChange
from tables.history.codec import (
    OLDEST,
    HistoryFold,
    checkpoint_records,
    history_records,
    record_key,
)
from tables.history.definition_json import Definitions, change_json, packs, table_json
from tables.history.record import CheckpointHead, SchemaCheckpoint, SchemaRecord
from tests.unit.tables.made import SERVER, SHOP, UTF8, UUID, at, between, table


def test_what_is_equal_is_one_object_when_it_is_read() -> None:
    reading = Definitions()
    one = reading.table(orjson.loads(orjson.dumps(table_json(table("a", "b")))))
    same = reading.table(orjson.loads(orjson.dumps(table_json(table("a", "b")))))
    other = reading.table(orjson.loads(orjson.dumps(table_json(table("a")))))
    assert one is same
    assert one.columns[1].type is other.columns[1].type


def test_what_two_versions_of_a_table_share_is_one_object_when_it_is_read() -> None:
    altered_ = TableChange(name=("shop", "t"), old=table("a", "b"), new=table("a", "c", "b"))
    read = Definitions().change(orjson.loads(orjson.dumps(change_json(altered_))))
    assert read == altered_
    assert isinstance(read, TableChange)
    assert read.old is not None
    assert read.new is not None
    assert [c is d for c, d in zip(read.old.columns[1:], read.new.columns[1::2], strict=True)] == [
        True,
        True,
    ]


def test_a_later_definition_names_what_it_shares_by_its_place() -> None:
    value = table_json(table("a", "b"), table("b"))
    assert value["columns"] == [0, ["a", "int", True], 1]


def test_a_field_that_comes_to_a_column_later_finds_the_older_records() -> None:
    # Arrays are in the order of the fields; what is in the journal must keep its order.
    assert [field.name for field in fields(Column)][:8] == [
        "name",
        "type",
        "nullable",
        "charset",
        "collation",
        "generated",
        "invisible",
        "definition",
    ]
    assert [field.name for field in fields(Index)][:4] == ["name", "columns", "unique", "prefixed"]


def change(name: str, *columns: str) -> TableChange:
    return TableChange(name=("shop", name), old=None, new=table(*columns))


def test_packs_are_as_large_as_they_may_be_and_a_table_that_is_larger_stands_alone() -> None:
    wide = [f"column_{number}" for number in range(100)]
    many = [change(f"t{number}", "a") for number in range(10)]
    found = packs([*many[:5], change("wide", *wide), *many[5:]], limit=1000)
    assert [len(pack) for pack in found] == [4, 1, 1, 4, 1]
    assert packs([], limit=1000) == []


def checkpoint(count: int = 0, *, number: int = 1, tables: int = 40) -> SchemaCheckpoint:
    head = CheckpointHead(
        destination="shop",
        number=number,
        position=between(100),
        made_ms=0,
        count=count,
        server=SERVER,
    )
    return SchemaCheckpoint(
        head=head,
        tables={("shop", f"t{n}"): table("a") for n in range(tables)},
        databases={"shop": UTF8},
    )


def test_a_checkpoints_parts_are_no_larger_than_a_pack() -> None:
    *parts, (head, _) = checkpoint_records(checkpoint(), limit=1000)
    assert head == b"checkpoint/shop/1/head"
    assert [key for key, _ in parts] == [
        f"checkpoint/shop/1/{part}".encode() for part in range(len(parts))
    ]
    assert len(parts) > 3
    assert all(len(value) < 1100 for _, value in parts)


def test_an_empty_checkpoint_is_a_head_alone() -> None:
    empty = replace(checkpoint(tables=0), databases={})
    ((key, _),) = checkpoint_records(empty)
    assert key.endswith(b"/head")


def made(**fields: Any) -> SchemaRecord:
    return SchemaRecord(destination="s/1", number=3, position=at(200), session=SHOP, **fields)


def test_the_key_of_a_statement_is_its_place() -> None:
    assert record_key(made()) == f"history/s%2F1/{UUID}/b.000001/200".encode()
    again = replace(made(), number=77, statement="ALTER TABLE x ADD y INT")
    assert record_key(again) == record_key(made())


def test_what_is_no_statement_has_a_key_of_its_own_at_the_same_place() -> None:
    baseline = made(kind="baseline", changes=(change("a"), change("b")))
    assert record_key(baseline) == f"baseline/s%2F1/{UUID}/b.000001/200/3".encode()
    given_ = made(kind="resolution", changes=(change("a/b"),))
    assert record_key(given_) == f"resolved/s%2F1/{UUID}/b.000001/200/shop/a%2Fb".encode()


def test_a_statement_that_changes_very_many_tables_is_several_records_of_one_key() -> None:
    dropped = made(changes=tuple(change(f"t{n}", "a", "b") for n in range(20)))
    entries = history_records(dropped, limit=1000)
    assert len(entries) > 2
    assert [key for key, _ in entries] == [
        record_key(dropped),
        *(record_key(dropped) + f"/{part}".encode() for part in range(1, len(entries))),
    ]
    assert all(len(value) < 1500 for _, value in entries)
    fold = HistoryFold(OLDEST)
    begins = checkpoint(count=2)
    for position, (key, value) in enumerate([*checkpoint_records(begins), *entries]):
        kind, _, *names = key.decode().split("/")
        assert not fold.is_whole(3)
        fold.take(kind, names, StoredRecord(key, value, position))
    assert fold.is_whole(3)
    assert fold.build(3).records == (dropped,)


def take(value: bytes, *, kind: str = "history", names: tuple[str, ...] = ()) -> None:
    record = StoredRecord(f"{kind}/shop".encode(), value, 5)
    HistoryFold(OLDEST).take(kind, list(names), record)


def whole() -> dict[str, Any]:
    ((_, value),) = history_records(made(changes=(change("a"),), reason="x", amends=1))
    found: dict[str, Any] = orjson.loads(value)
    return found


@pytest.mark.parametrize(
    "missing", sorted(whole().keys() - {"reason", "unresolved", "amends", "current"})
)
def test_a_record_that_lacks_a_field_is_damage(missing: str) -> None:
    value = whole()
    del value[missing]
    with pytest.raises(JournalDamaged):
        take(orjson.dumps(value))


@pytest.mark.parametrize(
    "broken",
    [
        {"changes": [{"table": ["a", "b"], "old": None, "new": {"columns": [0], "indexes": []}}]},
        {"changes": [{"table": ["a", "b"], "old": 7, "new": None}]},
        {"changes": [{"table": ["a", "b"], "old": None, "new": {"columns": [["x"]]}}]},
        {"session": {"no_such_setting": 1}},
        {"changes": 7},
        {"gtid_set": "not a set"},
    ],
)
def test_a_record_of_another_form_is_damage(broken: dict[str, Any]) -> None:
    with pytest.raises(JournalDamaged):
        take(orjson.dumps(whole() | broken))


@pytest.mark.parametrize("names", [(), ("x", "0"), ("1",), ("1", "x")])
def test_a_checkpoints_key_of_another_form_is_damage(names: tuple[str, ...]) -> None:
    with pytest.raises(JournalDamaged):
        take(b'{"format":1}', kind="checkpoint", names=names)


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(JournalTooNew, match="format 99"):
        take(b'{"format":99}')
