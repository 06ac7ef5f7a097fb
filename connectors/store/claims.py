"""Storage for the values of records that are too large for their topics.

Invariant: a value is kept for good when ``put`` returns, so a pointer is never published before its
value; a name has one content, forever, and nothing is removed here. Values of an aborted Kafka
transaction stay. Nothing points to them until the same change is read again, which has the same name.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path, PurePosixPath
from typing import Protocol

from connectors.errors import ClaimGone, ClaimStoreLost

PARTS_OF_A_NAME = 3
"""Topic, day, SHA-256: the last parts of a location are the name in its store."""


def name_of(location: str) -> str:
    """Return the name of a value in its store, from any form of its location."""
    return "/".join(location.split("/")[-PARTS_OF_A_NAME:])


class ClaimStore(Protocol):
    """Keeps values by names such as ``aq.shop.orders/2026-11-21/<sha256>.json``."""

    def put(self, name: str, value: bytes) -> str:
        """Keep a value for good; return its location for readers. Raise a named error of the store."""

    def get(self, name: str) -> bytes:
        """Return the value. Raise ClaimGone, or another named error of the store."""


class FolderStore:
    """A folder, on a disk or a mounted file system."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._made: set[Path] = set()
        """Folders below the store's own that exist and will survive a crash."""

    def put(self, name: str, value: bytes) -> str:
        """Write a file, sync it, and then give it its name."""
        path = self._folder.joinpath(*PurePosixPath(name).parts)
        try:
            self._make(path.parent)
            self._write(path, value)
        except OSError as error:
            raise ClaimStoreLost(f"{error.strerror or error}", path=str(path)) from error
        return path.as_uri()

    def get(self, name: str) -> bytes:
        """Return a file's contents."""
        path = self._folder.joinpath(*PurePosixPath(name).parts)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise ClaimGone(path=str(path)) from error
        except OSError as error:
            raise ClaimStoreLost(f"{error.strerror or error}", path=str(path)) from error

    def _make(self, folder: Path) -> None:
        """Make the folders below the store's own, which must exist: if unmounted, it does not."""
        # A folder made earlier may have been removed since, for example with all old values.
        if (folder in self._made and folder.is_dir()) or folder == self._folder:
            return
        self._make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        _sync(folder.parent)
        self._made.add(folder)

    def _write(self, path: Path, value: bytes) -> None:
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with unfinished.open("xb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put(self, name: str, value: bytes) -> str:
        """Keep a value."""
        self.values[name] = value
        return f"memory:///{name}"

    def get(self, name: str) -> bytes:
        """Return the value."""
        if name not in self.values:
            raise ClaimGone(name=name)
        return self.values[name]
