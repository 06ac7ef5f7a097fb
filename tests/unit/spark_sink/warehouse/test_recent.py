"""Recent changes as a sink of an earlier version stored them."""

from __future__ import annotations

import pytest

from spark_sink.source.envelope import FIELDS
from spark_sink.warehouse.delta.recent import records_of
from tests.unit.spark_sink.conftest import Warehouse as Records

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_images_that_were_stored_as_json_are_read(warehouse: Records) -> None:
    image = '{"id":1,"v":"a\\"b","doc":null}'
    columns = {name: f"CAST(NULL AS STRING) AS `{name}`" for name in FIELDS if name != "size"}
    columns["after"] = f"""'{image.replace(chr(92), chr(92) * 2)}' AS `after`"""
    held = warehouse.spark.range(1).selectExpr(*columns.values())

    (row,) = records_of(held).collect()

    assert set(row.asDict()) == set(FIELDS)
    assert row.after == {"id": "1", "v": 'a"b', "doc": None}
    assert (row.before, row.size) == (None, 0)
