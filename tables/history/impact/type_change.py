"""The relation of a column's new values to its old ones, as a subscriber sees them.

Invariant: it describes values on the wire (docs/wire.md), not bytes in MySQL; a type is wider only if it
holds every value of the other type in the same form. A generated column depends on each column that its
expression names. Only the server knows whether a value changed, so every column whose values may have
changed counts as recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Server, Session, Table
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed
from connectors.mysql.ddl.resolve.columns import attributes_in
from connectors.mysql.schema.table_map_completion import labels_in
from connectors.mysql.types.integers import INTEGERS
from connectors.mysql.types.registry import sql_type
from connectors.mysql.types.strings import ADDRESSES, BLOBS, TEXTS


class Relation(Enum):
    """The relation of new values to old ones."""

    SAME = "same"
    WIDER = "wider"
    NARROWER = "narrower"
    SHIFTED = "shifted"
    """Some values were removed and some added."""
    OTHER_FORM = "other form"
    """The same value has another form."""


class TypedColumn(Protocol):
    """A column of a definition, or of a table version."""

    @property
    def type(self) -> str:
        """The type, as the server prints it or as rows have it."""
        ...

    @property
    def charset(self) -> str | None:
        """The character set of text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKind:
    """A column type, taken apart."""

    base: str
    numbers: tuple[int, ...] = ()
    unsigned: bool = False
    labels: tuple[str, ...] = ()
    charset: str | None = None

    @property
    def form(self) -> str:
        """The form of its values in a record; values of types with the same form are written alike."""
        return sql_type(self.base).form or self.base


def kind_of(column: TypedColumn) -> ValueKind:
    """A column's type."""
    text = column.type.lower().partition(" /*")[0]
    base = text.partition("(")[0]
    if base in ("enum", "set"):
        return ValueKind(base=base, labels=tuple(labels_in(column.type)), charset=column.charset)
    found = _NUMBERS.search(text)
    words = text.split()
    base = words[0].partition("(")[0] if words else ""
    return ValueKind(
        base=_SYNONYMS.get(base, base),
        numbers=tuple(int(number) for number in found[1].split(",")) if found else (),
        unsigned="unsigned" in words or "zerofill" in words,
        charset=column.charset,
    )


def wire_type(column_type: str) -> str:
    """The type on the wire: without comments, and with MariaDB's address types as the binlog's bytes."""
    if column_type.startswith(("enum(", "set(")):
        return column_type
    text = column_type.partition(" /*")[0]
    size = ADDRESSES.get(text)
    return text if size is None else f"binary({size})"


def relation(old: ValueKind, new: ValueKind) -> Relation:
    """The relation of new values to old ones, without regard to character sets."""
    if old.form != new.form:
        return Relation.OTHER_FORM
    return _RELATIONS.get(old.form, _by_name)(old, new)


def exact_length(kind: ValueKind) -> int | None:
    """The maximum number of characters of an integer or a decimal; None for other types."""
    if kind.base == "decimal":
        # With a sign and a point.
        return (kind.numbers or (10,))[0] + 2
    return max(len(str(bound)) for bound in _bounds(kind)) if kind.base in INTEGERS else None


def always_holds(kind: ValueKind, length: int) -> bool:
    """Whether a type holds every text of this many characters."""
    is_free = kind.form == "text" and kind.base not in ("enum", "set", "json")
    return is_free and _sure(kind) >= length


def charset_relation(old: str | None, new: str | None) -> Relation:
    """The relation of a new character set's characters to the characters of the old one."""
    if old == new or old is None or new is None:
        return Relation.SAME
    one, other = _repertoire(old), _repertoire(new)
    if one is not None and one == other:
        return Relation.SAME
    if other == _ALL or old == "ascii" or (other == _BASIC and one != _ALL):
        return Relation.WIDER
    if one == _ALL or new == "ascii" or (one == _BASIC and other != _ALL):
        return Relation.NARROWER
    return Relation.SHIFTED


