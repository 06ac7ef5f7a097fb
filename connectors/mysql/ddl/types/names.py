"""The names of data types, and their synonyms.

Invariant: a name is here if a server of some version and mode accepts it; ``resolution`` determines
its meaning there.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.mysql.types.registry import sql_types

_ALIASES = {
    "boolean": ("bool",), "serial": (), "real": (), "number": (), "varchar2": (), "clob": (), "raw": (),
}  # fmt: skip
"""Names that are not types of their own: each means a type that depends on the server's kind and mode."""

KINDS: Mapping[str, str] = {
    name: kind
    for kind, others in (
        *((one.name, one.synonyms) for one in sql_types()),
        *_ALIASES.items(),
    )
    for name in (kind, *others)
}
"""The main name of a type by each of its names."""

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
