"""Schema histories for tests: positions, tables, and statements in sequence."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Column, Database, Server, Session, Table, TableName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointPolicy, SchemaRecord
from tables.journal_format import Entry

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4f22fb58-82db-22f2-af44-d91bb0530673"
SERVER = Server(version=(9, 7, 4))
UTF8 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
LATIN = Database(charset="latin1", collation="latin1_swedish_ci")
SHOP = Session(database="shop")
ORDERS: TableName = ("shop", "orders")
LENGTH = 60
"""Bytes of a statement's event."""


def column(name: str, kind: str = "int", *, nullable: bool = True) -> Column:
    return Column(name=name, type=kind, nullable=nullable)


def table(*names: str) -> Table:
    """A table with an id and further columns of INT."""
    columns = (column("id", nullable=False), *map(column, names))
    return Table(columns=columns, charset=UTF8.charset, collation=UTF8.collation)


def names_of(found: Table | None) -> list[str]:
    assert found is not None
    return [one.name for one in found.columns]


def at(
    pos: int,
    *,
    file: int = 1,
    server: str = UUID,
    gtid: str | None = None,
    ts_ms: int | None = None,
) -> HistoryPosition:
    """The position of a statement; its time defaults to its offset."""
    name = f"b.{file:06}"
    return HistoryPosition(
        server_uuid=server,
        start=Coordinates(name, pos),
        end=Coordinates(name, pos + LENGTH),
        gtid=gtid,
        ts_ms=pos if ts_ms is None else ts_ms,
        server_id=7,
        thread=12,
    )


def offset(
    pos: int, *, file: int = 1, server: str = UUID, gtids: str | None = None
) -> SourceOffset:
    """A position between transactions, as in a cursor."""
    return SourceOffset(
        server_uuid=server,
        coordinates=Coordinates(f"b.{file:06}", pos),
        gtid_set=None if gtids is None else GtidSet.parse(gtids),
    )


def between(
    pos: int, *, file: int = 1, server: str = UUID, gtids: str | None = None
) -> HistoryPosition:
    return HistoryPosition.between(offset(pos, file=file, server=server, gtids=gtids), ts_ms=pos)


def begun(
    *names: str,
    position: HistoryPosition | None = None,
    server: Server = SERVER,
    policy: CheckpointPolicy | None = None,
) -> SchemaHistory:
    """A history with a baseline of these tables of the database ``shop``, each with an id."""
    history = SchemaHistory(policy=policy)
    history.init("shop")
    tables = {("shop", name): table() for name in names}
    history.baseline(tables, {"shop": UTF8}, position or between(100), server)
    return history


def applied(history: SchemaHistory, pos: int, sql: str, *, database: str = "shop") -> SchemaRecord:
    """A statement that does something."""
    record = history.apply(at(pos), database, sql, Session(database=database))
    assert record is not None, f"nothing became of {sql}"
    return record


class WrittenJournal:
    """A journal's partition, as a list."""

    def __init__(self) -> None:
        self.records: list[StoredRecord] = []

    @property
    def end(self) -> int:
        return self.records[-1].offset + 3 if self.records else 0

    def write(self, entries: Iterable[Entry]) -> None:
        """One transaction; its control record takes an offset too."""
        start = self.end
        for position, (key, value) in enumerate(entries):
            self.records.append(StoredRecord(key, value, start + position))

    def compacted(self) -> list[StoredRecord]:
        """The records that a broker must keep."""
        last = {record.key: record.offset for record in self.records}
        return [record for record in self.records if last[record.key] == record.offset]
