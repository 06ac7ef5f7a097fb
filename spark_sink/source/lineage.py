"""The columns of a source table through its versions: their identities, and a new column's value in older rows.

A column is the same in two versions if the worker gives it the same identity or, without identities, if it has
the same name. A column that was dropped and added again is another column, also under the same name.

Invariant: only what the versions state is used; a value that they do not state is not guessed. All functions
are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_sink.source.altered_kinds import Altered
from spark_sink.source.altered_values import altered
from spark_sink.source.schemas import Column, Constant, TableVersion


@dataclass(frozen=True, slots=True)
class Step:
    """A version, and the `__schema` of its rows as `rank` (0: rows from before the table had its name)."""

    version: TableVersion
    rank: int
    identities: tuple[str, ...]
    """The identities of its columns, in their order."""

    def column(self, identity: str) -> Column | None:
        """Return the column of an identity; None if the version has no such column."""
        found = zip(self.identities, self.version.columns, strict=True)
        return next((column for own, column in found if own == identity), None)


def steps(versions: Iterable[tuple[int, TableVersion]]) -> list[Step]:
    """Return the versions, oldest first, each with its rank and its columns' identities."""
    found: list[Step] = []
    known: dict[str, str] = {}
    last: dict[str, str] = {}
    for rank, version in versions:
        taken: dict[str, str] = {}
        for column in version.columns:
            if column.id is not None and column.id in known:
                taken[column.name] = known[column.id]
            elif column.id is not None and column.initial is not None:
                taken[column.name] = known[column.id] = column.id
        for column in version.columns:
            if column.name not in taken:
                own = last.get(column.name.lower())
                if own is None or own in taken.values():
                    own = _fresh(column.id or column.name, known)
                taken[column.name] = known[column.id or column.name] = own
        identities = tuple(taken[column.name] for column in version.columns)
        for column, own in zip(version.columns, identities, strict=True):
            known[own] = own
            last[column.name.lower()] = own
        found.append(Step(version, rank, identities))
    return found


def _fresh(name: str, known: dict[str, str]) -> str:
    number, found = 2, name
    while found in known.values():
        found, number = f"{name}#{number}", number + 1
    return found


def is_plain(found: Iterable[TableVersion]) -> bool:
    """Whether columns are distinguished by their names alone."""
    return all(
        not each.hidden and all(one.id is None and one.initial is None for one in each.columns)
        for each in found
    )


def names_after(found: Sequence[Step]) -> dict[str, str]:
    """Return the name of each identity after these steps.

    A dropped column keeps its name if the name is still free. A column that the mapping drops is omitted.
    """
    names: dict[str, str] = {}
    used = set(found[-1].version.hidden) if found else set()
    for step in reversed(found):
        for column, identity in zip(step.version.columns, step.identities, strict=True):
            if identity not in names and column.name.lower() not in used:
                names[identity] = column.name
                used.add(column.name.lower())
    return names


def first_step(found: Sequence[Step], identity: str) -> int:
    """Return the index of the step at which a column was added."""
    return next(at for at, step in enumerate(found) if identity in step.identities)


def last_column(found: Sequence[Step], identity: str) -> Column:
    """Return a column as it is in the newest step that has it."""
    columns = (step.column(identity) for step in reversed(found))
    return next(column for column in columns if column is not None)


def alterations(found: Sequence[Step]) -> Iterator[tuple[int, str, Altered, tuple[str, str]]]:
    """Yield each change of a column's values: the step that begins with it, the column, how, and both types."""
    last: dict[str, Column] = {}
    for at, step in enumerate(found):
        for column, identity in zip(step.version.columns, step.identities, strict=True):
            before = last.get(identity)
            if before is not None and (how := altered(before, column)) is not None:
                kinds = before.printed(beside=column), column.printed(beside=before)
                yield at, identity, how, kinds
            last[identity] = column


def placed(found: Sequence[Step]) -> list[TableVersion]:
    """Return the versions with their columns as they are after the last step."""
    names = names_after(found)
    if not found[-1].version.primary_key:
        # An image without a dropped column must remove the image that had the column.
        names = {one: name for one, name in names.items() if one in found[-1].identities}
    changed: dict[int, list[tuple[str, Altered]]] = {}
    for at, identity, how, _ in alterations(found):
        changed.setdefault(at, []).append((identity, how))
    since: dict[str, tuple[Altered, ...]] = {}
    result: list[TableVersion] = []
    for at in reversed(range(len(found))):
        result.append(_placed(found, at, names, since))
        for identity, how in changed.get(at, ()):
            since[identity] = how, *since.get(identity, ())
    return result[::-1]


def _placed(
    found: Sequence[Step],
    at: int,
    names: dict[str, str],
    since: Mapping[str, tuple[Altered, ...]],
) -> TableVersion:
    step = found[at]
    present: list[tuple[str, Column | Constant]] = [
        (names[identity], replace(column, altered=since.get(identity, ())))
        for column, identity in zip(step.version.columns, step.identities, strict=True)
        if identity in names
    ]
    for identity, name in names.items():
        if identity not in step.identities and first_step(found, identity) > at:
            column = last_column(found, identity)
            text = column.initial.text if column.initial is not None else None
            if text is not None:
                present.append((name, Constant(column.reading, text)))
    own = [(column.name, column) for column in step.version.columns]
    return step.version if present == own else replace(step.version, placed=tuple(present))
