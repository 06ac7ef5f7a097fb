"""The state that the records of the sink's own log fold to, and records that fold to a given state.

Invariant: records fold to the same state in any order, even if some are taken twice. (Some superseded
statements may be in the state again: they change nothing, given the later ones.) Tables that earlier versions
of the sink have in place of the log are read as its records, and removed only once the log has everything that
they had. If a sink of an earlier version runs again, it makes new tables, which are taken over as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any, Final, Protocol

from spark_sink.errors import ForeignWarehouse
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import DDL, FLOORS, LEDGER, WAITS
from spark_sink.warehouse.ledger import Entry, Floor, Source
from spark_sink.warehouse.milestones import Share, milestones_of
from spark_sink.warehouse.moves import Event, History

Record = Mapping[str, Any]
"""A record, with its `kind`."""
Row = Mapping[str, Any]
"""A row of the log of waits, see `waiting_tables`; rows of the kinds below are not the state of a table."""

REQUEST: Final = "request"
MAINTAIN: Final = "maintain"
MAINTAINED: Final = "maintained"
REQUESTS: Final = (REQUEST, MAINTAIN)
_DAY_MS: Final = 24 * 3600 * 1000
"""How long replaced rows are kept: commands look for their answers, and clocks differ."""


def batch_record(entries: Collection[Entry], again: Mapping[str, int]) -> Record:
    """The record of a batch, from its entries (at least one).

    `again` is how often topics were made again by then.
    """
    first = next(iter(entries))
    return {
        "kind": "batch",
        "again": {one.topic: again[one.topic] for one in entries if one.topic in again},
        "at_ms": first.applied_at_ms,
        "query_id": first.query_id,
        "batch_id": first.batch_id,
        "milestone": next((one.milestone for one in entries if one.milestone), None),
        "parts": [
            [one.topic, one.partition, one.from_offset, one.until_offset, one.records]
            for one in entries
        ],
    }


def floors_record(floors: Iterable[Floor]) -> Record:
    """The record of truncates."""
    return {"kind": "floors", "floors": [asdict(one) for one in floors]}


def ddl_record(events: Iterable[Event], until: Offsets, again: Mapping[str, int]) -> Record:
    """The record of statements, and of the offsets up to which DDL topics are read; see `batch_record`."""
    return {
        "kind": "ddl",
        "events": [[one.destination, *one.place, one.ts_ms, one.text()] for one in events],
        "read": [[*at, again.get(at[0], 0), offset] for at, offset in until.items()],
    }


@dataclass(slots=True)
class Folded:
    """Everything that the log has."""

    is_made: bool = False
    """Whether a sink has begun with the log."""
    again: dict[str, int] = field(default_factory=dict)
    """How often topics were made again; offsets from before the last time are void."""
    offsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """For each partition: how often its topic was made again by its last batch, and the applied offset."""
    times: dict[tuple[str, int], int] = field(default_factory=dict)
    """The time of the last batch of each partition (ms)."""
    batches: dict[str, Record] = field(default_factory=dict)
    """The recent batches, by their text."""
    floors: dict[tuple[str, str, Source], Floor] = field(default_factory=dict)
    """The highest truncate of each table and source."""
    history: History = field(default_factory=History)
    read: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """The same as `offsets`, for the DDL topics and the offsets that are read."""
    rows: list[Row] = field(default_factory=list)
    """The rows of the log of waits."""
    placed: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The loads of whose rows tables were made, by number."""
    older: dict[str, int] = field(default_factory=dict)
    """The files that have older batches, each with the time (ms) of its last batch."""
    imported: dict[str, str] = field(default_factory=dict)
    """The tables of earlier versions, in place of the log, that were taken over, each with its version then."""

    def take(self, record: Record) -> None:
        """Add a record. Raise ForeignWarehouse for a record of a later version of the sink."""
        match record["kind"]:
            case "made":
                self.is_made = True
            case "batch":
                self.is_made = True
                self.batches[json.dumps(record, sort_keys=True)] = record
                for topic, partition, _, until, _ in record["parts"]:
                    place = record["again"].get(topic, 0), until
                    self._reach((topic, partition), place, record["at_ms"])
            case "offsets":
                for topic, partition, again, until, at_ms in record["offsets"]:
                    self._reach((topic, partition), (again, until), at_ms)
            case "again":
                for topic, again in record["topics"].items():
                    self.again[topic] = max(again, self.again.get(topic, 0))
            case "floors":
                for one in record["floors"]:
                    floor = Floor(**{**one, "source": Source(**one["source"])})
                    at = floor.database, floor.table, floor.source
                    if at not in self.floors or floor.place > self.floors[at].place:
                        self.floors[at] = floor
            case "ddl":
                self.history.add(
                    Event.of(name, (epoch, seq), ts_ms, text)
                    for name, epoch, seq, ts_ms, text in record["events"]
                )
                for topic, partition, again, until in record["read"]:
                    found = self.read.get((topic, partition), (0, 0))
                    self.read[topic, partition] = max((again, until), found)
            case "done":
                for name, (epoch, seq) in record["places"].items():
                    held = self.history.done.get(name, (epoch, seq))
                    self.history.done[name] = max((epoch, seq), held)
            case "superseded":
                for name, epoch, seq in record["events"]:
                    self.history.events.pop((name, (epoch, seq)), None)
                    self.history.alters.pop((name, (epoch, seq)), None)
            case "wait":
                self.rows.append(record["row"])
            case "placed":
                self.placed[record["number"]] = record["load"]
            case "older":
                self.older |= record["files"]
            case "imported":
                self.imported |= record["tables"]
            case other:
                raise ForeignWarehouse(
                    f"its log has a record of the kind {other}, which this version does not know",
                    advice="Use the version of the sink that wrote it",
                )

    def _reach(self, at: tuple[str, int], place: tuple[int, int], at_ms: int) -> None:
        self.offsets[at] = max(place, self.offsets.get(at, (0, 0)))
        self.times[at] = max(at_ms, self.times.get(at, 0))

    def present(
        self, places: Mapping[tuple[str, int], tuple[int, int]]
    ) -> dict[tuple[str, int], int]:
        """The offsets, without those of topics that were made again since."""
        return {
            at: until for at, (again, until) in places.items() if again == self.again.get(at[0], 0)
        }

    def shares(self, older: Iterable[Record] = ()) -> list[Share]:
        """Each partition's share of each batch, including the `older` batches.

        A partition without a share gets one without records, at the offset up to which it is applied.
        """
        found = []
        for one in (*older, *self.batches.values()):
            text = one["milestone"]
            for topic, partition, since, until, _ in one["parts"]:
                is_void = one["again"].get(topic, 0) < self.again.get(topic, 0)
                span = (0, 0) if is_void else (since, until)
                found.append(
                    Share(one["at_ms"], one["query_id"], topic, partition, span[0], span[1], text)
                )
                text = None
        known = {(one.topic, one.partition) for one in found}
        return found + [
            Share(self.times[at], "", *at, until, until, None)
            for at, until in self.present(self.offsets).items()
            if at not in known
        ]

    def split(self, every: int, keep_ms: int) -> list[Record]:
        """Keep the last `every` batches of each sink; return the earlier ones that are to be kept elsewhere.

        The returned batches are older than the newest batch by at most `keep_ms`.
        """
        stated = [one["milestone"] for one in self.batches.values() if one["milestone"]]
        known = milestones_of(stated)
        moments: dict[str, set[int]] = {}
        of: dict[str, str] = {}
        for text, one in self.batches.items():
            held = known[one["milestone"]] if one["milestone"] else None
            of[text] = held.sink if held is not None else ""
            moments.setdefault(of[text], set()).add(one["at_ms"])
        first = {sink: sorted(found)[-every:][0] for sink, found in moments.items()}
        newest = max((one["at_ms"] for one in self.batches.values()), default=0)
        left, moved = list[Record](), list[Record]()
        for text, one in self.batches.items():
            if one["at_ms"] >= first[of[text]]:
                left.append(one)
            elif one["at_ms"] >= newest - keep_ms:
                moved.append(one)
        kept = _readable(left, stated)
        self.batches = {json.dumps(one, sort_keys=True): one for one in kept}
        return _readable(moved, stated)

    def records(self) -> list[Record]:
        """The records that fold to this state, without old rows of the log of waits that are replaced."""
        known = self.history
        newest = max((row["at_ms"] for row in self.rows), default=0)
        standing = {id(one) for one in in_force(self.rows)}
        rows = [one for one in self.rows if one["at_ms"] >= newest - _DAY_MS or id(one) in standing]
        offsets = [[*at, *place, self.times[at]] for at, place in self.offsets.items()]
        found: list[Record] = [
            {"kind": "imported", "tables": self.imported},
            {"kind": "again", "topics": self.again},
            {"kind": "offsets", "offsets": offsets},
            *self.batches.values(),
            floors_record(self.floors.values()),
            ddl_record((*known.events.values(), *known.alters.values()), {}, {}),
            {"kind": "ddl", "events": [], "read": [[*at, *one] for at, one in self.read.items()]},
            {"kind": "done", "places": known.done},
            *({"kind": "wait", "row": row} for row in rows),
            *({"kind": "placed", "number": one, "load": of} for one, of in self.placed.items()),
            {"kind": "older", "files": self.older},
        ]
        return [{"kind": "made"}, *found] if self.is_made else found


