"""Events that only MariaDB writes, made by hand. Source: MariaDB's sql/log_event.h."""

from __future__ import annotations

import struct
import zlib

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.mariadb_events import MariadbEventType
from tests.made import HEADER, event, query

STANDALONE, DDL = 0x01, 0x20


def gtid(sequence: int, *, domain: int = 0, flags: int = 0, more: bytes = b"") -> bytes:
    """The start of a transaction; with ``STANDALONE`` it consists of the next statement only."""
    body = struct.pack("<QIB", sequence, domain, flags) + more
    return event(MariadbEventType.GTID, body.ljust(19, b"\0"))


def compressed_query(sql: str) -> bytes:
    """A statement as ``log_bin_compress`` has it."""
    body = query("")[HEADER.size :]
    return event(MariadbEventType.QUERY_COMPRESSED, body + _squeezed(sql.encode()))


def compressed_rows(rows: bytes, *, bitmaps: int = 1) -> bytes:
    """A rows event as ``log_bin_compress`` has it; of a table of at most eight columns."""
    kind = EventType(rows[4])
    head = HEADER.size + 6 + 2 + 2 + 1 + bitmaps
    number = MariadbEventType[f"{kind.name}_COMPRESSED"]
    return event(number, rows[HEADER.size : head] + _squeezed(rows[head:]))


def annotation(sql: str) -> bytes:
    """The statement whose rows follow."""
    return event(MariadbEventType.ANNOTATE_ROWS, sql.encode())


def _squeezed(data: bytes) -> bytes:
    return b"\x84" + struct.pack(">I", len(data)) + zlib.compress(data)
