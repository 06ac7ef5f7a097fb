"""Families of column types: within one, values are compared, converted from their JSON form.

Exact numbers are compared as decimals, and with FLOAT or DOUBLE as doubles, as in MySQL. Texts are compared
by character, as with a collation that ends in ``_bin``: weights of other collations are a server's own.
TIMESTAMP is compared in UTC.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from connectors.mysql.types.registry import Comparable, sql_type


class Family(Enum):
    """A family of types; the value is its name in messages."""

    EXACT = "a number"
    DOUBLE = "a floating-point number"
    TEXT = "a text"
    TIME = "a date or time"
    NULL = "NULL"
    OTHER = "a value that cannot be compared"

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self in (Family.EXACT, Family.DOUBLE)


Convert = Callable[[Any], Any]
"""From the JSON form of a value that is not NULL to the compared one."""

_FAMILIES = {
    Comparable.EXACT: Family.EXACT,
    Comparable.DOUBLE: Family.DOUBLE,
    Comparable.TEXT: Family.TEXT,
    Comparable.TIME: Family.TIME,
    Comparable.NOT: Family.OTHER,
}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?Z?")
_FLOAT = struct.Struct("<f")


def family_of(column_type: str) -> Family:
    """The family of a column's type, such as ``decimal(12,2)``."""
    return _FAMILIES[sql_type(_base(column_type)).comparable]


def conversion(column_type: str) -> Convert:
    """The conversion of a column's values from JSON."""
    if family_of(column_type) is Family.TIME:
        return moment
    return _CONVERSIONS.get(_base(column_type), unchanged)


def as_float(value: float) -> float:
    """The double of a 32-bit float, of which JSON has the shortest text."""
    (found,) = _FLOAT.unpack(_FLOAT.pack(value))
    return float(found)


def moment(text: str) -> str:
    """A date or time in the one form that sorts by time; raise ValueError if it is none."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date; write 'YYYY-MM-DD' or 'YYYY-MM-DD hh:mm:ss'")
    day, time, fraction = found.groups()
    return f"{day} {time or '00:00:00'}.{fraction or '':0<6}"


def unchanged(value: Any) -> Any:
    """The value itself."""
    return value


_CONVERSIONS: Mapping[str, Convert] = {
    "decimal": Decimal,
    "float": as_float,
}


def _base(column_type: str) -> str:
    return re.split(r"[ (]", column_type, maxsplit=1)[0]
