"""Cursors and table versions as records of the journal have them."""

from __future__ import annotations

from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor, Resume
from tables.state.journal.checkpoint import MemoryCheckpoint, newer, row_of
from wire.table_version import Column, Definition

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def version(number: int, *, destination: str = "shop", table: str = "orders") -> TableVersion:
    columns = tuple(
        Column(name=f"c{n}", type="varchar(9)", nullable=True, charset="utf8mb4")
        for n in range(number)
    )
    return TableVersion(
        destination=destination,
        database="a/b",
        table=table,
        version=number,
        topic=f"aq.shop.{table}",
        definition=Definition(columns=columns, primary_key=("c0",)),
        gtid=f"{UUID}:{number}",
        coordinates=Coordinates("b.000001", number),
        ts_ms=1,
    )


def cursor(
    *, seq: int, epoch: int = 1, versions: int = 0, destination: str = "shop", cut: bool = False
) -> Cursor:
    gtids = GtidSet.parse(f"{UUID}:1-5:7") if seq % 2 else None
    return Cursor(
        destination=destination,
        installation="i",
        epoch=epoch,
        seq=seq,
        versions=versions,
        offset=SourceOffset(
            server_uuid=UUID, coordinates=Coordinates("b.000001", 4 + seq), gtid_set=gtids
        ),
        resume=Resume(transaction_id=f"{UUID}:6", rows=3, published=2, part=1) if cut else None,
    )


def fold_in(checkpoint: MemoryCheckpoint, record: StoredRecord) -> None:
    key, row = row_of(record)
    if newer(row, checkpoint.rows.get(key)):
        checkpoint.rows[key] = row
