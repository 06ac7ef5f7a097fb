"""What every warehouse does alike: the one in memory, and Delta's and Iceberg's on a real Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from spark_sink.warehouse.iceberg.warehouse import IcebergWarehouse
from spark_sink.warehouse.ledger import Entry, LastBatch, Source
from spark_sink.warehouse.milestones import Milestone, Position
from spark_sink.warehouse.moves import Event, History, Note
from spark_sink.warehouse.shape import Shape
from tests.contract.warehouses import (
    APART,
    HISTORY,
    KEYED,
    LOG,
    NAME,
    OTHER,
    OWN,
    Case,
    case,
    floor,
    row,
)
from tests.unit.spark_sink.conftest import spark

__all__ = ["case", "spark"]
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_only_a_later_change_of_the_destination_replaces_a_row(case: Case) -> None:
    case.merge(KEYED, row(1, 10, 5), row(2, 20, 6), row(3, 30, 7), row(4, 40, 8))
    case.merge(KEYED, row(1, 11, 4), row(2, 21, 7), row(3, 31, 7), row(4, 41, 1, __epoch=2))
    assert case.current() == [(1, 10), (2, 21), (3, 30), (4, 41)]


def test_between_destinations_the_later_commit_then_the_name_wins(case: Case) -> None:
    case.merge(KEYED, *(row(key, 10, 5, __ts_ms=100) for key in (1, 2, 3, 4)))
    case.merge(
        KEYED,
        row(1, 11, 9, __destination="web", __ts_ms=99),
        row(2, 12, 1, __destination="web", __ts_ms=100),
        row(3, 13, 9, __destination="crm", __ts_ms=100),
        row(4, 14, 1, __destination="crm", __ts_ms=101),
    )
    assert case.current() == [(1, 10), (2, 12), (3, 10), (4, 14)]


def test_sources_kept_apart_have_rows_of_their_own(case: Case) -> None:
    case.merge(KEYED, row(1, 10, 5))
    case.merge(APART, row(1, 20, 4, source=OTHER), row(1, 11, 6, source=OWN))
    crm = Source("crm", "shop", "t")
    case.merge(APART, row(1, 30, 1, source=crm))
    assert case.current() == [(1, 11), (1, 20), (1, 30)]
    case.warehouse.tables.truncate(APART, floor(9, OTHER))
    assert case.current() == [(1, 11), (1, 30)]
    case.warehouse.tables.truncate(APART, floor(9, OWN))
    assert case.current() == [(1, 30)]


def test_a_truncate_leaves_markers_that_keep_older_changes_out(case: Case) -> None:
    case.merge(KEYED, row(1, 10, 1), row(2, 20, 8))
    case.warehouse.tables.truncate(KEYED, floor(5))
    assert case.current() == [(2, 20)]
    case.warehouse.tables.truncate(KEYED, floor(6, OTHER))
    case.merge(KEYED, row(1, 11, 4))
    assert case.current() == [(2, 20)]
    (marker, _) = case.described(case.warehouse.tables.rows(KEYED))
    assert (marker["__deleted"], marker["v"], marker["__seq"]) == (True, None, 5)


def test_a_log_adds_signed_images_once(case: Case) -> None:
    images = [row(1, 10, n, __delta=1) for n in (1, 2)]
    gone = row(1, 10, 3, __delta=-1)
    case.merge(LOG, *images)
    case.merge(LOG, *images, gone)
    assert case.current() == [(1, 10)]
    case.warehouse.tables.truncate(LOG, floor(9))
    assert case.current() == []


def test_hard_deletes_leave_no_marker(case: Case) -> None:
    tables = case.warehouse.tables
    case.merge(KEYED, row(1, 10, 1), row(2, 20, 2), row(3, 30, 3))
    deletes = [row(key, None, seq, __deleted=True) for key, seq in ((1, 5), (2, 1), (9, 5))]
    for _ in range(2):
        tables.merge(KEYED, case.rows(KEYED, *deletes, row(4, 40, 6)), is_hard=True)
        held = case.described(tables.rows(KEYED))
        assert [(one["id"], one["__deleted"]) for one in held] == [(k, False) for k in (2, 3, 4)]
    tables.truncate(KEYED, floor(6), is_hard=True)
    assert [one["id"] for one in case.described(tables.rows(KEYED))] == [4]


def test_a_table_that_is_made_by_a_merge_and_exists_by_then_is_merged(case: Case) -> None:
    tables = case.warehouse.tables
    case.merge(KEYED, row(1, 10, 1), row(2, 20, 2))
    tables.merge(KEYED, case.rows(KEYED, row(1, 11, 3), row(2, 0, 1), row(3, 30, 3)), is_new=True)
    assert case.current() == [(1, 11), (2, 20), (3, 30)]
    assert tables.shape(*NAME) == KEYED


def test_a_table_that_is_made_by_a_merge_with_hard_deletes_has_no_marker(case: Case) -> None:
    rows = case.rows(KEYED, row(1, 10, 1), row(2, None, 2, __deleted=True))
    case.warehouse.tables.merge(KEYED, rows, is_hard=True, is_new=True)
    assert [one["id"] for one in case.described(case.warehouse.tables.rows(KEYED))] == [1]


def test_a_history_has_each_change_once_beside_the_table(case: Case) -> None:
    case.merge(KEYED, row(1, 10, 1))
    space = case.warehouse.histories
    space.tables.evolve(None, HISTORY)
    assert space.tables.shape(*NAME) == HISTORY
    changes = [
        row(1, 10, 1, __op="c", __absent=None),
        row(1, None, 2, __op="u", __absent=["v"]),
        row(1, 10, 3, __op="d", __absent=None, __deleted=True),
    ]
    for given in (changes[:2], changes):
        space.tables.merge(HISTORY, case.rows(HISTORY, *given))
    space.upkeep.retain(NAME, 1)
    space.upkeep.compact(NAME)
    space.upkeep.remove_unused(NAME)
    held = sorted(case.described(space.tables.rows(HISTORY)), key=lambda one: one["__seq"])
    assert [(one["__op"], one["v"], one["__absent"]) for one in held] == [
        ("c", 10, None), ("u", None, ["v"]), ("d", 10, None)
    ]  # fmt: skip
    assert (case.current(), case.warehouse.tables.names()) == ([(1, 10)], [NAME])


def test_a_replacement_is_whole_keeps_its_cut_and_a_drop_ends_it(case: Case) -> None:
    tables, stage = case.warehouse.tables, case.warehouse.stage
    case.merge(KEYED, row(1, 10, 1))
    assert tables.cut(*NAME) is None
    stage.replace(KEYED, case.rows(KEYED, row(2, 20, 2)))
    assert case.current() == [(1, 10)]
    tables.replace(KEYED, stage.rows(KEYED), cut=(7, {("aq.shop.t", 0): 42}))
    stage.drop(*NAME)
    assert stage.shape(*NAME) is None
    assert case.current() == [(2, 20)]
    assert tables.cut(*NAME) == (7, {("aq.shop.t", 0): 42})
    tables.replace(KEYED, case.rows(KEYED, row(3, 30, 3)))
    assert (case.current(), tables.cut(*NAME)) == ([(3, 30)], None)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_table_replaces_one_that_has_not_its_types(case: Case, *, mapped: bool) -> None:
    kinds = [
        "float",
        "double",
        "decimal(38,10)",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
    ]
    more = {f"c {n}" if mapped else f"c{n}": kind for n, kind in enumerate(kinds)}
    wide = Shape(*NAME, (*KEYED.columns, *more.items()), ("id",), mapped=mapped)
    nulls = dict.fromkeys(more)
    case.merge(KEYED, row(1, 10, 1))
    case.warehouse.tables.replace(wide, case.rows(wide, row(2, 20, 2, **nulls)))
    assert case.warehouse.tables.shape(*NAME) == wide
    case.merge(wide, row(3, 30, 3, **nulls))
    assert case.current() == [(2, 20), (3, 30)]
    case.warehouse.tables.replace(KEYED, case.rows(KEYED, row(4, 40, 4)))
    case.warehouse.tables.merge(KEYED, case.rows(KEYED, row(5, 50, 5)), is_new=False)
    assert case.current() == [(4, 40), (5, 50)]


def test_the_ledger_says_up_to_where_each_partition_is_applied(case: Case) -> None:
    log = case.warehouse.log
    assert (log.applied(), log.newest_ms()) == ({}, 0)
    for until in (5, 9):
        entry = {"query_id": "q", "batch_id": until, "topic": "a", "partition": 0, "from_offset": 0}
        log.append([Entry(**entry, until_offset=until, records=1, applied_at_ms=until)])  # type: ignore[arg-type]
    assert (log.applied(), log.newest_ms()) == ({("a", 0): 9}, 9)
    assert [log.newest_ms(topics) for topics in ((), ["b"], {"a", "b"})] == [0, 0, 9]
    other = Entry(**entry | {"topic": "b"}, until_offset=3, records=1, applied_at_ms=10)  # type: ignore[arg-type]
    log.append([other])
    log.void({"a", "c"})
    assert (log.applied(), log.newest_ms({"a"})) == ({("b", 0): 3}, 9)
    log.append([Entry(**entry, until_offset=2, records=1, applied_at_ms=11)])  # type: ignore[arg-type]
    assert log.applied() == {("a", 0): 2, ("b", 0): 3}


def test_the_ledger_returns_batches_with_what_is_merged_after_each_and_their_milestones(
    case: Case,
) -> None:
    log = case.warehouse.log
    assert log.batches() == []
    assert log.last_of_sinks() == []
    milestone = Milestone(
        reached={"shop": Position(1, 9, 90, "u:3")},
        versions={NAME: 4},
        floors=(floor(5), floor(3, OTHER)),
        recent=7,
        is_whole=True,
    )
    share: dict[str, Any] = {"query_id": "q", "records": 1, "topic": "a"}
    first = Entry(**share, batch_id=0, partition=0, from_offset=2, until_offset=5, applied_at_ms=10)
    log.append([first])
    second = Entry(
        **share, batch_id=1, partition=0, from_offset=5, until_offset=9, applied_at_ms=20
    )
    other = Entry(**share, batch_id=1, partition=1, from_offset=0, until_offset=3, applied_at_ms=20)
    log.append([replace(second, milestone=milestone.text()), other])
    one, two = log.batches()
    assert (one.at_ms, one.until, one.milestone) == (10, {("a", 0): 5}, None)
    assert (two.at_ms, two.until) == (20, {("a", 0): 9, ("a", 1): 3})
    assert two.milestone == milestone
    assert two.milestone is not None
    assert two.milestone.reached["shop"].transaction == "u:3"
    for version in (6, 8, 9):
        later = replace(milestone, versions={NAME: version})
        log.restate(later.text())
        one, again = log.batches()
        assert (one.milestone, again) == (None, replace(two, milestone=later))
    assert log.last() == LastBatch(batch_id=1, records=2, applied_at_ms=20)
    log.append([replace(first, batch_id=2, from_offset=9, until_offset=10, applied_at_ms=30)])
    log.restate(later.text())
    assert [one.milestone for one in log.batches()] == [None, later, None]
    assert log.last_of_sinks() == [(20, later), (30, None)]
    # Of another sink, and of one whose last batch is earlier.
    others = replace(later, sink="b"), replace(later, sink="c", is_whole=False)
    for stated, at_ms in zip((*others, others[0]), (25, 26, 40), strict=True):
        log.append([replace(first, milestone=stated.text(), applied_at_ms=at_ms)])
    assert log.last_of_sinks() == [(20, later), (26, others[1]), (40, others[0])]


def test_the_highest_floor_of_each_source_stands(case: Case) -> None:
    log = case.warehouse.log
    assert log.floors() == []
    log.add_floors([floor(5)])
    log.add_floors([floor(4), floor(3, OTHER)])
    assert sorted(log.floors(), key=lambda one: one.seq) == [floor(3, OTHER), floor(5)]


def test_events_of_ddl_are_read_as_they_were_stored_and_stay_pending_until_done(case: Case) -> None:
    log = case.warehouse.log
    assert (log.ddl().events, log.ddl().done, log.ddl_read()) == ({}, {}, {})
    first = Event(
        destination="shop",
        epoch=1,
        seq=7,
        ts_ms=70,
        moves={NAME: ("shop", "u"), ("shop", "u"): None},
        notes=(Note(name=NAME, text="it's `new`"),),
    )
    second = Event(destination="crm", epoch=1, seq=3, ts_ms=30, moves={NAME: None}, removed=(NAME,))
    log.add_ddl([first, second], {("aq.__ddl.shop", 0): 5, ("aq.__ddl.crm", 0): 1})
    log.add_ddl([], {("aq.__ddl.shop", 0): 4})
    assert log.ddl().ordered() == [second, first]
    assert log.ddl().pending() == [second, first]
    assert log.ddl_read() == {("aq.__ddl.shop", 0): 5, ("aq.__ddl.crm", 0): 1}
    log.void({"aq.__ddl.shop"})
    assert log.ddl_read() == {("aq.__ddl.crm", 0): 1}
    history = log.ddl()
    log.superseded([first])
    assert log.ddl() == History(
        {at: one for at, one in history.events.items() if one != first}, history.done
    )
    assert log.ddl_read() == {("aq.__ddl.crm", 0): 1}
    log.add_ddl([first], {})
    assert log.ddl().ordered() == [second, first]
    log.done({"shop": (1, 7)})
    log.done({"shop": (1, 2)})
    assert log.ddl().pending() == [second]
    assert log.ddl().settled() == [first]
    log.add_ddl([replace(first, carried={("shop", "u"): (1, 4)})], {})
    assert log.ddl().ordered()[1].carried == {("shop", "u"): (1, 4)}
    assert log.ddl().ordered()[1].moves == first.moves
    # Rows that are given up are gone, in whichever order that and the statement are read.
    log.add_ddl([replace(first, given_up=(("shop", "u"),))], {})
    given_up = log.ddl().ordered()[1]
    assert (given_up.moves, given_up.carried) == ({NAME: None, ("shop", "u"): None}, {})
    assert (given_up.given_up, given_up.notes) == ((("shop", "u"),), first.notes)
    log.add_ddl([first], {})
    assert log.ddl().ordered()[1] == given_up


def test_tables_that_are_moved_are_no_tables_of_readers(case: Case) -> None:
    moving = case.warehouse.moving
    moving.replace(KEYED, case.rows(KEYED, row(1, 10, 1)))
    assert case.warehouse.tables.names() == []
    assert case.warehouse.stage.shape(*NAME) is None
    moving.merge(KEYED, case.rows(KEYED, row(1, 11, 2)))
    assert [one["v"] for one in case.described(moving.rows(KEYED))] == [11]


def test_the_log_shows_that_it_has_rows_of_more_waits(case: Case) -> None:
    log = case.warehouse.log
    assert not log.state()
    row = {"database": "shop", "table": "t", "request": "", "at_ms": 1}
    log.wait({"number": 1, "kind": "waiting", **row})
    before = log.state()
    log.wait({"number": 2, "kind": "loaded", **row})
    assert before != log.state()
    assert sorted((one["number"], one["kind"]) for one in log.rows()) == [
        (1, "waiting"),
        (2, "loaded"),
    ]


def test_upkeep_purges_old_markers_only_and_changes_no_row(case: Case) -> None:
    upkeep = case.warehouse.upkeep
    case.merge(
        KEYED, row(1, 10, 1), row(2, None, 2, __deleted=True), row(3, None, 9, __deleted=True)
    )
    assert not upkeep.sources_if_old(NAME, 2)
    assert set(upkeep.sources_if_old(NAME, 5)) == {"shop"}
    before = upkeep.version(NAME)
    upkeep.retain(NAME, 3600)
    upkeep.purge(NAME, 5)
    upkeep.compact(NAME)
    upkeep.remove_unused(NAME)
    assert [one["id"] for one in case.described(case.warehouse.tables.rows(KEYED))] == [1, 3]
    assert case.current() == [(1, 10)]
    assert upkeep.version(NAME) > before
    assert upkeep.version(NAME, at_least=True) <= upkeep.version(NAME)


def test_notes_are_read_as_they_were_written(case: Case) -> None:
    notes = case.warehouse.notes
    notes.make()
    # A Hadoop catalog on a disk does not.
    assert notes.excludes() is not isinstance(case.warehouse, IcebergWarehouse)
    assert notes.names("__sinks") == []
    assert notes.read("__sources.json") is None
    for text in ("{}", '{"a": 1}'):
        notes.write("__sources.json", text)
    assert notes.read("__sources.json") == '{"a": 1}'
    assert notes.names("__sinks") == []
    for name in ("two", "one"):
        notes.write(f"__sinks/{name}.json", name)
    assert notes.names("__sinks") == ["one.json", "two.json"]
    assert notes.read("__sinks/two.json") == "two"


def test_a_table_s_facts_are_known_without_reading_it_and_a_count_finds_markers(case: Case) -> None:
    facts = case.warehouse.facts
    assert (facts.of(NAME), facts.last_merge(NAME), facts.size(NAME)) == (None, None, 0)
    case.merge(KEYED, row(1, 10, 5), row(2, 20, 6))
    case.merge(KEYED, row(2, 21, 9, __deleted=True, __ts_ms=99), row(3, 30, 7, __destination="web"))
    case.warehouse.upkeep.compact(NAME)
    found = facts.of(NAME)
    assert found is not None
    assert (found.shape, found.rows, found.newest_ms) == (KEYED, 3, 99)
    assert facts.size(NAME) == found.bytes
    assert found.destinations == ("shop", "web")
    last = facts.last_merge(NAME)
    assert last is not None
    assert found.last_merge == last
    assert (last.rows_folded, last.rows_inserted, last.rows_updated) == (2, 1, 1)
    count = facts.count(NAME)
    assert (count.live, count.deleted, count.newest_ms) == (2, 1, 99)
    assert count.destinations == ("shop", "web")


def test_tables_that_are_written_at_once_get_their_own_rows(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one session: none is written before the rows of all are named."""
    warehouse = case.warehouse
    kinds = [
        *(warehouse.tables, warehouse.deleted.tables, warehouse.histories.tables),
        *(warehouse.stage, warehouse.moving),
    ]
    for tables in kinds:
        tables.evolve(None, KEYED)
    all_are_named = threading.Barrier(len(kinds), timeout=150)
    named = DataFrame.createOrReplaceTempView

    def name(rows: DataFrame, view: str) -> None:
        named(rows, view)
        all_are_named.wait()

    monkeypatch.setattr(DataFrame, "createOrReplaceTempView", name)
    given = [case.rows(KEYED, row(key, key, key)) for key in range(len(kinds))]
    with ThreadPoolExecutor(len(kinds)) as pool:
        done = [
            pool.submit(tables.merge if key < 3 else tables.replace, KEYED, rows)
            for key, (tables, rows) in enumerate(zip(kinds, given, strict=True))
        ]
    for outcome in done:
        outcome.result()
    held = [[one["id"] for one in case.described(tables.rows(KEYED))] for tables in kinds]
    assert held == [[key] for key in range(len(kinds))]


def test_the_last_batch_is_known_with_its_records(case: Case) -> None:
    log = case.warehouse.log
    assert log.last() is None
    for batch, at in ((4, 100), (5, 200)):
        entry = {"query_id": "q", "batch_id": batch, "topic": "aq.shop.t", "from_offset": 0}
        log.append(
            [
                Entry(**entry, partition=n, until_offset=batch, records=batch + n, applied_at_ms=at)  # type: ignore[arg-type]
                for n in (0, 1)
            ]
        )
    last = log.last()
    assert last is not None
    assert (last.batch_id, last.records, last.applied_at_ms) == (5, 11, 200)
