"""Any schema record and any checkpoint are read from the journal as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

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
from tables.history.codec import Reading, head_json, items_json, record_json
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointHead, Given, SchemaCheckpoint, SchemaRecord, Unresolved
from tests.unit.tables.made import UUID, table

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
    HistoryPosition,
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
    position=places,
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
    position=places,
    tables=st.dictionaries(names, tables, max_size=4),
    databases=st.dictionaries(texts, databases, max_size=2),
    others=st.dictionaries(names, st.tuples(texts, places, places), max_size=2),
)
def test_a_checkpoint_is_read_as_it_was_written(
    position: HistoryPosition, tables: Any, databases: Any, others: Any
) -> None:
    head = CheckpointHead(
        destination="shop",
        number=3,
        position=position,
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
                position=position,
                changes=(TableChange(name=("a", "b"), old=None, new=table()),),
            ),
        ),
    )
    reading = Reading()
    read = reading.head(orjson.loads(orjson.dumps(head_json(head))))
    assert read == head
    items = orjson.loads(orjson.dumps(items_json(written)))
    assert reading.checkpoint(read, items) == written
