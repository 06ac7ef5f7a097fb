"""Records in another format than the envelope: refused by name, before any table is touched."""

from __future__ import annotations

import pytest

from spark_sink.errors import ForeignFormat
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.remedy("sink.ForeignFormat")
def test_a_record_in_another_format_stops_the_sink_until_its_topic_is_excluded(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 1}))
    start = warehouse.ends()
    warehouse.write(Change(op="c", seq=2, after={"id": 2, "v": 2}))
    warehouse.write('{"data":[{"id":"3"}],"type":"INSERT"}')
    warehouse.records[-1]["headers"] = [{"key": "format", "value": "canal"}]
    with pytest.raises(ForeignFormat, match=r"offset 2: format canal") as error:
        warehouse.catch_up(start)
    assert "Add its topic to exclude" in str(error.value)
    assert [row["id"] for row in warehouse.rows()] == [1]
    # test_start.py has where a start with the topic in exclude begins. Without format, and with another topic,
    # the table comes back.
    warehouse.schemas.append(schema(("id", "int"), ("v", "int"), version=2, topic="aq.shop.new"))
    here = warehouse.ends()
    published = [Change(op="t", seq=8, version=2)]
    published += [Change(op="r", seq=8 + n, version=2, after={"id": n, "v": n}) for n in (2, 3)]
    for offset, change in enumerate(published):
        warehouse.write(change, topic="aq.shop.new", offset=offset)
    warehouse.catch_up(here)
    assert sorted(row["id"] for row in warehouse.rows()) == [2, 3]
