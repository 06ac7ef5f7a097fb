"""A table's keys after a statement.

Invariant: a key without a name gets the server's name for it; a key that loses its last column is
dropped; the primary key's columns are NOT NULL. A key that identifies no row never makes a
statement fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.collations import longest
from connectors.mysql.ddl.column_types import labels_in
from connectors.mysql.ddl.definition import SPECIAL_KINDS, Column, Index, Server
from connectors.mysql.ddl.resolve.columns import same
from connectors.mysql.ddl.statement import IndexSpec, Part, Period
from connectors.mysql.types.decimals import decimal_groups
from connectors.mysql.types.geometries import is_geometry
from connectors.mysql.types.labels import label_bytes
from connectors.mysql.types.registry import FieldType
from connectors.mysql.types.type_spec import Refused

PRIMARY = "PRIMARY"
_MOST = 1000
"""The maximum number of keys in one statement; servers allow 64 and, for foreign keys, a few more."""
_LENGTHY = ("char", "varchar", "binary", "varbinary")
_LABELLED = ("enum", "set")
_POINT = 25
"""The bytes of a geometry that a key without a length has: those of a POINT."""


def added(
    indexes: Sequence[Index], specs: Iterable[IndexSpec], columns: Sequence[Column]
) -> tuple[Index, ...]:
    """Return the keys after adding keys; the primary key comes first."""
    found, wanted = list(indexes), list(specs)
    if len(wanted) > _MOST:
        raise Refused(f"{len(wanted)} keys are more than any server accepts")
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


def with_geometries(
    indexes: Iterable[Index], columns: Sequence[Column], server: Server
) -> tuple[Index, ...]:
    """Return the keys as MariaDB has them: it indexes the first bytes of a geometry, even without a length.

    MySQL before 8.0 treats such a key of a POINT as covering the whole column, and later versions
    refuse it.
    """
    if not server.mariadb:
        return tuple(indexes)
    found = {lowered(one.name) for one in columns if is_geometry(one.type.lower())}
    return tuple(
        replace(index, prefixed=True)
        if not index.kind and any(lowered(name) in found for name in index.columns)
        else index
        for index in indexes
    )


def with_periods(specs: Iterable[IndexSpec], periods: Sequence[Period]) -> list[IndexSpec]:
    """The keys, with a period's columns in place of the period: MariaDB's WITHOUT OVERLAPS."""
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


def is_there(spec: IndexSpec, before: Iterable[Index]) -> bool:
    """Return whether IF NOT EXISTS applies to a key, by the table's keys before the statement.

    As in MariaDB, a key that the statement drops or renames counts too, and a key without a name has the name
    of its first column.
    """
    name = PRIMARY if spec.kind == PRIMARY else spec.name or spec.parts[0].column
    is_key = spec.if_not_exists and spec.kind != "FOREIGN"
    return is_key and any(same(index.name, name) for index in before)


def _new(found: list[Index], spec: IndexSpec, columns: Sequence[Column]) -> Index | None:
    """A new key; None if IF NOT EXISTS applies."""
    index = _made(spec, found, columns)
    there = next((other for other in found if same(other.name, index.name)), None)
    if there is None:
        return index
    if spec.if_not_exists:
        return None
    if there.unique:
        raise Refused(f"there is a key {index.name} already")
    # The known key must be gone: perhaps a server had created it for a foreign key.
    found.remove(there)
    return index


def _made(spec: IndexSpec, others: Sequence[Index], columns: Sequence[Column]) -> Index:
    by_name = {lowered(column.name): column for column in columns}
    named: list[str] = []
    for part in spec.parts:
        column = by_name.get(lowered(part.column))
        if column is None and part.column:
            raise Refused(f"a key names a column {part.column} that does not exist")
        named.append(column.name if column else "")
    texts = tuple(map(_text, spec.parts))
    lengths = zip(named, spec.parts, strict=True)
    return Index(
        name=_name(spec, named, others),
        columns=tuple(named),
        unique=spec.kind in (PRIMARY, "UNIQUE"),
        prefixed=any(
            part.length is not None and is_prefix(by_name[lowered(name)], part.length)
            for name, part in lengths
            if name
        ),
        parts=texts if any(texts) else (),
        kind=SPECIAL_KINDS.get(spec.kind, ""),
        options=spec.options,
    )


def _text(part: Part) -> str:
    length = "" if part.length is None else f"({part.length})"
    order = " DESC" if part.descending else ""
    overlaps = " WITHOUT OVERLAPS" if part.without_overlaps else ""
    return f"{part.expression}{length}{order}{overlaps}"


def _name(spec: IndexSpec, named: Sequence[str], others: Sequence[Index]) -> str:
    """A key's name; by default the name of its first column, with a number if that name is taken."""
    if spec.kind == PRIMARY:
        return PRIMARY
    if spec.name is not None:
        return spec.name
    first = "functional_index" if "" in named else named[0]
    taken = {lowered(index.name) for index in others} | {lowered(PRIMARY)}
    name, number = first, 2
    while lowered(name) in taken:
        name, number = f"{first}_{number}", number + 1
    return name