def _readable(batches: Collection[Record], texts: Collection[str]) -> list[Record]:
    """The batches, with milestones that can be read without other ones; `texts` are all milestones."""
    first: dict[str, int] = {}
    for one in batches:
        if (link := _link(one["milestone"])) is not None:
            first[link[0]] = min(link[1], first.get(link[0], link[1]))
    begun = {(name, number) for name, number in first.items() if number}
    if not begun:
        return [*batches]
    whole: dict[tuple[str, int] | None, str] = {}
    for text, held in milestones_of(texts).items():
        if (link := _link(text)) is not None and link in begun and held is not None:
            whole[link] = held.text(link)
    return [
        {**one, "milestone": whole.get(_link(one["milestone"]), one["milestone"])}
        for one in batches
    ]


def _link(text: str | None) -> tuple[str, int] | None:
    link = json.loads(text).get("link") if text else None
    return (link[0], link[1]) if link else None


def in_force(rows: Collection[Row]) -> list[Row]:
    """The last state of each table, and the requests without an answer."""
    answered = {_asked(row) for row in rows if row["kind"] not in REQUESTS}
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: (row["number"], row["at_ms"])):
        if row["kind"] not in {*REQUESTS, MAINTAINED}:
            last[row["database"], row["table"]] = row
    asked = [row for row in rows if row["kind"] in REQUESTS and _asked(row) not in answered]
    return [*asked, *last.values()]


