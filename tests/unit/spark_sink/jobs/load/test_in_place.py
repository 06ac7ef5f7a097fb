"""A table is put in place with the rows of a load, and the stream continues them."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import LedgerLost, LoadRefused, LoadStale, ReloadRefused
from spark_sink.jobs.load.command import check_no_history
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.state import LOADED, Loads, LoadState
from spark_sink.jobs.reload import Reloader
from spark_sink.settings.model import TableRule
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.history import history
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.waiting_tables import WaitState
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
COLUMNS = (("id", "int"), ("v", "int"))
NAME = ("shop", "t")
LOW = SourceCursor(
    epoch=1, seq=100, gtids="g:1-9", written_ms=5, is_whole=True, by=None, installation="i"
)
SOURCE = SourceTable(
    destination="shop",
    database="shop",
    table="t",
    version=1,
    topic=TOPIC[0],
    is_mapped=False,
    key=("id",),
    columns=(("id", "id", "int"), ("v", "v", "int")),
)


def image(key: int, value: int) -> dict[str, Any]:
    return {"id": key, "v": value}


class Loading(Warehouse):
    """A warehouse whose requests may name a load."""

    @property
    def loads(self) -> Loads:
        return Loads(self.spark, self.path, self.kept.log)

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        ends = {at: end for at, end in self.ends().items() if not topics or at[0] in topics}
        return {at: self.first if at == TOPIC else 0 for at in ends}, ends

    def meet_requests(self) -> None:
        self.applier.waits.refresh()
        reloader = Reloader(applier=self.applier, topics=self, loads=self.loads)
        reloader.answer(*self.applier.waits.requests)

    def loaded(
        self,
        *rows: tuple[int, int],
        offset: int | None = None,
        source: SourceTable = SOURCE,
    ) -> LoadState:
        """A load that has read these rows, begun at an offset of the topic, or at the topic's end."""
        shape_columns = (
            ("id", "int"), ("v", "int"), ("__destination", "string"), ("__epoch", "bigint"),
            ("__seq", "bigint"), ("__deleted", "boolean"), ("__schema", "int"), ("__ts_ms", "bigint"),
            ("__unrepresentable", "map<string,string>"),
        )  # fmt: skip
        state = LoadState(
            number="n1",
            name=NAME,
            sources=(source,),
            lows={"shop": LOW},
            offsets={at: end for at, end in self.ends().items() if at[0] == TOPIC[0]}
            if offset is None
            else {TOPIC: offset},
            ranges=((0, "TRUE"),),
            columns=shape_columns,
            read=1,
            folders=("000000",),
        )
        frame = self.spark.createDataFrame(list(rows), "id int, v int").selectExpr(
            "id", "v", "'shop'", "1L", f"{LOW.seq}L", "false", "1", "5L", "CAST(NULL AS map<string,string>)"
        )  # fmt: skip
        self.loads.write(state, frame, "000000")
        return self.loads.keep(state)


@pytest.fixture
def at(warehouse: Warehouse) -> Loading:
    made = Loading(warehouse.spark, Path(warehouse.path))
    made.schemas = [schema(*COLUMNS)]
    return made


def values(at: Loading) -> dict[int, int]:
    return {row["id"]: row["v"] for row in at.rows()}


@pytest.mark.remedy("sink.LedgerLost")
@pytest.mark.long("test_start.py has which tables wait without the ledger")
def test_a_table_whose_ledger_is_lost_is_read_again_by_each_command_of_its_error_and_by_no_other(
    at: Loading,
) -> None:
    def lost(first: int) -> WaitState:
        shutil.rmtree(next(one for one in Path(at.path).glob("__log") if one.is_dir()))
        at.restart()
        at.first = first
        at.applier.hold_without_ledger()
        held = at.waiting()
        assert held is not None
        assert held.error == "LedgerLost"
        assert "reload shop.t --from-beginning --topic TOPIC" in held.action
        return held

    at.take(*(Change(op="c", seq=n, after=image(n, n)) for n in (1, 2)))
    lost(0)
    at.take(Change(op="c", seq=3, after=image(3, 3)))
    with pytest.raises(LedgerLost):
        at.reload()
    at.reload(from_beginning=True, topics=(TOPIC[0],))
    assert (at.waiting(), values(at)) == (None, {1: 1, 2: 2, 3: 3})

    lost(2)
    with pytest.raises(ReloadRefused, match="begins at offset 2"):
        at.reload(from_beginning=True, topics=(TOPIC[0],))
    # What was refused does not make it another wait.
    with pytest.raises(LedgerLost):
        at.reload()
    at.restart()
    with pytest.raises(LedgerLost):
        at.reload()
    at.write(Change(op="c", seq=101, after=image(4, 4)))
    state = at.loaded((1, 1), (2, 2), (3, 3), offset=3)
    at.reload(load=state.number)
    assert (at.waiting(), values(at)) == (None, {1: 1, 2: 2, 3: 3, 4: 4})


