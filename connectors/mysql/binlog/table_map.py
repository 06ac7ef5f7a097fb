"""TABLE_MAP events: a table's column names, types, keys and all else a decoder needs.

Invariant: a property that the event does not contain is None, never a default that could be wrong.
Column names, signedness, labels and keys are present under ``binlog_row_metadata=FULL``, which the
preflight requires.
Source: MySQL's libs/mysql/binlog/event/rows_event.h, class Table_map_event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from connectors.mysql.buffer import bits, packed, packed_bytes, read_bytes, uint
from connectors.mysql.types.registry import FieldType, Listed, MappedColumn, binlog_type, codes

_T = FieldType
NUMERIC = codes(Listed.NUMBERS)
"""Types in the list of signs; whether the list contains YEAR depends on the server's version: see _signs."""
CHARACTER = codes(Listed.TEXTS)
MARIADB_CHARACTER = codes(Listed.TEXTS, Listed.MARIADB_TEXTS)
"""Types in the list of collations; MariaDB's list includes geometries and types that only MariaDB has."""
LABELLED = codes(Listed.LABELS)
_AMBIGUOUS: dict[int, int] = {
    _T.TIMESTAMP: _T.MARIADB_TIMESTAMP,
    _T.TIME: _T.MARIADB_TIME,
    _T.DATETIME: _T.MARIADB_DATETIME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """One TABLE_MAP event."""

    table_id: int
    database: str
    table: str
    columns: tuple[MappedColumn, ...]
    primary_key: tuple[int, ...] | None = field(default=None)
    """Indexes of the key's columns in the key's order; None if the event names no key."""
    raw: bytes = field(default=b"", repr=False, compare=False)
    """The event's body, stored with undecodable rows."""

    @property
    def may_hide_not_null(self) -> bool:
        """Whether NOT NULL columns may be marked as nullable.

        If a statement has the table on the inner side of an outer join (``UPDATE a LEFT JOIN b … SET
        b.v = 1``), servers mark all columns as nullable in its TABLE_MAP. Source: Table_map_log_event
        uses maybe_null().
        """
        return all(column.nullable for column in self.columns)

    @property
    def hides_not_null(self) -> bool:
        """Whether NOT NULL columns are certainly marked as nullable: even the primary key's columns are."""
        return bool(self.primary_key) and self.may_hide_not_null


def table_id_of(body: bytes) -> int:
    """The table's id, the first field of a TABLE_MAP and of the rows events after it."""
    return uint(body, 0, 6)


def parse_table_map(body: bytes, *, mariadb: bool = False) -> TableMap:
    """Parse the body of a TABLE_MAP event; raise IndexError or a similar error if it is malformed.

    ``mariadb``: whether MariaDB wrote the event; the event itself does not show this.
    """
    size, at = body[8], 9
    database, at = read_bytes(body, at, size)
    size, at = body[at + 1], at + 2
    table, at = read_bytes(body, at, size)
    count, at = packed(body, at + 1)
    if not 0 < count <= _MOST_COLUMNS:
        raise ValueError(f"no table has {count} columns")
    types, at = read_bytes(body, at, count)
    metadata, at = packed_bytes(body, at)
    nullable, at = read_bytes(body, at, (count + 7) // 8)
    columns = [
        MappedColumn(type=kind, metadata=value, nullable=null)
        for (kind, value), null in zip(_typed(types, metadata), bits(nullable, count), strict=True)
    ]
    optional = dict(_fields(body, at))
    names = list(_strings(optional.get(NAMES, b"")))
    if len(set(names)) != len(names):
        raise ValueError("two columns have the same name")
    character = CHARACTER
    if mariadb:
        columns = [
            replace(column, type=_AMBIGUOUS.get(column.type, column.type)) for column in columns
        ]
        character = MARIADB_CHARACTER
    return TableMap(
        table_id=table_id_of(body),
        database=database.decode(),
        table=table.decode(),
        columns=tuple(_described(columns, optional, character, mariadb)),
        primary_key=_primary_key(optional),
        raw=body,
    )


def _typed(types: bytes, metadata: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    for kind in types:
        known = binlog_type(kind)
        raw, at = read_bytes(metadata, at, known.metadata_size if known is not None else 0)
        value = int.from_bytes(raw, "little")
        if kind == _T.STRING:
            kind, value = _real_type(kind, raw)
            known = binlog_type(kind)
        if known is not None and not known.is_possible(value):
            raise ValueError(f"no column of type {kind} has the metadata {value:#x}")
        yield kind, value


def _real_type(kind: int, raw: bytes) -> tuple[int, int]:
    """Return the type and length of a CHAR, BINARY, ENUM or SET column; servers send all as STRING.

    The first byte of the metadata is the type. A length above 255 uses two bits of that byte
    (Field_string::save_field_metadata).
    """
    first, second = raw
    if first & 0x30 != 0x30:
        return kind, second | (((first & 0x30) ^ 0x30) << 4)
    return (first, second) if first in LABELLED else (kind, second)


_MOST_COLUMNS = 4096

SIGNEDNESS, DEFAULT_CHARSET, COLUMN_CHARSET, NAMES, SET_LABELS, ENUM_LABELS = 1, 2, 3, 4, 5, 6
GEOMETRY_TYPES, SIMPLE_KEY, KEY_WITH_PREFIX, LABEL_DEFAULT_CHARSET = 7, 8, 9, 10
LABEL_COLUMN_CHARSET, VISIBILITY, DIMENSIONS = 11, 12, 13
"""The kinds of optional metadata fields."""


def _fields(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        kind = body[at]
        value, at = packed_bytes(body, at + 1)
        yield kind, value


def _described(
    columns: list[MappedColumn],
    optional: dict[int, bytes],
    character: Collection[int],
    mariadb: bool,
) -> list[MappedColumn]:
    """The columns with the content of the optional metadata."""
    # A MySQL server that sends column visibility is 8.0.23 or later.
    years = mariadb or VISIBILITY in optional
    indexes_of = _indexes(columns)
    found: list[dict[str, object]] = [{} for _ in columns]

    def describe(indexes: list[int], name: str, values: Iterable[object]) -> None:
        for index, value in zip(indexes, values, strict=False):
            found[index][name] = value

    everyone = list(range(len(columns)))
    for kind, value in optional.items():
        if kind == SIGNEDNESS:
            kinds = [column.type for column in columns if column.type in NUMERIC]
            describe(indexes_of(NUMERIC), "unsigned", _signs(value, kinds, years=years))
        elif kind in (DEFAULT_CHARSET, LABEL_DEFAULT_CHARSET):
            indexes = indexes_of(character if kind == DEFAULT_CHARSET else LABELLED)
            describe(indexes, "collation", _with_default(value, len(indexes)))
        elif kind == COLUMN_CHARSET:
            describe(indexes_of(character), "collation", _integers(value))
        elif kind == LABEL_COLUMN_CHARSET:
            describe(indexes_of(LABELLED), "collation", _integers(value))
        elif kind == NAMES:
            describe(everyone, "name", (name.decode() for name in _strings(value)))
        elif kind in (SET_LABELS, ENUM_LABELS):
            describe(
                indexes_of({_T.SET if kind == SET_LABELS else _T.ENUM}), "labels", _labels(value)
            )
        elif kind == GEOMETRY_TYPES:
            describe(indexes_of({_T.GEOMETRY}), "geometry_type", _integers(value))
        elif kind == VISIBILITY:
            describe(everyone, "visible", bits(value, len(columns), most_significant_first=True))
        elif kind == DIMENSIONS:
            describe(indexes_of({_T.VECTOR}), "dimensions", _integers(value))
    return [replace(column, **more) for column, more in zip(columns, found, strict=True)]  # type: ignore[arg-type]


def _signs(value: bytes, kinds: list[int], *, years: bool) -> list[bool | None]:
    """Whether each numeric column is unsigned; ``years``: whether a YEAR column certainly has a bit.

    MySQL 8.0.29 and MariaDB write a bit for YEAR, MySQL 8.0.20 does not (sql/field.h, is_numeric_type).
    The bitmap's size, or the zero bits at its end, may exclude one reading. If both are possible, they
    often agree; a sign on which they disagree is None.
    """
    every = (
        bits(value, len(kinds), most_significant_first=True) if years else _fitting(value, kinds)
    )
    plain = _fitting(value, [kind for kind in kinds if kind != _T.YEAR])
    if years or plain is None:
        return list[bool | None](every or bits(value, len(kinds), most_significant_first=True))
    rest = iter(plain)
    without = [None if kind == _T.YEAR else next(rest) for kind in kinds]
    if every is None:
        return list[bool | None](without)
    return [one if one == other else None for one, other in zip(every, without, strict=True)]


def _fitting(value: bytes, kinds: list[int]) -> list[bool] | None:
    """Return the bitmap's bits; None if its size does not fit the columns or a remaining bit is set."""
    if len(value) != (len(kinds) + 7) // 8:
        return None
    signs = bits(value, len(value) * 8, most_significant_first=True)
    return None if any(signs[len(kinds) :]) else signs[: len(kinds)]


def _indexes(columns: list[MappedColumn]) -> Callable[[Collection[int]], list[int]]:
    """Return a function that returns the indexes of the columns of some types, in order."""
    return lambda kinds: [n for n, column in enumerate(columns) if column.type in kinds]


def _primary_key(optional: dict[int, bytes]) -> tuple[int, ...] | None:
    if SIMPLE_KEY in optional:
        return tuple(_integers(optional[SIMPLE_KEY]))
    if KEY_WITH_PREFIX in optional:
        return tuple(_integers(optional[KEY_WITH_PREFIX]))[::2]
    return None


def _integers(value: bytes) -> Iterator[int]:
    at = 0
    while at < len(value):
        number, at = packed(value, at)
        yield number


def _strings(value: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(value):
        text, at = packed_bytes(value, at)
        yield text


def _labels(value: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(value):
        count, at = packed(value, at)
        labels = []
        for _ in range(count):
            label, at = packed_bytes(value, at)
            labels.append(label)
        yield tuple(labels)


def _with_default(value: bytes, count: int) -> list[int]:
    """Read a default collation, then pairs: a number among the ``count`` columns, and its collation."""
    default, *pairs = _integers(value)
    collations = [default] * count
    for index, collation in zip(pairs[::2], pairs[1::2], strict=True):
        collations[index] = collation
    return collations
