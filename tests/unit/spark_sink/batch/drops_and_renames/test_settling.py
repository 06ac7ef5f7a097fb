"""What of the DDL topics is read, and how long rows from before a statement are expected, without Spark."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark_sink.batch.apply import Applier
from spark_sink.batch.contents import TablePart
from spark_sink.batch.drops_and_renames import moving
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.errors import RenameFailed, TableError, UnsupportedName
from spark_sink.metrics import Metrics
from spark_sink.source.schemas import SchemaBook
from spark_sink.text.quoting import SETTLED
from spark_sink.warehouse.moves import Event, Name, routed_sql
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.batch.drops_and_renames.statements import (
    TOPIC,
    Topic,
    create,
    drop,
    record,
    rename,
)
from tests.unit.spark_sink.batch.drops_and_renames.statements import table as altered
from tests.unit.spark_sink.history import schema

ROWS, MORE = ("aq.shop.t", 0), ("aq.shop.more", 0)


class Batch:
    """Envelopes, of which only matters whether they are changed."""

    columns = ("database", "table")

    def where(self, _: str) -> Batch:
        return self

    def selectExpr(self, *_: str) -> Batch:  # noqa: N802 - Spark's name
        return Batch()


class Sink:
    """What follows DDL in one process after the other."""

    def __init__(self, **settings: Any) -> None:
        self.topic = Topic()
        self.warehouse: Any = MemoryWarehouse()
        self.warehouse.log.make()
        self.settings: dict[str, Any] = {"on_drop": "rename", "on_rename": "move", **settings}
        self.restart()

    def restart(self) -> None:
        self.ddl = Ddl(
            topics=self.topic,
            warehouse=self.warehouse,
            waits=Waits(self.warehouse.log, lambda: 0.0),
            **self.settings,
        )

    def seqs(self) -> list[int]:
        """The statements that are stored."""
        return [event.seq for event in self.warehouse.log.ddl().ordered()]

    def unsettled(self, seq: int) -> list[str]:
        """The tables of which a change with that number may follow rows that have yet to come."""
        late = self.ddl.is_unsettled
        return [name for name in "abcde" if late("shop", ("shop", name), (1, seq))]

    def routes(self) -> bool:
        """Whether rows of batches are placed by events."""
        batch: Any = Batch()
        return self.ddl.routed(batch) is not batch


def test_rows_are_placed_until_batches_begin_past_all_that_was_written_and_after_a_restart() -> (
    None
):
    sink = Sink()
    sink.topic.all_rows = 9
    sink.topic.values.append(rename(5, ("a", "b")))
    sink.ddl.follow({}, {})
    assert sink.routes()
    # The batch that has the last of them, and begins before it; it may be applied again once it is stored.
    sink.ddl.follow({ROWS: 9}, {ROWS: 8})
    assert sink.routes()
    sink.restart()
    sink.ddl.follow({ROWS: 9}, {ROWS: 8})
    assert sink.routes()
    assert sink.unsettled(6) == ["b"]
    # Before the rename, b was another table, and later it was no longer a.
    assert sink.unsettled(4) == []
    sink.ddl.follow({ROWS: 9}, {ROWS: 9})
    assert not sink.routes()
    assert sink.unsettled(6) == []
    batch: Any = Batch()
    assert sink.ddl.routed(batch, tables=[("shop", "b")]) is not batch
    assert sink.ddl.routed(batch, tables=[("shop", "c")]) is batch


def test_a_restart_that_continues_expects_no_rows_from_before_settled_statements() -> None:
    sink = Sink()
    sink.topic.all_rows = 9
    sink.topic.values.append(rename(5, ("a", "b")))
    sink.ddl.follow({}, {})
    sink.ddl.follow({ROWS: 9}, {ROWS: 9})
    sink.restart()
    # Before the first batch it is not known where that begins.
    sink.ddl.follow({ROWS: 12}, {})
    assert sink.routes()
    sink.topic.all_rows = 12
    sink.topic.values.append(rename(10, ("c", "d")))
    sink.ddl.follow({ROWS: 12}, {ROWS: 11})
    assert sink.routes(), "the batch may have been applied before"
    sink.restart()
    sink.ddl.follow({ROWS: 11}, {ROWS: 11})
    assert sink.unsettled(11) == ["d"], "the first statement is settled, the second is not"
    sink.ddl.follow({ROWS: 12}, {ROWS: 12})
    assert not sink.routes()


def test_what_is_settled_ends_before_the_first_statement_that_is_open() -> None:
    sink = Sink()
    sink.topic.all_rows = 9
    sink.topic.values.append(rename(5, ("a", "b")))
    sink.ddl.follow({}, {})
    sink.topic.all_rows = 12
    sink.topic.values.append(rename(10, ("c", "d")))
    sink.ddl.follow({ROWS: 8}, {ROWS: 8})
    # Past all rows from before the first, not from before the second.
    sink.ddl.follow({ROWS: 10}, {ROWS: 10})
    assert [sink.unsettled(seq) for seq in (6, 11)] == [[], ["d"]]
    sink.restart()
    sink.ddl.follow({ROWS: 10}, {ROWS: 10})
    assert [sink.unsettled(seq) for seq in (6, 11)] == [[], ["d"]]


@pytest.mark.parametrize(
    ("applied", "start", "note"),
    [
        pytest.param({ROWS: 9}, {ROWS: 0}, None, id="from the beginning"),
        pytest.param({ROWS: 5}, {ROWS: 5}, None, id="an older ledger"),
        pytest.param({ROWS: 9}, {}, None, id="a new checkpoint"),
        pytest.param({}, {ROWS: 0}, None, id="no ledger"),
        pytest.param({ROWS: 9, MORE: 1}, {ROWS: 9}, None, id="a topic from its beginning"),
        *(
            pytest.param({ROWS: 9}, {ROWS: 9}, note, id=f"its note is {note!r}")
            for note in ("", "{", '{"settled": [["shop", 9]]}')
        ),
    ],
)
def test_rows_are_placed_again_if_kafka_is_read_from_before_a_settled_statement(
    applied: dict[tuple[str, int], int], start: dict[tuple[str, int], int], note: str | None
) -> None:
    sink = Sink()
    sink.topic.all_rows = 9
    sink.topic.values.append(rename(5, ("a", "b")))
    sink.ddl.follow({}, {})
    sink.ddl.follow({ROWS: 9}, {ROWS: 9})
    assert not sink.routes()
    if note is not None:
        sink.warehouse.notes.write(SETTLED, note)
        sink.topic.all_rows = 10
    sink.topic.more = {MORE: 1} if MORE in applied else {}
    sink.restart()
    sink.ddl.follow(applied, start)
    assert sink.routes()


def test_what_places_the_rows_of_a_batch_does_not_grow_with_the_statements_that_are_settled() -> (
    None
):
    def placed(statements: int) -> int:
        sink = Sink()
        names = [f"t{number}" for number in range(statements)]
        sink.topic.values += [rename(5 + at, (one, f"{one}_old")) for at, one in enumerate(names)]
        sink.topic.all_rows = 9
        sink.ddl.follow({}, {})
        sink.ddl.follow({ROWS: 9}, {ROWS: 9})
        sink.topic.all_rows = 12
        sink.topic.values.append(rename(5 + statements, ("a", "b")))
        sink.ddl.follow({ROWS: 9}, {ROWS: 9})
        return routed_sql(sink.ddl._pieces())[0].count('"e":')

    assert 0 < placed(1) == placed(300)


def test_statements_that_later_ones_supersede_are_removed_once_no_cut_goes_back_before_them() -> (
    None
):
    now = 0.0
    sink = Sink(on_drop="drop", keep_seconds=60, clock=lambda: now)
    seq = rows = 0

    def batches() -> None:
        """A table is built beside another, swapped in, and the other dropped; then all rows are merged."""
        nonlocal seq, rows
        swap = rename(seq + 1, ("a", "a_old"), ("a_new", "a"))
        sink.topic.values += [swap, drop(seq + 2, "a_old")]
        seq, rows = seq + 2, rows + 9
        sink.topic.all_rows = rows
        for at in (rows - 9, rows):
            sink.ddl.follow({ROWS: at}, {ROWS: at})

    def stored() -> int:
        return len(sink.warehouse.log.ddl().events)

    sink.ddl.follow({}, {})
    while seq < 250:
        batches()
    assert stored() == 250, "a cut may go back to before them"
    now = 61.0
    batches()
    few = stored()
    assert few < 60
    # A process that begins now knows the same of all names.
    sink.restart()
    assert sink.ddl.concerns(("shop", "a_old"))
    assert sink.ddl.is_emptied(("shop", "a_new"))
    most = 0
    for _ in range(1000):
        now += 1
        batches()
        most = max(most, stored())
    # Those of two minutes, with two statements in each second.
    assert most <= 400


def test_no_row_is_expected_for_a_table_whose_name_another_one_had_after_a_rename() -> None:
    sink = Sink(on_drop="drop")
    sink.topic.all_rows = 9
    sink.topic.values += [rename(3, ("a", "b")), rename(5, ("b", "c")), drop(7, "c")]
    sink.ddl.follow({}, {})
    assert sink.routes()
    assert [sink.unsettled(seq) for seq in (2, 4, 6)] == [[], ["b"], ["c"]]
    # Another table b or c is made then, of which all rows are in its own topic.
    assert sink.unsettled(8) == []
    sink.topic.values += [rename(10, ("d", "c")), rename(12, ("e", "d"))]
    sink.ddl.follow({}, {})
    assert [sink.unsettled(seq) for seq in (9, 11, 13)] == [[], ["c"], ["c", "d"]]


def test_a_statement_is_read_once_and_decided_on_by_the_setting_of_its_time() -> None:
    sink = Sink(on_drop="keep")
    sink.topic.values.append(drop(5, "a"))
    sink.ddl.follow({}, {})
    sink.ddl.follow({}, {})
    assert sink.topic.reads == 1
    sink.settings["on_drop"] = "truncate"
    sink.restart()
    sink.topic.values.append(drop(7, "b"))
    sink.ddl.follow({}, {})
    kept, emptied = sink.warehouse.log.ddl().ordered()
    assert dict(kept.moves) == {}
    assert dict(emptied.moves) == {("shop", "b"): None}
    assert sink.warehouse.log.ddl().pending() == []
    assert sink.topic.reads == 2


def test_a_warehouse_from_before_follows_from_now_on_and_a_new_one_from_the_beginning() -> None:
    before = Sink()
    before.topic.values.append(drop(5, "a"))
    before.ddl.follow({ROWS: 3}, {ROWS: 3})
    before.topic.values.append(drop(7, "a"))
    before.ddl.follow({ROWS: 3}, {ROWS: 3})
    assert before.seqs() == [7]
    new = Sink()
    new.ddl.follow({}, {})
    # The topic appears once there are rows.
    new.restart()
    new.topic.values.append(drop(5, "a"))
    new.ddl.follow({ROWS: 3}, {ROWS: 3})
    assert new.seqs() == [5]


def test_statements_that_kafka_has_removed_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    sink = Sink()
    sink.topic.values += [drop(5, "a"), drop(7, "a"), drop(9, "a")]
    sink.topic.first = 2
    sink.ddl.follow({}, {})
    assert sink.seqs() == [9]
    assert "Kafka removed DDL that was not read" in caplog.text
    assert f"topic={TOPIC[0]} offsets=0-2" in caplog.text


def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    sink = Sink()
    sink.topic.values += [drop(5, "a"), drop(7, "a")]
    sink.ddl.follow({}, {})
    sink.topic.values = [drop(9, "b")]
    sink.ddl.follow({}, {})
    assert sink.seqs() == [5, 7, 9]


def absent(on_drop: str, *statements: str) -> list[str]:
    sink = Sink(on_drop=on_drop)
    for one in statements:
        sink.topic.values.append(one)
        sink.ddl.follow({}, {})
    return sorted(table for _, table in sink.ddl.absent())


@pytest.mark.parametrize("on_drop", ["rename", "keep", "truncate", "drop"])
def test_the_rows_of_a_dropped_table_may_be_gone_and_no_table_that_the_source_has(
    on_drop: str,
) -> None:
    kept = {"rename": ["a__dropped_19700101001640_5"], "drop": []}.get(on_drop, ["a"])
    assert absent(on_drop, drop(5, "a")) == kept
    again = kept if on_drop == "rename" else []
    assert absent(on_drop, drop(5, "a"), create(6, "a")) == again
    # Another table gets the name, and later a third one.
    renamed = drop(5, "a"), rename(6, ("b", "a")), rename(7, ("a", "c")), create(8, "b")
    assert "b" not in absent(on_drop, *renamed)
    assert "c" not in absent(on_drop, *renamed)


def test_a_table_that_one_of_two_sources_has_made_again_may_not_be_gone() -> None:
    of_two = drop(5, "a"), drop(5, "a", destination="other")
    assert absent("truncate", *of_two) == ["a"]
    assert absent("truncate", *of_two, create(6, "a")) == []


def test_a_table_that_cannot_have_its_new_name_waits_with_its_rows_and_does_not_stop_the_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse: Any = MemoryWarehouse()
    old, new = ("shop", "t"), ("shop", "Orders")
    waits: dict[Name, TableError] = {}

    def built(_: object, name: Name, *, is_removed: bool) -> bool:
        if is_removed:
            return False
        raise UnsupportedName(".".join(name), advice="Map the table")

    monkeypatch.setattr(moving._Tables, "names", lambda _: [new, old])
    monkeypatch.setattr(moving._Tables, "built", built)
    event = Event(destination="shop", epoch=1, seq=5, ts_ms=0, moves={old: new})
    moves = moving.Moving(warehouse=warehouse, wait=waits.__setitem__, waiting=lambda _: None)
    outcome = moves.carry_out([event])
    assert outcome == moving.Outcome(changed=frozenset(), faults=frozenset({old, new}))
    assert (waits[new].where, waits[new].advice) == ("shop.Orders", "Map the table")
    assert (type(waits[old]), waits[old].where) == (
        RenameFailed,
        "shop.t: UnsupportedName: shop.Orders",
    )
    assert warehouse.notes.read("__moved.json") is None


def test_an_alter_is_kept_until_its_version_and_its_table_can_be_read_and_dropped_if_it_is_excluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink, tables = Sink(), ("t", "excluded", "late", "unreadable", "gone")
    for table in tables[:-1]:
        shape = Shape("shop", table, (("id", "int"),), ("id",))
        sink.warehouse.tables.evolve(None, shape)
    versions = {
        table: schema(("id", "int"), table=table, version=2, topic=f"aq.shop.{table}")
        for table in tables
    }
    published = [one for table, one in versions.items() if table != "late"]
    applier = Applier(
        book=SchemaBook(lambda: published),
        warehouse=sink.warehouse,
        waits=sink.ddl.waits,
        metrics=Metrics(),
        ddl=sink.ddl,
        is_read=lambda topic: topic != "aq.shop.excluded",
    )
    sink.topic.values += [
        record(seq, "ALTER TABLE …", altered(table, "altered", version=2))
        for seq, table in enumerate(tables, start=1)
    ]
    sink.ddl.follow({}, {})
    read = sink.warehouse.tables.shape

    def shaped(*name: str) -> Shape | None:
        if name == ("shop", "unreadable"):
            raise PySparkException("no answer")
        found: Shape | None = read(*name)
        return found

    def parts() -> list[str]:
        """The tables that get a version, after which their statements are forgotten."""
        found: dict[Name, TablePart] = {}
        sink.ddl.brought(applier._add_altered(found))
        return [name for _, name in found]

    monkeypatch.setattr(sink.warehouse.tables, "shape", shaped)
    assert parts() == ["t"]
    assert parts() == []
    published.append(versions["late"])
    assert parts() == ["late"]
    monkeypatch.setattr(sink.warehouse.tables, "shape", read)
    assert parts() == ["unreadable"]
    assert sink.ddl.altered() == []
