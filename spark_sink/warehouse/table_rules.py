"""The settings of single tables: rules, each for the tables whose names match a pattern.

Invariant: for each setting of a table, the first rule decides that matches the table and states the setting. A
layout is an optimization: columns that a table does not have are omitted from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class Layout:
    """Partitions by columns, each with files of its own; or clustering by columns; or neither."""

    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    is_stated: bool = False
    """Whether an existing table gets the layout too."""
    has_vectors: bool = True
    """Whether a new table marks changed rows in deletion vectors, instead of writing their files again."""
    is_purged: bool = False
    """Whether each compaction removes what deletion vectors mark from the files."""


Layouts = Callable[[tuple[str, str]], Layout]
"""Returns the layout of a table, by database and name."""
NO_LAYOUT: Final = Layout()


def no_layout(name: tuple[str, str]) -> Layout:  # noqa: ARG001 - all tables are alike
    """Leave each table as it is."""
    return NO_LAYOUT


def among(columns: Sequence[str], there: Iterable[str]) -> list[str]:
    """The columns of a layout that a table has, in the table's spelling; names are matched without case."""
    spelled = {name.lower(): name for name in there}
    return [spelled[one.lower()] for one in columns if one.lower() in spelled]


class _Rule(Protocol):
    """Settings of the tables whose whole name, `database.table`, matches; None means not stated."""

    @property
    def match(self) -> str: ...

    @property
    def deletes(self) -> str | None: ...

    @property
    def history(self) -> bool | None: ...

    @property
    def partition_by(self) -> tuple[str, ...] | None: ...

    @property
    def cluster_by(self) -> tuple[str, ...] | None: ...

    @property
    def deletion_vectors(self) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules, in order."""

    rules: Sequence[_Rule] = ()

    @property
    def any_hard(self) -> bool:
        """Whether deleted rows are removed from any table."""
        return any(rule.deletes == "hard" for rule in self.rules)

    def has_hard_deletes(self, name: tuple[str, str]) -> bool:
        """Whether deleted rows are removed from the table."""
        return self._of(name, "deletes") == "hard"

    def has_history(self, name: tuple[str, str]) -> bool:
        """Whether all changes of the table are kept in a history."""
        return bool(self._of(name, "history"))

    def layout(self, name: tuple[str, str]) -> Layout:
        """How the table's rows are divided into files. A rule that states one layout excludes the other."""
        plain = Layout(
            has_vectors=self._of(name, "deletion_vectors") is not False,
            is_purged=self.has_hard_deletes(name),
        )
        for rule in self._matching(name):
            if rule.partition_by is not None or rule.cluster_by is not None:
                by = rule.partition_by or (), rule.cluster_by or ()
                return replace(plain, partition_by=by[0], cluster_by=by[1], is_stated=True)
        return plain

    def _of(self, name: tuple[str, str], setting: str) -> object:
        found = (getattr(rule, setting) for rule in self._matching(name))
        return next((value for value in found if value is not None), None)

    def _matching(self, name: tuple[str, str]) -> list[_Rule]:
        whole = ".".join(name)
        return [rule for rule in self.rules if re.fullmatch(rule.match, whole)]


NO_RULES: Final = TableRules()
