"""The changes of the shop's rows in the server's own binlog: the demo's second witness.

It uses mysql-replication, none of the worker's code: a change is named here by the rules of
docs/wire.md alone. The binlog is read from its first byte to its end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from demo.errors import DemoError
from demo.load import Server

_READER_SERVER_ID = 5799
_ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)


class TruthUnreadable(DemoError):
    """The server's binlog could not be read to its end."""


@dataclass(slots=True)
class Truth:
    """By table: the number of changed rows, and the ChangeId of each expected record."""

    changes: Counter[str] = field(default_factory=Counter)
    change_ids: dict[str, set[str]] = field(default_factory=dict)

    def add(self, table: str, change_id: str, *, moved: bool) -> None:
        """Add one row change; `moved`: it changed the row's key, and so gives two records."""
        self.changes[table] += 1
        ids = self.change_ids.setdefault(table, set())
        ids.update((f"{change_id}/0", f"{change_id}/1") if moved else (change_id,))


def read(server: Server, database: str) -> Truth:
    """Return the binlog's changes of a database."""
    return truth_of((event for _, event in events_of(server)), database)


def events_of(server: Server, *, more: Sequence[type] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each GTID and rows event of the binlog, and ``more``, with its file."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        first_file = cursor.fetchone()[0]
    stream = BinLogStreamReader(
        {"host": server.host, "port": server.port, "user": server.user, "password": ""},
        server_id=_READER_SERVER_ID,
        resume_stream=True,
        blocking=False,
        log_file=first_file,
        log_pos=4,
        only_events=[GtidEvent, *_ROWS, *more],
        verify_checksum=True,
        enable_logging=False,
    )
    try:
        for event in stream:
            yield stream.log_file, event
    finally:
        stream.close()


def truth_of(events: Iterable[Any], database: str) -> Truth:
    """Number the rows of each transaction from 0, those of other databases too, and name them."""
    truth, gtid, ordinal = Truth(), "", 0
    for event in events:
        if isinstance(event, GtidEvent):
            gtid, ordinal = event.gtid, 0
            continue
        for row in event.rows:
            if event.schema == database:
                moved = isinstance(event, UpdateRowsEvent) and _moved(row, event.primary_key)
                truth.add(event.table, f"{gtid}#{ordinal}", moved=moved)
            ordinal += 1
    return truth


def _moved(row: dict[str, dict[str, object]], key: str | tuple[str, ...]) -> bool:
    columns = (key,) if isinstance(key, str) else key
    before, after = row["before_values"], row["after_values"]
    return any(before[column] != after[column] for column in columns)
