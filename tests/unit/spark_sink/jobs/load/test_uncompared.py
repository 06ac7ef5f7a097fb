"""Tables of the warehouse that cannot be compared are each stated; a warehouse that is none is one error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink.errors import LogDamaged, SinkError, WarehouseUnusable
from spark_sink.jobs.load.state import Loads
from spark_sink.jobs.load.validation import Validator, check_warehouse
from spark_sink.spark.java import java_class
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.waiting_tables import Waits
from tests.unit.spark_sink.conftest import TOPIC, Warehouse, of_delta
from tests.unit.spark_sink.history import Change, schema
from tests.unit.spark_sink.jobs.load.test_in_place import COLUMNS, SOURCE, image

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NAME = ("shop", "t")


class Answering:
    """A source and a Kafka that answer, and the loads of a warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse.kept
        self.loads = Loads(warehouse.spark, warehouse.path, warehouse.kept.log)
        self.origins = {"shop": SimpleNamespace(server=SimpleNamespace(one=lambda _: "1"))}
        self.topics = SimpleNamespace(ranges=lambda _: ({}, {}))


def forget(warehouse: Warehouse) -> None:
    """Makes it that of another process, which remembers nothing of its logs."""
    warehouse.kept = open_warehouse(warehouse.spark, warehouse.path)
    java_class(warehouse.spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()


def compared(warehouse: Warehouse, name: tuple[str, str] = NAME) -> str:
    """Why a table is not compared."""
    loader: Any = Answering(warehouse)
    waits = Waits(warehouse.kept.log, lambda: 0)
    return Validator(loader=loader, waits=waits).compare(name, (SOURCE,)).not_compared or ""


def test_a_table_that_is_missing_keyless_foreign_or_waits(warehouse: Warehouse) -> None:
    warehouse.schemas = [
        schema(*COLUMNS, table="log", key=()),
        schema(*COLUMNS),
        schema(*COLUMNS, version=2, key=("v",)),
    ]
    warehouse.take(
        Change(op="c", seq=1, after=image(1, 10)),
        Change(op="c", seq=2, after=image(1, 10), table="log"),
    )
    with pytest.raises(SinkError, match="KeyChanged"):
        warehouse.take(Change(op="c", seq=3, after=image(2, 20), version=2))
    foreign = Path(warehouse.path) / "shop" / "other" / "notes.txt"
    foreign.parent.mkdir()
    foreign.write_text("another program's")
    waiting, *others = (compared(warehouse, ("shop", one)) for one in ("t", "log", "none", "other"))
    assert "waits: KeyChanged: shop.t has ['id']" in waiting
    assert "Run: python -m spark_sink reload shop.t" in waiting
    assert "shop.log has no key by which rows could be compared" in others[0]
    assert "the warehouse has no table shop.none" in others[1]
    assert "other" in others[2]


@of_delta
def test_a_table_whose_format_cannot_be_read(warehouse: Warehouse) -> None:
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(Change(op="c", seq=1, after=image(1, 10)))
    for entry in (Path(warehouse.path) / "shop" / "t" / "_delta_log").glob("*.json"):
        entry.write_text('{"commitInfo":{"times')
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
        # Delta's own, which has the columns too: with it, only the rows could not be read.
        entry.with_suffix(".crc").unlink(missing_ok=True)
    forget(warehouse)
    found = compared(warehouse)
    assert "NotComparable: A table cannot be compared with its source: shop.t: " in found
    assert "python -m spark_sink rebuild shop.t" in found


def test_a_folder_that_is_no_warehouse_ends_the_command(warehouse: Warehouse) -> None:
    loader: Any = Answering(warehouse)
    with pytest.raises(WarehouseUnusable, match="no sink has applied a change there"):
        check_warehouse(loader)
    assert not (Path(warehouse.path) / "__loads").exists()
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(Change(op="c", seq=1, after=image(1, 10)))
    check_warehouse(loader)


@of_delta
def test_a_warehouse_whose_own_tables_cannot_be_read_is_no_trouble_of_a_table(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(Change(op="c", seq=1, after=image(1, 10)))
    warehouse.take(Change(op="c", seq=2, after=image(2, 10)))
    assert warehouse.kept.log.applied() == {TOPIC: 2}
    for name in ("__log", "shop/t"):
        for file in (Path(warehouse.path) / name).rglob("*"):
            if file.is_file():
                file.write_bytes(b"\0")
    forget(warehouse)
    with pytest.raises(LogDamaged, match=r"/wh/__log: .* is damaged"):
        compared(warehouse)
