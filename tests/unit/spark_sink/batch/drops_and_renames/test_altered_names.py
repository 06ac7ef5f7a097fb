"""Tables that are renamed, swapped and altered, in any order: the rows are as the source has them."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from typing import Any

import pytest

from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.warehouse.waiting_tables import Waits
from tests.unit.spark_sink.batch.drops_and_renames.altering import Source, Table, late
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def following(warehouse: Warehouse, source: Source) -> Topic:
    topic = Topic(warehouse)
    topic.all_rows = sum(isinstance(one, Change) for one in source.written)

    def follows(waits: Waits) -> Ddl:
        return Ddl(
            topics=topic, warehouse=warehouse.kept, waits=waits, on_drop="rename", on_rename="move"
        )

    warehouse.follows = follows
    warehouse.schemas = source.schemas
    warehouse.restart()
    return topic


def taken(warehouse: Warehouse, topic: Topic, *written: Change | str) -> None:
    """One batch; the statements before its last row are read first."""
    topic.values += [one for one in written if isinstance(one, str)]
    start = warehouse.ends()
    for one in written:
        if isinstance(one, Change):
            warehouse.write(one)
    warehouse.catch_up(start)


def plain(value: Any) -> Any:
    return None if value is None else Decimal(value)


def compared(warehouse: Warehouse, source: Source) -> None:
    for name, table in source.tables.items():
        assert warehouse.waiting(name) is None, warehouse.waiting(name)
        rows = warehouse.rows(name)
        assert len({row["id"] for row in rows}) == len(rows)
        found = {row["id"]: {own: plain(row[own]) for own in table.columns} for row in rows}
        wanted = {
            key: {own: plain(value) for own, value in row.items()}
            for key, row in table.rows.items()
        }
        assert found == wanted, name


def test_rows_that_a_rename_moved_get_what_an_alter_without_a_row_between_gives(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(1))
    source.put("a", 1)
    source.rename("a", "c")
    source.add("c", "c", 5)
    source.modify("c")
    source.put("c", 2)
    topic = following(warehouse, source)
    del source.tables["b"]
    taken(warehouse, topic, *source.written[:1])
    taken(warehouse, topic, *source.written[1:])
    compared(warehouse, source)


@pytest.mark.parametrize(
    "is_alone", [pytest.param(False, marks=pytest.mark.long("no row is in the batch")), True]
)
def test_statements_have_their_effect_though_no_row_of_the_table_follows(
    warehouse: Warehouse, *, is_alone: bool
) -> None:
    source = Source(random.Random(1))
    for name in ("a", "b"):
        source.put(name, 1)
        source.put(name, 2)
    first = len(source.written)
    # Digits are lost, also where a later statement restores the type, or under another name.
    source.modify("a")
    source.restore("a")
    source.add("a", "c", 5)
    source.swap("a", "b")
    source.modify("a")
    source.restore("a")
    source.swap("a", "b")
    source.rename("b", "c")
    source.add("c", "d", 6)
    last = len(source.written)
    source.tables["other"] = Table()
    source.put("other", 1)
    topic = following(warehouse, source)
    taken(warehouse, topic, *source.written[:first])
    # Read, and left by a kill before a batch.
    topic.values += [one for one in source.written[first:last] if isinstance(one, str)]
    warehouse.restart()
    with warehouse.applier.gate:
        warehouse.applier.follow_ddl({})
    warehouse.restart()
    if is_alone:
        other = source.tables.pop("other")
        for _ in range(2):
            # Not even a row of another table. The ledger does not have it, so another process does it again.
            warehouse.applier.apply_ddl(warehouse.read({}, {}))
            compared(warehouse, source)
            assert warehouse.applier.ddl is not None
            assert not warehouse.applier.ddl.altered()
            warehouse.restart()
        source.tables["other"] = other
    taken(warehouse, topic, *source.written[last:])
    compared(warehouse, source)
    for name in source.tables:
        warehouse.reload(name, from_beginning=True)
    compared(warehouse, source)


def test_a_table_whose_new_topic_has_no_record_yet_gets_what_an_alter_without_a_row_gives(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(1))
    source.put("a", 1)
    source.rename("a", "c")
    source.modify("c")
    topic = following(warehouse, source)
    del source.tables["b"]
    warehouse.schemas = [
        one.replace(TOPIC[0], "aq.shop.c") if '"table": "c"' in one else one
        for one in warehouse.schemas
    ]
    taken(warehouse, topic, *source.written[:1])
    topic.values += [one for one in source.written[1:] if isinstance(one, str)]
    warehouse.applier.apply_ddl(warehouse.read({}, {}))
    compared(warehouse, source)


def test_a_statement_whose_version_is_published_later_has_its_effect_then(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(1))
    source.put("a", 1)
    source.modify("a")
    topic = following(warehouse, source)
    del source.tables["b"]
    late = warehouse.schemas.pop()
    taken(warehouse, topic, *source.written[:1])
    topic.values += [one for one in source.written[1:] if isinstance(one, str)]
    warehouse.applier.apply_ddl(warehouse.read({}, {}))
    warehouse.schemas.append(late)
    warehouse.applier.apply_ddl(warehouse.read({}, {}))
    compared(warehouse, source)
    assert warehouse.applier.ddl is not None
    assert not warehouse.applier.ddl.altered()


@pytest.mark.parametrize(
    ("change", "only_new"),
    [
        ("type", False),
        pytest.param("type", True, marks=pytest.mark.long("jobs/test_rebuild.py")),
        pytest.param("key", False, marks=pytest.mark.long("jobs/test_rebuild.py")),
    ],
)
def test_a_table_is_reloaded_though_earlier_statements_gave_it_versions_that_no_longer_fit(
    warehouse: Warehouse, change: str, *, only_new: bool
) -> None:
    source = Source(random.Random(1))
    del source.tables["b"]
    source.put("a", 1)
    source.add("a", "c", 5)
    source.put("a", 2)
    first = len(source.written)
    table = source.tables["a"]
    if change == "key":
        table.key = ("id", "c")
    else:
        table.columns["c"]["type"] = "varchar(10)"
        for row in table.rows.values():
            row["c"] = str(row["c"])
    source._altered("a")
    source.put("a", 3)
    topic = following(warehouse, source)
    taken(warehouse, topic, *source.written[:first])
    taken(warehouse, topic, *source.written[first:])
    assert warehouse.waiting("a")
    warehouse.reload("a", only_new=only_new)
    if only_new:
        source.delete("a", 1)
        source.delete("a", 2)
    compared(warehouse, source)


@pytest.mark.long(
    "test_stays.py has it without Spark; the test above a table that was renamed once"
)
def test_tables_that_change_places_and_back_keep_the_values_of_their_own_columns(
    warehouse: Warehouse,
) -> None:
    source = Source(random.Random(1))
    cuts = [0]
    for turn in range(3):
        for name in ("a", "b"):
            source.put(name, turn)
            source.put(name, turn + 10)
        cuts.append(len(source.written))
        source.swap("a", "b")
        # The same statement gives each table a column of its own.
        for name in ("a", "b"):
            if turn == 1:
                source.drop(name, "c")
            source.add(name, "d" if turn == 2 else "c", 200 + turn * 10 + (name == "b"))
    source.modify("b")
    source.end()
    cuts.append(len(source.written))
    topic = following(warehouse, source)
    for since, until in itertools.pairwise(cuts):
        taken(warehouse, topic, *source.written[since:until])
        warehouse.restart()
    compared(warehouse, source)


@pytest.mark.parametrize(
    ("seed", "announces"),
    [
        pytest.param(
            n,
            n % 4 > 0,
            marks=pytest.mark.long("warehouse/test_stays.py has the same without Spark"),
        )
        for n in range(1, 13)
    ],
)
def test_batches_in_any_order_give_the_rows_that_the_source_has(
    warehouse: Warehouse, seed: int, announces: bool
) -> None:
    rng = random.Random(seed)
    source = Source(rng, announces=announces)
    while len(source.written) < 40:
        source.step()
    if not announces:
        source.end()
    topic = following(warehouse, source)
    for batch in late(source, batches=3, delays=(0, 0, 6, 14)):
        taken(warehouse, topic, *batch)
        warehouse.restart()
    compared(warehouse, source)
    warehouse.catch_up({TOPIC: 0})
    compared(warehouse, source)
    if seed % 3 == 1:
        for name in source.tables:
            warehouse.reload(name, from_beginning=True)
        compared(warehouse, source)
