"""The position of a group, in Kafka and in the source: offset, lag, and the next change of each partition."""

from __future__ import annotations

from dataclasses import dataclass

from app.operator.operations.subscriber.client_errors import as_aqueducts
from app.operator.operations.subscriber.groups import offsets_of, partitions_of
from app.settings.model import Settings
from app.worker.wiring import kafka_client
from aqueduct_client.errors import MalformedRecord
from aqueduct_client.kafka import kafka_log
from aqueduct_client.protocol import Log
from aqueduct_client.records import Partition, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class NextChange:
    """The change that a group reads next."""

    destination: str
    epoch: int
    seq: int
    gtid: str | None
    ts_ms: int
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """A group in one partition."""

    topic: str
    partition: int
    offset: int | None
    """None: the group has none, and begins at its start position."""
    end: int
    """Of committed records."""
    next: NextChange | None
    """None at the end, and without an offset."""
    unreadable: str | None = None
    """Why the next record is not one of the wire contract."""

    @property
    def lag(self) -> int | None:
        """Offsets up to the end; markers of transactions count too."""
        return None if self.offset is None else max(0, self.end - self.offset)


async def read_position(
    settings: Settings, group: str, topic: str | None
) -> tuple[PartitionPosition, ...]:
    """Return where a group is, by topic and partition."""
    offsets = await offsets_of(settings, group)
    partitions = await partitions_of(settings, group, topic, None)
    with as_aqueducts():
        async with kafka_log(kafka_client(settings).options()) as log:
            found = [
                await _position(log, Partition(*each), offsets.get(each)) for each in partitions
            ]
    return tuple(found)


async def _position(log: Log, partition: Partition, offset: int | None) -> PartitionPosition:
    _, end = await log.bounds(partition)
    change, unreadable = None, None
    try:
        change = None if offset is None else await _next(log, partition, offset)
    except MalformedRecord as error:
        unreadable = str(error)
    return PartitionPosition(
        topic=partition.topic,
        partition=partition.number,
        offset=offset,
        end=end,
        next=change,
        unreadable=unreadable,
    )


async def _next(log: Log, partition: Partition, offset: int) -> NextChange | None:
    found = await log.read(partition, offset)
    if not found:
        return None
    record = Record(found[0])
    return NextChange(
        destination=record.destination,
        epoch=record.epoch,
        seq=record.seq,
        gtid=record.gtid,
        ts_ms=record.ts_ms,
        table=record.logical_table,
    )
