"""The note of each sink in the warehouse: which topics it reads, and whether it runs.

A running sink counts up a number in its note every few seconds. Another process that sees the number change
knows that it runs; clocks are not compared.

Invariant: a sink that runs is not started a second time. Two sinks of one warehouse share no topic, no
checkpoint and no recent changes, and neither moves a table that the other merges. A sink's own note does not
prevent its start if no process keeps the note up.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_sink.errors import CheckpointShared, WarehouseShared
from spark_sink.text.quoting import SINKS
from spark_sink.warehouse.notes import Notes

_log = logging.getLogger(__name__)
SECONDS_BETWEEN_BEATS: Final = 3.0
SECONDS_WITHOUT_BEAT: Final = 10
"""Seconds after which a sink counts as gone; a pause of its process may last that long."""
_UNNAMED: Final = "default.unnamed"
"""The file of the sink without a name; no name has a dot."""
_READS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkNote:
    """What a sink's note contains."""

    name: str
    """Empty for the sink without a name."""
    pattern: str
    """The Java regular expression of its topics."""
    checkpoint: str
    fresh: bool
    """Whether it stores recent changes."""
    moves: bool = False
    """Whether it moves or removes tables that the source renames or drops."""
    process: str = ""
    """A random name of the process that wrote the note."""
    host: str = ""
    pid: int = 0
    beat: int = 0
    busy_seconds: float = 0.0
    """How long the batch had been running when the note was written; 0 without one."""
    complete_until: float = 0.0
    """The time (Unix seconds) up to which all of its topics were applied when the note was written."""
    ended: bool = False
    """Whether its process has stated that it ends."""
    failed: bool = False
    """Whether it has ended by an error, and not by a stop or because all was done."""

    def text(self) -> str:
        """The note as stored."""
        return json.dumps({"version": 1, **asdict(self)})

    @classmethod
    def of(cls, text: str | None) -> SinkNote | None:
        """Parse a stored note; return None without a note, or if a crash left it incomplete."""
        try:
            body: dict[str, Any] = json.loads(text or "null") or {}
            if body.pop("version", None) != 1:
                return None
            # A later version may state more.
            known = {one.name for one in fields(cls)}
            return cls(**{name: value for name, value in body.items() if name in known})
        except (ValueError, TypeError):
            return None

    @property
    def title(self) -> str:
        """The sink, as messages name it."""
        return f"sink {self.name!r}" if self.name else "the sink without a name"


