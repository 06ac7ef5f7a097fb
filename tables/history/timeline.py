"""Versions of many keys, each in force from a step of the history on.

Invariant: versions are only added after existing ones; a rollback makes a new timeline. So a reader
of an old one sees no change while another thread continues.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_number = itemgetter(0)


class Timeline(Generic[Key, Value]):
    """The versions of each key, with the number of the step that made them."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: dict[Key, list[tuple[int, Value]]] = {}

    def put(self, key: Key, number: int, value: Value) -> None:
        """Add a version from this step on; steps are in order, and the last version of a step is valid."""
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [(number, value)]
        elif versions[-1][0] == number:
            versions[-1] = (number, value)
        else:
            versions.append((number, value))

    def at(self, key: Key, number: int) -> tuple[int, Value] | None:
        """The greatest version at or before this step, and the step that made it."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        found = bisect_right(versions, number, key=_number)
        return versions[found - 1] if found else None

    def names(self) -> list[Key]:
        """All keys that ever had a version; may be called while another thread adds some."""
        return list(self._versions)

    def all_at(self, number: int) -> Iterator[tuple[Key, int, Value]]:
        """Each key with its version as of this step."""
        for key in self.names():
            found = self.at(key, number)
            if found is not None:
                yield key, *found

    def since(self, number: int) -> Timeline[Key, Value]:
        """Another timeline that begins at this step; versions in force there belong to this step."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            first = bisect_right(versions, number, key=_number)
            begin = [(number, versions[first - 1][1])] if first else []
            new._versions[key] = begin + versions[first:]
        return new

    def until(self, number: int) -> Timeline[Key, Value]:
        """Another timeline without versions after this step."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            kept = versions[: bisect_right(versions, number, key=_number)]
            if kept:
                new._versions[key] = kept
        return new
