"""Queries of a source without GTIDs: the end of its binlog, and the number of records that it requires.

Invariant: as in the verdict, another library reads the binlog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from devstack.mysql import Mysql
from tests.harness.sql import ask

_READER_SERVER_ID = 5798
_ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)


def position_of(server: Mysql) -> str:
    """The end of its binlog, with the server's port in front."""
    ((file, position, *_),) = ask(server, "SHOW BINARY LOG STATUS")
    return f"{server.port}|{file}|{position}"


def is_at(status: Mapping[str, Any], position: str) -> bool:
    """Whether a destination is at this position or after it, on the same server."""
    port, file, pos = position.split("|")
    read = [one["address"] for one in status["sources"] if one["is_read"]]
    cursor = status.get("cursor")
    if not cursor or not read or not str(read[0]).endswith(f":{port}"):
        return False
    return (str(cursor["file"]), int(cursor["pos"])) >= (file, int(pos))


Counts = Counter[tuple[str, int]]
"""The number of records of each table's key."""


def counted(server: Mysql, database: str) -> Counts:
    """The records that its binlog must give: two for a row whose key changes, one of either key."""
    found: Counts = Counter()
    stream = BinLogStreamReader(
        {"host": server.host, "port": server.port, "user": "root", "password": ""},
        server_id=_READER_SERVER_ID,
        resume_stream=True,
        blocking=False,
        log_file="binlog.000001",
        log_pos=4,
        only_events=_ROWS,
        verify_checksum=True,
        enable_logging=False,
    )
    try:
        for event in stream:
            if event.schema != database:
                continue
            for row in event.rows:
                images = (row.get(name) for name in ("values", "before_values", "after_values"))
                for key in {image["id"] for image in images if image is not None}:
                    found[event.table, key] += 1
    finally:
        stream.close()
    return found
