"""Debezium's records as the verdict reads them: each named by its row in the binlog.

Invariant: a name comes from the server's files only (GTID, file, position, row); a record that names no row of
them is kept, and is then found invented. Debezium has no `seq`: the row's rank in the binlog replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from pymysqlreplication.event import GtidEvent

from demo.checks import Record
from demo.load import Server
from demo.truth import Truth, events_of, truth_of
from tests.crash.verdict import Read, Topics

_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
_HALVES = 2
"""A change of a key is two records."""

Place = tuple[str, str, int, int]
"""GTID, file, position of the event, row within the event."""


@dataclass(slots=True)
class Places:
    """The positions of binlog rows, each with its ChangeId and rank; the first one read is kept."""

    names: dict[Place, tuple[str, int]] = field(default_factory=dict)

    def add(self, position: Place, change_id: str) -> None:
        """Append one row."""
        self.names.setdefault(position, (change_id, len(self.names) + 1))


def read_binlog(server: Server, database: str, places: Places) -> Truth:
    """The binlog's changes of a database, with the positions of its rows recorded."""
    events = list(events_of(server))
    note(events, places)
    return truth_of((event for _, event in events), database)


def note(events: Iterable[tuple[str, Any]], places: Places) -> None:
    """Note the rows of each transaction, numbered as their ChangeIds are."""
    gtid, ordinal = "", 0
    for file, event in events:
        if isinstance(event, GtidEvent):
            gtid, ordinal = event.gtid, 0
            continue
        start = event.packet.log_pos - event.packet.event_size
        for row in range(len(event.rows)):
            places.add((gtid, file, start, row), f"{gtid}#{ordinal}")
            ordinal += 1


def take(found: Topics, message: Any, places: Places) -> None:
    """Add a record of a row topic to what was read; tombstones are none."""
    if message.value is None:
        return
    value = orjson.loads(message.value)
    source = value["source"]
    headers = {name for name, _ in message.headers}
    position = (source["gtid"] or "", source["file"], source["pos"], source["row"])
    name, rank = places.names.get(position, ("/".join(map(str, position)), 0))
    half = 1 if _OLD_KEY in headers else 0
    if headers & {_NEW_KEY, _OLD_KEY}:
        name = f"{name}/{half}"
    found.rows.append(
        Read(
            record=Record(
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                change_id=name,
                seq=_HALVES * rank + half,
                epoch=0,
                committed_ms=source["ts_ms"],
            ),
            table=source["table"],
            key=message.key,
            op=value["op"],
            after=value["after"],
            before=value["before"],
        )
    )
