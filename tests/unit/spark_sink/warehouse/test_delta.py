"""Delta's folders as another process leaves them: of an earlier version, or in the middle of a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_sink.source.envelope import FIELDS
from spark_sink.warehouse.sql.recent import records_of
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


def test_a_table_whose_first_commit_is_being_written_does_not_exist_yet(
    warehouse: Records,
) -> None:
    held = warehouse.kept
    for folder in ("__waits", "__recent", "__ledger", "shop/t"):
        log = Path(warehouse.path) / folder / "_delta_log"
        log.mkdir(parents=True)
        (log / ".00000000000000000000.json.1f0c.tmp").touch()

    assert not held.waits.state()
    assert held.recent.newest() is None
    assert held.ledger.applied() == {}
    assert held.tables.names() == []
