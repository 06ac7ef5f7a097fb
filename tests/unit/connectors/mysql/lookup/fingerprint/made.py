"""Rows events made by hand, and the fingerprint of a transaction of them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import cast

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.fingerprint import FingerprintWindow, Sums

WRITE, DELETE = int(EventType.WRITE_ROWS), int(EventType.DELETE_ROWS)


def table(name: str = "t", database: str = "shop") -> TableMap:
    return cast(TableMap, SimpleNamespace(database=database, table=name))


def body(rows: bytes, *, table_id: int = 7, extra: bytes = b"", v1: bool = False) -> bytes:
    head = struct.pack("<IHH", table_id, 0, 1)
    if not v1:
        head += struct.pack("<H", 2 + len(extra)) + extra
    return head + b"\x02\xff" + rows


def transaction(pos: int = 4, *, us: int = 0) -> Transaction:
    made = Transaction("b.1", pos, None, 0, f"u:b.1:{pos}", us // 1000, 1)
    made.original_us = us
    return made


def digest(*events: tuple[TableMap, int, bytes]) -> str:
    prints = FingerprintWindow(lambda database, _: database == "shop")
    for event in events:
        prints.rows(*event)
    prints.end(transaction(), 99)
    prints.follow(Sums())
    (found,) = prints.done
    return found.digest
