"""The sink's own texts, stored as files in the warehouse's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from spark_sink.spark.files import Files
from wire.warehouse_folders import folder


class Notes(Protocol):
    """The sink's own small texts, stored beside the tables."""

    def read(self, name: str) -> str | None:
        """The text; None if it does not exist."""

    def write(self, name: str, text: str) -> None:
        """Create or replace the text, in one step."""

    def remove(self, name: str) -> None:
        """Remove the text if it exists."""

    def names(self, folder: str) -> list[str]:
        """The names of the texts in a folder, without the folder's name; empty if it does not exist."""

    def make(self) -> None:
        """Create the storage for the texts, and prove that it is writable."""

    def excludes(self) -> bool:
        """Whether one of two processes that commit the same version of a table is refused."""


def json_of(notes: Notes, name: str, absent: Any) -> Any:
    """The JSON value of a text; `absent` without the text, or if a killed process has left it incomplete."""
    try:
        return json.loads(notes.read(name) or "null") or absent
    except ValueError:
        return absent


def note_of_table(kind: str, name: tuple[str, str]) -> str:
    """The name of a text about a table, in the folder of texts of that kind."""
    return f"{kind}/{folder(name[0])}%{folder(name[1])}.json"


class FileNotes:
    """Notes as files."""

    def __init__(
        self,
        files: Files,
        root: str,
        *,
        first: Mapping[str, str] | None = None,
        excludes: bool = True,
    ) -> None:
        self._files = files
        self._root = root
        self._first = first or {}
        self._excludes = excludes

    def read(self, name: str) -> str | None:
        return self._files.read(f"{self._root}/{name}")

    def write(self, name: str, text: str) -> None:
        self._files.write(f"{self._root}/{name}", text)

    def remove(self, name: str) -> None:
        self._files.delete(f"{self._root}/{name}")

    def names(self, folder: str) -> list[str]:
        names = self._files.names(f"{self._root}/{folder}")
        # A file that is being written has a leading dot.
        return [name for name in names if not name.startswith(".")]

    def excludes(self) -> bool:
        return self._excludes

    def make(self) -> None:
        """See Notes. Also write those of the first notes that do not exist."""
        self._files.make(self._root)
        for name, text in self._first.items():
            if self.read(name) is None:
                self._add(name, text)

    def _add(self, name: str, text: str) -> None:
        try:
            self._files.put(f"{self._root}/{name}", text)
        except OSError:
            # Another process may have been first.
            if self.read(name) is None:
                raise