def test_rows_of_the_load_and_later_changes_replace_the_table(at: Loading) -> None:
    at.take(
        Change(op="c", seq=1, after=image(1, 10)),
        Change(op="c", seq=2, after=image(2, 20)),
        Change(op="c", seq=3, after=image(9, 90)),
    )
    begun = at.ends()[TOPIC]
    # Between the offsets and the cursor: the SELECT has seen these, a partial change of a key among them.
    at.write(Change(op="u", seq=99, before=image(2, 20), after=image(2, 21)))
    at.write(Change(op="d", seq=100, before=image(9, 90)))
    # After the cursor: some of these rows the SELECT has seen, and some not.
    at.write(Change(op="u", seq=101, before=image(1, 10), after=image(1, 11)))
    at.write(Change(op="c", seq=102, after=image(5, 50)))
    at.write(Change(op="d", seq=103, before=image(3, 30)))
    state = at.loaded((1, 12), (2, 21), (3, 30), (4, 40), offset=begun)
    # The stream has come that far.
    at.write(Change(op="u", seq=104, before=image(1, 11), after=image(1, 12)))
    at.catch_up({TOPIC: begun})
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {1: 12, 2: 21, 4: 40, 5: 50}
    assert at.waiting() is None
    at.take(Change(op="u", seq=105, before=image(4, 40), after=image(4, 41)))
    assert values(at) == {1: 12, 2: 21, 4: 41, 5: 50}
    # As the command does.
    at.loads.keep(replace(state, state=LOADED))
    at.loads.remove_rows(state)
    for folder in ("__loaded", "__loads"):
        shutil.rmtree(Path(at.path) / folder)
        with pytest.raises(
            ReloadRefused, match="were loaded from the source, and are not in its topics"
        ):
            at.reload(from_beginning=True)
    at.restart()
    at.take(Change(op="c", seq=106, after=image(6, 60)))
    assert values(at) == {1: 12, 2: 21, 4: 41, 5: 50, 6: 60}


def test_a_change_that_the_select_saw_is_not_applied_again(at: Loading) -> None:
    """A change of the key under MINIMAL takes columns from the row under the old key, which is gone."""
    at.write(Change(op="c", seq=50, after=image(1, 10)))
    at.write(
        Change(
            op="d", seq=99, before={"id": 1}, headers=("__debezium.newkey",), more={"absent": ["v"]}
        )
    )
    at.write(
        Change(
            op="c", seq=100, after={"id": 2}, headers=("__debezium.oldkey",), more={"absent": ["v"]}
        )
    )
    state = at.loaded((2, 10), offset=1)
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {2: 10}


@pytest.mark.long("later changes are judged by the load in the same way")
def test_a_truncate_before_the_load_is_not_left_out_by_a_sink_that_lags(at: Loading) -> None:
    """The partition with its record may have later ones, and that with the rows that it removes none.

    Such rows may also be in another topic, from before the table was renamed.
    """
    at.take(Change(op="c", seq=1, after=image(1, 10)), partition=1)
    lagging = at.ends()
    for key in range(2, 39):
        at.write(Change(op="c", seq=key, after=image(key, 20)), partition=1)
    at.write(Change(op="c", seq=39, after=image(39, 20)), topic="aq.shop.earlier", offset=0)
    at.write(Change(op="t", seq=50))
    at.write(Change(op="c", seq=60, after=image(3, 30)), partition=1)
    state = at.loaded((3, 30), (40, 40))
    at.write(Change(op="c", seq=101, after=image(5, 50)))
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {3: 30, 40: 40, 5: 50}
    at.catch_up(lagging)
    assert values(at) == {3: 30, 40: 40, 5: 50}
    at.take(Change(op="d", seq=102, before=image(3, 30)), partition=1)
    assert values(at) == {40: 40, 5: 50}


