"""Rows that only subscribers have are deleted where a SELECT has no row with their key, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.worker.pipeline.gather.captured_tables import PacketRows
from app.worker.pipeline.gather.delete_records import RemovedRow
from app.worker.pipeline.piece import Entered, Piece
from app.worker.pipeline.portions import Portion, RemovedRows, SelectedRows
from connectors.errors import RuleImpossible
from connectors.mysql.binlog.events import EventType
from connectors.mysql.select.packets import PacketEncoder
from connectors.mysql.stream.chunk import Chunk
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests import made
from tests.unit.app.worker.pipeline.portions.test_inserted_rows import cursor
from tests.unit.app.worker.pipeline.portions.test_selected_rows import (
    HEADER,
    KEYED,
    NOTE,
    Pair,
    deletes,
    image,
    outcomes,
    ran,
    rows_of,
    selected,
    statement,
    transaction,
    updates,
    watch,
    writes,
)
from tests.unit.app.worker.pipeline.runs import MARKERS, RULES, Record, records_of, run_by_turns


def key(number: int) -> str:
    return f'{{"id":{number}}}'


def looked_for(*keys: str, rows: tuple[Pair, ...] = (), **more: Any) -> SelectedRows:
    return replace(selected(*rows, **more), removes=keys)


def mapped(rules: str, partitions: int = 1) -> Routes:
    """Rules of the table, which is logical."""
    mapping = from_yaml(f"tables: {{trade.t: {{from: ['shop.t'], topic: trade, {rules}}}}}")
    return Routes(
        prefix="aq", include=r"shop\..*", destination="shop", mapping=mapping, partitions=partitions
    )


def ops(pieces: list[Piece]) -> list[tuple[str, int]]:
    return [(one.op, orjson.loads(one.key or b"{}")["id"]) for one in rows_of(pieces)]


def of_topic(pieces: list[Piece], topic: str) -> list[Record]:
    return [one for one in records_of(pieces) if one.topic == topic]


def test_a_key_without_a_row_is_a_delete_and_its_tombstone_numbered_with_the_stream() -> None:
    pieces = ran(
        watch(),
        looked_for(key(3), key(1), key(2), rows=((1, 5),)),
        writes(1, (7, 7)),
        markers=False,
    )
    found = of_topic(pieces, "aq.shop.t")
    assert [(one.op, one.key) for one in found] == [
        ("r", b'{"id":1}'),
        ("d", b'{"id":3}'),
        ("tombstone", b'{"id":3}'),
        ("d", b'{"id":2}'),
        ("tombstone", b'{"id":2}'),
        ("c", b'{"id":7}'),
    ]
    value = found[1].value
    assert (value["before"], value["after"], value["absent"]) == ({"id": 3}, None, ["v"])
    assert (value["source"]["snapshot"], value["source"]["gtid"]) == ("incremental", None)
    assert [one.seq for one in rows_of(pieces)] == [8, 9, 10, 11]
    ids = [dict(one.headers)["change_id"] for one in found[:5]]
    assert ids == [b"one/t/1#0", *[b"one/t/1#1"] * 2, *[b"one/t/1#2"] * 2]
    assert outcomes(pieces)[1] == Entered(1, rows=1, removed=2)
    assert (pieces[1].notes, pieces[1].counts.rows) == ([NOTE], {"r": 1, "d": 2})


def test_a_delete_alone_brings_its_tables_version() -> None:
    pieces = ran(watch(), looked_for(key(3)))
    assert [one.table for one in pieces[1].tables.versions] == ["t"]
    assert ops(pieces) == [("d", 3)]


def test_keys_that_changed_since_are_left_to_the_stream() -> None:
    pieces = ran(
        watch(),
        writes(1, (1, 1)),
        deletes(2, (2, 2)),
        updates(3, ((3, 3), (4, 3))),
        looked_for(*map(key, range(1, 6))),
    )
    assert ops(pieces)[3:] == [("c", 4), ("d", 5)]
    assert outcomes(pieces)[-1] == Entered(1, rows=0, dropped=4, removed=1)
    numbers = [one.seq for one in rows_of(pieces)]
    assert numbers == [*range(8, 8 + len(numbers))]


def test_nothing_is_deleted_where_all_keys_changed_or_a_statement_may_have_changed_any() -> None:
    pieces = ran(watch(), writes(1, (1, 1)), looked_for(key(1)))
    own = pieces[-1]
    assert (own.records, own.notes, own.tables.versions) == (0, [NOTE], [])
    pieces = ran(watch(), statement(1, "TRUNCATE TABLE t"), looked_for(key(1)))
    assert outcomes(pieces)[-1].refused is not None
    assert (ops(pieces), pieces[-1].notes) == ([], [])


def test_a_row_that_a_filter_hides_is_deleted_and_one_that_it_lets_through_is_not() -> None:
    routes = mapped("row_filter: v > 10")
    pieces = ran(watch(), looked_for(key(1), key(2), key(3), rows=((1, 5), (2, 50))), routes=routes)
    assert ops(pieces) == [("r", 2), ("d", 1), ("d", 3)]


@pytest.mark.parametrize("rule", ["operations: [insert, update]", "operations: [delete, update]"])
def test_nothing_is_deleted_where_not_all_changes_are_published(rule: str) -> None:
    assert ops(ran(watch(), looked_for(key(1)), routes=mapped(rule))) == []


def test_names_shards_and_partitions_are_those_of_the_records() -> None:
    routes = mapped(
        "shard_in_key: always, partition_by: [id], column_actions: {id: {rename: number}}", 8
    )
    shard = '{"__shard":["shop","shop","t"],"number":%d}'
    keys = [shard % 1, shard % 2, shard % 3]
    pieces = ran(
        watch(), writes(1, (1, 1)), updates(2, ((1, 1), (1, 2))), routes=routes, markers=False
    )
    placed = {one.key: one.partition for one in of_topic(pieces, "aq.trade")}
    pieces = ran(watch(), looked_for(*keys, rows=((2, 2),)), routes=routes, markers=False)
    found = of_topic(pieces, "aq.trade")
    assert [(one.op, one.key) for one in found if one.value] == [
        ("r", keys[1].encode()),
        ("d", keys[0].encode()),
        ("d", keys[2].encode()),
    ]
    assert found[1].value["before"] == {"number": 1}
    assert found[1].partition == placed[keys[0].encode()]
    assert {one.partition for one in found if one.key == keys[0].encode()} == {found[1].partition}


def test_a_row_that_came_back_is_recognized_where_its_key_chooses_the_partition() -> None:
    routes = mapped("partition_by: [id]", 8)
    pieces = ran(watch(), writes(1, (1, 1)), looked_for(key(1)), routes=routes)
    assert ops(pieces) == [("c", 1)]


@pytest.mark.parametrize(
    "other",
    [
        '{"__shard":["shop","shop","u"],"id":1}',
        '{"id":1}',
        '{"__shard":["shop","shop","t"],"v":1}',
        '{"__shard":["shop","shop","t"],"id":1,"v":1}',
    ],
)
def test_a_key_in_another_form_than_the_records_have_now_is_left_alone(other: str) -> None:
    pieces = ran(watch(), looked_for(other), routes=mapped("shard_in_key: always"))
    assert ops(pieces) == []
    assert pieces[-1].notes == [NOTE]


def test_a_partition_that_the_key_does_not_choose_is_not_guessed() -> None:
    assert ops(ran(watch(), looked_for(key(1)), routes=mapped("partition_by: [v]", 8))) == []


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("format: canal", {"type": "DELETE", "data": [{"id": "3"}], "pkNames": ["id"]}),
        ("format: maxwell", {"type": "delete", "data": {"id": 3}}),
    ],
)
def test_other_formats_have_their_own_deletes(rule: str, wanted: dict[str, Any]) -> None:
    pieces = ran(watch(), looked_for(key(3)), routes=mapped(rule), markers=False)
    (one,) = of_topic(pieces, "aq.trade")
    assert {name: one.value[name] for name in wanted} == wanted


def test_after_a_row_that_cannot_be_decoded_no_key_is_known_to_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = looked_for(key(1), key(2), rows=((1, 1),))
    assert ran(watch(), whole, undecodable_limit=10)[-1].counts.rows == {"r": 1, "d": 1}
    bodies = PacketEncoder.bodies
    monkeypatch.setattr(PacketRows, "rows", lambda *_: None)
    assert ran(watch(), whole, undecodable_limit=10)[-1].counts.rows == {"r": 1, "d": 1}
    monkeypatch.setattr(PacketEncoder, "bodies", lambda *own: [one[:-1] for one in bodies(*own)])
    own = ran(watch(), whole, undecodable_limit=10)[-1]
    assert (len(own.dead_letters), own.error, own.counts.rows) == (1, None, {})


# --- all rows of a table, gone at once -------------------------------------------------------------------


def gone(*rows: tuple[int, str | None], number: int = -1, **more: Any) -> RemovedRows:
    return RemovedRows(
        start=made.START,
        id=number,
        name="truncate:gtid:0",
        removed_ms=1_000,
        server_id=9,
        table_map=made.table_map(KEYED)[HEADER:],
        rows=tuple(RemovedRow(key(one), image) for one, image in rows),
        **more,
    )


def test_rows_that_are_gone_at_once_are_one_transaction_in_parts_with_their_last_images() -> None:
    first = gone((1, '{"id":1,"v":5}'), (2, None), is_last=False)
    pieces = ran(writes(1, (1, 5)), first, gone((3, '{"v":7,"w":8}'), ordinal=2, part=2))
    found = [one for one in of_topic(pieces, "aq.shop.t") if one.op != "c"]
    assert [one.op for one in found] == ["d", "tombstone"] * 3
    values = [one.value for one in found if one.value]
    assert [one["before"] for one in values] == [{"id": 1, "v": 5}, {"id": 2}, {"id": 3, "v": 7}]
    assert [one.get("absent") for one in values] == [None, ["v"], None]
    assert [one["transaction"]["total_order"] for one in values] == [1, 2, 3]
    assert [one["source"]["seq"] for one in values] == [9, 10, 11]
    ids = [dict(one.headers)["change_id"].decode() for one in found[::2]]
    assert ids == [f"truncate:gtid:0#{n}" for n in range(3)]
    markers = [one.value for one in of_topic(pieces, MARKERS) if "truncate" in one.value["id"]]
    assert [one["status"] for one in markers] == ["BEGIN", "END", "END"]
    assert [(one["part"], one["last"]) for one in markers[1:]] == [(1, False), (2, True)]
    assert [one["event_count"] for one in markers[1:]] == [2, 1]
    assert [one.id for one in outcomes(pieces)] == [-1, -1]


@pytest.mark.parametrize("markers", [False, True])
def test_a_transaction_of_one_part_has_markers_only_where_all_have(*, markers: bool) -> None:
    pieces = ran(gone((1, None)), gone(number=-2), markers=markers)
    own = [one.value["status"] for one in of_topic(pieces, MARKERS)]
    assert own == (["BEGIN", "END"] if markers else [])
    assert outcomes(pieces) == [Entered(-1), Entered(-2)]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("partition_by: [v]", "partition_by has columns that are not in its key"),
        ("shard_in_key: never, format: canal", "name the real table"),
    ],
)
def test_a_table_whose_rows_cannot_be_deleted_is_refused_before_its_first_row(
    rule: str, why: str
) -> None:
    pieces = ran(writes(1, (1, 1)), routes=mapped(f"truncates: deletes, {rule}", 8))
    assert isinstance(pieces[-1].error, RuleImpossible)
    assert why in str(pieces[-1].error)
    keyless = replace(KEYED, primary_key=None)
    pieces = ran(writes(1, (1, 1), of=keyless), routes=replace(RULES.routes, truncates="deletes"))
    assert "the table has no key" in str(pieces[-1].error)


def test_a_truncate_whose_table_the_history_does_not_know_is_refused() -> None:
    pieces = ran(statement(1, "TRUNCATE TABLE shop.t"), routes=mapped("truncates: deletes"))
    assert isinstance(pieces[-1].error, RuleImpossible)


def test_the_key_of_a_rule_or_a_masked_one_is_deleted_as_it_was_published() -> None:
    pieces = ran(gone((1, None)), routes=mapped("truncates: deletes, key: [v]"))
    assert ops(pieces) == []
    by_rule = replace(gone(), rows=(RemovedRow('{"v":4}', '{"id":1,"v":4}'),))
    pieces = ran(by_rule, routes=mapped("truncates: deletes, key: [v]"))
    (one,) = rows_of(pieces)
    assert (one.key, one.value["before"]) == (b'{"v":4}', {"id": 1, "v": 4})


# --- a source that has lost rows without a trace, and a SELECT at any position --------------------------

steps = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("wd")), min_size=1, max_size=3),
    min_size=1,
    max_size=6,
)


@given(
    steps=steps,
    lost=st.sets(st.integers(1, 4), min_size=1),
    where=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    count=st.integers(1, 3),
)
def test_the_topic_is_equal_after_a_repair_wherever_the_select_sees_the_source(
    steps: list[list[tuple[int, str]]], lost: set[int], where: tuple[int, int], count: int
) -> None:
    state = {number: 100 for number in range(1, 5) if number not in lost}
    before = writes(99, *((number, 100) for number in range(1, 5)))
    portions, states = list[Chunk](), [dict(state)]
    for number, changes in enumerate(steps, start=1):
        portions.append(changed(number, changes, state))
        states.append(dict(state))
    sees, enters = sorted(min(one, len(steps)) for one in where)
    rows = tuple(sorted((one, v) for one, v in states[sees].items() if one in lost))
    whole: list[Chunk | Portion] = [before, watch()]
    for number in range(len(steps) + 1):
        if number:
            whole.append(portions[number - 1])
        if number == enters:
            whole.append(looked_for(*map(key, sorted(lost)), rows=rows))
    folded: dict[int, int] = {}
    for one in rows_of(run_by_turns(whole, cursor(), count=count, ahead=1)):
        number = orjson.loads(one.key or b"{}")["id"]
        if one.op == "d":
            folded.pop(number, None)
        else:
            folded[number] = one.value["after"]["v"]
    assert folded == state


def changed(number: int, changes: list[tuple[int, str]], state: dict[int, int]) -> Chunk:
    """A transaction of the source, which has these rows."""
    events = list[bytes]()
    for at, (row, what) in enumerate(changes):
        new = number * 10 + at
        if what == "w" and row in state:
            pair = [image((row, state[row])), image((row, new))]
            events.append(made.rows(KEYED, pair, kind=EventType.UPDATE_ROWS))
            state[row] = new
        elif what == "w":
            events.append(made.rows(KEYED, [image((row, new))]))
            state[row] = new
        elif row in state:
            gone = [image((row, state.pop(row)))]
            events.append(made.rows(KEYED, gone, kind=EventType.DELETE_ROWS))
    return transaction(number, made.table_map(KEYED), *events)
