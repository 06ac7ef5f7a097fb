"""A cut around a RENAME, on a real Spark: the source's rows and names at its place, or a named error."""

from __future__ import annotations

import pytest

from spark_sink.errors import TableNotInCut, UnknownTable
from spark_sink.views.cuts.cut_tables import ConsistentCut, as_of
from spark_sink.warehouse.coverage import Step
from tests.unit.spark_sink.batch.drops_and_renames.statements import TOPIC as DDL
from tests.unit.spark_sink.batch.drops_and_renames.statements import rename
from tests.unit.spark_sink.batch.drops_and_renames.test_following import COLUMNS, following
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def insert(seq: int, table: str = "t") -> Change:
    return Change(op="c", seq=seq, table=table, after={"id": seq, "v": seq})


def ids(cut: ConsistentCut, table: str) -> list[int]:
    return sorted(row.id for row in cut.table("shop", table).collect())


@pytest.mark.remedy("sink.TableNotInCut", "sink.UnknownTable")
def test_a_cut_has_the_rows_and_names_of_its_place_or_refuses_the_table(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name, key=("id",)) for name in ("t", "u", "w")]
    topic = following(warehouse, on_drop="keep")
    # All of them are in Kafka when the statement is; later batches read the rest.
    topic.all_rows = 6

    def cut(seq: int | None = None) -> ConsistentCut:
        at = ("shop", seq) if seq is not None else None
        return as_of(warehouse.spark, warehouse.path, at)

    warehouse.take(insert(1), insert(2))
    topic.values.append(rename(4, ("t", "u")))
    warehouse.take(insert(5, "u"))
    # A row from before the rename comes late, and a statement that no merge has come to.
    for change in (insert(3), insert(6, "u"), insert(9, "w")):
        warehouse.write(change)
    second = rename(8, ("u", "w"))
    warehouse.write(second, topic=DDL[0], offset=0)
    warehouse.store({}, Step.BEGIN, is_whole=True)

    before, newest, earlier = cut(7), cut(), cut(2)
    assert ids(before, "u") == [1, 2, 3, 5, 6]
    assert before.names() == [("shop", "u")]
    assert before.later_changes() == {("shop", "w"): 1}
    with pytest.raises(UnknownTable):
        before.table("shop", "t")
    assert newest.names() == []
    for name in ("u", "w"):
        with pytest.raises(TableNotInCut, match=r"seq 8, which was not carried out yet"):
            newest.table("shop", name)
    assert earlier.positions["shop"].seq == 2
    for name in ("t", "u"):
        with pytest.raises(TableNotInCut, match=r"renamed after the cut, .* seq 4"):
            earlier.table("shop", name)

    topic.values.append(second)
    moved = {TOPIC: 3}, {TOPIC: 6}
    warehouse.applier.apply(warehouse.read(*moved), 9, query_id="q", moved=moved)
    after = cut()
    assert ids(after, "w") == [1, 2, 3, 5, 6, 9]
    assert after.gone() == [("shop", "t"), ("shop", "u")]
    # It was found before the table moved, and would now read a table that is no longer the same.
    with pytest.raises(TableNotInCut, match=r"renamed after the cut, .* seq 8"):
        before.table("shop", "u")
