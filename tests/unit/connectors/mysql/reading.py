"""Hand-made events, and what a reader makes of them."""

from __future__ import annotations

import pytest

from connectors.errors import (
    AqueductError,
)
from connectors.mysql.binlog.events import EventType
from connectors.mysql.charsets import Charsets
from connectors.mysql.transaction_reader import TransactionReader
from tests.made import (
    SERVER,
    chunk_of,
    event,
    int_rows,
    int_table,
    query,
    table_map,
    xid,
)
from tests.steps import Rows, Step, steps_of

T = int_table()
MAP, ROWS, XID = table_map(T), int_rows(T, 5), xid()
BEGIN = query("BEGIN")
DUMMY = event(EventType.WRITE_ROWS, b"\xff\xff\xff\0\0\0\1\0\2\0\0\0")


def reader() -> TransactionReader:
    return TransactionReader(SERVER, Charsets({}, {}))


def steps(*events: bytes) -> list[Step]:
    return list(steps_of([chunk_of(*events)], reader()))


def stopped(*events: bytes) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        steps(*events)
    return caught.value


def kinds(found: list[Step]) -> list[str]:
    return [type(step).__name__ for step in found]


def described(found: list[Step]) -> list[object]:
    """Steps without the objects that are created in each reading."""
    return [
        (kinds([step]), step.transaction.id, step.body, step.start, step.query)
        if isinstance(step, Rows)
        else (kinds([step]), step.transaction.id, getattr(step, "end", None))
        for step in found
    ]
