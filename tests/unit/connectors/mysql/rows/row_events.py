"""Rows events made by hand, and the character sets of their columns."""

from __future__ import annotations

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets

CHARSETS = Charsets(
    {255: "utf8mb4", 63: "binary", 8: "latin1"}, {"utf8mb4": 4, "binary": 1, "latin1": 1}
)


def event(table: TableMap, rows: list[bytes], *, present: int) -> bytes:
    count = len(table.columns)
    bitmap = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    return bytes(8) + b"\x02\x00" + bytes([count]) + bitmap * present + b"".join(rows)
