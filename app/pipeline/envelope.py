"""A change as its records: keys, values and headers as ``docs/wire.md`` has them.

The law: the same change makes the same key, ChangeId and images for ever; only ``ts_ms``, ``epoch`` and ``seq``
belong to the run that published it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from app.about import __version__
from app.pipeline.versions import CapturedTable
from connectors.mysql.compiled.decoder import RowText
from connectors.mysql.position import Coordinates
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

    def rows(self, table: CapturedTable, transaction: Transaction, start: Coordinates) -> RowWriter:
        """What writes the rows of one event."""
        version = table.version
        place = Place(transaction, start, None, 0, None)
        source = self.source(place, version.database, version.table, version.version)
        return RowWriter(version.topic, transaction.id, source)

    def source(
        self, place: Place, database: str | None, table: str | None, schema: int | None
    ) -> dict[str, Any]:
        """The ``source`` field."""
        transaction = place.transaction
        return {
            "version": __version__,
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


class RowWriter:
    """Writes the records of one event's rows: what is the same for all of them is rendered once."""

    __slots__ = ("_end", "_head", "_id", "_middle", "_tail", "_topic")

    def __init__(self, topic: str, transaction_id: str, source: dict[str, Any]) -> None:
        fields, names = list(source.items()), list(source)
        row, seq = names.index("row"), names.index("seq")
        name = orjson.dumps(transaction_id).decode()
        self._topic = topic
        self._id = transaction_id
        self._head = f',"source":{{{_members(fields[:row])},"row":'
        self._middle = f',{_members(fields[row + 1 : seq])},"seq":'
        self._tail = f',{_members(fields[seq + 1 :])}}},"op":"'
        self._end = f'","ts_ms":{_now_ms()},"transaction":{{"id":{name},"total_order":'

    def records(self, row: RowText, ordinal: int, *, seq: int, order: int) -> list[Outgoing]:
        """The records of a changed row; a key change has a second value, numbered ``seq + 1``."""
        before, after, old_key, new_key, _ = row
        if before is not None and after is not None and old_key != new_key:
            return self._key_change(row, ordinal, seq=seq, order=order)
        key = old_key if after is None else new_key
        raw_key = None if key is None else key.encode()
        op = "c" if before is None else "d" if after is None else "u"
        value = self._value(row, op, ordinal, seq, order)
        headers = [(HEADER_CHANGE_ID, f"{self._id}#{ordinal}".encode())]
        record = Outgoing(self._topic, raw_key, value, headers)
        if op == "d" and raw_key is not None:
            return [record, Outgoing(self._topic, raw_key, None, headers)]
        return [record]

    def _value(self, row: RowText, op: str, ordinal: int, seq: int, order: int) -> bytes:
        absent = f',"absent":{row.absent}' if row.absent else ""
        return (
            f'{{"before":{row.before or "null"},"after":{row.after or "null"}{absent}{self._head}{ordinal}'
            f"{self._middle}{seq}{self._tail}{op}{self._end}{order}}}}}"
        ).encode()

    def _key_change(self, row: RowText, ordinal: int, *, seq: int, order: int) -> list[Outgoing]:
        old_key, new_key = (row.old_key or "").encode(), (row.new_key or "").encode()
        gone = [_change_id_header(self._id, ordinal, 0), (HEADER_NEW_KEY, new_key)]
        come = [_change_id_header(self._id, ordinal, 1), (HEADER_OLD_KEY, old_key)]
        deleted = self._value(row._replace(after=None), "d", ordinal, seq, order)
        created = self._value(row._replace(before=None), "c", ordinal, seq + 1, order + 1)
        return [
            Outgoing(self._topic, old_key, deleted, gone),
            Outgoing(self._topic, old_key, None, gone[:1]),
            Outgoing(self._topic, new_key, created, come),
        ]


def _members(fields: list[tuple[str, Any]]) -> str:
    """Members of a JSON object, without its braces."""
    return orjson.dumps(dict(fields)).decode()[1:-1]


def _change_id_header(transaction_id: str, ordinal: int, half: int | None) -> tuple[str, bytes]:
    return HEADER_CHANGE_ID, change_id(transaction_id, ordinal, half).encode()


def _finished(value: dict[str, Any], op: str, place: Place) -> bytes:
    value["op"] = op
    value["ts_ms"] = _now_ms()
    value["transaction"] = {"id": place.transaction.id, "total_order": place.order}
    return orjson.dumps(value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _headers(place: Place, *, row: bool = True) -> Headers:
    if row:
        return [_change_id_header(place.transaction.id, place.ordinal or 0, None)]
    return [(HEADER_CHANGE_ID, f"{place.transaction.id}#ddl".encode())]