def _asked(row: Row) -> object:
    return json.loads(row["request"] or "{}").get("number")


_Rows = Iterable[Mapping[str, Any]]


class EarlierTables(Protocol):
    """The tables that earlier versions have for the sink's own records, in their format."""

    def version(self, name: str) -> str:
        """A text that changes with each commit of a table; empty if there is no table."""

    def rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a table."""

    def remove(self, name: str) -> None:
        """Remove a table."""


def earlier_versions(tables: EarlierTables) -> dict[str, str]:
    """The tables that exist, with their versions."""
    found = {name: tables.version(name) for name in _RECORDS}
    return {name: version for name, version in found.items() if version}


def earlier_records(tables: EarlierTables, names: Iterable[str]) -> list[Record]:
    """The contents of these tables, as records of the log."""
    return [record for name in names for record in _RECORDS[name](tables.rows(name))]


def _of_ledger(rows: _Rows) -> Iterator[Record]:
    batches: dict[tuple[int, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        at = row["applied_at_ms"], row["query_id"], row["batch_id"]
        batches.setdefault(at, []).append(row)
    for at, own in sorted(batches.items(), key=itemgetter(0)):
        body = {"kind": "batch", "at_ms": at[0], "query_id": at[1], "batch_id": at[2], "again": {}}
        own.sort(key=itemgetter("topic", "partition", "from_offset"))
        columns = "topic", "partition", "from_offset", "until_offset", "records"
        # The first versions had no milestones.
        stated = [text for row in own if (text := row.get("milestone"))]
        parts = [[row[name] for name in columns] for row in own]
        yield {**body, "milestone": stated[0] if stated else None, "parts": parts}
        topic, partition, _, until, _ = parts[0]
        for text in stated[1:]:
            # Maintenance has replaced versions in the batch's milestone.
            yield {**body, "milestone": text, "parts": [[topic, partition, until, until, 0]]}


def _of_floors(rows: _Rows) -> Iterator[Record]:
    floors = []
    for row in rows:
        own = {name: row[name] for name in ("database", "table", "epoch", "seq", "ts_ms")}
        # Without mapped tables, the source's name is that of the table.
        source = {
            "destination": row["destination"],
            "database": row.get("source_database") or row["database"],
            "table": row.get("source_table") or row["table"],
        }
        floors.append({**own, "source": source})
    yield {"kind": "floors", "floors": floors}


def _of_ddl(rows: _Rows) -> Iterator[Record]:
    events, read, done = [], [], dict[str, tuple[int, int]]()
    for row in rows:
        at = row["epoch"], row["seq"]
        if row["kind"] == "event":
            events.append([row["destination"], *at, row["ts_ms"], row["body"]])
        elif row["kind"] == "read":
            read.append([row["topic"], row["partition"], 0, row["until_offset"]])
        else:
            done[row["destination"]] = max(at, done.get(row["destination"], at))
    yield {"kind": "ddl", "events": events, "read": read}
    yield {"kind": "done", "places": done}


def _of_waits(rows: _Rows) -> Iterator[Record]:
    for row in rows:
        yield {"kind": "wait", "row": dict(row)}


_RECORDS: Final[Mapping[str, Callable[[_Rows], Iterator[Record]]]] = {
    LEDGER: _of_ledger,
    FLOORS: _of_floors,
    DDL: _of_ddl,
    WAITS: _of_waits,
}
