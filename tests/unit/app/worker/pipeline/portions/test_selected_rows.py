"""Selected rows enter the stream, and never show an older image of a row after a newer one."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.worker.pipeline.piece import Entered, Piece
from app.worker.pipeline.portions import KeyWatch, Portion, SelectedRows
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.rules.routes.routes import Routes
from tests import made
from tests.unit.app.worker.pipeline.portions.test_inserted_rows import cursor
from tests.unit.app.worker.pipeline.runs import (
    MARKERS,
    RULES,
    Record,
    records_of,
    run_by_turns,
    run_stage,
    spec_of,
)
from tests.unit.connectors.mysql.select.packets import packets_of

NAME = ("shop", "t")
HEADER = made.HEADER.size
NOTE = (b"snapshot/shop/one", b"{}")


def table(*, key: bool = True, number: int = 1, name: str = "t") -> TableMap:
    """Two INT columns, of which the first is the key."""
    columns = [
        MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name=one, unsigned=False)
        for one in ("id", "v")
    ]
    return TableMap(
        table_id=number,
        database="shop",
        table=name,
        columns=tuple(columns),
        primary_key=(0,) if key else None,
    )


KEYED, OTHER = table(), table(number=2, name="u")
Pair = tuple[int, int]


def image(row: Pair) -> bytes:
    return b"\0" + struct.pack("<ii", *row)


def transaction(number: int, *events: bytes) -> Chunk:
    return made.chunk_of(made.gtid(number), made.query("BEGIN"), *events, made.xid())


def writes(number: int, *rows: Pair, of: TableMap = KEYED) -> Chunk:
    return transaction(number, made.table_map(of), made.rows(of, map(image, rows)))


def updates(number: int, *pairs: tuple[Pair, Pair]) -> Chunk:
    images = [image(one) for pair in pairs for one in pair]
    event = made.rows(KEYED, images, kind=EventType.UPDATE_ROWS)
    return transaction(number, made.table_map(KEYED), event)


def deletes(number: int, *rows: Pair) -> Chunk:
    event = made.rows(KEYED, map(image, rows), kind=EventType.DELETE_ROWS)
    return transaction(number, made.table_map(KEYED), event)


def statement(number: int, sql: str) -> Chunk:
    chunk = made.chunk_of(made.gtid(number), made.query(sql))
    chunk.ends_in_statement = True
    return chunk


def watch(*tables: tuple[str, str], number: int = 0) -> KeyWatch:
    return KeyWatch(start=made.START, tables=frozenset(tables or [NAME]), id=number)


def packets(of: TableMap, rows: Iterable[Pair]) -> bytes:
    return packets_of(of.columns, [tuple(b"%d" % one for one in row) for row in rows])


def selected(
    *rows: Pair,
    number: int = 1,
    attempt: int = 0,
    since: int = 0,
    kept: int = 0,
    of: TableMap = KEYED,
) -> SelectedRows:
    return SelectedRows(
        start=made.START,
        table=(of.database, of.table),
        read=f"one/t/{number}",
        id=number,
        read_ms=1_000,
        server_id=9,
        attempt=attempt,
        since=since,
        begins=number,
        kept=kept,
        table_map=made.table_map(of)[HEADER:],
        blocks=(packets(of, rows),) if rows else (),
        note=NOTE,
    )


def ran(*portions: Chunk | Portion, **rules: Any) -> list[Piece]:
    own = replace(RULES, **rules)
    return run_stage(portions, cursor(), spec_of(own, cursor(), {}))


def rows_of(pieces: list[Piece]) -> list[Record]:
    return [one for one in records_of(pieces) if one.value and one.op in "crud"]


def shown(pieces: list[Piece]) -> list[tuple[str, int, int]]:
    return [
        (one.op, one.value["after"]["id"], one.value["after"]["v"])
        for one in rows_of(pieces)
        if one.value["after"]
    ]


def outcomes(pieces: list[Piece]) -> list[Entered]:
    return [one for piece in pieces for one in piece.entered]


def test_they_are_numbered_with_the_stream_as_reads_and_move_nothing() -> None:
    pieces = ran(watch(), writes(1, (1, 1)), selected((2, 2), (3, 3)), writes(2, (4, 4)))
    assert shown(pieces) == [("c", 1, 1), ("r", 2, 2), ("r", 3, 3), ("c", 4, 4)]
    found = rows_of(pieces)
    assert [one.seq for one in found] == [8, 9, 10, 11]
    sources = [one.value["source"] for one in found]
    assert [one["snapshot"] for one in sources] == ["false", "incremental", "incremental", "false"]
    assert [(one["gtid"], one["server_id"]) for one in sources[1:3]] == [(None, 9)] * 2
    names = [dict(one.headers)["change_id"] for one in found]
    assert names[1:3] == [b"one/t/1#0", b"one/t/1#1"]
    _, before, own, _ = pieces
    assert (own.coordinates, own.trace.gtids, own.whole) == (before.coordinates, [], True)
    assert own.notes == [NOTE]
    assert outcomes(pieces) == [Entered(0), Entered(1, rows=2)]
    assert not pieces[0].only_moves, "its owner waits for its commit"
    assert own.counts.rows == {"r": 2}


def test_rows_whose_keys_changed_since_are_dropped_and_have_no_numbers() -> None:
    pieces = ran(
        watch(),
        updates(1, ((2, 2), (2, 20))),
        deletes(2, (3, 3)),
        updates(3, ((4, 4), (5, 4))),
        writes(4, (6, 60)),
        selected((1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (6, 6), (7, 7)),
        writes(5, (8, 8)),
    )
    assert [one for one in shown(pieces) if one[0] == "r"] == [("r", 1, 1), ("r", 7, 7)]
    assert outcomes(pieces)[-1] == Entered(1, rows=2, dropped=5)
    numbers = [one.seq for one in rows_of(pieces)]
    assert numbers == [*range(8, 8 + len(numbers))]


def test_a_read_of_which_all_rows_were_dropped_is_recorded_and_publishes_nothing() -> None:
    pieces = ran(watch(), updates(1, ((2, 2), (2, 20))), selected((2, 2)))
    own = pieces[-1]
    assert (own.records, own.notes, own.entered) == (0, [NOTE], [Entered(1, rows=0, dropped=1)])
    assert own.tables.versions == []


def test_changes_before_the_generation_began_drop_nothing() -> None:
    pieces = ran(
        watch(),
        updates(1, ((2, 2), (2, 20))),
        selected((1, 1), number=1),
        updates(2, ((3, 3), (3, 30))),
        selected((2, 20), (3, 3), number=2, since=1, kept=1),
    )
    assert [one for one in shown(pieces) if one[0] == "r"] == [("r", 1, 1), ("r", 2, 20)]


def test_a_generation_that_another_read_needs_is_kept() -> None:
    pieces = ran(
        watch(),
        updates(1, ((2, 2), (2, 20))),
        selected((1, 1), number=1, kept=0),
        selected((2, 2), (3, 3), number=2, since=0),
    )
    assert outcomes(pieces)[-1] == Entered(2, rows=1, dropped=1)


@pytest.mark.parametrize(
    "sql",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMN w INT",
        "DROP TABLE t",
        "ALTER TABLE t TRUNCATE PARTITION p1",
    ],
)
def test_rows_that_were_read_before_a_statement_on_their_table_are_refused(sql: str) -> None:
    pieces = ran(watch(), statement(1, sql), selected((1, 1)), selected((1, 1), number=2))
    own = outcomes(pieces)[1]
    assert (own.rows, own.refused) == (0, "rows of it changed, and which ones is not known")
    assert pieces[-2].notes == []
    assert shown(pieces) == []


def test_a_read_after_the_statement_is_published() -> None:
    pieces = ran(
        watch(),
        statement(1, "TRUNCATE TABLE t"),
        selected((1, 1)),
        selected((1, 1), number=2, since=1, attempt=1),
    )
    assert [one.refused is None for one in outcomes(pieces)] == [True, False, True]
    assert shown(pieces) == [("r", 1, 1)]


def test_a_read_that_follows_a_refused_one_of_the_same_attempt_is_refused_too() -> None:
    pieces = ran(
        watch(),
        statement(1, "TRUNCATE TABLE t"),
        selected((1, 1)),
        selected((2, 2), number=2, since=1),
        selected((1, 1), number=3, since=1, attempt=1),
    )
    assert [one.refused for one in outcomes(pieces)[2:]] == [
        "an earlier read of it was refused",
        None,
    ]
    assert shown(pieces) == [("r", 1, 1)]


def test_rows_of_a_table_that_is_not_watched_are_refused() -> None:
    pieces = ran(watch(("shop", "u")), selected((1, 1)))
    assert outcomes(pieces)[-1].refused is not None
    pieces = ran(watch(), watch(("shop", "u")), selected((1, 1)))
    assert outcomes(pieces)[-1].refused is not None
    assert shown(pieces) == []


def test_without_a_key_any_change_refuses_all_rows_and_none_publishes_all() -> None:
    plain = table(key=False)
    pieces = ran(watch(), selected((1, 1), (1, 1), of=plain))
    assert shown(pieces) == [("r", 1, 1), ("r", 1, 1)]
    changed = transaction(1, made.table_map(plain), made.rows(plain, [image((5, 5))]))
    pieces = ran(watch(), changed, selected((1, 1), of=plain))
    assert outcomes(pieces)[-1].refused is not None
    pieces = ran(watch(), writes(1, (1, 1), of=OTHER), selected((1, 1), of=plain))
    assert outcomes(pieces)[-1] == Entered(1, rows=1)


def test_rows_that_contradict_the_definition_that_is_valid_where_they_enter_are_refused() -> None:
    routes = Routes(prefix="aq", include=r"shop\.u", partitions=1)
    pieces = ran(watch(), selected((1, 1)), routes=routes)
    assert outcomes(pieces)[-1].refused == "it is not published"


def test_they_have_transaction_markers_where_those_are_published() -> None:
    pieces = ran(watch(), selected((1, 1), (2, 2)))
    found = [one.value for one in records_of(pieces) if one.topic == MARKERS]
    assert [(one["status"], one["id"]) for one in found] == [
        ("BEGIN", "one/t/1"),
        ("END", "one/t/1"),
    ]
    assert found[1]["event_count"] == 2


# --- a source with a SELECT at any position, against the stream's end ---------------------------------

changes = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("wd")), min_size=1, max_size=3)
steps = st.lists(changes, min_size=1, max_size=8)


@given(
    steps=steps,
    reads=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=3),
    count=st.integers(1, 3),
    ahead=st.integers(0, 2),
)
def test_the_topic_folds_to_the_source_wherever_selects_see_it(
    steps: list[list[tuple[int, str]]], reads: list[tuple[int, int]], count: int, ahead: int
) -> None:
    """Each read sees the source after some transaction, and enters after it or a later one."""
    state: dict[int, int] = {1: 100, 2: 200, 3: 300}
    portions: list[Chunk | Portion] = []
    states = [dict(state)]
    for number, keys in enumerate(steps, start=1):
        events = list[bytes]()
        for at, (key, what) in enumerate(keys):
            new = number * 10 + at
            if what == "w" and key in state:
                pair = [image((key, state[key])), image((key, new))]
                events.append(made.rows(KEYED, pair, kind=EventType.UPDATE_ROWS))
                state[key] = new
            elif what == "w":
                events.append(made.rows(KEYED, [image((key, new))]))
                state[key] = new
            elif key in state:
                gone = [image((key, state.pop(key)))]
                events.append(made.rows(KEYED, gone, kind=EventType.DELETE_ROWS))
        portions.append(transaction(number, made.table_map(KEYED), *events))
        states.append(dict(state))
    entering: dict[int, list[Portion]] = {}
    for number, (first, more) in enumerate(sorted(reads), start=1):
        sees, enters = sorted((min(first, len(steps)), min(more, len(steps))))
        rows = sorted(states[sees].items())
        entering.setdefault(enters, []).append(selected(*rows, number=number))
    whole: list[Chunk | Portion] = [watch(), *entering.get(0, [])]
    for number, portion in enumerate(portions, start=1):
        whole += [portion, *entering.get(number, [])]
    pieces = run_by_turns(whole, cursor(), count=count, ahead=ahead)
    folded: dict[int, int] = {}
    for one in rows_of(pieces):
        assert one.key is not None
        key = orjson.loads(one.key)["id"]
        if one.op == "d":
            folded.pop(key, None)
        elif one.op == "r" and key in folded:
            # A read may repeat a row, and never shows an older image.
            assert folded[key] == one.value["after"]["v"]
        else:
            folded[key] = one.value["after"]["v"]
    assert folded == state
    numbers = [one.seq for one in rows_of(pieces)]
    assert numbers == [*range(8, 8 + len(numbers))]


def emptied(number: int = 1, attempt: int = 0) -> SelectedRows:
    one = selected(number=number, attempt=attempt)
    return replace(one, empties=True, is_read=False, table_map=b"")


def test_a_table_is_emptied_before_its_rows_and_keeps_what_changed_after() -> None:
    pieces = ran(
        writes(1, (1, 1), (2, 2)), watch(), emptied(), writes(2, (3, 3)),
        selected((2, 2), (3, 3), number=2, since=1),
    )  # fmt: skip
    found = [one for one in records_of(pieces) if one.value and one.op in "ctr"]
    assert [one.op for one in found] == ["c", "c", "t", "c", "r"]
    assert [one.seq for one in found] == [8, 9, 10, 11, 12], "its number is of the same sequence"
    assert dict(found[2].headers)["change_id"] == b"one/t/1#0"
    (outcome, *_) = [one for one in outcomes(pieces) if one.id == 1]
    assert outcome == Entered(1)
    assert [piece.notes for piece in pieces if piece.entered and piece.entered[0].id == 1] == [
        [NOTE]
    ]


def ends_of(pieces: list[Piece]) -> list[dict[str, Any]]:
    """What the records state that end a replacement."""
    found = [one for one in records_of(pieces) if one.value is None and one.key is None]
    assert all(one.partition == 0 for one in found)
    return [orjson.loads(dict(one.headers)["replacement"]) for one in found]


@pytest.mark.parametrize("markers", [False, True])
def test_after_the_last_of_the_rows_that_replace_those_before_a_record_without_a_value_says_so(
    markers: bool,
) -> None:
    last = replace(selected((2, 2), number=3, since=2), replaced=True)
    rules = {"markers": markers}
    pieces = ran(watch(), emptied(), selected((1, 1), number=2, since=1), last, **rules)
    found = [one for one in records_of(pieces) if one.topic == "aq.shop.t"]
    assert [None if one.value is None else one.op for one in found] == ["t", "r", "r", None]
    assert [dict(one.headers).get("replacement") for one in found[:3]] == [b"begin", None, None]
    (end,) = ends_of(pieces)
    source = end["source"]
    assert (end["op"], source["db"], source["table"], source["schema"]) == ("t", "shop", "t", None)
    assert source["seq"] == found[2].seq, "it has no number of its own"
    assert dict(found[3].headers)["change_id"] == b"one/t/3#end"


def test_that_all_rows_have_come_is_said_also_if_the_last_ones_have_changed_or_there_are_none() -> (
    None
):
    gone = replace(selected((1, 1), number=2, since=1), replaced=True)
    pieces = ran(watch(), emptied(), writes(1, (1, 2)), gone, markers=True)
    assert [one.op for one in records_of(pieces) if one.value and one.op in "ctr"] == ["t", "c"]
    assert len(ends_of(pieces)) == 1
    assert outcomes(pieces)[-1] == Entered(2, 0, 1)
    none = replace(selected(number=2, since=1), replaced=True)
    assert len(ends_of(ran(watch(), emptied(), none))) == 1


def test_the_end_is_not_said_of_rows_that_are_read_again_and_in_no_other_format() -> None:
    last = replace(selected((1, 1), number=2, since=1), replaced=True)
    refused = ran(watch(), emptied(), statement(1, "ALTER TABLE shop.t ADD COLUMN w int"), last)
    assert outcomes(refused)[-1].refused is not None
    assert ends_of(refused) == []
    routes = Routes(destination="shop", prefix="aq", format="canal")
    others = ran(watch(), emptied(), last, routes=routes)
    assert [one for one in records_of(others) if one.value is None] == []


def test_all_rows_of_a_table_without_a_key_are_ended_too() -> None:
    pieces = ran(watch(), replace(whole((1, 1)), replaced=True))
    assert len(ends_of(pieces)) == 1


def whole(*rows: Pair, **more: Any) -> SelectedRows:
    """All rows of a table without a key."""
    return replace(selected(*rows, of=table(key=False), **more), empties=True)


def test_all_rows_of_a_table_without_a_key_replace_those_before() -> None:
    keyless = table(key=False)
    pieces = ran(writes(1, (1, 1), of=keyless), watch(), whole((1, 1), (1, 1), (2, 2)))
    found = [one for one in records_of(pieces) if one.value and one.op in "ctr"]
    assert [one.op for one in found] == ["c", "t", "r", "r", "r"]
    assert [one.seq for one in found] == [8, 9, 10, 11, 12]
    ids = [dict(one.headers)["change_id"] for one in found]
    assert ids[1:] == [b"one/t/1#%d" % n for n in range(4)]
    assert [one.value["transaction"]["total_order"] for one in found[1:]] == [1, 2, 3, 4]
    assert outcomes(pieces)[-1] == Entered(1, 3)


@pytest.mark.parametrize("rows", [((1, 1),), ()], ids=["rows", "none"])
def test_once_any_of_its_rows_changed_a_table_without_a_key_is_read_again(
    rows: tuple[Pair, ...],
) -> None:
    keyless = table(key=False)
    pieces = ran(watch(), writes(1, (3, 3), of=keyless), whole(*rows))
    assert [one.op for one in records_of(pieces) if one.value and one.op in "ctr"] == ["c"]
    assert outcomes(pieces)[-1].refused == "rows of it changed, and all of them are to be replaced"


@pytest.mark.parametrize("rows", [((1, 1), (3, 2)), ((3, 2),), ()], ids=["both", "changed", "none"])
def test_a_unique_key_that_the_server_promotes_spares_no_change_from_being_read_again(
    rows: tuple[Pair, ...],
) -> None:
    # Without a primary key all its rows are read, but its changes have this key.
    read = replace(selected(*rows), empties=True)
    pieces = ran(watch(), writes(1, (3, 3)), read)
    assert [one.op for one in records_of(pieces) if one.value and one.op in "ctr"] == ["c"]
    assert outcomes(pieces)[-1].refused == "rows of it changed, and all of them are to be replaced"
    pieces = ran(writes(1, (3, 3)), watch(), read)
    found = [one.op for one in records_of(pieces) if one.value and one.op in "ctr"]
    assert found == ["c", "t", *("r" for _ in rows)]


def test_nothing_is_emptied_for_rows_of_an_older_definition() -> None:
    pieces = ran(
        watch(), statement(1, "ALTER TABLE shop.t ADD COLUMN w int"), whole((1, 1), since=0)
    )
    assert outcomes(pieces)[-1].refused is not None
    assert [one for one in records_of(pieces) if one.value and one.op in "tr"] == []


def test_an_empty_table_without_a_key_empties_its_subscribers() -> None:
    pieces = ran(watch(), whole(), markers=True)
    assert [one.op for one in records_of(pieces) if one.value and one.op in "tr"] == ["t"]


def test_changes_before_it_do_not_prevent_that_a_table_is_emptied() -> None:
    pieces = ran(watch(), statement(1, "CREATE TABLE x (id int)"), writes(2, (1, 1)), emptied())
    assert [one.op for one in records_of(pieces) if one.value and one.op in "ct"] == ["c", "t"]
    assert outcomes(pieces)[-1] == Entered(1)


def test_a_table_that_is_not_published_is_not_emptied() -> None:
    routes = Routes(destination="shop", prefix="aq", include=r"shop\.u")
    pieces = ran(watch(), emptied(), routes=routes)
    assert [one.refused for one in outcomes(pieces)][1:] == ["it is not published"]
    assert [one for one in records_of(pieces) if one.value and one.op == "t"] == []
    assert [piece.notes for piece in pieces] == [[], []]


def test_a_watch_brings_records_for_the_journal() -> None:
    one = replace(watch(), notes=((b"a", b"1"), (b"b", b"2")))
    (piece,) = ran(one)
    assert piece.notes == [(b"a", b"1"), (b"b", b"2")]
    assert not piece.only_moves


def test_rows_inserted_into_the_signal_table_are_passed_on() -> None:
    chunks = (
        writes(1, (1, 1)), writes(2, (7, 8), (9, 10), of=OTHER), updates(3, ((1, 1), (1, 2))),
        selected((5, 5), of=OTHER),
    )  # fmt: skip
    pieces = ran(watch(NAME, ("shop", "u")), *chunks, signals=("shop", "u"))
    found = [[orjson.loads(one.row) for one in piece.signals] for piece in pieces if piece.signals]
    assert found == [[{"id": 7, "v": 8}, {"id": 9, "v": 10}]], "and none of a read"
    assert len([one for one in rows_of(pieces) if one.value["source"]["table"] == "u"]) == 3
    assert all(piece.signals == [] for piece in ran(*chunks))
    assert next(piece for piece in pieces if piece.signals).only_moves is False


def test_signals_of_pieces_that_are_joined_stay_in_order() -> None:
    first, second = ran(
        writes(1, (1, 1), of=OTHER), writes(2, (2, 2), of=OTHER), signals=("shop", "u")
    )
    first.absorb(second)
    assert [orjson.loads(one.row)["id"] for one in first.signals] == [1, 2]
