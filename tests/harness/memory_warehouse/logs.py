"""What a warehouse in memory has beside its tables: ledger and logs, dead letters, recent changes, notes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from spark_sink.source.positions import At, Offsets, is_within
from spark_sink.warehouse.coverage import Cut, Marker
from spark_sink.warehouse.ledger import Entry, Floor, LastBatch, Source, restated
from spark_sink.warehouse.letters import Letter
from spark_sink.warehouse.milestones import Batch, Share, Stated, batches, last_of_sinks
from spark_sink.warehouse.moves import Event, History, Place
from spark_sink.warehouse.protocol import Name, Recent, VersionGone
from tests.harness.memory_warehouse.tables import Row, Rows


@dataclass(slots=True)
class MemoryLedger:
    """See protocol.Ledger."""

    entries: list[Entry] = field(default_factory=list)

    def is_there(self) -> bool:
        """See protocol.Ledger."""
        return True

    def make(self) -> None:
        """See protocol.Ledger."""

    def applied(self) -> dict[tuple[str, int], int]:
        """See protocol.Ledger."""
        found: dict[tuple[str, int], int] = {}
        for one in self.entries:
            at = one.topic, one.partition
            found[at] = max(one.until_offset, found.get(at, 0))
        return {at: until for at, until in found.items() if until}

    def newest_ms(self, topics: Collection[str] | None = None) -> int:
        """See protocol.Ledger."""
        kept = [one for one in self.entries if topics is None or one.topic in topics]
        return max((one.applied_at_ms for one in kept), default=0)

    def last(self) -> LastBatch | None:
        """See protocol.Ledger."""
        if not self.entries:
            return None
        batches = {(one.applied_at_ms, one.query_id, one.batch_id) for one in self.entries}
        at, query, number = max(batches)
        records = [
            one.records
            for one in self.entries
            if (one.applied_at_ms, one.query_id, one.batch_id) == (at, query, number)
        ]
        return LastBatch(batch_id=number, records=sum(records), applied_at_ms=at)

    def append(self, entries: Iterable[Entry]) -> None:
        """See protocol.Ledger."""
        self.entries += entries

    def void(self, topics: Collection[str]) -> None:
        """See protocol.Ledger."""
        self.entries = [
            replace(one, from_offset=0, until_offset=0) if one.topic in topics else one
            for one in self.entries
        ]

    def restate(self, milestone: str) -> bool:
        """See protocol.Ledger."""
        last = max(self.entries, key=lambda one: one.applied_at_ms, default=None)
        held = [one for one in self.entries if last and one.applied_at_ms == last.applied_at_ms]
        again = [restated(one, milestone) for one in held if one.milestone][-1:]
        self.append(again)
        return bool(again)

    def last_of_sinks(self) -> list[Stated]:
        """See protocol.Ledger."""
        return last_of_sinks((one.applied_at_ms, one.milestone) for one in self.entries)

    def batches(self) -> list[Batch]:
        """See protocol.Ledger."""
        return batches(
            Share(
                one.applied_at_ms,
                one.query_id,
                one.topic,
                one.partition,
                one.from_offset,
                one.until_offset,
                one.milestone,
            )
            for one in self.entries
        )


class MemoryFloors:
    """See protocol.FloorLog."""

    def __init__(self) -> None:
        self._floors: dict[tuple[Name, Source], Floor] = {}

    def highest(self) -> list[Floor]:
        """See protocol.FloorLog."""
        return list(self._floors.values())

    def add(self, floors: Iterable[Floor]) -> None:
        """See protocol.FloorLog."""
        for floor in floors:
            at = (floor.database, floor.table), floor.source
            if at not in self._floors or floor.place > self._floors[at].place:
                self._floors[at] = floor


class MemoryDdl:
    """See protocol.DdlLog."""

    def __init__(self) -> None:
        self._history = History()
        self._until: dict[tuple[str, int], int] = {}

    def history(self) -> History:
        """See protocol.DdlLog."""
        held = self._history
        return History(dict(held.events), dict(held.done), dict(held.alters))

    def read_until(self) -> dict[tuple[str, int], int]:
        """See protocol.DdlLog."""
        return dict(self._until)

    def void(self, topics: Collection[str]) -> None:
        """See protocol.DdlLog."""
        self._until = {at: until for at, until in self._until.items() if at[0] not in topics}

    def add(self, events: Iterable[Event], until: Offsets) -> None:
        """See protocol.DdlLog."""
        self._history.add(events)
        for at, offset in until.items():
            self._until[at] = max(offset, self._until.get(at, 0))

    def done(self, places: Mapping[str, Place]) -> None:
        """See protocol.DdlLog."""
        for destination, place in places.items():
            held = self._history.done.get(destination, place)
            self._history.done[destination] = max(place, held)

    def forget(self, events: Collection[Event]) -> None:
        """See protocol.DdlLog."""
        for event in events:
            self._history.events.pop((event.destination, event.place), None)
            self._history.alters.pop((event.destination, event.place), None)


class MemoryWaits:
    """See protocol.WaitLog."""

    def __init__(self) -> None:
        self._log: list[dict[str, Any]] = []

    def state(self) -> int:
        """See protocol.WaitLog."""
        return len(self._log)

    def rows(self) -> list[dict[str, Any]]:
        """See protocol.WaitLog."""
        return [dict(row) for row in self._log]

    def append(self, *rows: Mapping[str, Any]) -> None:
        """See protocol.WaitLog."""
        self._log += map(dict, rows)

    def prune(self, before_ms: int, keep: Collection[Mapping[str, Any]]) -> None:
        """See protocol.WaitLog."""
        kept = [*keep]
        self._log = [row for row in self._log if row["at_ms"] >= before_ms or row in kept]


class MemoryLetters:
    """See protocol.DeadLetters."""

    def __init__(self) -> None:
        self.stored: dict[At, Row] = {}
        """The rows, by position."""

    def add(self, rows: Rows) -> None:
        """See protocol.DeadLetters."""
        for row in rows:
            self.stored.setdefault((row["topic"], row["partition"], row["offset"]), row)

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        """See protocol.DeadLetters."""
        return {at for at in self.stored if is_within(at, start, until)}

    def since(self, at_ms: int) -> int:
        """See protocol.DeadLetters."""
        return sum(_ms(row["at"]) >= at_ms for row in self.stored.values())

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        """See protocol.DeadLetters."""
        found = [
            row for row in self.stored.values() if name in (None, (row["database"], row["table"]))
        ]
        found.sort(key=lambda row: (row["at"], row["topic"], row["partition"], row["offset"]))
        shown = [column for column in Letter.__dataclass_fields__ if column != "at_ms"]
        letters = (
            {column: row[column] for column in shown} | {"at_ms": _ms(row["at"])} for row in found
        )
        return [Letter(**letter) for letter in letters][::-1][:most]


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


class MemoryRecent:
    """See protocol.RecentLog."""

    def __init__(self) -> None:
        self._commits: list[tuple[list[Row], Cut]] = []

    def begin(self, rows: Rows, cut: Cut, *, markers: Iterable[str] = ()) -> None:
        """See protocol.RecentLog."""
        first = [{"kind": "marker", "text": text} for text in markers]
        self._commits.append(([*first, *rows], cut))

    def add(self, rows: Rows, cut: Cut) -> None:
        """See protocol.RecentLog."""
        self._commits.append(([*self._commits[-1][0], *rows], cut))

    def tidy(self, cut: Cut) -> None:
        """See protocol.RecentLog."""
        rows, newest = self._commits[-1]
        held = [r for r in rows if r["kind"] != "record" or _covers(cut, r)]
        self._commits.append((held, newest))

    def remove_unused(self) -> None:
        """See protocol.RecentLog."""

    def newest(self) -> Recent[Rows] | None:
        """See protocol.RecentLog."""
        version = self.version()
        return None if version is None else self.at(version)

    def version(self) -> int | None:
        """See protocol.RecentLog."""
        return len(self._commits) - 1 if self._commits else None

    def at(self, version: int) -> Recent[Rows]:
        """See protocol.RecentLog."""
        if version >= len(self._commits):
            raise VersionGone(f"recent changes, version {version}")
        rows, cut = self._commits[version]
        records = [row for row in rows if row["kind"] == "record"]
        return Recent(
            cut=cut,
            records=[
                {k: v for k, v in row.items() if k not in {"kind", "text"}} for row in records
            ],
            versions=partial(_versions, [row["text"] for row in rows if row["kind"] == "version"]),
            markers=[
                Marker(row["text"], row.get("topic"), row.get("partition"), row.get("offset"))
                for row in rows
                if row["kind"] == "marker"
            ],
            statements=[row["text"] for row in rows if row["kind"] == "statement"],
        )


def _versions(texts: Iterable[str], names: Collection[Name]) -> list[str]:
    bodies = ((text, json.loads(text)) for text in texts)
    return [text for text, body in bodies if (body["database"], body["table"]) in names]


def _covers(cut: Cut, row: Row) -> bool:
    return bool(row["offset"] >= cut.since.get((row["topic"], row["partition"]), 0))


class MemoryNotes:
    """See protocol.Notes."""

    def __init__(self, *, excludes: bool = True) -> None:
        self._texts: dict[str, str] = {}
        self._excludes = excludes

    def read(self, name: str) -> str | None:
        """See protocol.Notes."""
        return self._texts.get(name)

    def write(self, name: str, text: str) -> None:
        """See protocol.Notes."""
        self._texts[name] = text

    def names(self, folder: str) -> list[str]:
        """See protocol.Notes."""
        begin = f"{folder}/"
        return sorted(name.removeprefix(begin) for name in self._texts if name.startswith(begin))

    def make(self) -> None:
        """See protocol.Notes."""

    def excludes(self) -> bool:
        """See protocol.Notes."""
        return self._excludes
