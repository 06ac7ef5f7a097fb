"""A table that several sources fill is loaded from all of them, each from its own position, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_sink.errors import LoadRefused
from spark_sink.jobs.load.state import LoadState
from tests.unit.spark_sink.batch.test_shards import SERVERS, held, row, shards
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema
from tests.unit.spark_sink.jobs.load.test_in_place import COLUMNS, LOW, SOURCE, Loading

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
LOWS = {"shop": LOW, "crm": replace(LOW, epoch=3, seq=7)}


@pytest.fixture
def at(warehouse: Warehouse) -> Loading:
    return Loading(warehouse.spark, Path(warehouse.path))


def of_shards(at: Loading, *rows: tuple[str, int, int], offset: int) -> LoadState:
    """A load of the table `t` of both destinations that has read these rows, begun at an offset."""
    sources = tuple(
        replace(SOURCE, destination=one, is_mapped=True) for one in sorted(LOWS, reverse=True)
    )
    state = at.loaded(offset=offset)
    columns = (*state.columns, ("__source_database", "string"), ("__source_table", "string"))
    state = replace(state, sources=sources, lows=LOWS, columns=columns, apart=True)
    frame = at.spark.createDataFrame(
        [(key, v, d, LOWS[d].epoch, LOWS[d].seq) for d, key, v in rows],
        "id int, v int, d string, epoch bigint, seq bigint",
    ).selectExpr(
        "id", "v", "d", "epoch", "seq", "false", "1", "5L", "CAST(NULL AS map<string,string>)",
        "'shop'", "'t'",
    )  # fmt: skip
    at.loads.write(state, frame, "000000")
    return at.loads.keep(state)


@pytest.mark.long("one that the sink has not come to is missed too")
def test_each_source_continues_from_its_own_position(at: Loading) -> None:
    a, b = shards(at, SERVERS)
    at.take(a("c", 1, row(1, 10)), b("c", 1, row(1, 20), epoch=3))
    begun = at.ends()[TOPIC]
    # Both SELECTs have seen a change of this number; of the other source it is a later one.
    at.write(a("c", 100, row(1, 11)))
    at.write(b("c", 6, row(1, 21), epoch=3))
    at.write(b("c", 8, row(2, 22), epoch=3))
    at.write(a("c", 101, row(2, 12)))
    at.write(b("d", 99, row(3, 23), epoch=3))
    state = of_shards(at, ("shop", 1, 12), ("crm", 1, 25), ("crm", 3, 23), offset=begun)
    at.catch_up({TOPIC: begun})
    at.reload(topics=(TOPIC[0],), load=state.number)
    (one, other) = SERVERS
    assert held(at) == {(*one, 1): 12, (*one, 2): 12, (*other, 1): 25, (*other, 2): 22}
    at.take(b("c", 100, row(1, 26), epoch=3), a("d", 102, row(1, 12)))
    assert held(at) == {(*one, 2): 12, (*other, 1): 26, (*other, 2): 22}


@pytest.mark.long("the next test has the refusal")
def test_a_load_that_lacks_a_source_of_the_table_is_refused(at: Loading) -> None:
    a, _, third = shards(at, [*SERVERS, ("crm", "t_2")])
    at.take(a("c", 1, row(1, 10)), third("c", 1, row(1, 30), epoch=3))
    state = of_shards(at, ("shop", 1, 12), offset=at.ends()[TOPIC])
    with pytest.raises(LoadRefused, match=r"sources that are not in the load: crm\.shop\.t_2"):
        at.reload(topics=(TOPIC[0],), load=state.number)
    at.reload()
    assert len(at.rows()) == 2
    # Deleted rows are none, and what comes later is applied by the reload itself.
    at.take(third("d", 2, row(1, 30), epoch=3))
    state = of_shards(at, ("shop", 1, 12), offset=at.ends()[TOPIC])
    at.write(third("c", 3, row(2, 32), epoch=3))
    at.reload(topics=(TOPIC[0],), load=state.number)
    assert held(at) == {(*SERVERS[0], 1): 12, ("crm", "t_2", 2): 32}


def test_a_source_whose_rows_the_sink_has_not_come_to_is_missed_too(at: Loading) -> None:
    a, _, third = shards(at, [*SERVERS, ("crm", "t_2")])
    at.take(a("c", 1, row(1, 10)))
    at.write(third("c", 1, row(1, 30), epoch=3))
    at.write(a("c", 2, row(1, 11)))
    state = of_shards(at, ("shop", 1, 12), offset=at.ends()[TOPIC])
    with pytest.raises(LoadRefused, match=r"sources that are not in the load: crm\.shop\.t_2"):
        at.reload(topics=(TOPIC[0],), load=state.number)


@pytest.mark.long("the test above misses a source by the same rule")
def test_rows_of_another_destination_are_not_replaced(at: Loading) -> None:
    at.schemas = [schema(*COLUMNS), schema(*COLUMNS, destination="crm")]
    at.take(
        Change(op="c", seq=1, after=row(1, 10)),
        Change(op="c", seq=1, after=row(2, 20), destination="crm"),
    )
    state = at.loaded((1, 11), offset=at.ends()[TOPIC])
    with pytest.raises(LoadRefused, match=r"shop\.t has rows of .* not in the load: crm"):
        at.reload(topics=(TOPIC[0],), load=state.number)
    assert {one["id"] for one in at.rows()} == {1, 2}
    assert at.waiting() is not None
