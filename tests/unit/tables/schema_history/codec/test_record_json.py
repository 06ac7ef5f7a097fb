"""What the journal keeps of a schema history is read as it was written, and what cannot be read is damage."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalDamaged, JournalTooNew
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.mysql.ddl.definition import (
    Change,
    Column,
    Database,
    DatabaseChange,
    Index,
    Server,
    Session,
    Table,
    TableChange,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates
from tables.schema_history.checkpoint import CheckpointHead, SchemaCheckpoint
from tables.schema_history.codec.fold import OLDEST, HistoryFold
from tables.schema_history.codec.journal_records import (
    checkpoint_records,
    history_records,
    record_key,
)
from tables.schema_history.codec.record_json import Reading, head_json, items_json, record_json
from tables.schema_history.definition_json import Definitions, change_json, packs, table_json
from tables.schema_history.position import HistoryPlace
from tables.schema_history.record import Given, SchemaRecord, Unresolved
from tests.unit.tables.made import SERVER, SHOP, UTF8, UUID, at, between, table

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.tuples(texts, texts)
columns = st.builds(
    Column,
    name=texts,
    type=texts,
    nullable=st.booleans(),
    charset=st.none() | texts,
    collation=st.none() | texts,
    generated=st.sampled_from([None, "virtual", "stored"]),
    invisible=st.booleans(),
    definition=texts,
)
indexes = st.builds(
    Index,
    name=texts,
    columns=st.lists(texts, max_size=3).map(tuple),
    unique=st.booleans(),
    prefixed=st.booleans(),
    parts=st.lists(texts, max_size=3).map(tuple),
    kind=texts,
    options=texts,
)
tables = st.builds(
    Table,
    columns=st.lists(columns, max_size=4, unique_by=lambda one: one.name).map(tuple),
    indexes=st.lists(indexes, max_size=2, unique_by=lambda one: one.name).map(tuple),
    charset=texts,
    collation=texts,
    options=texts,
)
databases = st.builds(Database, charset=texts, collation=texts)
sessions = st.builds(
    Session,
    database=st.none() | texts,
    sql_mode=st.frozensets(texts, max_size=3),
    server_collation=st.none() | texts,
    utf8mb4_collation=st.none() | texts,
    explicit_timestamps=st.none() | st.booleans(),
    thread=st.integers(0, 2**32),
)
offsets = st.integers(4, 2**40)
files = st.integers(1, 10**7).map(lambda number: f"b.{number:06}")
gtid_sets = st.none() | st.sampled_from(
    [GtidSet.parse(f"{UUID}:1-5:7"), GtidSet(), MariadbGtidList.parse("0-1-5,2-3-4")]
)
places = st.builds(
    HistoryPlace,
    server_uuid=texts,
    start=st.builds(Coordinates, files, offsets),
    end=st.builds(Coordinates, files, offsets),
    gtid=st.none() | texts,
    gtid_set=gtid_sets,
    ts_ms=offsets,
    server_id=offsets,
    thread=offsets,
    user=st.none() | texts,
)


@st.composite
def altered(draw: st.DrawFn) -> Change:
    old, new = draw(tables), draw(tables)
    kept = tuple(draw(st.permutations(old.columns)))[: draw(st.integers(0, 4))]
    new = replace(new, columns=tuple({c.name: c for c in (*new.columns, *kept)}.values()))
    return TableChange(
        name=draw(names),
        old=draw(st.sampled_from([old, None])),
        new=draw(st.sampled_from([new, None])),
        renamed_to=draw(st.none() | names),
        renamed_from=draw(st.none() | names),
    )


changes = altered() | st.builds(
    DatabaseChange, name=texts, old=st.none() | databases, new=st.none() | databases
)
records = st.builds(
    SchemaRecord,
    destination=texts,
    number=st.integers(1, 10**6),
    kind=st.sampled_from(["statement", "baseline", "resolution"]),
    place=places,
    statement=texts,
    type=texts,
    session=sessions,
    changes=st.lists(changes, max_size=3).map(tuple),
    amends=st.none() | st.integers(0, 10**6),
    given=st.none() | st.builds(Given, by=texts, ts_ms=offsets, source=texts),
    unchanged=st.lists(names, max_size=2).map(tuple),
)


@settings(deadline=None)
@given(record=records, reason=st.none() | texts, names=st.lists(names, max_size=3).map(tuple))
def test_a_record_is_read_as_it_was_written(
    record: SchemaRecord, reason: str | None, names: tuple[tuple[str, str], ...]
) -> None:
    if reason is not None:
        record = replace(record, reason=reason, unresolved=names)
    stored = orjson.loads(orjson.dumps(record_json(record)))
    assert Reading().record(stored) == record


@settings(deadline=None)
@given(
    place=places,
    tables=st.dictionaries(names, tables, max_size=4),
    databases=st.dictionaries(texts, databases, max_size=2),
    others=st.dictionaries(names, st.tuples(texts, places, places), max_size=2),
)
def test_a_checkpoint_is_read_as_it_was_written(
    place: HistoryPlace, tables: Any, databases: Any, others: Any
) -> None:
    head = CheckpointHead(
        destination="shop",
        number=3,
        place=place,
        made_ms=7,
        count=9,
        server=Server(version=(10, 11, 6), mariadb=True, lower_case_table_names=2),
        begins=True,
        parts=2,
    )
    written = SchemaCheckpoint(
        head=head,
        tables=tables,
        databases=databases,
        unresolved={
            name: Unresolved(reason=reason, since=since, last=last)
            for name, (reason, since, last) in others.items()
        },
        dropped={name: since for name, (_, since, _) in others.items()},
        given=(
            SchemaRecord(
                destination="shop",
                number=2,
                kind="resolution",
                place=place,
                changes=(TableChange(name=("a", "b"), old=None, new=table()),),
            ),
        ),
    )
    reading = Reading()
    read = reading.head(orjson.loads(orjson.dumps(head_json(head))))
    assert read == head
    items = orjson.loads(orjson.dumps(items_json(written)))
    assert reading.checkpoint(read, items) == written


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
    # Arrays are in the order of the fields; what stands in the journal must keep its place.
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
        destination="shop", number=number, place=between(100), made_ms=0, count=count, server=SERVER
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
    return SchemaRecord(destination="s/1", number=3, place=at(200), session=SHOP, **fields)


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
    for place, (key, value) in enumerate([*checkpoint_records(begins), *entries]):
        kind, _, *names = key.decode().split("/")
        assert not fold.is_whole(3)
        fold.take(kind, names, StoredRecord(key, value, place))
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
