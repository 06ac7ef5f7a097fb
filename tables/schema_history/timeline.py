"""Versions of many things, each in force from a step of the history on.

The law: versions are only ever added behind those that are there; going back makes a new timeline. So whoever
looks at an old one sees what it saw, while another thread goes on.
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
    """Of each key its versions, with the number of the step that brought them."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: dict[Key, list[tuple[int, Value]]] = {}

    def put(self, key: Key, number: int, value: Value) -> None:
        """A version from this step on; steps come in their order, and the last of a step counts."""
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [(number, value)]
        elif versions[-1][0] == number:
            versions[-1] = (number, value)
        else:
            versions.append((number, value))

    def at(self, key: Key, number: int) -> tuple[int, Value] | None:
        """The greatest version that is not behind this step, and the step that brought it."""
        versions = self._versions.get(key)
        if versions is None:
            return None
        found = bisect_right(versions, number, key=_number)
        return versions[found - 1] if found else None

    def names(self) -> list[Key]:
        """All that ever had a version; it may be asked for while another thread adds some."""
        return list(self._versions)

    def all_at(self, number: int) -> Iterator[tuple[Key, int, Value]]:
        """Each key with its version as of this step."""
        for key in self.names():
            found = self.at(key, number)
            if found is not None:
                yield key, *found

    def since(self, number: int) -> Timeline[Key, Value]:
        """Another timeline that begins at this step; what held there is of this step then."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            first = bisect_right(versions, number, key=_number)
            begin = [(number, versions[first - 1][1])] if first else []
            new._versions[key] = begin + versions[first:]
        return new

    def until(self, number: int) -> Timeline[Key, Value]:
        """Another timeline with nothing behind this step."""
        new: Timeline[Key, Value] = Timeline()
        for key, versions in self._versions.items():
            kept = versions[: bisect_right(versions, number, key=_number)]
            if kept:
                new._versions[key] = kept
        return new
