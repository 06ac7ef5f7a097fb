"""Mapped tables against a second reading: what is published without the mapping, renamed by its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from app.worker.pipeline.publish.publisher import _after
from connectors.kafka.record_batches import partition_of
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.actions import Action, RowsOf, Truncate, cuts, histories
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import (
    MARKERS,
    RULES,
    Record,
    assert_markers,
    first_cursor,
    joined,
    pieces_of,
    records_of,
    rows_by_topic,
    run,
    versions_of,
)

PLAIN = Routes(prefix="aq", include=r"(shop|other)\..*", destination="shop")
ORDERS = ("shop", "orders")
REAL = ("shop.orders", "other.orders", "shop.log")
LOGICAL = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["", "t"])


@st.composite
def choices(draw: st.DrawFn) -> tuple[dict[str, str], str]:
    """The logical table of each real one, none for some, and the topic of all or none."""
    owners = draw(st.dictionaries(st.sampled_from(REAL), LOGICAL))
    return owners, draw(TOPICS)


def mapping_text(owners: dict[str, str], topic: str) -> str:
    tables: dict[str, Any] = {}
    for real, name in owners.items():
        tables.setdefault(f"l.{name}", {"from": [], "tags": {"": f"tag_{name}"}})["from"].append(
            real
        )
    databases = {"l": {"topic": topic}} if topic else {}
    return orjson.dumps({"databases": databases, "tables": tables}).decode()


def renamed(record: Record, owners: dict[str, str], topic: str) -> Any:
    """A record as the mapping wants it, from the one without a mapping."""
    real = record.topic.removeprefix("aq.")
    key, value, headers = record.key, record.value, list(record.headers)
    if real not in owners:
        return record.topic, key, plain(value), headers
    name = owners[real]
    if topic or list(owners.values()).count(name) > 1:
        shard = ["shop", *real.split(".")]
        key = key and with_shard(key, shard)
        headers = [
            (name, with_shard(text, shard) if name.endswith("key") else text)
            for name, text in headers
        ]
    headers.append(("tags", f"tag_{name}".encode()))
    value = plain(value)
    if value is not None:
        logical = {"logical_db": "l", "logical_table": name, "tags": [f"tag_{name}"]}
        value["source"] |= logical
    return f"aq.{topic}" if topic else f"aq.l.{name}", key, value, headers


OPERATION = {"c": "insert", "u": "update", "d": "delete", "t": "delete"}


def selected(
    source: Source, history: list[list[Action]], operations: list[str]
) -> Iterator[tuple[str, str]]:
    """Kind and ChangeId of the values of shop.orders with an id above 1, by a reading of the history."""
    for number, actions in enumerate(history, start=1):
        name, ordinal = source.name(number), 0
        for action in actions:
            if isinstance(action, Truncate) and action.table == ORDERS:
                found = [("t", "")]
                yield from _named(found, f"{name}#{ordinal}", operations)
            elif isinstance(action, RowsOf):
                for old, new in action.keys:
                    if action.table == ORDERS:
                        found = _halves(action.op, old, new)
                        yield from _named(found, f"{name}#{ordinal}", operations)
                    ordinal += 1


def _named(
    found: list[tuple[str, str]], name: str, operations: list[str]
) -> Iterator[tuple[str, str]]:
    kind = "u" if len(found) == 2 else "".join(op for op, _ in found)
    if kind and OPERATION[kind] in operations:
        yield from ((op, f"{name}{half}") for op, half in found)


def _halves(op: str, old: int, new: int) -> list[tuple[str, str]]:
    was, is_ = op != "c" and old > 1, op != "d" and new > 1
    if was and is_:
        return [("u", "")] if old == new else [("d", "/0"), ("c", "/1")]
    return [("d", "")] if was else [("c", "")] if is_ else []


def with_shard(key: bytes, shard: list[str]) -> bytes:
    return orjson.dumps({"__shard": shard, **orjson.loads(key)})


def plain(value: Any) -> Any:
    """A value without the time of its encoding."""
    return value and {**value, "ts_ms": 0, "source": dict(value["source"])}


def rows(records: list[Record]) -> list[Record]:
    """Records of rows, in the order of their numbers; a tombstone follows its delete."""
    found = [one for one in records if one.topic != MARKERS and "__ddl" not in one.topic]
    last = 0
    placed = []
    for one in found:
        last = one.seq if one.value is not None else last
        placed.append((last, one))
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]


@settings(deadline=None, max_examples=40)
@given(history=histories, cut=cuts, choice=choices(), max_bytes=st.sampled_from([150, 1_000_000]))
def test_a_mapping_renames_and_tags_and_changes_nothing_else(
    history: Any, cut: Any, choice: tuple[dict[str, str], str], max_bytes: int
) -> None:
    owners, topic = choice
    source = Source(history, gtids=True)
    whole = rows(records_of(pieces_of(source, routes=PLAIN)))
    routes = replace(PLAIN, mapping=from_yaml(mapping_text(owners, topic)))
    pieces = pieces_of(source, cut, routes=routes, max_bytes=max_bytes)
    assert_markers(joined(pieces))
    found = rows(records_of(pieces))
    assert [(one.topic, one.key, plain(one.value), list(one.headers)) for one in found] == [
        renamed(one, owners, topic) for one in whole
    ]


@settings(deadline=None, max_examples=60)
@given(
    history=histories,
    cut=cuts,
    operations=st.lists(st.sampled_from(["insert", "update", "delete"]), unique=True, min_size=1),
    max_bytes=st.sampled_from([1, 150, 1_000_000]),
)
def test_rules_select_rows_and_leave_names_and_numbers_whole(
    history: Any, cut: Any, operations: list[str], max_bytes: int
) -> None:
    rules = {"from": ["shop.orders"], "row_filter": "id > 1", "operations": operations}
    mapping = from_yaml(orjson.dumps({"tables": {"l.a": rules}}).decode())
    source = Source(history, gtids=True)
    routes = replace(PLAIN, mapping=mapping)
    pieces = pieces_of(source, cut, routes=routes, max_bytes=max_bytes)
    assert_markers(joined(pieces))
    values = [one for one in records_of(pieces) if one.topic != MARKERS and one.value is not None]
    assert sorted(one.seq for one in values) == list(range(1, len(values) + 1))
    found = sorted((one for one in values if one.topic == "aq.l.a"), key=lambda one: one.seq)
    named = [(one.op, dict(one.headers)["change_id"].decode()) for one in found]
    assert named == list(selected(source, history, operations))


@settings(deadline=None, max_examples=40)
@given(history=histories, cut=cuts, other=cuts, max_bytes=st.sampled_from([1, 150]))
def test_a_run_that_resumes_within_a_filtered_transaction_publishes_what_an_uncut_one_does(
    history: Any, cut: Any, other: Any, max_bytes: int
) -> None:
    rules = {"from": ["shop.orders"], "row_filter": "id > 1"}
    mapping = from_yaml(orjson.dumps({"tables": {"l.a": rules}}).decode())
    routes = replace(PLAIN, mapping=mapping)
    source = Source(history, gtids=True)
    cursor = first_cursor(source)
    chosen = replace(RULES, routes=routes, max_bytes=max_bytes)
    pieces = joined(run(source.chunks(source.first, cut), cursor, rules=chosen))
    whole = rows_by_topic(records_of(pieces))
    for number, piece in enumerate(pieces, start=1):
        cursor = _after(cursor, piece)
        known = {(one.database, one.table): one for one in versions_of(pieces[:number])}
        start, later = cursor.offset.coordinates, replace(cursor, epoch=2)
        rest = joined(run(source.chunks(start, other), later, known, chosen))
        assert rows_by_topic(records_of(pieces[:number] + rest)) == whole


@settings(deadline=None, max_examples=40)
@given(history=histories, cut=cuts, max_bytes=st.sampled_from([1, 150, 1_000_000]))
def test_a_chosen_column_decides_the_partition_of_every_record_of_a_row(
    history: Any, cut: Any, max_bytes: int
) -> None:
    rules = {"from": ["shop.orders"], "partition_by": ["note"], "partitions": 5}
    mapping = from_yaml(orjson.dumps({"tables": {"l.a": rules}}).decode())
    source = Source(history, gtids=True)
    plain = pieces_of(source, routes=PLAIN)
    pieces = pieces_of(source, cut, routes=replace(PLAIN, mapping=mapping), max_bytes=max_bytes)
    assert_markers(joined(pieces))
    found = [one for one in records_of(pieces) if one.topic == "aq.l.a"]
    before = [one for one in records_of(plain) if one.topic == "aq.shop.orders"]
    assert [(one.key, one.op) for one in rows(found)] == [(one.key, one.op) for one in rows(before)]
    for one in found:
        if one.value is not None and one.op != "t":
            image = one.value["after"] or one.value["before"]
            place = orjson.dumps({"note": image["note"]})
            assert one.partition == partition_of(place, 5)
            assert b"\0" not in b"".join([one.key or b"", *(text for _, text in one.headers)])
