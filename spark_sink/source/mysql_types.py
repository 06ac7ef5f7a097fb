"""MySQL's column types as warehouse types, and how each is read from the wire's text, exactly.

Invariant: a value is either held exactly or kept as the wire's text; it is never rounded and never
becomes a silent NULL. Types are named as Spark's `simpleString` does, so they compare as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import UnsupportedType

_INTEGERS: Final = {
    "tinyint": ("int", "int"),
    "smallint": ("int", "int"),
    "mediumint": ("int", "int"),
    "int": ("int", "bigint"),
    "integer": ("int", "bigint"),
    "bigint": ("bigint", "decimal(20,0)"),
}
_PLAIN: Final = {
    "bool": "int",
    "boolean": "int",
    "year": "int",
    "float": "float",
    "double": "double",
    "real": "double",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
}
_TEXT: Final = frozenset(
    {
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
        *("enum", "set", "json", "time"),
    }
)
_BINARY: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"}
)
_GEOMETRY: Final = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
        *("multipoint", "multilinestring", "multipolygon"),
    }
)
_TEMPORAL: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
# Whole digits that a decimal must have to take any value of the type, by Delta's rule, and those
# of which the type takes any number.
_EXACT_DIGITS: Final = {"int": 10, "bigint": 20}
_WHOLE: Final = {"int": 9, "bigint": 18}
_WIDENINGS: Final = frozenset(
    {
        *(("int", "bigint"), ("int", "double"), ("float", "double"), ("date", "timestamp_ntz")),
        # Tables made before an SRID of 2^31 or more was known to come.
        ("struct<srid:int,wkb:binary>", "struct<srid:bigint,wkb:binary>"),
    }
)
_GEOMETRY_TYPE: Final = "struct<srid:bigint,wkb:binary>"

_GEOMETRY_SQL: Final = (
    "transform(array(from_json({text}, 'srid BIGINT, wkb STRING')), g -> "
    "if(g.srid IS NULL OR try_to_binary(g.wkb, 'base64') IS NULL, NULL, "
    "named_struct('srid', g.srid, 'wkb', try_to_binary(g.wkb, 'base64'))))[0]"
)
_VECTOR_SQL: Final = (
    "transform(array(transform(from_json({text}, 'array<string>'), x -> try_cast(x AS float))),"
    " v -> if(exists(v, x -> x IS NULL), NULL, v))[0]"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column's wire text becomes a value.

    `type` is the warehouse type; `sql` a Spark expression over the text `{text}` that is NULL
    where the text is no such value; `total` says that every text is a value.
    """

    type: str
    sql: str
    total: bool = False

    @property
    def temporal(self) -> bool:
        """Whether MySQL has values of the type (zero and partial dates) that Spark has not."""
        return self.type in _TEMPORAL


def reading(mysql_type: str) -> Reading:
    """The reading of a column whose `column_type` is `mysql_type`."""
    base, arguments, unsigned = _parts(mysql_type)
    if base in _INTEGERS:
        return _cast(_INTEGERS[base][unsigned])
    if base in _PLAIN:
        return _cast(_PLAIN[base])
    if base in {"decimal", "numeric"}:
        return _decimal(arguments)
    if base in _TEXT:
        return Reading("string", "{text}", total=True)
    if base in _BINARY:
        return Reading("binary", "try_to_binary({text}, 'base64')")
    if base in _GEOMETRY:
        return Reading(_GEOMETRY_TYPE, _GEOMETRY_SQL)
    if base == "vector":
        return Reading("array<float>", _VECTOR_SQL)
    raise UnsupportedType(mysql_type)


def widened(held: str, wanted: str) -> str | None:
    """The type that a column of type `held` must get to take values of `wanted`.

    None where Delta cannot widen to such a type without rewriting the table.
    """
    if _holds(held, wanted):
        return held
    if _widens(held, wanted):
        return wanted
    return _common_decimal(held, wanted)


def _cast(spark_type: str) -> Reading:
    return Reading(spark_type, f"try_cast({{text}} AS {spark_type})")


def _decimal(arguments: list[str]) -> Reading:
    precision = int(arguments[0]) if arguments else 10
    scale = int(arguments[1]) if len(arguments) > 1 else 0
    if precision > 38:
        return Reading("string", "{text}", total=True)
    # A cast to a decimal rounds, so the text's own scale is looked at first.
    digits = f"^-?[0-9]+[.][0-9]{{{{{scale}}}}}$" if scale else "^-?[0-9]+$"
    spark_type = f"decimal({precision},{scale})"
    return Reading(
        spark_type, f"if({{text}} RLIKE '{digits}', try_cast({{text}} AS {spark_type}), NULL)"
    )


def _parts(mysql_type: str) -> tuple[str, list[str], bool]:
    """The base name, the numbers in parentheses, and whether the type is unsigned."""
    match = re.match(r"([a-z]+)\s*(?:\(([^)]*)\))?(.*)", mysql_type.strip().lower(), re.DOTALL)
    if match is None:
        raise UnsupportedType(mysql_type)
    base, arguments, rest = match.groups()
    if base == "double" and rest.startswith(" precision"):
        rest = rest.removeprefix(" precision")
    words = rest.split()
    numbers = [n.strip() for n in (arguments or "").split(",") if n.strip().isdigit()]
    # ZEROFILL implies UNSIGNED.
    return base, numbers, "unsigned" in words or "zerofill" in words


def _holds(held: str, wanted: str) -> bool:
    """Whether a column of type `held` takes every value of `wanted` as it is."""
    if held == wanted or _widens(wanted, held):
        return True
    narrow = _digits(wanted)
    return held in _WHOLE and narrow is not None and narrow[1] == 0 and narrow[0] <= _WHOLE[held]


def _widens(narrow: str, wide: str) -> bool:
    """Whether Delta can change a column of type `narrow` to `wide` in place."""
    if (narrow, wide) in _WIDENINGS:
        return True
    small, large = _digits(narrow), _digits(wide)
    if small is None or large is None or not wide.startswith("decimal"):
        return False
    return large[0] >= small[0] and large[1] >= small[1]


def _common_decimal(one: str, other: str) -> str | None:
    """The narrowest decimal that holds both."""
    first, second = _digits(one), _digits(other)
    if first is None or second is None:
        return None
    whole, scale = max(first[0], second[0]), max(first[1], second[1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def _digits(spark_type: str) -> tuple[int, int] | None:
    """Digits before and after the point of an exact number type."""
    if spark_type in _EXACT_DIGITS:
        return _EXACT_DIGITS[spark_type], 0
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", spark_type)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return precision - scale, scale
