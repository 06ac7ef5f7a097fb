"""What a warehouse in memory has beside its tables: the sink's log, dead letters, recent changes, notes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from spark_sink.source.positions import At, Offsets, is_within
from spark_sink.warehouse.coverage import Cut, Marker
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.protocol import Letter, Name, Recent, VersionGone
from tests.harness.memory_warehouse.tables import Row, Rows


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
    """See Notes."""

    def __init__(self, *, excludes: bool = True) -> None:
        self._texts: dict[str, str] = {}
        self._excludes = excludes

    def read(self, name: str) -> str | None:
        """See Notes."""
        return self._texts.get(name)

    def write(self, name: str, text: str) -> None:
        """See Notes."""
        self._texts[name] = text

    def remove(self, name: str) -> None:
        """See Notes."""
        self._texts.pop(name, None)

    def names(self, folder: str) -> list[str]:
        """See Notes."""
        begin = f"{folder}/"
        return sorted(name.removeprefix(begin) for name in self._texts if name.startswith(begin))

    def make(self) -> None:
        """See Notes."""

    def excludes(self) -> bool:
        """See Notes."""
        return self._excludes


def memory_log(**options: Any) -> SinkLog:
    """The sink's log, in memory."""
    return SinkLog(notes=MemoryNotes(), where="__log", **options)
