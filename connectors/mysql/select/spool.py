"""Rows of a SELECT that have to enter the stream together, and are stored in a temporary file until then.

Invariant: memory is bounded, whatever the size of a table. The file has no name, so the system removes it when
the worker ends, even if the worker crashes.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from connectors.errors import SnapshotUnsupported, SpoolFull
from connectors.mysql.ddl.definition import TableName

DEFAULT_BYTES = 4 << 30
IN_MEMORY = 16 << 20
"""Size of rows, in bytes, up to which no file is created."""
_LEFT_FREE = 256 << 20
"""Bytes of the file system that stay free for other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spools:
    """The folder of spools, and their maximum size."""

    folder: Path = Path(tempfile.gettempdir())
    most_bytes: int = DEFAULT_BYTES
    """Maximum size of the rows of one table."""


class Spool:
    """The rows of one SELECT; written by one thread, then read by another, and closed by any."""

    def __init__(self, spools: Spools, name: TableName) -> None:
        self._spools, self._name = spools, ".".join(name)
        self._file = cast("IO[bytes] | None", None)
        self._memory: list[bytes] | None = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._portions: list[tuple[int, tuple[int, ...]]] = []
        """The number of rows of each portion, and the sizes of its blocks."""
        self._offsets: list[int] = []
        self.bytes = 0
        self.rows = 0

    def __len__(self) -> int:
        """Return the number of portions."""
        return len(self._portions)

    def expect(self, size: int | None) -> None:
        """Raise SpoolFull if the folder has no room for rows of this size, which the server estimates."""
        if size is not None and size > IN_MEMORY and size + _LEFT_FREE > (free := self._free()):
            raise self._no_room(f"about {_mebibytes(size)} of rows by the server's estimate", free)

    def add(self, blocks: tuple[bytes, ...], rows: int) -> None:
        """Add a portion; raise SnapshotUnsupported if the rows are too large, SpoolFull without room."""
        size = sum(map(len, blocks))
        most = self._spools.most_bytes
        if self.bytes + size > most:
            raise SnapshotUnsupported(
                f"it has no primary key, and more than {_mebibytes(most)} of rows, which have to enter the "
                "stream together",
                table=self._name,
                remedy="Set snapshot.max_spool_bytes to more, give the table a primary key, or leave it out "
                "with a filter. Then start its snapshot again.",
            )
        self._offsets.append(self.bytes)
        self._portions.append((rows, tuple(map(len, blocks))))
        self.bytes += size
        self.rows += rows
        with self._lock:
            self._write(b"".join(blocks))

    def _write(self, raw: bytes) -> None:
        if self._is_closed:
            return
        if self._memory is not None:
            self._memory.append(raw)
            if self.bytes <= IN_MEMORY:
                return
            raw, self._memory = b"".join(self._memory), None
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._spools.folder, buffering=0)  # noqa: SIM115
            if len(raw) + _LEFT_FREE > (free := self._free()):
                raise self._no_room(f"{_mebibytes(self.bytes)} of rows, and more to come", free)
            view = memoryview(raw)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise self._fault(f"its rows cannot be written to a file: {error.strerror}") from error

    def rows_of(self, number: int) -> int:
        """Return the number of rows of a portion."""
        return self._portions[number][0]

    def blocks(self, number: int) -> tuple[bytes, ...] | None:
        """Return a portion; None once the spool is closed."""
        _, sizes = self._portions[number]
        raw = self._read(number, sum(sizes))
        if raw is None:
            return None
        found, at = [], 0
        for size in sizes:
            found.append(raw[at : at + size])
            at += size
        return tuple(found)

    def _read(self, number: int, size: int) -> bytes | None:
        with self._lock:
            if self._memory is not None:
                return self._memory[number]
            if self._file is None:
                return None
            raw = os.pread(self._file.fileno(), size, self._offsets[number])
        if len(raw) < size:
            raise OSError(f"a temporary file in {self._spools.folder} is shorter than it was")
        return raw

    def close(self) -> None:
        """Discard the rows and the file; any thread may call this."""
        with self._lock:
            self._is_closed, self._memory = True, None
            if self._file is not None:
                self._file.close()
                self._file = None

    def _free(self) -> int:
        try:
            found = os.statvfs(self._spools.folder)
        except OSError as error:
            raise self._fault(f"its rows cannot be written to a file: {error.strerror}") from error
        return found.f_bavail * found.f_frsize

    def _no_room(self, what: str, free: int) -> SpoolFull:
        return self._fault(
            f"it has no primary key, and {what}, which are kept in a file until they enter the stream; the "
            f"file system has {_mebibytes(free)} free, of which {_mebibytes(_LEFT_FREE)} stay free"
        )

    def _fault(self, what: str) -> SpoolFull:
        return SpoolFull(what, table=self._name, folder=str(self._spools.folder))


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