def is_prefix(column: Column, length: int) -> bool:
    """Return whether this number of characters is only the beginning of a column."""
    word, _, rest = column.type.partition("(")
    if word in _LENGTHY:
        whole = rest.partition(")")[0]
        return not whole.isdecimal() or length < int(whole)
    return word.endswith(("text", "blob")) or (is_geometry(word) and word != "point")


def _is_covered(indexes: Iterable[Index], spec: IndexSpec) -> bool:
    """Whether a foreign key needs no new index."""
    wanted = [lowered(part.column) for part in spec.parts]
    return any(_begins_with(index, wanted) for index in indexes)


def _gives_way(implicit: Index, indexes: Iterable[Index]) -> bool:
    wanted = [lowered(name) for name in implicit.columns]
    return any(_begins_with(index, wanted) for index in indexes if index is not implicit)


def _begins_with(index: Index, wanted: list[str]) -> bool:
    return not index.kind and [lowered(name) for name in index.columns[: len(wanted)]] == wanted


def _foreign_name(indexes: Sequence[Index], spec: IndexSpec) -> str | None:
    """A foreign key's name for its index, unless another key has it."""
    if spec.name is None or any(same(index.name, spec.name) for index in indexes):
        return None
    return spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The columns of a table before and after an ALTER; the names in the other fields are in lower case."""

    before: Sequence[Column]
    after: Sequence[Column]
    was: dict[str, str]
    """Old names of renamed columns, by their new names."""
    changed: set[str]
    """New names of redefined columns."""
    new: set[str]
    """Names of new columns."""
    mariadb: bool


def with_columns(indexes: Iterable[Index], moved: Moved) -> list[Index]:
    """The keys after columns were renamed, dropped, added or redefined.

    As on the server, a part goes to the first column, in the table's new order, that had the part's name
    before the ALTER or, if it is not renamed, has that name now. So a new column may take over the key of a
    renamed column that comes after it.
    """
    by_old_name: dict[str, Column] = {}
    for column in moved.after:
        name = lowered(column.name)
        by_old_name.setdefault(moved.was.get(name, name), column)
    before = {lowered(column.name): column for column in moved.before}
    followed = (_followed(index, by_old_name, before, moved) for index in indexes)
    return [index for index in followed if index is not None]


def _followed(
    index: Index, by_old_name: dict[str, Column], before: dict[str, Column], moved: Moved
) -> Index | None:
    parts = index.parts or ("",) * len(index.columns)
    kept: list[tuple[str, str]] = []
    for name, part in zip(index.columns, parts, strict=True):
        if not name:
            kept.append((name, part))  # an expression
        elif (column := by_old_name.get(lowered(name))) is not None:
            kept.append((column.name, _refitted(part, before.get(lowered(name)), column, moved)))
    if not kept:
        return None
    texts = tuple(part for _, part in kept)
    columns = tuple(name for name, _ in kept)
    # MariaDB's key of a geometry is one of its first bytes, without a length: see with_geometries.
    of_geometry = any(
        name and is_geometry(before[lowered(name)].type.lower())
        for name in index.columns
        if lowered(name) in before
    )
    after = {lowered(column.name): column for column in moved.after}
    lengths = [(after[lowered(name)], _length(part)[0]) for name, part in kept if name]
    prefixed = any(length and is_prefix(column, length) for column, length in lengths) or (
        index.prefixed and not index.parts and not of_geometry
    )
    if columns == index.columns and texts == parts and (index.kind or prefixed == index.prefixed):
        return index
    return replace(index, columns=columns, parts=texts if any(texts) else (), prefixed=prefixed)


def _refitted(part: str, old: Column | None, column: Column, moved: Moved) -> str:
    """The definition of a part whose column was replaced or changed its type."""
    name = lowered(column.name)
    length, order = _length(part)
    if name in moved.new:
        # The server keeps the length of the column that had this name.
        length = length or _whole(old)
    elif name not in moved.changed:
        return part
    elif length is None:
        length = _kept_length(old, mariadb=moved.mariadb)
    return f"({length}){order}" if length and is_prefix(column, length) else order


def _length(part: str) -> tuple[int | None, str]:
    """A part's length in characters and the text after it; the length is None for the whole column."""
    if not part.startswith("(") or not part[1:].partition(")")[0].isdecimal():
        return None, part
    length, _, order = part[1:].partition(")")
    return int(length), order