@dataclass(slots=True, kw_only=True)
class Presence:
    """The note of this process's sink, and the notes of others."""

    notes: Notes
    own: SinkNote
    matching: Callable[[str, Collection[str]], set[str]] = lambda _, names: set(names)
    """Returns the names that a Java regular expression matches."""
    busy: Callable[[], float] = lambda: 0.0
    """Returns how long the running batch of this sink has been running, in seconds."""
    complete_until: Callable[[], float] = lambda: 0.0
    """Returns the time (Unix seconds) up to which all of this sink's topics are applied."""
    wait: Callable[[float], object] = time.sleep
    _over: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _claimed: bool = False
    broke_off: bool = False
    """Whether the last process of this sink was not stopped in order."""
    superseded: CheckpointShared | None = None
    """Why this process must end: another process has begun to run the sink since."""

    def claim(self, topics: Collection[str]) -> None:
        """Begin to keep the note up, unless another sink prevents that; `topics` are all topics of Kafka.

        Raise CheckpointShared, WarehouseShared.
        """
        if self._claimed:
            return
        if is_running(self.notes, self.own.name, wait=self.wait):
            held = _read(self.notes, self.own.name)
            where = f" as process {held.pid} on {held.host}" if held is not None else ""
            raise CheckpointShared(
                f"{self.own.title} already runs{where}",
                advice="Stop it; or give this sink a name, and topics of its own, in its settings",
            )
        last = _read(self.notes, self.own.name)
        self.broke_off = last is not None and (not last.ended or last.failed)
        for other in self._others():
            # A sink that has ended makes this comparison itself when it starts again.
            if not other.ended:
                self._check_apart(other, topics)
                self._check_excluded(other)
        self.own = replace(
            self.own, process=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid()
        )
        self._claimed = True
        self._beat()
        threading.Thread(target=self._run, daemon=True).start()

    def busy_elsewhere(self) -> float:
        """Return how long, in seconds, the longest batch of another sink has been running by its note."""
        running = (other for other in self._others() if not other.ended)
        return max((other.busy_seconds for other in running), default=0.0)

    def complete_elsewhere(self) -> float:
        """Return the time up to which all other sinks have applied their topics; infinite without others."""
        return min((other.complete_until for other in self._others()), default=float("inf"))

    def complete_at_last(self) -> float:
        """Return the time up to which this sink had applied its topics when it last ran; or infinity."""
        held = _read(self.notes, self.own.name)
        return held.complete_until if held is not None else float("inf")

    def end(self, *, failed: bool = False) -> None:
        """Mark the sink as ended; `failed` if by an error."""
        self._over.set()
        if not self._claimed:
            return
        with self._writing, suppress(PySparkException, Py4JError, OSError):
            if self._is_superseded():
                return
            self.own = replace(self.own, ended=True, failed=failed)
            self.notes.write(_path(self.own.name), self.own.text())

    def _run(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_BEATS):
            self._beat()

    def _beat(self) -> None:
        with self._writing:
            if self._over.is_set():
                return
            self.own = replace(
                self.own,
                beat=self.own.beat + 1,
                busy_seconds=self.busy(),
                complete_until=self.complete_until(),
            )
            try:
                if self.own.beat > 1 and self._is_superseded():
                    return
                self.notes.write(_path(self.own.name), self.own.text())
            except (PySparkException, Py4JError, OSError):
                # The store is away, or the JVM has ended; batches report it.
                _log.debug("the sink's note was not written", exc_info=True)

    def _is_superseded(self) -> bool:
        """Whether another process has begun to run the sink, for example during a long pause of this one."""
        held = _read(self.notes, self.own.name)
        if held is None or held.process == self.own.process:
            return False
        self.superseded = CheckpointShared(
            f"{self.own.title} runs as process {held.pid} on {held.host} since",
            advice="This one ends; let one supervisor start the sink",
        )
        self._over.set()
        return True

    def _others(self) -> list[SinkNote]:
        """The notes of other sinks."""
        names = (_name(file) for file in self.notes.names(SINKS))
        found = (self._settled(name) for name in names if name not in (None, self.own.name))
        return [one for one in found if one is not None]

    def _settled(self, name: str | None) -> SinkNote | None:
        """Another sink's note, also if it is being written just now."""
        for _ in range(_READS):
            if (found := _read(self.notes, name or "")) is not None:
                return found
            self.wait(0.1)
        return None

    def _check_apart(self, other: SinkNote, topics: Collection[str]) -> None:
        both = self.matching(self.own.pattern, topics) & self.matching(other.pattern, topics)
        if both:
            shown = ", ".join(sorted(both)[:5])
            fault, advice = f"both read {shown}", "Divide the topics by include and exclude"
        elif other.checkpoint == self.own.checkpoint:
            fault, advice = f"both have the checkpoint {other.checkpoint}", "Set another checkpoint"
        elif other.fresh and self.own.fresh:
            fault, advice = "both store recent changes", "Set fresh: false for one of them"
        elif other.moves or self.own.moves:
            moving = self.own if self.own.moves else other
            fault = f"{moving.title} would move or remove tables of both where the source renames or drops them"
            advice = "Set on_rename: keep and on_drop: keep for both"
        else:
            return
        raise WarehouseShared(
            f"{self.own.title} and {other.title}: {fault}",
            advice=f"{advice}; if {other.title} no longer exists, delete {_path(other.name)} in the warehouse",
        )

    def _check_excluded(self, other: SinkNote) -> None:
        """Raise WarehouseShared if one of two sinks may replace the other's commits."""
        if self.notes.excludes():
            return
        raise WarehouseShared(
            f"{self.own.title} and {other.title}: on this store, each would replace commits of the "
            "other, unnoticed",
            advice="Let one sink fill the warehouse, or set a log store for several writers (with Iceberg, a "
            f"catalog; docs/sink/storage.md); if {other.title} no longer exists, delete "
            f"{_path(other.name)} in the warehouse",
        )


def is_running(notes: Notes, name: str, *, wait: Callable[[float], object] = time.sleep) -> bool:
    """Whether a process runs the sink; if that is not certain, waits for its next beat."""
    first: SinkNote | None = None
    for _ in range(SECONDS_WITHOUT_BEAT + 1):
        text = _text(notes, name)
        if text is None:
            return False
        # None while it is being written.
        if (now := SinkNote.of(text)) is not None:
            if now.ended or (first is None and _is_gone(now)):
                return False
            first = first or now
            if (now.process, now.beat) != (first.process, first.beat):
                return True
        wait(1.0)
    return False


def has_ended(notes: Notes, name: str) -> bool:
    """Whether the sink's last process has stated that it ends."""
    held = _read(notes, name)
    return held is not None and held.ended


def _is_gone(note: SinkNote) -> bool:
    """Whether the note's process ran on this machine, and no other process has its number now."""
    if note.host != socket.gethostname() or not Path("/proc/self").exists():
        return False
    # In a container that is started again, this process has the number of the earlier process.
    return note.pid == os.getpid() or not Path(f"/proc/{note.pid}").exists()


def _read(notes: Notes, name: str) -> SinkNote | None:
    return SinkNote.of(_text(notes, name))


def _text(notes: Notes, name: str) -> str | None:
    """The note's text; None without a note, and empty while it is being written."""
    try:
        return notes.read(_path(name))
    except (PySparkException, Py4JError):
        # On a local disk, Hadoop compares the note with its own checksum, which is written after the note.
        return ""


def _path(name: str) -> str:
    return f"{SINKS}/{name or _UNNAMED}.json"


def _name(file: str) -> str | None:
    """The name of the sink to which a note's file belongs; None for another file."""
    stem, dot, end = file.rpartition(".")
    if not dot or end != "json" or stem.startswith("."):
        return None
    return "" if stem == _UNNAMED else stem
