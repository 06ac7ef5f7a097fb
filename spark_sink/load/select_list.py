"""How each column is selected from MySQL, and how its value for the warehouse is made of that.

Invariant: a row that is selected becomes the very row that its record in the topic would. Numbers, text and
times come as text and are read as the wire's are; bytes come as they are. Nothing depends on the driver's own
conversions, nor on the server's time zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import UnsupportedType
from spark_sink.source.mysql_types import Reading, reading

_TEXT: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_APPROXIMATE: Final = frozenset({"float", "double", "real"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SRID: Final = (
    "CAST(conv(concat(hex(substring({text}, 4, 1)), hex(substring({text}, 3, 1)), "
    "hex(substring({text}, 2, 1)), hex(substring({text}, 1, 1))), 16, 10) AS BIGINT)"
)
_GEOMETRY: Final = (
    f"if({{text}} IS NULL, NULL, named_struct('srid', {_SRID}, 'wkb', substring({{text}}, 5)))"
)
"""MySQL's own form of a geometry is its SRID in four bytes, the least significant first, then its WKB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A column of the SELECT list. `sql` is for MySQL, over `{column}`; the others are for Spark.

    `spark_type` is the type of the result; `raw` is what the row's image has of it, over `{value}`, and `typed`
    the value of the warehouse's type, over `{text}`: both are formats.
    """

    sql: str
    spark_type: str
    raw: str
    typed: str


def selected(mysql_type: str) -> Selected:
    """The column of a type, as the schemas topic states it. Raises UnsupportedType."""
    base = re.match(r"[a-z]*", mysql_type.strip().lower())
    name = base[0] if base else ""
    read = reading(mysql_type)
    if name == "vector":
        raise UnsupportedType(mysql_type, advice="Let the worker read the table's existing rows")
    if name in _BYTES:
        return _binary("{column}", "{text}")
    if name == "bit":
        width = re.search(r"\((\d+)\)", mysql_type)
        digits = (int(width[1]) + 7) // 8 * 2 if width else 2
        # HEX prints a BIT as a number, without leading zeros.
        return _binary(f"UNHEX(LPAD(HEX({{column}}), {digits}, '0'))", "{text}")
    if read.type.startswith("struct<srid"):
        return _binary("UNHEX(HEX({column}))", _GEOMETRY.replace("{value}", "{text}"))
    if name in _TEXT:
        return _text("CONVERT({column} USING utf8mb4)", read)
    if name in _APPROXIMATE:
        # As text, MySQL rounds a FLOAT to six digits, and a DOUBLE to what distinguishes it. A sum would lose
        # the sign of -0.
        return _text("{column} * 1e0", read)
    if name in ("decimal", "numeric"):
        # Else ZEROFILL would be in the text.
        return _text("CAST({column} + 0 AS CHAR)", read)
    if name == "timestamp":
        # The session's time zone is UTC. The zero timestamp is no time of any zone.
        return _text(
            "CAST({column} AS CHAR)",
            read,
            raw="if({value} LIKE '0000-%', {value}, concat({value}, 'Z'))",
        )
    return _text("CAST({column} AS CHAR)", read)


def _text(sql: str, read: Reading, *, raw: str = "{value}") -> Selected:
    return Selected(
        sql=sql, spark_type="string", raw=raw, typed=read.sql.replace("{text}", "{text}")
    )


def _binary(sql: str, typed: str) -> Selected:
    return Selected(sql=sql, spark_type="binary", raw="{value}", typed=typed)
