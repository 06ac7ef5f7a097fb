"""A table's keys as a statement leaves them.

The law: a key without a name gets the server's; one that loses its last column is gone; the primary key's
columns are NOT NULL. A key that is no row's identity is never a reason to give up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from connectors.mysql.ddl.definition import Column, Index
from connectors.mysql.ddl.effect.columns import Refused, same
from connectors.mysql.ddl.spec import IndexSpec, Part, Period

PRIMARY = "PRIMARY"
_MOST = 1000
"""Keys in one statement; servers take 64 and, for foreign keys, a few more."""
_LENGTHY = ("char", "varchar", "binary", "varbinary")
_SPECIAL = ("FULLTEXT", "SPATIAL", "VECTOR")


def added(
    indexes: Sequence[Index], specs: Iterable[IndexSpec], columns: Sequence[Column]
) -> tuple[Index, ...]:
    """The keys with those that are added, the primary key first."""
    found, wanted = list(indexes), list(specs)
    if len(wanted) > _MOST:
        raise Refused(f"{len(wanted)} keys are more than any server takes")
    foreign: list[IndexSpec] = []
    for spec in wanted:
        if spec.kind == "FOREIGN":
            foreign.append(spec)
        elif (index := _new(found, spec, columns)) is not None:
            found.append(index)
    for spec in foreign:
        if not _is_covered(found, spec):
            name = _foreign_name(found, spec)
            made = _made(replace(spec, kind="KEY", name=name), found, columns)
            found.append(replace(made, implicit=True))
    found = [index for index in found if not (index.implicit and _gives_way(index, found))]
    return tuple(sorted(found, key=lambda index: index.name != PRIMARY))


def with_periods(specs: Iterable[IndexSpec], periods: Sequence[Period]) -> list[IndexSpec]:
    """The keys with a period's columns where one names the period: MariaDB's WITHOUT OVERLAPS."""
    return [
        replace(spec, parts=_spread(spec.parts, periods))
        if any(part.without_overlaps for part in spec.parts)
        else spec
        for spec in specs
    ]


def _spread(parts: Sequence[Part], periods: Sequence[Period]) -> tuple[Part, ...]:
    found: list[Part] = []
    for part in parts:
        if not part.without_overlaps:
            found.append(part)
            continue
        period = next((one for one in periods if same(one.name, part.column)), None)
        if period is None:
            raise Refused(f"the period {part.column} of a key is not known")
        found += (Part(column=period.end), Part(column=period.begin))
    return tuple(found)


def _new(found: list[Index], spec: IndexSpec, columns: Sequence[Column]) -> Index | None:
    """A key that is not there yet; None if it says that it need not be made."""
    index = _made(spec, found, columns)
    there = next((other for other in found if same(other.name, index.name)), None)
    if there is None:
        return index
    if spec.if_not_exists:
        return None
    if there.unique:
        raise Refused(f"there is a key {index.name} already")
    # It cannot be there any more: perhaps one that a server made for a foreign key.
    found.remove(there)
    return index


def _made(spec: IndexSpec, others: Sequence[Index], columns: Sequence[Column]) -> Index:
    by_name = {column.name.lower(): column for column in columns}
    named: list[str] = []
    for part in spec.parts:
        column = by_name.get(part.column.lower())
        if column is None and part.column:
            raise Refused(f"a key names a column {part.column} that is not there")
        named.append(column.name if column else "")
    texts = tuple(map(_text, spec.parts))
    lengths = zip(named, spec.parts, strict=True)
    return Index(
        name=_name(spec, named, others),
        columns=tuple(named),
        unique=spec.kind in (PRIMARY, "UNIQUE"),
        prefixed=any(
            part.length is not None and is_prefix(by_name[name.lower()], part.length)
            for name, part in lengths
            if name
        ),
        parts=texts if any(texts) else (),
        kind=spec.kind if spec.kind in _SPECIAL else "",
        options=spec.options,
    )


def _text(part: Part) -> str:
    length = "" if part.length is None else f"({part.length})"
    order = " DESC" if part.descending else ""
    overlaps = " WITHOUT OVERLAPS" if part.without_overlaps else ""
    return f"{part.expression}{length}{order}{overlaps}"


def _name(spec: IndexSpec, named: Sequence[str], others: Sequence[Index]) -> str:
    """Its name; one that is not given is its first column's, with a number where that is taken."""
    if spec.kind == PRIMARY:
        return PRIMARY
    if spec.name is not None:
        return spec.name
    first = "functional_index" if "" in named else named[0]
    taken = {index.name.lower() for index in others} | {PRIMARY.lower()}
    name, number = first, 2
    while name.lower() in taken:
        name, number = f"{first}_{number}", number + 1
    return name


def is_prefix(column: Column, length: int) -> bool:
    """Whether so many characters are only the beginning of a column."""
    word, _, rest = column.type.partition("(")
    if word in _LENGTHY:
        whole = rest.partition(")")[0]
        return not whole.isdecimal() or length < int(whole)
    return word.endswith(("text", "blob"))


def _is_covered(indexes: Iterable[Index], spec: IndexSpec) -> bool:
    """Whether a foreign key needs no key of its own."""
    wanted = [part.column.lower() for part in spec.parts]
    return any(_begins_with(index, wanted) for index in indexes)


def _gives_way(implicit: Index, indexes: Iterable[Index]) -> bool:
    wanted = [name.lower() for name in implicit.columns]
    return any(_begins_with(index, wanted) for index in indexes if index is not implicit)


def _begins_with(index: Index, wanted: list[str]) -> bool:
    return not index.kind and [name.lower() for name in index.columns[: len(wanted)]] == wanted


def _foreign_name(indexes: Sequence[Index], spec: IndexSpec) -> str | None:
    """A foreign key's name for its index, unless another key has it."""
    if spec.name is None or any(same(index.name, spec.name) for index in indexes):
        return None
    return spec.name


def with_columns(
    indexes: Iterable[Index], names: dict[str, str | None], changed: dict[str, Column]
) -> list[Index]:
    """The keys after columns were renamed or dropped: ``names`` from each old one in lower case to the new one,
    or None. ``changed`` are columns of another definition, by their new names in lower case."""
    found: list[Index] = []
    for index in indexes:
        if index.name == PRIMARY or any(
            name.lower() in names or name.lower() in changed for name in index.columns
        ):
            followed = _followed(index, names, changed)
            if followed is not None:
                found.append(followed)
        else:
            found.append(index)
    return found


def _followed(
    index: Index, names: dict[str, str | None], changed: dict[str, Column]
) -> Index | None:
    parts = index.parts or ("",) * len(index.columns)
    kept: list[tuple[str, str]] = []
    for column, part in zip(index.columns, parts, strict=True):
        new = names.get(column.lower(), column)
        if new is None:
            continue
        definition = changed.get(new.lower())
        kept.append((new, part if definition is None else _refitted(part, definition)))
    if not kept:
        return None
    texts = tuple(part for _, part in kept)
    new_columns = tuple(name for name, _ in kept)
    if new_columns == index.columns and texts == parts:
        return index
    return replace(
        index,
        columns=new_columns,
        parts=texts if any(texts) else (),
        prefixed=index.prefixed
        and (not index.parts or any(part.startswith("(") for part in texts)),
    )


def _refitted(part: str, column: Column) -> str:
    """What is said of a part whose column changed: a length that the new type cannot have is dropped."""
    if not part.startswith("(") or not part[1:].partition(")")[0].isdecimal():
        return part
    length, _, order = part[1:].partition(")")
    return part if is_prefix(column, int(length)) else order
