"""The sink's own log: applied batches, truncates, DDL and waiting tables, in small files.

Records that are added together are one file, written in one step. Compaction writes a file that has everything
that the other files fold to, and that names these files; the next compaction removes them. Batches that only a
reader of the past needs are moved to files of their own. Sinks of one warehouse share the log, and commands add
their requests to it.

Invariant: a record, once added, stays, whatever else is written meanwhile: no file is written twice, and no
file is removed before two files name it. A missing or damaged file is an error. Only the last files may be
damaged, as by a power loss: what they recorded is done again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_sink.errors import ForeignWarehouse, LogDamaged
from spark_sink.source.positions import Offsets
from spark_sink.spark.files import side_by_side
from spark_sink.text.quoting import LEDGER, LOG
from spark_sink.warehouse.ledger import Entry, Floor, LastBatch
from spark_sink.warehouse.log_fold import (
    EarlierTables,
    Folded,
    Record,
    Row,
    batch_record,
    ddl_record,
    earlier_records,
    earlier_versions,
    floors_record,
)
from spark_sink.warehouse.milestones import Batch, Share, Stated, batches, last_of_sinks
from spark_sink.warehouse.moves import Event, History, Place
from spark_sink.warehouse.notes import Notes

_log = logging.getLogger(__name__)
EVERY: Final = 200
"""Files between two compactions; also the least number of batches kept."""
KEEP_SECONDS: Final = 300
"""The least time for which older batches are kept."""
_VERSION: Final = 1
_OLDER: Final = "older-"
_WHOLE: Final = ".whole.json"
"""The end of the name of a file that replaces other files, so that these need not be read."""
_NAMES: Final = 1000
"""The most names of files replaced earlier that a file has, beside those that it replaces now."""
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class _File:
    after: str
    """The last file that its process knew when it wrote this one."""
    replaces: tuple[str, ...]
    records: tuple[Record, ...]


@dataclass(slots=True, kw_only=True)
class SinkLog:
    """The log of a warehouse. Thread-safe."""

    notes: Notes
    where: str
    """The folder, for errors."""
    every: int = EVERY
    keep_seconds: int = KEEP_SECONDS
    earlier: EarlierTables | None = None
    """What earlier versions have stored in tables of their own."""
    _files: dict[str, _File] = field(default_factory=dict)
    _damaged: list[str] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    """All files that existed when they were last listed, and the files that were written since."""
    _folded: Folded = field(default_factory=Folded)
    _taken: list[str] = field(default_factory=list)
    """The files that are folded, in order."""
    _last: str = ""
    """The last file that is known."""
    _compacts: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def make(self) -> bool:
        """Begin with the log as a sink, which also compacts it; return whether there was a log.

        Take over what earlier versions have stored. A new log counts as existing after `begun`, or with its
        first batch.
        """
        with self._lock:
            was_made = self._read().is_made
            self._compacts = True
            was_made |= self._take_over()
            if len(self._taken) > self.every:
                self.compact()
            return was_made

    def begun(self) -> None:
        """Record that there is a log, once all tables wait that lack what a lost log had.

        If this were recorded before, a kill in between would let these tables continue without it.
        """
        with self._lock:
            if not self._read().is_made:
                self.add({"kind": "made"})

    def _take_over(self) -> bool:
        """Take over what earlier versions have stored, and remove it; return whether there was a ledger."""
        tables, held = self.earlier, self._folded
        if tables is None or not (found := earlier_versions(tables)):
            return False
        known = held.imported if held.is_made else {}
        if new := [name for name, version in found.items() if known.get(name) != version]:
            given = earlier_records(tables, new)
            if held.is_made:
                # An earlier version that was run meanwhile has numbered its states from the beginning again.
                last = max((row["number"] for row in held.rows), default=0)
                given = [
                    {**one, "row": {**one["row"], "number": one["row"]["number"] + last}}
                    if one["kind"] == "wait"
                    else one
                    for one in given
                ]
            imported = {"kind": "imported", "tables": found}
            self.add(*given, imported, *([{"kind": "made"}] if LEDGER in found else []))
            self.compact()
            _log.info("taken over of earlier versions tables=%s", ", ".join(new))
        for name in found:
            tables.remove(name)
        return LEDGER in found

    def add(self, *new: Record) -> None:
        """Add records, all in one file."""
        with self._lock:
            if not self._last:
                self._read()
                self.notes.make()
            self._write(new, ())
            if self._compacts and len(self._taken) > self.every:
                self.compact()

    # The batches.

    def applied(self) -> dict[tuple[str, int], int]:
        """The offset up to which each partition is applied."""
        with self._lock:
            folded = self._read()
            return {at: until for at, until in folded.present(folded.offsets).items() if until}

    def newest_ms(self, topics: Collection[str] | None = None) -> int:
        """The time (ms) of the last batch, or of the last with one of these topics; 0 if there is none."""
        with self._lock:
            found = self._read().times.items()
            return max((ms for at, ms in found if topics is None or at[0] in topics), default=0)

    def last(self) -> LastBatch | None:
        """The last batch that was applied; None without one."""
        found: dict[tuple[int, str, int], int] = {}
        with self._lock:
            for one in self._read().batches.values():
                at = one["at_ms"], one["query_id"], one["batch_id"]
                found[at] = found.get(at, 0) + sum(records for *_, records in one["parts"])
        if not found:
            return None
        at = max(found)
        return LastBatch(batch_id=at[2], records=found[at], applied_at_ms=at[0])

    def append(self, entries: Collection[Entry]) -> None:
        """Record a batch as applied."""
        if entries:
            self.add(batch_record(entries, self._again))

    def void(self, topics: Collection[str]) -> None:
        """Forget the offsets of topics, applied and read for DDL, as the topics were made again since."""
        with self._lock:
            again = self._read().again
            self.add({"kind": "again", "topics": {one: again.get(one, 0) + 1 for one in topics}})

    def restate(self, milestone: str) -> bool:
        """Give the last batch another milestone, if it has one; return whether it has."""
        with self._lock:
            found = [one for one in self._read().batches.values() if one["milestone"]]
            newest = self.newest_ms()
            last = max(found, key=lambda one: (one["at_ms"], one["query_id"]), default=None)
            if last is None or last["at_ms"] != newest:
                return False
            topic, partition, _, until, _ = last["parts"][0]
            part = [topic, partition, until, until, 0]
            self.add({**last, "milestone": milestone, "parts": [part]})
            return True

    def last_of_sinks(self) -> list[Stated]:
        """See milestones.last_of_sinks. The amount that is read does not grow with the older batches."""
        with self._lock:
            found = [(one["at_ms"], one["milestone"]) for one in self._read().batches.values()]
            return last_of_sinks([*found, *([(self.newest_ms(), None)] if found else [])])

    def batches(self) -> list[Batch]:
        """The recent batches, oldest first: at least those of the retention time."""
        return batches(self._shares())

    def _shares(self) -> list[Share]:
        for _ in range(_TRIES):
            with self._lock:
                folded = self._read()
                found = [(name, self.notes.read(f"{LOG}/{name}")) for name in sorted(folded.older)]
                gone = [name for name, text in found if text is None]
                if not gone:
                    older = (one for name, text in found for one in self._parsed(name, text or ""))
                    return folded.shares(older)
        raise self._damage(f"{gone[0]} is missing")

    # The truncates.

    def floors(self) -> list[Floor]:
        """The highest truncate of each table and source."""
        with self._lock:
            return [*self._read().floors.values()]

    def add_floors(self, floors: Collection[Floor]) -> None:
        """Record truncates, before they are applied: these exclude older rows for good."""
        if floors:
            self.add(floors_record(floors))

    # DDL.

    def ddl(self) -> History:
        """All statements, what was decided about them, and the positions up to which they are carried out."""
        with self._lock:
            held = self._read().history
            return History(dict(held.events), dict(held.done), dict(held.alters))

    def ddl_read(self) -> dict[tuple[str, int], int]:
        """The offset up to which each partition of the DDL topics is read."""
        with self._lock:
            folded = self._read()
            return folded.present(folded.read)

    def add_ddl(self, events: Collection[Event], until: Offsets) -> None:
        """Record statements, before they are carried out, and the offsets up to which the topics are read."""
        if events or until:
            self.add(ddl_record(events, until, self._again))

    def done(self, places: Mapping[str, Place]) -> None:
        """Record up to which position each destination's statements are carried out."""
        if places:
            self.add({"kind": "done", "places": dict(places)})

    def superseded(self, events: Iterable[Event]) -> None:
        """Remove statements that change nothing, given the later ones."""
        found = [[one.destination, *one.place] for one in events]
        self.add({"kind": "superseded", "events": found})

    # The loads.

    def place(self, number: str, load: Mapping[str, Any]) -> None:
        """Record that a table is made of a load's rows; `load` describes the load."""
        self.add({"kind": "placed", "number": number, "load": load})

    def placed(self) -> list[Mapping[str, Any]]:
        """All loads of whose rows tables were made."""
        with self._lock:
            return [*self._read().placed.values()]

    # The waiting tables.

    def state(self) -> object:
        """A value that changes with each new row of a waiting table; false without any."""
        with self._lock:
            rows = self._read().rows
            return rows and (len(rows), rows[-1])

    def rows(self) -> list[dict[str, Any]]:
        """The rows of waiting tables, in any order; members that were not given are missing or None."""
        with self._lock:
            return [dict(row) for row in self._read().rows]

    def wait(self, *rows: Row) -> None:
        """Record rows of waiting tables."""
        self.add(*({"kind": "wait", "row": dict(row)} for row in rows))

    @property
    def _again(self) -> Mapping[str, int]:
        """How often topics were made again, which only a start changes."""
        with self._lock:
            return (self._folded if self._taken else self._read()).again

    def _read(self) -> Folded:
        """Read new files, and return what all files fold to; without a log, what earlier versions stored."""
        for _ in range(_TRIES):
            names = [one for one in self.notes.names(LOG) if not one.startswith((_OLDER, "."))]
            if names == self._names and (self._folded.is_made or self.earlier is None):
                return self._folded
            texts = self._texts(names)
            if None not in texts.values():
                break
        else:
            raise self._damage(f"{next(n for n, t in texts.items() if t is None)} is missing")
        self._files = {one: held for one, held in self._files.items() if one in {*names}}
        for name, text in sorted(texts.items()):
            self._open(name, text or "")
        self._refuse_damaged(names)
        self._last = max(self._files, default="")
        gone = self._replaced()
        live = [name for name in sorted(self._files) if name not in gone]
        if not self._folded.is_made or live[: len(self._taken)] != self._taken:
            self._taken, self._folded = [], Folded()
        self._fold(live[len(self._taken) :])
        if not self._folded.is_made and self.earlier is not None:
            # No sink of this version has begun yet.
            for record in earlier_records(self.earlier, earlier_versions(self.earlier)):
                self._folded.take(record)
            self._folded.is_made = False
        self._names = names
        return self._folded

    def _replaced(self) -> dict[str, None]:
        """The files that known files replace, in order."""
        return dict.fromkeys(one for held in self._files.values() for one in held.replaces)

    def _texts(self, names: Iterable[str]) -> dict[str, str | None]:
        """The texts of files that are not known, except for files that one of these replaces."""
        known = {*self._files, *self._damaged, *self._replaced()}
        new, found = [one for one in names if one not in known], dict[str, str | None]()
        for name in sorted((one for one in new if one.endswith(_WHOLE)), reverse=True):
            found[name] = text = self.notes.read(f"{LOG}/{name}")
            if (body := _body(text or "")) is not None:
                known.update(body.get("replaces", ()))
                break
        rest = [one for one in new if one not in known and one not in found]
        texts = side_by_side(lambda one: self.notes.read(f"{LOG}/{one}"), rest)
        return found | dict(zip(rest, texts, strict=True))

    def _fold(self, names: Iterable[str]) -> None:
        for name in names:
            for record in self._files[name].records:
                self._folded.take(record)
            self._taken.append(name)

    def _open(self, name: str, text: str) -> None:
        if (body := _body(text)) is None:
            self._damaged.append(name)
            return
        if body["version"] != _VERSION:
            raise ForeignWarehouse(
                f"{self.where}/{name} is of version {body['version']}",
                advice="Use the version of the sink that wrote it",
            )
        given = tuple(body["records"])
        self._files[name] = _File(body["after"], tuple(body["replaces"]), given)

    def _refuse_damaged(self, names: Collection[str]) -> None:
        """Raise LogDamaged if a file is missing, or damaged and not one of the last."""
        self._damaged = [one for one in self._damaged if one in names]
        last = max(self._files, default="")
        is_first = len(names) == 1
        if self._damaged and (min(self._damaged) < last or not (last or is_first)):
            raise self._damage(f"{min(self._damaged)} is damaged")
        known = {"", *self._files, *self._replaced()}
        for name, held in sorted(self._files.items()):
            if held.after not in known:
                raise self._damage(f"{held.after}, which {name} follows, is missing")

    def _damage(self, what: str) -> LogDamaged:
        return LogDamaged(
            f"{self.where}: {what}",
            advice="Put back a whole copy of that folder; or, without one, remove the folder and the "
            "checkpoint: all topics are then applied again (docs/sink/lost-data.md)",
        )

    def _write(self, new: Iterable[Record], replaces: Collection[str]) -> None:
        for damaged in self._damaged:
            _log.warning("removed, as a power loss has damaged it file=%s/%s", self.where, damaged)
            self.notes.remove(f"{LOG}/{damaged}")
        self._damaged.clear()
        # The name is after those of all known files, whatever the clock says.
        moment = max(time.time_ns(), int(self._last.partition("-")[0] or 0) + 1)
        name = f"{moment:020d}-{uuid.uuid4().hex[:12]}{_WHOLE if replaces else '.json'}"
        held = _File(self._last, tuple(replaces), tuple(new))
        body = {"version": _VERSION, "after": held.after, "replaces": held.replaces}
        self.notes.write(f"{LOG}/{name}", json.dumps({**body, "records": held.records}))
        self._files[name], self._last = held, name
        self._names.append(name)
        if not replaces:
            self._fold([name])

    def compact(self) -> None:
        """Write a file that replaces all others.

        Remove the files that the last such file has replaced, and batches that are past the retention.
        """
        with self._lock:
            self._read()
            there, names = self.notes.names(LOG), [*self._files]
            before = self._replaced()
            folded = Folded()
            for name in self._taken:
                for record in self._files[name].records:
                    folded.take(record)
            older = folded.split(self.every, self.keep_seconds * 1000)
            if older:
                last = max(one["at_ms"] for one in older)
                name = f"{_OLDER}{last:020d}-{uuid.uuid4().hex[:12]}.json"
                self.notes.write(f"{LOG}/{name}", "\n".join(map(json.dumps, older)))
                folded.older[name] = last
            # These include files of a sink that was killed before it had named them.
            since = max(folded.times.values(), default=0) - self.keep_seconds * 1000
            past = [
                one
                for one in there
                if one.startswith(_OLDER)
                and int(one.removeprefix(_OLDER).partition("-")[0]) < since
            ]
            folded.older = {name: at for name, at in folded.older.items() if at >= since}
            self._write(folded.records(), [*dict.fromkeys([*before][-_NAMES:] + names)])
            for name in (*sorted(before.keys() & {*there}), *past):
                self.notes.remove(f"{LOG}/{name}")
            self._read()

    def _parsed(self, name: str, text: str) -> list[Record]:
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError as fault:
            raise self._damage(f"{name} is damaged") from fault


def _body(text: str) -> dict[str, Any] | None:
    """The contents of a file; None if it is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
