"""Whether the keys of a batch are greater than all keys of a table, so that the batch's rows can only be new.

Delta's own search for matching rows runs a job even if no file can have any. Here, a table's greatest keys come
from the checksum of its newest commit, which has the statistics of all files while they are few. The keys are
remembered as long as no other commit comes in between.

Invariant: a key counts as greater only by the statistics of exactly the version with which the merge begins.
The versions of a table that is made again have the same numbers, so nothing that is known of a table outlives
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from spark_sink.spark.files import Files
from spark_sink.warehouse.common.merge_range import LARGE, Bound, Key, order

_COMMITS: Final = 50
"""The number of commits after which the size of a table that was small is read again."""


@dataclass(slots=True)
class NewestKeys:
    """The greatest values of key columns, by the table's path."""

    files: Files
    _known: dict[str, tuple[int, dict[str, Key | None]]] = field(default_factory=dict)
    """The version for which the values hold, and the values by column; None for a column without any value."""
    _filled: set[str] = field(default_factory=set)
    """Tables that had files once, and nearly always have some now."""
    _large: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """The version at which a table's size was read, and whether it was large."""

    def are_none(self, path: str, version: int) -> bool:
        """Whether the table is known to have no file, so that any row of a batch is new."""
        if path in self._filled:
            return False
        if self._checksum(path, version).get("numFiles") == 0:
            return True
        self._filled.add(path)
        return False

    def are_many(self, path: str, version: int) -> bool:
        """Whether the table is so large that a small batch's keys should be listed."""
        at, is_large = self._large.get(path, (-_COMMITS, False))
        if not is_large and version - at >= _COMMITS:
            is_large = self._checksum(path, version).get("tableSizeBytes", 0) >= LARGE
            self._large[path] = version, is_large
        return is_large

    def are_past(self, path: str, version: int, bounds: Sequence[Bound]) -> bool:
        """Whether, in one column of the key, a batch's least value is greater than all of the table's."""
        greatest = self._at(path, version, [one.name for one in bounds])
        return any(
            one.name in greatest and _is_less(greatest[one.name], one.least) for one in bounds
        )

    def merged(self, path: str, version: int, bounds: Sequence[Bound]) -> None:
        """Take note of the version that a batch with these keys has made."""
        before, greatest = self._known.get(path, (-1, {}))
        if before != version - 1:
            self._known.pop(path, None)
            return
        for one in bounds:
            if one.name in greatest and _is_less(greatest[one.name], one.most):
                greatest[one.name] = one.most
        self._known[path] = version, greatest

    def forget(self, path: str) -> None:
        """Take note that a batch with unknown keys was merged, or that the table is removed or made again."""
        self._known.pop(path, None)
        self._filled.discard(path)
        self._large.pop(path, None)

    def _at(self, path: str, version: int, names: Sequence[str]) -> Mapping[str, Key | None]:
        known = self._known.get(path)
        if known is None or known[0] != version:
            self._known[path] = known = version, self._read(path, version, names)
        return known[1]

    def _read(self, path: str, version: int, names: Sequence[str]) -> dict[str, Key | None]:
        found = self._checksum(path, version)
        files, metadata = found.get("allFiles"), found.get("metadata")
        if files is None or metadata is None:
            return {}
        physical = physical_names(metadata["schemaString"])
        statistics = [
            json.loads(one.get("stats") or "{}", parse_float=Decimal).get("maxValues", {})
            for one in files
        ]
        greatest: dict[str, Key | None] = {}
        for name in names:
            values = [one.get(physical.get(name, name)) for one in statistics]
            if None not in values:
                greatest[name] = max(values, key=order) if values else None
        return greatest

    def _checksum(self, path: str, version: int) -> dict[str, Any]:
        """What Delta writes beside a commit about the whole table; empty if there is nothing."""
        try:
            text = self.files.read(f"{path}/_delta_log/{version:020}.crc")
            found: dict[str, Any] = json.loads(text or "{}", parse_float=Decimal)
        except ValueError:
            # A crash has left it incomplete; Delta does not depend on it either.
            return {}
        return found


def physical_names(schema: str) -> dict[str, str]:
    """The name of each column in statistics, which differs from its own where Delta maps columns."""
    fields = json.loads(schema)["fields"]
    key = "delta.columnMapping.physicalName"
    return {one["name"]: one["metadata"].get(key, one["name"]) for one in fields}


def _is_less(one: Key | None, other: Key) -> bool:
    return one is None or order(one) < order(other)
