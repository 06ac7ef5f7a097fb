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


def test_a_record_in_another_format_stops_the_sink_and_names_its_topic_and_what_to_do(
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
