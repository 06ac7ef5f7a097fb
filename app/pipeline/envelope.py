"""A change as its records: keys, values and headers as ``docs/wire.md`` has them.

The law: the same change makes the same key, ChangeId and images for ever; only ``ts_ms``, ``epoch`` and ``seq``
belong to the run that published it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

import app
from app.pipeline.versions import CapturedTable
from connectors.errors import UnsupportedEvent
from connectors.mysql.position import Coordinates
from connectors.mysql.rows import ABSENT, Image, RowChange
from connectors.mysql.transactions import Transaction
from connectors.wire import (
    HEADER_CHANGE_ID,
    HEADER_NEW_KEY,
    HEADER_OLD_KEY,
    WIRE_VERSION,
    change_id,
)

Headers = list[tuple[str, bytes]]


class Outgoing(NamedTuple):
    """A record on its way to Kafka."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the source and in our own stream a change stands."""

    transaction: Transaction
    start: Coordinates
    ordinal: int | None
    """Of the source row in its transaction; None for DDL."""
    seq: int
    order: int | None
    """Of the row among its transaction's published ones, from 1."""


class Envelope:
    """Makes records for one destination in one epoch."""

    def __init__(self, destination: str, epoch: int) -> None:
        self._destination = destination
        self._epoch = epoch

    def source(
        self, place: Place, database: str | None, table: str | None, schema: int | None
    ) -> dict[str, Any]:
        """The ``source`` field."""
        transaction = place.transaction
        return {
            "version": app.__version__,
            "connector": "mysql",
            "name": self._destination,
            "server_id": transaction.server_id,
            "gtid": transaction.gtid,
            "file": place.start.file,
            "pos": place.start.pos,
            "row": place.ordinal,
            "thread": transaction.thread,
            "db": database,
            "table": table,
            "ts_ms": transaction.committed_ms,
            "snapshot": "false",
            "seq": place.seq,
            "epoch": self._epoch,
            "schema": schema,
            "wire": WIRE_VERSION,
        }

    def row(self, table: CapturedTable, change: RowChange, place: Place) -> list[Outgoing]:
        """The records of a changed row; a key change has a second value, which is numbered ``seq + 1``."""
        before, after = _completed(change)
        old_key, new_key = _key(table, before, after), _key(table, after, before)
        if before is not None and after is not None and old_key != new_key:
            return self._key_change(table, RowChange(before, after), place, (old_key, new_key))
        op = "c" if before is None else "d" if after is None else "u"
        key = old_key if after is None else new_key
        headers = _headers(place)
        record = Outgoing(
            table.version.topic, key, self._value(table, op, before, after, place), headers
        )
        if op == "d" and key is not None:
            return [record, Outgoing(table.version.topic, key, None, headers)]
        return [record]

    def _key_change(
        self,
        table: CapturedTable,
        change: RowChange,
        place: Place,
        keys: tuple[bytes | None, bytes | None],
    ) -> list[Outgoing]:
        old_key, new_key = keys
        topic = table.version.topic
        gone = [*_headers(place, half=0), (HEADER_NEW_KEY, new_key or b"")]
        come = [*_headers(place, half=1), (HEADER_OLD_KEY, old_key or b"")]
        order = None if place.order is None else place.order + 1
        second = Place(place.transaction, place.start, place.ordinal, place.seq + 1, order)
        return [
            Outgoing(topic, old_key, self._value(table, "d", change.before, None, place), gone),
            Outgoing(topic, old_key, None, gone[:1]),
            Outgoing(topic, new_key, self._value(table, "c", None, change.after, second), come),
        ]

    def _value(
        self,
        table: CapturedTable,
        op: str,
        before: Image | None,
        after: Image | None,
        place: Place,
    ) -> bytes:
        version = table.version
        value: dict[str, Any] = {"before": _image(table, before), "after": _image(table, after)}
        absent = _absent(table, before if after is None else after)
        if absent:
            value["absent"] = absent
        value["source"] = self.source(place, version.database, version.table, version.version)
        return _finished(value, op, place)

    def truncate(
        self, name: tuple[str, str], topic: str, schema: int | None, place: Place
    ) -> Outgoing:
        """The record that says that all rows of a table are gone."""
        value: dict[str, Any] = {"before": None, "after": None}
        value["source"] = self.source(place, *name, schema)
        return Outgoing(topic, None, _finished(value, "t", place), _headers(place))

    def ddl(self, topic: str, place: Place, **content: Any) -> Outgoing:
        """The record of a DDL statement."""
        value = {"source": self.source(place, content["database"], None, None), **content}
        key = orjson.dumps({"destination": self._destination})
        return Outgoing(
            topic, key, orjson.dumps({**value, "ts_ms": _now_ms()}), _headers(place, row=False)
        )

    def border(self, topic: str, transaction: Transaction, status: str, **more: Any) -> Outgoing:
        """A BEGIN or END record of a transaction."""
        value = {
            "status": status,
            "id": transaction.id,
            "ts_ms": transaction.committed_ms,
            "epoch": self._epoch,
            "wire": WIRE_VERSION,
            **more,
        }
        return Outgoing(topic, orjson.dumps({"id": transaction.id}), orjson.dumps(value), [])


def _finished(value: dict[str, Any], op: str, place: Place) -> bytes:
    value["op"] = op
    value["ts_ms"] = _now_ms()
    value["transaction"] = {"id": place.transaction.id, "total_order": place.order}
    return orjson.dumps(value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _headers(place: Place, *, half: int | None = None, row: bool = True) -> Headers:
    ordinal = place.ordinal if place.ordinal is not None else 0
    name = change_id(place.transaction.id, ordinal, half) if row else f"{place.transaction.id}#ddl"
    return [(HEADER_CHANGE_ID, name.encode())]


def _completed(change: RowChange) -> tuple[Image | None, Image | None]:
    """An after image lacks columns that did not change; they are as they were before."""
    before, after = change.before, change.after
    if before is None or after is None or ABSENT not in after:
        return before, after
    return before, tuple(
        old if new is ABSENT else new for old, new in zip(before, after, strict=True)
    )


def _image(table: CapturedTable, image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    if ABSENT in image:
        pairs = zip(table.names, image, strict=True)
        return {name: value for name, value in pairs if value is not ABSENT}
    return dict(zip(table.names, image, strict=True))


def _absent(table: CapturedTable, image: Image | None) -> list[str]:
    if image is None or ABSENT not in image:
        return []
    return [name for name, value in zip(table.names, image, strict=True) if value is ABSENT]


def _key(table: CapturedTable, image: Image | None, other: Image | None) -> bytes | None:
    """The key's JSON from one image, or from the other where this one does not hold it."""
    if not table.key_columns:
        return None
    held = image if image is not None else other
    assert held is not None, "a change has an image"
    key = {table.names[index]: held[index] for index in table.key_columns}
    if ABSENT in key.values():
        raise UnsupportedEvent(
            "a row image lacks its primary key",
            table=f"{table.version.database}.{table.version.table}",
            remedy="Run SET PERSIST binlog_row_image = 'FULL' on the server, for all sessions.",
        )
    return orjson.dumps(key)
