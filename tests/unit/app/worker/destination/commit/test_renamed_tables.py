"""Tables that are renamed while they are read, and those that take the name of one that is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from tables.state.snapshots.table_snapshot import requested
from tests.unit.tables.made import applied, begun


@pytest.mark.parametrize(
    ("statements", "started"),
    [
        (["RENAME TABLE orders TO gone"], ["gone"]),
        (["RENAME TABLE orders TO gone, other TO orders"], ["gone", "orders"]),
        # The rows of a table that was not captured, up to the key that was read last, are in no change.
        (["DROP TABLE orders", "RENAME TABLE other TO orders"], ["orders"]),
        (["RENAME TABLE other TO third"], []),
        (["DROP TABLE orders"], []),
    ],
)
def test_what_is_read_from_its_first_row(statements: list[str], started: list[str]) -> None:
    history = begun("orders", "other")
    read = requested("shop", [("shop", "orders")], name="1", now_ms=1)
    tables = ReadTables(
        destination="shop",
        captured=lambda: history.now().tables(),
        snapshots={one.name: one for one in read},
    )
    found: list[str] = []
    for number, statement in enumerate(statements):
        record = applied(history, 200 + 100 * number, statement)
        piece: Any = SimpleNamespace(tables=SimpleNamespace(history=[record]))
        cursor: Any = None
        for _, value in RenamedTables(tables).before(piece, cursor):
            assert value is not None
            found.append(orjson.loads(value)["table"])
    assert sorted(found) == started
