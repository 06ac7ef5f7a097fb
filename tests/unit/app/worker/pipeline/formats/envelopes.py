"""Table versions and envelopes, as formats get them."""

from __future__ import annotations

from typing import Any

import orjson

from app.worker.pipeline.formats.shape import Shape
from app.worker.pipeline.formats.shaped import ShapedForm
from connectors.mysql.position import Coordinates
from tables.rules.table_version import TableVersion
from wire.table_version import Column, Definition

Image = dict[str, Any] | None
OPS = {(False, True): "c", (True, True): "u", (True, False): "d", (False, False): "t"}


def version_of(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> TableVersion:
    """Columns by name and type; ``column_type`` of the integers has a width."""
    return TableVersion(
        destination="shop",
        database="shop_1",
        table="orders_3",
        version=2,
        topic="aq.orders",
        definition=Definition(
            columns=tuple(
                Column(
                    name=name,
                    type=kind,
                    nullable=True,
                    charset=None,
                    column_type="bigint(20)" if kind == "bigint" else None,
                )
                for name, kind in columns
            ),
            primary_key=key,
        ),
        gtid=None,
        coordinates=Coordinates("binlog.000002", 4),
        ts_ms=0,
    )


def envelope_of(before: Image, after: Image, **source: Any) -> dict[str, Any]:
    """An envelope of docs/wire.md."""
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "0.1.0", "connector": "mysql", "name": "shop", "server_id": 1,
            "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "file": "binlog.000002", "pos": 1543,
            "row": 0, "thread": 12, "db": "shop_1", "table": "orders_3", "logical_db": "trade",
            "logical_table": "orders", "ts_ms": 1795234567123, "snapshot": "false", "seq": 4711,
            "epoch": 3, "schema": 2, "wire": 1, **source,
        },
        "op": OPS[before is not None, after is not None],
        "ts_ms": 1795234567240,
        "transaction": {"id": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "total_order": 2},
    }  # fmt: skip


def read_back(shape: Shape, kind: str, found: object) -> dict[str, Any]:
    """The image of a written record of a table with one column, as its envelope may have had it."""
    form = ShapedForm(shape)
    read = form.read(None, orjson.dumps(found), {}).image
    assert read is not None
    restored = form.restored(version_of(("a", kind), key=()).definition)(read)
    image: dict[str, Any] = orjson.loads(orjson.dumps(restored))
    return image
