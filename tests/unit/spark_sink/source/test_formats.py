"""Records that name no table, in another format than the envelope or by another program: the tables wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink.batch.contents import Contents
from spark_sink.errors import ForeignFormat, MalformedRecord
from spark_sink.source.installation import Installation
from spark_sink.warehouse.foreign_topics import ForeignTopics
from spark_sink.warehouse.moves import Event
from spark_sink.warehouse.table_status import status_lines
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OTHER = "aq.shop.other"
SCHEMAS = [
    schema(("id", "int"), ("v", "int"), table=table, topic=f"aq.shop.{table}")
    for table in ("t", "other")
]
CANAL: dict[str, Any] = {"headers": [{"key": "format", "value": "canal"}]}


def put(seq: int, table: str = "t", **more: Any) -> Change:
    return Change(op="c", seq=seq, table=table, after={"id": seq, "v": seq}, **more)


def ids(warehouse: Warehouse, table: str = "t") -> list[int]:
    return sorted(row["id"] for row in warehouse.rows(table))


@pytest.mark.remedy("sink.ForeignFormat")
def test_a_table_in_another_format_waits_and_others_continue_until_it_is_published_elsewhere(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [*SCHEMAS]
    warehouse.take(put(1))
    start = warehouse.ends()
    warehouse.write(put(2))
    warehouse.write('{"data":[{"id":"3"}],"type":"INSERT"}', **CANAL)
    warehouse.write(put(3, "other"), topic=OTHER, offset=0)
    warehouse.catch_up(start)
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "ForeignFormat"
    assert held.reason == "topic aq.shop.t, partition 0, offset 2: format canal"
    assert "Add aq\\.shop\\.t to exclude; once the sink runs with that, run: python" in held.action
    assert (ids(warehouse), ids(warehouse, "other")) == ([1], [3])
    # More of them, and other batches.
    warehouse.restart()
    start = warehouse.ends()
    warehouse.write(b"\x00\x01", **CANAL)
    warehouse.write(put(4, "other"), topic=OTHER, offset=1)
    warehouse.catch_up(start)
    assert ids(warehouse, "other") == [3, 4]
    with pytest.raises(ForeignFormat, match=r"of 2 that name no table"):
        warehouse.reload()
    # test_start.py has where a start with the topic in exclude begins. Without format, and with another topic,
    # the table comes back.
    warehouse.schemas.append(schema(("id", "int"), ("v", "int"), version=2, topic="aq.shop.new"))
    here = warehouse.ends()
    published = [Change(op="t", seq=8, version=2)]
    published += [Change(op="r", seq=8 + n, version=2, after={"id": n, "v": n}) for n in (2, 3)]
    for offset, change in enumerate(published):
        warehouse.write(change, topic="aq.shop.new", offset=offset)
    warehouse.catch_up(here)
    warehouse.reload(skip_unusable=True)
    assert (ids(warehouse), warehouse.waiting()) == ([2, 3], None)


def test_after_a_topic_is_excluded_its_table_is_kept_as_it_is(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [*SCHEMAS]
    warehouse.take(put(1))
    start = warehouse.ends()
    warehouse.write(b"\x00", **CANAL)
    warehouse.catch_up(start)
    assert warehouse.waiting() is not None
    monkeypatch.setattr(warehouse, "ranges", lambda _: ({}, {}))
    warehouse.reload(skip_unusable=True)
    assert (ids(warehouse), warehouse.waiting()) == ([1], None)


@pytest.mark.parametrize("value", [b"\xff", "{}", '{"source": {"db": "shop"}}'])
def test_a_record_that_names_no_table_concerns_the_tables_of_its_topic_alone(
    warehouse: Warehouse, value: str | bytes
) -> None:
    warehouse.schemas = [*SCHEMAS]
    start = warehouse.ends()
    # The table of the topic does not exist yet, and its first record comes with it.
    warehouse.write(value)
    warehouse.write(put(2))
    warehouse.write(put(3, "other"), topic=OTHER, offset=0)
    warehouse.catch_up(start)
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "MalformedRecord"
    assert held.offsets == {("aq.shop.t", 0): 0}
    assert "run: python -m spark_sink reload shop.t --skip-unusable" in held.action
    assert ids(warehouse, "other") == [3]
    with pytest.raises(MalformedRecord, match=r"offset 0.*--skip-unusable"):
        warehouse.reload()
    warehouse.reload(skip_unusable=True)
    assert (ids(warehouse), warehouse.waiting()) == ([2], None)
    warehouse.take(put(4))
    assert ids(warehouse) == [2, 4]


def test_a_record_of_a_topic_without_a_known_table_is_refused_by_the_topic_s_name(
    warehouse: Warehouse,
) -> None:
    installation = Installation(prefix="aq", read=lambda: warehouse.schemas, names=tuple)
    foreign = ForeignTopics(installation=installation, notes=warehouse.kept.notes)
    warehouse.applier.foreign = foreign
    warehouse.take(b"\xff")
    assert warehouse.kept.log.applied() == warehouse.ends()
    lines = "\n".join(status_lines(warehouse.kept))
    assert "topic aq.shop.t: REFUSED" in lines
    assert "Add aq\\.shop\\.t to exclude" in lines
    # After a restart, until a version names the topic.
    again = ForeignTopics(installation=installation, notes=warehouse.kept.notes)
    again.begin({"aq.shop.t"})
    assert again.refused.keys() == {"aq.shop.t"}
    warehouse.schemas = [*SCHEMAS]
    again.begin({"aq.shop.t"})
    assert again.refused == {}


def test_a_record_in_another_format_becomes_no_dead_letter_as_all_of_its_topic_may_be_so(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [*SCHEMAS]
    warehouse.unusable_limit = 5
    warehouse.restart()
    start = warehouse.ends()
    warehouse.write(put(1))
    warehouse.write(b"\x00", **CANAL)
    warehouse.write(b"\xff", topic=OTHER, offset=0)
    warehouse.write(put(2, "other"), topic=OTHER, offset=1)
    warehouse.catch_up(start)
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "ForeignFormat"
    assert warehouse.kept.letters.within({}, warehouse.ends()) == {(OTHER, 0, 0)}
    assert (ids(warehouse, "other"), warehouse.waiting("other")) == ([2], None)


def test_the_tables_of_a_topic_are_those_that_have_its_rows_now(warehouse: Warehouse) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("v", "int"), table=table, topic="aq.shop.t")
        for table in ("t", "gone", "new")
    ]
    warehouse.take(put(1))
    event = Event(
        destination="shop",
        epoch=1,
        seq=5,
        ts_ms=5,
        moves={("shop", "gone"): None, ("shop", "old"): ("shop", "t"), ("shop", "t"): None},
    )
    ddl: Any = SimpleNamespace(history=SimpleNamespace(events={1: event}))
    warehouse.applier.ddl = ddl
    found = warehouse.applier._tables_of("aq.shop.t", Contents())
    # Of a name that DDL has taken from its table, a table must exist.
    assert found == {("shop", "t"), ("shop", "new")}
    assert warehouse.applier._tables_of("aq.alerts", Contents()) == set()
