"""How the rows of a table are divided into files.

Invariant: a layout is an optimization: columns that a table does not have are omitted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final


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