_SIZES = {
    "tinyint": 1, "year": 1, "smallint": 2, "mediumint": 3, "date": 3, "time": 3, "int": 4, "float": 4,
    "timestamp": 4, "datetime": 5, "bigint": 8, "double": 8,
}  # fmt: skip


def _whole(column: Column | None) -> int | None:
    """The length of a column's part of a key: characters of text, bytes of any other column.

    As on the server, what is stored of an ENUM or SET is measured in characters too.
    """
    word, _, rest = ("" if column is None else column.type).partition("(")
    numbers = [int(one) for one in rest.partition(")")[0].split(",") if one.strip().isdecimal()]
    if is_geometry(word.lower()):
        return _POINT
    if column is not None and word in _LABELLED:
        return _stored(column) // longest(column.charset or "binary")
    if word in _LENGTHY and numbers:
        return numbers[0]
    if word == "decimal":
        return sum(width for width, _ in decimal_groups(*numbers)[0])
    if word == "bit":
        return (numbers[0] + 7) // 8
    size = _SIZES.get(word.split(" ")[0])
    if size is not None and word in ("time", "timestamp", "datetime") and numbers:
        size += (numbers[0] + 1) // 2
    return size


def _kept_length(column: Column | None, *, mariadb: bool) -> int | None:
    """The length of a key of a whole column whose column becomes text; None if it is of the whole text.

    MySQL takes the stored bytes of an ENUM or SET for a prefix of the text, unless a value has as many.
    Source: mysql_prepare_alter_table in sql/sql_table.cc.
    """
    if column is not None and is_geometry(column.type.lower()):
        return _whole(column)
    if column is None or mariadb or not column.type.startswith(_LABELLED):
        return None
    labels = [len(label) for label in labels_in(column.type)]
    characters = max(labels) if column.type.startswith("enum") else sum(labels) + len(labels) - 1
    is_whole = characters * longest(column.charset or "binary") == _stored(column)
    return None if is_whole else _whole(column)


def _stored(column: Column) -> int:
    """The size in bytes of a stored value of an ENUM or SET."""
    code = FieldType.ENUM if column.type.startswith("enum") else FieldType.SET
    return label_bytes(code, len(labels_in(column.type)))
