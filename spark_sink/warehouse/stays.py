"""The names that a table has had, one after the other, and the versions of its rows under each name.

Several tables may have had the same name, one after the other; their versions are numbered together. So a table
is known by the statements at which it took its names, and rows and versions belong to it by their positions.

Invariant: the versions of a name between two of these statements are of one table, and have consecutive
numbers. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.warehouse.moves import BEGINNING, Name, Place
from spark_sink.warehouse.shape import Entry, Long, Shape


@dataclass(frozen=True, slots=True)
class Stay:
    """A name, the position at which the table got it, and the first and last known version of its rows there.

    If no version is known, both numbers are 0.
    """

    name: Name
    since: Place
    first: int = 0
    last: int = 0

    def entry(self, destination: str) -> Long:
        """The stay as an entry of `Shape.followed`."""
        return (destination, *self.name, self.last, self.first, *self.since)


def known_stays(
    names: Sequence[tuple[Name, Place]], followed: Iterable[Entry], destination: str
) -> list[Stay]:
    """The stays of a table that has had `names`, with the versions in a shape's `followed`."""
    own = [one for one in followed if one[0] == destination]
    found = [
        Stay((one[1], one[2]), (one[5], one[6]), one[4], one[3]) for one in own if len(one) == 7
    ]
    found.sort(key=lambda one: one.since)
    if found and (not names or found[-1].since >= names[-1][1]):
        return found
    ranges = {(one.name, one.since): one for one in found}
    result = [ranges.get(one, Stay(*one)) for one in names]
    # The entry of a table that was never renamed has only a number.
    for _, database, table, number in (one for one in own if len(one) == 4):
        named = [at for at, one in enumerate(result) if one.name == (database, table)]
        for at in named[-1:]:
            result[at] = seen(result[at], number)
    return result


def seen(stay: Stay, number: int) -> Stay:
    """The stay with a version; a name from the beginning has had no other table, so its versions begin at 1."""
    first = 1 if stay.since == BEGINNING else min(number, stay.first or number)
    return replace(stay, first=first, last=max(number, stay.last))


def carried(
    names: Sequence[tuple[Name, Place]],
    done: Place,
    shapes: Mapping[Name, Shape],
    destination: str,
    *,
    newest: Callable[[str, Name], int],
) -> list[Stay]:
    """The stays of a table that is renamed; `shapes` are of the tables after the statements up to `done`.

    `newest` returns the greatest version of a destination's rows in a table.
    """
    before = [name for name, since in names if since <= done]
    shape = shapes.get(before[-1]) if before else None
    if shape is None:
        return [Stay(*one) for one in names]
    stays = known_stays(names[: len(before)], shape.followed, destination)
    if not any(one.last for one in stays) and (number := newest(destination, before[-1])):
        # Until now, its columns were distinguished by name alone.
        stays[-1] = seen(stays[-1], number)
    return [*stays, *(Stay(*one) for one in names[len(before) :])]


def with_versions(stays: Sequence[Stay], versions: Iterable[TableVersion]) -> list[Stay] | None:
    """The stays with the versions of which a batch has rows; None if a version is of another name."""
    result = list(stays)
    for version in versions:
        name = version.key.database, version.key.table
        among = [at for at, one in enumerate(stays) if one.name == name]
        if not among:
            return None
        if (places := version.places) is not None:
            ends = [one.since for one in stays[1:]]
            among = [
                at
                for at in among
                if stays[at].since <= places[1] and (at == len(ends) or places[0] < ends[at])
            ] or among[-1:]
        for at in among if places is not None else among[-1:]:
            result[at] = seen(result[at], version.key.version)
    return result


def numbered(
    stays: Sequence[Stay], destination: str, book: SchemaBook
) -> list[tuple[tuple[int, int], TableVersion]]:
    """The versions of the stays, oldest first, each with the index of its stay and its number."""
    return [
        ((at, one.key.version), one)
        for at, stay in enumerate(stays)
        for one in book.earlier((destination, *stay.name), stay.last)
        if one.key.version >= stay.first
    ]
