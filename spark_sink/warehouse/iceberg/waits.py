"""The log of waiting tables as files, one for each row.

Commands add requests to it beside the sink. A Hadoop catalog commits by renaming a file, which on some file
systems lets the second of two writers overwrite the first; files of different names cannot.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_sink.spark.files import Files
from spark_sink.warehouse.waiting_tables import REQUESTS


@dataclass(slots=True, kw_only=True)
class FileWaits:
    """See protocol.WaitLog."""

    files: Files
    folder: str
    prepare: Callable[[], None]
    """Called before the first row is added."""
    _read: dict[str, dict[str, Any]] = field(default_factory=dict)
    _is_prepared: bool = False

    def state(self) -> list[str]:
        """See protocol.WaitLog."""
        # A file that is being written has a leading dot.
        return [name for name in self.files.names(self.folder) if not name.startswith(".")]

    def rows(self) -> list[dict[str, Any]]:
        """See protocol.WaitLog."""
        for name in self.state():
            if name not in self._read:
                text = self.files.read(f"{self.folder}/{name}")
                self._read[name] = json.loads(text or "{}")
        return [dict(row) for row in self._read.values()]

    def append(self, *rows: Mapping[str, Any]) -> None:
        """See protocol.WaitLog."""
        if not self._is_prepared:
            self.prepare()
            self._is_prepared = True
        for row in rows:
            name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
            self.files.put(f"{self.folder}/{name}", json.dumps(dict(row)))

    def prune(self, before_ms: int, keep: Collection[Mapping[str, Any]]) -> None:
        """See protocol.WaitLog."""
        kept = [*keep]
        old = {
            name: row
            for name, row in self._read.items()
            if row["at_ms"] < before_ms and row not in kept
        }
        for name in sorted(old, key=lambda one: (old[one]["kind"] not in REQUESTS, one)):
            self.files.delete(f"{self.folder}/{name}")
            del self._read[name]
