"""The types of columns, taken apart, and the new values of a column whose type is altered.

Expressions are Spark SQL over the old value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Protocol

NEVER: Final = "false"
ALWAYS: Final = "true"
KEPT: Final = "{v}"
BITS: Final = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 24,
    "int": 32,
    "integer": 32,
    "bigint": 64,
}
CHARS: Final = ("char", "varchar")
TEXTS: Final = {"tinytext": 255, "text": 65_535, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
BLOBS: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 2**24 - 1, "longblob": 2**32 - 1}
LABELS: Final = ("enum", "set")
BYTES: Final = ("binary", "varbinary", *BLOBS)
CLOCKS: Final = ("date", "datetime", "timestamp")
APPROXIMATE: Final = ("float", "double", "real")


@dataclass(frozen=True, slots=True)
class Altered:
    """A column's new values, as expressions over the old values.

    `sql` is the new value, which fits the type `kind`, the new type as the warehouse has it; `unknown` is the
    condition that it is not known. In both, `{v}` is the old value, and `{aside}` its text if it has no Spark
    value. `{zone}` is the time zone of the session, as a literal; it occurs only if `is_zoned`.
    """

    sql: str
    unknown: str = NEVER
    is_zoned: bool = False
    kind: str = ""

    def value(self, own: str, *, aside: str, zone: str) -> str:
        """Return the new value of `own`, which may occur several times: a column, or a field of one."""
        return _filled(self.sql, own, aside, zone)

    def lost(self, own: str, *, aside: str, zone: str) -> str:
        """Return the condition that the new value is not known; it is never NULL."""
        return f"coalesce({_filled(self.unknown, own, aside, zone)}, true)"

    def nulled(self, time_zone: str) -> Altered:
        """Return the same with NULL for each value that is not known, also because there is no time zone."""
        if self.is_zoned and not time_zone:
            return replace(NOTHING, kind=self.kind)
        zone = "'" + time_zone + "'"
        sql, unknown = (one.replace("{zone}", zone) for one in (self.sql, self.unknown))
        return Altered(f"if(coalesce({unknown}, true), NULL, {sql})", kind=self.kind)


NOTHING: Final = Altered("NULL")
UNKNOWN: Final = Altered("NULL", ALWAYS)


class TypedColumn(Protocol):
    """A column of a table version."""

    @property
    def mysql_type(self) -> str:
        """The type of its values."""
        ...

    @property
    def column_type(self) -> str:
        """The type as the server prints it; empty if that is not known."""
        ...

    @property
    def charset(self) -> str:
        """The character set of text."""
        ...

    @property
    def nullable(self) -> bool:
        """Whether it may be NULL."""
        ...


def _filled(sql: str, own: str, aside: str, zone: str) -> str:
    return sql.replace(KEPT, own).replace("{aside}", aside).replace("{zone}", zone)


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type, taken apart."""

    base: str
    numbers: tuple[int, ...]
    unsigned: bool
    labels: tuple[str, ...]
    charset: str
    shown: str
    """The type as the server prints it, as far as it is known."""
    is_printed: bool
    """Whether the printed type is known, with digits of FLOAT and DOUBLE, ZEROFILL, and MariaDB's own types."""

    @property
    def fsp(self) -> int:
        """The digits of a fraction of a second."""
        return self.numbers[0] if self.numbers else 0

    @property
    def size(self) -> int:
        """The most characters or bytes that a value has; 1 without a number."""
        return self.numbers[0] if self.numbers else 1

    @property
    def digits(self) -> tuple[int, int]:
        """The digits of a DECIMAL, and the digits after its decimal point."""
        precision = self.numbers[0] if self.numbers else 10
        return precision, self.numbers[1] if len(self.numbers) > 1 else 0

    @property
    def has_digits(self) -> bool:
        """Whether FLOAT or DOUBLE is rounded to a number of digits."""
        return "(" in self.shown


def kind_of(column: TypedColumn) -> Kind:
    """Return a column's type, taken apart."""
    found = re.match(
        r"([a-z]+)\s*(?:\(([^)]*)\))?(.*)", column.mysql_type.strip().lower(), re.DOTALL
    )
    assert found is not None
    base, arguments, rest = found.groups()
    is_labelled = base in LABELS
    shown = (column.column_type or column.mysql_type).lower()
    words = set(rest.split()) | (set() if is_labelled else set(shown.split()))
    numbers = [] if is_labelled else re.findall(r"\d+", arguments or "")
    labels = re.findall(r"'((?:[^']|'')*)'", column.mysql_type) if is_labelled else []
    return Kind(
        base=base,
        numbers=tuple(map(int, numbers)),
        unsigned=bool({"unsigned", "zerofill"} & words),
        labels=tuple(label.replace("''", "'") for label in labels),
        charset=column.charset or "",
        shown=shown,
        is_printed=bool(column.column_type),
    )


def type_of(kind: Kind) -> str:
    """Return the type of the values, as the schemas topic has it."""
    numbers = f"({','.join(map(str, kind.numbers))})" if kind.numbers else ""
    return f"{kind.base}{numbers}{' unsigned' if kind.unsigned else ''}"


def cut(text: str, new: Kind, unknown: str = NEVER) -> Altered:
    """Return the values of a text in a type of text, truncated to what the type holds."""
    if new.base in TEXTS:
        # The limit is in bytes, and a character has four at most.
        long = f"length({text}) > {TEXTS[new.base] // 4}"
        return Altered(text, unknown if new.base == "longtext" else either(unknown, long))
    value = f"left({text}, {new.size})"
    # The server does not return the spaces at the end of a CHAR.
    return Altered(f"rtrim(' ', {value})" if new.base == "char" else value, unknown)


def either(one: str, other: str) -> str:
    """Return the condition that one of two conditions holds."""
    if one == NEVER:
        return other
    return one if other == NEVER else f"{one} OR {other}"
