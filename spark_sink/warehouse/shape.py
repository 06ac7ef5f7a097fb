"""The shape of a warehouse table, and the changes it needs to take the rows of further versions.

Invariant: columns are only added and types only widened; a change that would lose data is a named error, never
a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from spark_sink.errors import KeyChanged, TypeConflict
from spark_sink.source.schemas import TableVersion
from spark_sink.text.quoting import action
from wire.warehouse_types import BOOKKEEPING, DELTA_COLUMN, HISTORY_COLUMNS, SOURCE_COLUMNS, widened

# Parquet takes these names as they are; Delta must map all others.
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_]+")


Followed = dict[tuple[str, str, str], int]
"""The number of a version for each source table: destination, database and table."""
Long = tuple[str, str, str, int, int, int, int]
Entry = tuple[str, str, str, int] | Long
"""A source table with the number of a version; `Long` is one of the names that a table has had, see `Stay`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A warehouse table: its name, the source's columns (name, type) in order, and its key.

    An empty key means that the table is a log of signed images or, with `history`, of all changes. `apart`
    means that mapped tables fill it: each row belongs to one source table, and equal keys of two source tables
    are two rows. `followed` has the versions (destination, database, table, number) up to which the rows have
    the columns of their source tables. For a renamed table, it has each name, the position (epoch, seq) at
    which the table got it, and the numbers of the last and first version of the rows under it. `comments` has
    the comments of the columns, by name, and of the table, under the empty name.
    """

    database: str
    table: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    mapped: bool = field(default=False, compare=False)
    apart: bool = False
    followed: tuple[Entry, ...] = ()
    comments: tuple[tuple[str, str], ...] = ()
    history: bool = False

    @property
    def followed_by(self) -> Followed:
        """For each source table whose columns are identified, the version up to which its rows have them.

        Tables that were renamed are omitted.
        """
        return {(one[0], one[1], one[2]): one[3] for one in self.followed if len(one) == 4}

    @property
    def keyed(self) -> bool:
        """Whether rows are identified by a primary key."""
        return bool(self.key)

    @property
    def all_columns(self) -> tuple[tuple[str, str], ...]:
        """The source's columns and the sink's."""
        return (*self.columns, *self.own_columns)

    @property
    def own_columns(self) -> tuple[tuple[str, str], ...]:
        """The sink's columns."""
        more = HISTORY_COLUMNS if self.history else () if self.keyed else (DELTA_COLUMN,)
        return (*BOOKKEEPING, *more, *(SOURCE_COLUMNS if self.apart else ()))

    def with_names(self, names: Mapping[str, str]) -> Shape:
        """The shape with other names for columns, in the key too."""

        def of(name: str) -> str:
            return names.get(name, name)

        return replace(
            self,
            columns=tuple((of(name), kind) for name, kind in self.columns),
            key=tuple(map(of, self.key)),
            comments=tuple((of(name), text) for name, text in self.comments),
        )

    def spelling(self, name: str) -> str | None:
        """The table's spelling of a column, whose name is matched without case; None without such a column."""
        return next((own for own, _ in self.columns if own.lower() == name.lower()), None)


def shaped(
    held: Shape | None,
    versions: Iterable[TableVersion],
    *,
    name: tuple[str, str],
    apart: bool = False,
) -> Shape:
    """The shape that holds the rows of `held` and of all `versions` of the table `name`.

    `apart` means that some versions are of mapped tables. Raise TypeConflict and KeyChanged.
    """
    columns = dict(held.columns) if held else {}
    spelled = {column.lower(): column for column in columns}
    key = held.key if held else None
    for version in sorted(versions, key=lambda v: v.key):
        for present, column in version.present:
            own = spelled.setdefault(present.lower(), present)
            wanted = column.reading.type
            columns[own] = _widened(columns.get(own, wanted), wanted, column=own, of=name)
        key = _same_key(key, version.present_key, spelled, of=name)
    mapped = needs_mapping(columns) or (held is not None and held.mapped)
    apart = apart or (held is not None and held.apart)
    return Shape(
        name[0],
        name[1],
        tuple(columns.items()),
        key or (),
        mapped=mapped,
        apart=apart,
        followed=held.followed if held is not None else (),
        comments=held.comments if held is not None else (),
    )


def needs_mapping(columns: Iterable[str]) -> bool:
    """Whether Delta must map the name of any column."""
    return not all(_SIMPLE_NAME.fullmatch(column) for column in columns)


def _widened(held: str, wanted: str, *, column: str, of: tuple[str, str]) -> str:
    result = widened(held, wanted)
    if result is None:
        raise TypeConflict(
            f"{'.'.join(of)}.{column} is {held} and would need to hold {wanted}",
            advice=action(of),
        )
    return result


def _same_key(
    held: tuple[str, ...] | None,
    wanted: tuple[str, ...],
    spelled: dict[str, str],
    *,
    of: tuple[str, str],
) -> tuple[str, ...]:
    own = tuple(spelled[column.lower()] for column in wanted)
    if held is None:
        return own
    if sorted(held) != sorted(own):
        raise KeyChanged(
            f"{'.'.join(of)} has {list(held) or 'none'}, its new version {list(own) or 'none'}",
            advice=action(of),
        )
    return held