_ALL, _BASIC = "all characters", "the first 65,536"


def _repertoire(charset: str) -> str | None:
    if charset in ("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"):
        return _ALL
    return _BASIC if charset in ("utf8mb3", "utf8", "ucs2") else None


_NUMBERS = re.compile(r"\((\d+(?:,\d+)*)\)")
_SYNONYMS = {"geometrycollection": "geomcollection"}
_CLOCKS = ("date", "time", "datetime", "timestamp")
_GEOMETRIES = {
    "geometry": "geometry point linestring polygon multipoint multilinestring multipolygon geomcollection",
    "geomcollection": "geomcollection multipoint multilinestring multipolygon",
}


def _judged(keeps: bool, gains: bool) -> Relation:
    """The relation of types of one form: ``keeps`` all old values or not, ``gains`` new values or not."""
    if keeps:
        return Relation.WIDER if gains else Relation.SAME
    return Relation.SHIFTED if gains else Relation.NARROWER


def _numbers(old: ValueKind, new: ValueKind) -> Relation:
    return _judged(_takes(new, old), not _takes(old, new))


def _takes(wide: ValueKind, narrow: ValueKind) -> bool:
    """Whether one type can represent every number of another."""
    if narrow.base in ("float", "double"):
        if wide.unsigned and not narrow.unsigned:
            return False
        return wide.base == "double" or wide.base == narrow.base
    low, high = _bounds(narrow)
    if wide.base in ("float", "double"):
        exact = 2 ** (24 if wide.base == "float" else 53)
        return high <= exact and low >= (0 if wide.unsigned else -exact)
    least, most = _bounds(wide)
    return least <= low and high <= most and (wide.base != "year" or narrow.base == "year")


def _bounds(kind: ValueKind) -> tuple[int, int]:
    if kind.base == "year":
        return 0, 2155
    bits = INTEGERS[kind.base]
    return (0, 2**bits - 1) if kind.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimals(old: ValueKind, new: ValueKind) -> Relation:
    scales = old.numbers[1:], new.numbers[1:]
    if scales[0] != scales[1]:
        # The text has as many digits after the point as the type.
        return Relation.OTHER_FORM
    first, second = old.numbers[0], new.numbers[0]
    keeps = second >= first and (old.unsigned or not new.unsigned)
    gains = second > first or (old.unsigned and not new.unsigned)
    return _judged(keeps, gains)


def _clocks(old: ValueKind, new: ValueKind) -> Relation:
    return Relation.SAME if old.numbers == new.numbers else Relation.OTHER_FORM


def _texts(old: ValueKind, new: ValueKind) -> Relation:
    if old.base == new.base == "set" and _order(old, new) != _order(new, old):
        # A value's labels are in the order of the type's.
        return Relation.OTHER_FORM
    return _judged(_holds(new, old), not _holds(old, new))


def _order(one: ValueKind, other: ValueKind) -> list[str]:
    return [label for label in one.labels if label in other.labels]


def _holds(wide: ValueKind, narrow: ValueKind) -> bool:
    """Whether one type of text holds every text of another."""
    if wide.base in ("enum", "set"):
        return narrow.base == wide.base and set(narrow.labels) <= set(wide.labels)
    if wide.base == "json":
        return narrow.base == "json"
    if narrow.base == "json":
        return wide.base == "longtext"
    if wide.base in TEXTS and narrow.base in TEXTS:
        return TEXTS[wide.base] >= TEXTS[narrow.base]
    return _sure(wide) >= _longest(narrow)


def _longest(kind: ValueKind) -> int:
    """The maximum number of characters of a text."""
    if kind.base == "enum":
        return max(map(len, kind.labels), default=0)
    if kind.base == "set":
        return sum(map(len, kind.labels)) + max(len(kind.labels) - 1, 0)
    return TEXTS.get(kind.base) or (kind.numbers or (1,))[0]


