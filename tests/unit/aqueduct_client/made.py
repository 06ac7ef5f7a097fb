"""Records as a worker writes them, and subscribers of the in-memory twin."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aqueduct_client.memory import MemoryKafka
from aqueduct_client.notes import Notes
from aqueduct_client.record_selection import Selection, Window
from aqueduct_client.records import Partition, RawRecord, Record
from aqueduct_client.schemas import Schemas
from aqueduct_client.start_positions import Earliest, Start
from aqueduct_client.subscriber import Subscriber

TABLE = "trade.orders"
TOPIC = "aq.trade.orders"
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def value(seq: int, *, op: str = "c", **source: Any) -> bytes:
    """The envelope of a change of the row whose id is ``seq``."""
    image = {"id": seq, "amount": "1.50"}
    gtid = f"{SERVER}:{seq}"
    envelope = {
        "before": image if op in "ud" else None,
        "after": image if op in "cu" else None,
        "source": {
            "name": "shop", "gtid": gtid, "row": 0, "db": "trade", "table": "orders",
            "ts_ms": 1000 * seq, "seq": seq, "epoch": 1, "schema": 2, "wire": 1,
        } | source,
        "op": op,
        "transaction": {"id": gtid, "total_order": 1},
    }  # fmt: skip
    return json.dumps(envelope).encode()


def headers(seq: int, tags: Iterable[str] = ()) -> list[tuple[str, bytes]]:
    """The headers of that change."""
    found = [("change_id", f"{SERVER}:{seq}#0".encode())]
    return [*found, ("tags", ",".join(tags).encode())] if tags else found


def record(body: bytes | None, *more: tuple[str, bytes], offset: int = 0) -> Record:
    """A record of the topic."""
    return Record(
        RawRecord(
            partition=Partition(TOPIC, 0), offset=offset, key=b'{"id":1}', value=body, headers=more
        )
    )


@dataclass(slots=True)
class Shop:
    """A twin with the topic of a table."""

    partitions: int = 1
    kafka: MemoryKafka = field(default_factory=MemoryKafka)
    _last: int = 0

    def __post_init__(self) -> None:
        self.kafka.create(TOPIC, self.partitions)
        self.kafka.create("aq.__schemas")

    def publish(self, count: int, *, tags: Iterable[str] = (), body: bytes | None = None) -> None:
        """Write changes, in turn to each partition; ``body``: in place of their values."""
        for _ in range(count):
            self._last += 1
            tp = Partition(TOPIC, self._last % self.partitions)
            self.kafka.send(
                tp,
                body or value(self._last),
                headers=headers(self._last, tags),
                ts_ms=1000 * self._last,
            )

    def subscriber(
        self, *, group: str = "g", tags: Iterable[str] = (), start: Start | None = None,
        window: int = 0, topics: Iterable[str] = (TOPIC,), **more: Any,
    ) -> Subscriber:  # fmt: skip
        """A member of a group."""
        return Subscriber(
            joins=self.kafka.joins(group, [*topics]),
            logs=self.kafka.log,
            selection=Selection(tables=dict.fromkeys(topics), tags=frozenset(tags)),
            notes=self.notes(group),
            start=start or Earliest(),
            window=Window(window),
            schemas=Schemas(self.kafka.log, "aq"),
            **more,
        )

    def notes(self, group: str = "g") -> Notes:
        """What is noted of a group."""
        return Notes(
            logs=self.kafka.log, appends=self.kafka.append, topic="aq.__subscribers", group=group
        )

    def committed(self, group: str = "g") -> dict[int, int]:
        """The group's offsets."""
        return {tp.number: at for (name, tp), at in self.kafka.offsets.items() if name == group}


def seqs(records: Iterable[Record]) -> list[int]:
    """Their numbers."""
    return [each.seq for each in records]