@pytest.mark.long("the rows are as in the first test of a load; test_histories.py has a history")
def test_a_history_has_all_changes_though_the_load_has_read_some(at: Loading) -> None:
    at.rules = TableRules([TableRule(match=r"shop\.t", history=True)])
    at.restart()
    at.take(Change(op="c", seq=1, after=image(1, 10)))
    # The sink comes to none of these before it puts the table in place.
    at.write(Change(op="u", seq=98, before=image(1, 10), after=image(1, 11)))
    begun = at.ends()[TOPIC]
    at.write(Change(op="u", seq=100, before=image(1, 11), after=image(1, 12)))
    at.write(Change(op="u", seq=101, before=image(1, 12), after=image(1, 13)))
    state = at.loaded((1, 12), (2, 20), offset=begun)
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {1: 13, 2: 20}
    kept = history(at.spark, at.path, *NAME).orderBy("__seq").collect()
    assert [(row["__seq"], row["v"]) for row in kept] == [(1, 10), (98, 11), (100, 12), (101, 13)]


def test_a_load_of_a_table_with_a_history_has_to_be_asked_for() -> None:
    rules = TableRules([TableRule(match=r"shop\.t", history=True)])
    check_no_history([("shop", "other")], rules)
    with pytest.raises(LoadRefused, match=r"shop\.t: the table has a history.*--without-history"):
        check_no_history([("shop", "other"), NAME], rules)


@pytest.mark.long("the rows of a load replace those of the table")
def test_a_load_without_rows_empties_the_table(at: Loading) -> None:
    at.take(Change(op="c", seq=1, after=image(1, 10)))
    state = at.loaded(offset=at.ends()[TOPIC])
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {}
    at.take(Change(op="c", seq=101, after=image(1, 11)))
    assert values(at) == {1: 11}


@pytest.mark.long("changes after a load are applied above; test_new_columns.py has added columns")
def test_an_alter_after_the_load_is_applied_to_its_rows(at: Loading) -> None:
    more = {"w": {"id": "w@2", "initial": {"value": 7}}}
    at.take(Change(op="c", seq=1, after=image(1, 10)))
    state = at.loaded((1, 10), (2, 20), offset=at.ends()[TOPIC])
    at.schemas.append(schema(*COLUMNS, ("w", "int"), version=2, more=more))
    at.write(Change(op="c", seq=101, after={**image(3, 30), "w": 1}, version=2))
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert {row["id"]: row["w"] for row in at.rows()} == {1: 7, 2: 7, 3: 1}


def test_topics_that_no_longer_have_the_changes_since_are_refused(at: Loading) -> None:
    for seq in range(101, 105):
        at.write(Change(op="c", seq=seq, after=image(seq, 1)))
    state = at.loaded((1, 10), offset=1)
    at.first = 2
    with pytest.raises(ReloadRefused, match="no longer holds the changes from offset 1 on"):
        at.reload(topics=(TOPIC[0],), load=state.number)


@pytest.mark.long("test_sources.py refuses a load, which is taken once it can be")
def test_a_load_that_is_gone_or_of_other_columns_is_refused(at: Loading) -> None:
    at.take(Change(op="c", seq=1, after=image(1, 10)))
    state = at.loaded((1, 11), offset=1)
    with pytest.raises(ReloadRefused, match="its load is gone"):
        at.reload(topics=(TOPIC[0],), load="another")
    at.loads.keep(replace(state, columns=state.columns[1:]))
    with pytest.raises(LoadStale, match=r"shop\.t has other columns now"):
        at.reload(topics=(TOPIC[0],), load=state.number)
    # It waits, as it began to; a request that can be carried out ends that.
    at.loads.keep(state)
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert values(at) == {1: 11}
