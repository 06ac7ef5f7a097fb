"""MySQL's column types as warehouse types, and how each is read from the wire's text, exactly.

Invariant: a value is either held exactly or kept as the wire's text; it is never rounded and never
becomes a silent NULL. Types are named as Spark's `simpleString` does, so they compare as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import UnsupportedType
from wire.warehouse_types import GEOMETRY, VECTOR, digits, warehouse_type

_TEMPORAL: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_MAY_ROUND: Final = re.compile(r"\s*(decimal|numeric)", re.IGNORECASE)
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

    `type` is the warehouse type; `sql` is a Spark expression over the text `{text}`, which is NULL if the
    text is no such value; `total` means that every text is a value.
    """

    type: str
    sql: str
    total: bool = False

    @property
    def temporal(self) -> bool:
        """Whether MySQL has values of the type (zero and partial dates) that Spark lacks."""
        return self.type in _TEMPORAL


def reading(mysql_type: str) -> Reading:
    """Return the reading of a column whose `type` is `mysql_type`; raise UnsupportedType."""
    kind = warehouse_type(mysql_type)
    match kind:
        case None:
            raise UnsupportedType(mysql_type)
        case "string":
            return Reading(kind, "{text}", total=True)
        case "binary":
            return Reading(kind, "try_to_binary({text}, 'base64')")
        case _ if kind == GEOMETRY:
            return Reading(kind, _GEOMETRY_SQL)
        case _ if kind == VECTOR:
            return Reading(kind, _VECTOR_SQL)
    sql = f"try_cast({{text}} AS {kind})"
    if _MAY_ROUND.match(mysql_type):
        # A cast to a decimal rounds, so the text's own scale is checked first.
        _, scale = digits(kind) or (0, 0)
        shape = f"^-?[0-9]+[.][0-9]{{{{{scale}}}}}$" if scale else "^-?[0-9]+$"
        sql = f"if({{text}} RLIKE '{shape}', {sql}, NULL)"
    return Reading(kind, sql)
