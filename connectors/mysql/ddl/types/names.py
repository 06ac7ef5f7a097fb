"""The names of data types, and their synonyms.

Invariant: a name is here if a server of some version and mode accepts it; its meaning there is
determined in ``types``.
"""

from __future__ import annotations

from collections.abc import Mapping

_SYNONYMS = """\
tinyint: int1
smallint: int2
mediumint: int3, middleint
int: integer, int4
bigint: int8
boolean: bool
serial
decimal: dec, numeric, fixed
float: float4
double: float8, double precision
real
bit
year: sql_tsi_year
date
time
datetime
timestamp
char: character, nchar, national char, national character
varchar: varcharacter, char varying, character varying
varchar: nvarchar, nchar varchar, nchar varcharacter, nchar varying, national varchar, national varcharacter
varchar: national char varying, national character varying
tinytext
text
mediumtext: long, long varchar, long varcharacter, long char varying, long character varying
longtext
binary
varbinary
tinyblob
blob
mediumblob: long varbinary
longblob
enum
set
json
geometry
point
linestring
polygon
multipoint
multilinestring
multipolygon
geometrycollection: geomcollection
vector
inet4
inet6
uuid
number
varchar2
clob
raw
"""


def _kinds() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _SYNONYMS.splitlines():
        kind, _, others = line.partition(": ")
        found |= dict.fromkeys((kind, *filter(None, others.split(", "))), kind)
    return found


KINDS: Mapping[str, str] = _kinds()
"""From each name to the first of its synonyms."""

NATIONAL = frozenset(
    name for name in KINDS if name.startswith(("n", "national ")) and "char" in name
)
"""Names in the national character set, which is three-byte UTF-8."""

OF_ORACLE: Mapping[str, str] = {
    "date": "datetime",
    "blob": "longblob",
    "varchar2": "varchar",
    "clob": "longtext",
    "raw": "varbinary",
    "number": "number",
}
"""The meaning of a name in MariaDB's mode ORACLE, if it differs."""

ORACLE_ONLY = frozenset({"varchar2", "clob", "raw", "number"})