def _sure(kind: ValueKind) -> int:
    """The number of characters, of any kind, that always fit."""
    size = TEXTS.get(kind.base)
    return (kind.numbers or (1,))[0] if size is None else size // 4


def _bytes(old: ValueKind, new: ValueKind) -> Relation:
    padded = "binary" in (old.base, new.base)
    if padded and (old.base != new.base or old.numbers != new.numbers):
        # A value includes its padding of zero bytes.
        both = {kind.base for kind in (old, new)} & {*ADDRESSES, "binary"}
        same = len(both) > 1 and _size(old) == _size(new)
        return Relation.SAME if same else Relation.OTHER_FORM
    if old.base != new.base and {old.base, new.base} & set(ADDRESSES):
        return Relation.OTHER_FORM
    return _judged(_size(new) >= _size(old), _size(new) > _size(old))


def _size(kind: ValueKind) -> int:
    return BLOBS.get(kind.base) or ADDRESSES.get(kind.base) or (kind.numbers or (1,))[0]


def _bits(old: ValueKind, new: ValueKind) -> Relation:
    first, second = ((kind.numbers or (1,))[0] for kind in (old, new))
    if (first + 7) // 8 != (second + 7) // 8:
        return Relation.OTHER_FORM
    return _judged(second >= first, second > first)


def _geometries(old: ValueKind, new: ValueKind) -> Relation:
    one, other = (set(_GEOMETRIES.get(kind.base, kind.base).split()) for kind in (old, new))
    return _judged(other >= one, not one >= other)


def _by_size(old: ValueKind, new: ValueKind) -> Relation:
    return _judged(new.numbers >= old.numbers, new.numbers > old.numbers)


def _by_name(old: ValueKind, new: ValueKind) -> Relation:
    return Relation.SAME if old == new else Relation.OTHER_FORM


_RELATIONS = {
    "number": _numbers,
    "decimal": _decimals,
    **dict.fromkeys(_CLOCKS, _clocks),
    "text": _texts,
    "bytes": _bytes,
    "bit": _bits,
    "geometry": _geometries,
    "vector": _by_size,
}


_ANY = Server(version=(8, 4, 0))
"""Servers of all versions end the tokens of their own definitions alike."""
_KEEPS = (Relation.SAME, Relation.WIDER)


def recomputed(old: Table, new: Table, renames: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the columns of ``new``; ``renames``: from the old names of columns to new names."""
    before = {lowered(renames.get(column.name, column.name)): column for column in old.columns}
    named = ((before.get(lowered(column.name)), column) for column in new.columns)
    kept = [(was, column) for was, column in named if was is not None]
    found = {one.name for was, one in kept if one.generated and _tokens(was) != _tokens(one)}
    changed = {lowered(one.name) for was, one in kept if _has_other_values(was, one)}
    while True:
        changed |= set(map(lowered, found))
        more = {one.name for _, one in kept if one.generated and changed.intersection(_tokens(one))}
        if more <= found:
            return tuple(one.name for one in new.columns if one.name in found)
        found |= more


def _has_other_values(old: Column, new: Column) -> bool:
    """Whether values of the column may have been converted to others."""
    return (
        relation(kind_of(old), kind_of(new)) not in _KEEPS
        or charset_relation(old.charset, new.charset) not in _KEEPS
        or (old.nullable and not new.nullable)
    )


def _tokens(column: Column) -> tuple[str, ...]:
    """The tokens of the column's expression, with names in lower case; none unless it is generated."""
    if not column.generated:
        return ()
    attributes = attributes_in(column.definition)
    try:
        tokens = lexed(
            column.definition if attributes is None else attributes.expression, _ANY, Session()
        )
    except GrammarFault:
        return (column.definition,)
    return tuple(
        f"'{text}" if key in (lexer.STRING, lexer.NATIONAL) else lowered(text)
        for key, text in zip(tokens.keys, tokens.texts, strict=True)
    )
