"""The log of DDL as a table of a format: events, and up to where they are read and carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyspark.sql import functions as f

from spark_sink.source.positions import Offsets
from spark_sink.warehouse.moves import Event, History, Place
from spark_sink.warehouse.sql.own_table import OwnTable

_COLUMNS: Final = (
    "kind STRING, destination STRING, epoch BIGINT, seq BIGINT, ts_ms BIGINT, body STRING, topic STRING, "
    "partition INT, until_offset BIGINT"
)
_EVENT: Final = "event"
_DONE: Final = "done"
_READ: Final = "read"
_NTH: Final = (
    "row_number() OVER (PARTITION BY kind, destination, topic, partition, "
    f"IF(kind = '{_EVENT}', struct(epoch, seq, body), NULL) ORDER BY epoch DESC, seq DESC, until_offset DESC)"
)
"""1 for one row of each event, and for the last of what was carried out and read."""


class TableDdl:
    """See protocol.DdlLog."""

    def __init__(self, table: OwnTable) -> None:
        self._table = table

    def history(self) -> History:
        return self._all()[0]

    def read_until(self) -> dict[tuple[str, int], int]:
        return self._all()[1]

    def void(self, topics: Collection[str]) -> None:
        is_void = f.col("topic").isin(*topics) & (f.col("kind") == _READ)
        # The commit of another sink may come first.
        while {topic for topic, _ in self.read_until()}.intersection(topics):
            self._table.rewrite(self._table.rows().where(~f.coalesce(is_void, f.lit(False))))

    def add(self, events: Iterable[Event], until: Offsets) -> None:
        rows = [*map(_event, events), *(_read(at, offset) for at, offset in until.items())]
        self._append(rows)

    def done(self, places: Mapping[str, Place]) -> None:
        self._append([_done(destination, place) for destination, place in places.items()])

    def forget(self, events: Collection[Event]) -> None:
        held = self._table.rows()
        at = ("kind", "destination", "epoch", "seq")
        places = [
            {name: value for name, value in _event(one).items() if name in at} for one in events
        ]
        columns = "kind STRING, destination STRING, epoch BIGINT, seq BIGINT"
        # What was read has neither epoch nor seq, and stays.
        gone = self._table.literal(columns, places)
        self._table.rewrite(held.join(f.broadcast(gone), list(at), "left_anti"))

    def _append(self, rows: list[dict[str, object]]) -> None:
        if not rows:
            return
        self._table.append(_COLUMNS, rows)
        if self._table.due():
            # Read by the commit itself: another sink may add to it meanwhile.
            numbered = self._table.rows().selectExpr("*", f"{_NTH} AS nth")
            self._table.rewrite(numbered.where("nth = 1").drop("nth"))

    def _all(self) -> tuple[History, dict[tuple[str, int], int]]:
        history, until = History(), dict[tuple[str, int], int]()
        held = self._table.read()
        for row in held.collect() if held is not None else ():
            if row.kind == _READ:
                at = row.topic, row.partition
                until[at] = max(row.until_offset, until.get(at, 0))
                continue
            place = row.epoch, row.seq
            if row.kind == _EVENT:
                history.add([Event.of(row.destination, place, row.ts_ms, row.body)])
            else:
                history.done[row.destination] = max(place, history.done.get(row.destination, place))
        return history, until


def _event(event: Event) -> dict[str, object]:
    return {
        "kind": _EVENT,
        "destination": event.destination,
        "epoch": event.epoch,
        "seq": event.seq,
        "ts_ms": event.ts_ms,
        "body": event.text(),
    }


def _done(destination: str, place: Place) -> dict[str, object]:
    return {"kind": _DONE, "destination": destination, "epoch": place[0], "seq": place[1]}


def _read(at: tuple[str, int], offset: int) -> dict[str, object]:
    return {"kind": _READ, "topic": at[0], "partition": at[1], "until_offset": offset}
