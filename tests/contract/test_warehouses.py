"""What every warehouse does alike: the one in memory, and Delta's on a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from spark_sink.errors import UnknownTable
from spark_sink.warehouse.ledger import Entry, Floor, Source
from spark_sink.warehouse.memory import MemoryWarehouse
from spark_sink.warehouse.milestones import Milestone, Position
from spark_sink.warehouse.moves import Event, Note
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import VersionGone, Warehouse
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
Row = dict[str, Any]
KEYED = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",))
APART = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",), apart=True)
LOG = Shape("shop", "t", (("id", "int"), ("v", "int")), ())
OWN, OTHER = Source("shop", "shop", "t"), Source("shop", "shop", "t_1")
NAME = ("shop", "t")


@dataclass(frozen=True, slots=True)
class Case:
    """A warehouse, whatever form its rows have."""

    warehouse: Warehouse[Any]
    spark: Any = None

    def rows(self, shape: Shape, *rows: Row) -> Any:
        """Rows as this warehouse takes them."""
        if self.spark is None:
            return rows
        fields = ", ".join(f"`{name}`: {kind}" for name, kind in shape.all_columns)
        parsed = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{fields}>>")
        return self.spark.range(1, numPartitions=1).select(f.inline(parsed))

    def described(self, rows: Any) -> list[Row]:
        """Rows as this warehouse gives them."""
        found = rows if self.spark is None else [row.asDict() for row in rows.collect()]
        return sorted((dict(row) for row in found), key=lambda row: (row["id"], row["v"] or 0))

    def merge(self, shape: Shape, *rows: Row) -> None:
        """Puts rows into the table, made first where there is none."""
        held = self.warehouse.tables.shape(*NAME)
        if held != shape:
            self.warehouse.tables.evolve(held, shape)
        self.warehouse.tables.merge(shape, self.rows(shape, *rows))

    def current(self) -> list[tuple[int, int]]:
        """The key and value of each row that readers see."""
        rows = self.described(self.warehouse.tables.current(*NAME))
        return [(row["id"], row["v"]) for row in rows]


@pytest.fixture(params=["memory", pytest.param("delta", marks=pytest.mark.spark)])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if request.param == "memory":
        yield Case(MemoryWarehouse())
        return
    session = request.getfixturevalue("spark")
    yield Case(open_warehouse(session, str(tmp_path)), session)


def row(
    key: int, value: int | None, seq: int, *, source: Source | None = None, **other: Any
) -> Row:
    """A row of the table, of a source table where one is named."""
    named = {} if source is None else {"__source_database": source.database}
    named |= {} if source is None else {"__source_table": source.table}
    destination = "shop" if source is None else source.destination
    return {
        "id": key, "v": value, "__destination": destination, "__epoch": 1, "__seq": seq,
        "__deleted": False, "__schema": 1, "__ts_ms": seq, "__unrepresentable": None, **named, **other,
    }  # fmt: skip


def floor(seq: int, source: Source = OWN) -> Floor:
    return Floor(database="shop", table="t", source=source, epoch=1, seq=seq, ts_ms=seq)


pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_a_table_is_there_once_it_was_made_and_widened_by_what_is_wanted(case: Case) -> None:
    tables = case.warehouse.tables
    assert tables.shape(*NAME) is None
    assert tables.names() == []
    with pytest.raises(UnknownTable, match=r"shop\.t"):
        tables.current(*NAME)
    case.merge(KEYED, row(1, 10, 1))
    wider = Shape("shop", "t", (*KEYED.columns, ("w", "string")), ("id",))
    tables.evolve(KEYED, wider)
    assert (tables.names(), tables.shape(*NAME)) == ([NAME], wider)
    assert [one["w"] for one in case.described(tables.rows(wider))] == [None]


def test_a_table_keeps_up_to_which_versions_its_columns_are_brought(case: Case) -> None:
    tables = case.warehouse.tables
    case.merge(KEYED, row(1, 10, 1))
    followed = replace(KEYED, followed=(("crm", "shop", "it's", 1), ("shop", "shop", "t", 2)))
    tables.evolve(KEYED, followed)
    assert tables.shape(*NAME) == followed
    renamed = Shape("shop", "t", (("number", "int"), ("v", "string")), ("number",))
    renamed = replace(renamed, followed=(("shop", "shop", "t", 3),))
    number = {**row(1, None, 1), "number": 1, "v": "x"}
    del number["id"]
    tables.replace(renamed, case.rows(renamed, number))
    assert tables.shape(*NAME) == renamed
    facts = case.warehouse.facts.of(NAME)
    assert facts is not None
    assert facts.shape == renamed


def test_columns_are_renamed_with_the_key_and_keep_their_values(case: Case) -> None:
    tables = case.warehouse.tables
    commented = replace(KEYED, comments=(("v", "a value"),))
    case.merge(commented, row(1, 10, 1), row(2, 20, 2, __deleted=True))
    names = {"id": "number", "v": "w"}
    before = case.warehouse.upkeep.version(NAME)
    renamed = tables.rename_columns(commented, names)
    assert renamed.columns == (("number", "int"), ("w", "int"))
    assert renamed.key == ("number",)
    for _ in range(2):
        assert tables.shape(*NAME) == renamed
        assert [list(one.values()) for one in plain(case, tables.current(*NAME))] == [[1, 10]]
        # An interrupted call is repeated.
        assert tables.rename_columns(renamed, names) == renamed
    # As it was before, it has the names of then.
    shape, rows = tables.as_of(*NAME, before)
    assert (shape.columns, shape.key) == (KEYED.columns, KEYED.key)
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 10), (2, 20)]
    later = {**row(1, None, 3), "number": 1, "w": 11}
    del later["id"], later["v"]
    tables.merge(renamed, case.rows(renamed, later))
    wider = replace(renamed, columns=(*renamed.columns, ("v", "int")))
    tables.evolve(renamed, wider)
    assert [list(one.values()) for one in plain(case, tables.current(*NAME))] == [[1, 11, None]]


def plain(case: Case, rows: Any) -> list[Row]:
    """Rows of any columns."""
    return [
        dict(row) for row in (rows if case.spark is None else [r.asDict() for r in rows.collect()])
    ]


def test_comments_of_a_table_and_its_columns_are_set_and_changed(case: Case) -> None:
    tables = case.warehouse.tables
    commented = replace(KEYED, comments=(("", "it's the \\ table"), ("v", "a\nvalue")))
    case.merge(commented, row(1, 10, 1))
    assert tables.shape(*NAME) == commented
    changed = replace(KEYED, comments=(("id", "the key"), ("v", "another")))
    tables.evolve(commented, changed)
    assert tables.shape(*NAME) == changed
    tables.replace(changed, tables.rows(changed))
    facts = case.warehouse.facts.of(NAME)
    assert facts is not None
    assert (tables.shape(*NAME), facts.shape) == (changed, changed)
    tables.evolve(changed, KEYED)
    assert tables.shape(*NAME) == KEYED
    assert case.current() == [(1, 10)]


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


def test_the_ledger_says_up_to_where_each_partition_is_applied(case: Case) -> None:
    ledger = case.warehouse.ledger
    assert (ledger.applied(), ledger.newest_ms()) == ({}, 0)
    for until in (5, 9):
        entry = {"query_id": "q", "batch_id": until, "topic": "a", "partition": 0, "from_offset": 0}
        ledger.append([Entry(**entry, until_offset=until, records=1, applied_at_ms=until)])  # type: ignore[arg-type]
    assert (ledger.applied(), ledger.newest_ms()) == ({("a", 0): 9}, 9)
    assert [ledger.newest_ms(topics) for topics in ((), ["b"], {"a", "b"})] == [0, 0, 9]


def test_the_ledger_returns_batches_with_what_is_merged_after_each_and_their_milestones(
    case: Case,
) -> None:
    ledger = case.warehouse.ledger
    assert ledger.batches() == []
    milestone = Milestone(
        reached={"shop": Position(1, 9, 90, "u:3")},
        versions={NAME: 4},
        floors=(floor(5), floor(3, OTHER)),
        recent=7,
        is_whole=True,
    )
    share: dict[str, Any] = {"query_id": "q", "records": 1, "topic": "a"}
    first = Entry(**share, batch_id=0, partition=0, from_offset=2, until_offset=5, applied_at_ms=10)
    ledger.append([first])
    second = Entry(
        **share, batch_id=1, partition=0, from_offset=5, until_offset=9, applied_at_ms=20
    )
    other = Entry(**share, batch_id=1, partition=1, from_offset=0, until_offset=3, applied_at_ms=20)
    ledger.append([replace(second, milestone=milestone.text()), other])
    one, two = ledger.batches()
    assert (one.at_ms, one.until, one.milestone) == (10, {("a", 0): 5}, None)
    assert (two.at_ms, two.until) == (20, {("a", 0): 9, ("a", 1): 3})
    assert two.milestone == milestone
    assert two.milestone is not None
    assert two.milestone.reached["shop"].transaction == "u:3"


def test_a_table_is_read_as_of_a_version_with_the_shape_it_had(case: Case) -> None:
    tables, upkeep = case.warehouse.tables, case.warehouse.upkeep
    case.merge(KEYED, row(1, 10, 1))
    first = upkeep.version(NAME)
    case.merge(KEYED, row(1, 11, 2), row(2, 20, 3, source=None))
    assert tables.newest(KEYED) == {"shop": Position(1, 3, 3)}
    wider = replace(KEYED, columns=(*KEYED.columns, ("w", "int")))
    tables.evolve(KEYED, wider)
    shape, rows = tables.as_of(*NAME, first)
    assert shape == KEYED
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 10)]
    shape, rows = tables.as_of(*NAME, upkeep.version(NAME))
    assert shape.columns == wider.columns
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 11), (2, 20)]
    with pytest.raises(VersionGone):
        tables.as_of(*NAME, upkeep.version(NAME) + 1)
    with pytest.raises(VersionGone):
        tables.as_of("shop", "nothing", 0)


def test_the_highest_floor_of_each_source_stands(case: Case) -> None:
    floors = case.warehouse.floors
    assert floors.highest() == []
    floors.add([floor(5)])
    floors.add([floor(4), floor(3, OTHER)])
    assert sorted(floors.highest(), key=lambda one: one.seq) == [floor(3, OTHER), floor(5)]


def test_events_of_ddl_are_read_as_they_were_stored_and_stay_pending_until_done(case: Case) -> None:
    log = case.warehouse.ddl
    assert (log.history().events, log.history().done, log.read_until()) == ({}, {}, {})
    first = Event(
        destination="shop",
        epoch=1,
        seq=7,
        ts_ms=70,
        moves={NAME: ("shop", "u"), ("shop", "u"): None},
        notes=(Note(name=NAME, text="it's `new`"),),
    )
    second = Event(destination="crm", epoch=1, seq=3, ts_ms=30, moves={NAME: None}, removed=(NAME,))
    log.add([first, second], {("aq.__ddl.shop", 0): 5, ("aq.__ddl.crm", 0): 1})
    log.add([], {("aq.__ddl.shop", 0): 4})
    assert log.history().ordered() == [second, first]
    assert log.history().pending() == [second, first]
    assert log.read_until() == {("aq.__ddl.shop", 0): 5, ("aq.__ddl.crm", 0): 1}
    log.done({"shop": (1, 7)})
    log.done({"shop": (1, 2)})
    assert log.history().pending() == [second]
    assert log.history().settled() == [first]
    log.add([replace(first, carried={("shop", "u"): (1, 4)})], {})
    assert log.history().ordered()[1].carried == {("shop", "u"): (1, 4)}
    assert log.history().ordered()[1].moves == first.moves


def test_tables_that_are_moved_are_no_tables_of_readers(case: Case) -> None:
    moving = case.warehouse.moving
    moving.replace(KEYED, case.rows(KEYED, row(1, 10, 1)))
    assert case.warehouse.tables.names() == []
    assert case.warehouse.stage.shape(*NAME) is None
    moving.merge(KEYED, case.rows(KEYED, row(1, 11, 2)))
    assert [one["v"] for one in case.described(moving.rows(KEYED))] == [11]


def test_the_log_of_waits_shows_that_it_has_grown(case: Case) -> None:
    waits = case.warehouse.waits
    assert not waits.state()
    waits.append({"number": 1, "kind": "waiting", "database": "shop", "table": "t"})
    before = waits.state()
    waits.append({"number": 2, "kind": "loaded", "database": "shop", "table": "t"})
    assert before != waits.state()
    assert sorted((one["number"], one["kind"]) for one in waits.rows()) == [
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
    assert notes.excludes()
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
    assert (facts.of(NAME), facts.last_merge(NAME)) == (None, None)
    case.merge(KEYED, row(1, 10, 5), row(2, 20, 6))
    case.merge(KEYED, row(2, 21, 9, __deleted=True, __ts_ms=99), row(3, 30, 7, __destination="web"))
    case.warehouse.upkeep.compact(NAME)
    found = facts.of(NAME)
    assert found is not None
    assert (found.shape, found.rows, found.newest_ms) == (KEYED, 3, 99)
    assert found.destinations == ("shop", "web")
    last = facts.last_merge(NAME)
    assert last is not None
    assert found.last_merge == last
    assert (last.rows_folded, last.rows_inserted, last.rows_updated) == (2, 1, 1)
    count = facts.count(NAME)
    assert (count.live, count.deleted, count.newest_ms) == (2, 1, 99)
    assert count.destinations == ("shop", "web")


def test_the_last_batch_is_known_with_its_records(case: Case) -> None:
    ledger = case.warehouse.ledger
    assert ledger.last() is None
    for batch, at in ((4, 100), (5, 200)):
        entry = {"query_id": "q", "batch_id": batch, "topic": "aq.shop.t", "from_offset": 0}
        ledger.append(
            Entry(**entry, partition=n, until_offset=batch, records=batch + n, applied_at_ms=at)  # type: ignore[arg-type]
            for n in (0, 1)
        )
    last = ledger.last()
    assert last is not None
    assert (last.batch_id, last.records, last.applied_at_ms) == (5, 11, 200)
