"""Resolution of a data type for a server: its text in ``information_schema``, its character set and collation.

Invariant: the text is the server's own, digit for digit, for its version and mode; a type that it
would refuse is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from connectors.mysql.charset.charsets import BINARY
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.ddl.server_version import Version, since
from connectors.mysql.ddl.statement.type_spec import ResolvedType, TypeRefused, TypeSpec
from connectors.mysql.ddl.types import numbers as number_types
from connectors.mysql.ddl.types import text as text_types
from connectors.mysql.ddl.types.charset_conversion import converted
from connectors.mysql.ddl.types.names import KINDS, NATIONAL, OF_ORACLE, ORACLE_ONLY

__all__ = ["NAMES", "ResolvedType", "TypeRefused", "TypeSpec", "converted", "resolved"]

NAMES = frozenset(KINDS)
"""Every name that a TypeSpec may have; names of several words must be tried before their prefixes."""

_SINCE: dict[str, tuple[Version | None, Version | None]] = {
    "json": ((5, 7, 8), (10, 2, 7)),
    "vector": ((9, 0, 0), (11, 7, 1)),
    "geomcollection": ((8, 0, 11), None),
    "inet4": (None, (10, 10, 1)),
    "inet6": (None, (10, 5, 0)),
    "uuid": (None, (10, 7, 1)),
}
"""Types introduced later than the others, with their first versions of MySQL and MariaDB."""

_MOST_FRACTION = 6
_MOST_DIMENSIONS, _DIMENSIONS = 16383, 2048


def resolved(
    spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """The type as a server stores it; ``inherited`` is the table's character set and collation.

    Raises TypeRefused, or CharsetRefused for an unknown character set or collation.
    """
    kind, spec = _kind(spec, server, session)
    if kind in _PLAIN:
        return ResolvedType(type=_PLAIN[kind](kind, spec, server), serial=spec.name == "serial")
    if kind == "json":
        return _json(spec, inherited, server, session)
    make = text_types.label_type if kind in ("enum", "set") else text_types.text
    return make(kind, spec, inherited, server=server, session=session)


def _kind(spec: TypeSpec, server: Server, session: Session) -> tuple[str, TypeSpec]:
    """The meaning of a name here, and the type without additional information from the name."""
    name, kind = spec.name, KINDS.get(spec.name)
    mysql, mariadb = _SINCE.get(name, ((0, 0, 0), (0, 0, 0)))
    if kind is None or not since(server, mysql=mysql, mariadb=mariadb):
        raise TypeRefused(f"there is no type {name!r}")
    if name in NATIONAL:
        spec = replace(spec, charset="utf8mb3")
    oracle = _is_as(spec, "ORACLE", server, session)
    if name in ORACLE_ONLY and not oracle:
        raise TypeRefused(f"type {name!r} exists only in the mode ORACLE")
    if oracle:
        kind = OF_ORACLE.get(name, kind)
    if kind == "timestamp" and _is_as(spec, "MAXDB", server, session):
        kind = "datetime"
    if kind == "number":
        kind = "decimal" if spec.arguments else "double"
    if kind == "real":
        kind = "double" if session.sql_mode.isdisjoint({"REAL_AS_FLOAT", "ANSI"}) else "float"
        if len(spec.arguments) == 1:
            raise TypeRefused("real takes no such number")
    return kind, spec


def _is_as(spec: TypeSpec, mode: str, server: Server, session: Session) -> bool:
    """Whether types have another database's meaning."""
    if mode == "ORACLE" and not server.mariadb:
        return False
    if spec.qualifier is not None:
        return spec.qualifier == f"{mode.lower()}_schema"
    return mode in session.sql_mode


def _json(spec: TypeSpec, inherited: Database, server: Server, session: Session) -> ResolvedType:
    """MariaDB's JSON is text with a check."""
    if not server.mariadb:
        if spec.collation not in (None, BINARY):
            raise TypeRefused("json has no collation")
        return ResolvedType(type="json")
    own = Database(charset="utf8mb4", collation="utf8mb4_bin")
    own = own if spec.collation is None else inherited
    return text_types.text("longtext", spec, own, server=server, session=session)


def _bigint_of_serial(_kind: str, _spec: TypeSpec, server: Server) -> str:
    return number_types.integer("bigint", TypeSpec(name="bigint", unsigned=True), server)


def _boolean(_kind: str, spec: TypeSpec, server: Server) -> str:
    return number_types.integer("tinyint", replace(spec, arguments=(1,)), server)


def _moment(kind: str, spec: TypeSpec, server: Server) -> str:
    digits = spec.arguments[0] if spec.arguments else 0
    if spec.arguments and not since(server, mysql=(5, 6, 4), mariadb=(5, 3, 0)):
        raise TypeRefused(f"{kind} has no fractions of a second")
    if digits > _MOST_FRACTION:
        raise TypeRefused(f"{kind}({digits}) is finer than {_MOST_FRACTION} digits")
    return f"{kind}({digits})" if digits else kind


def _geometry_collection(_kind: str, _spec: TypeSpec, server: Server) -> str:
    shortened = since(server, mysql=(8, 0, 11), mariadb=None)
    return "geomcollection" if shortened else "geometrycollection"


def _vector(_kind: str, spec: TypeSpec, server: Server) -> str:
    given = spec.arguments[0] if spec.arguments else None if server.mariadb else _DIMENSIONS
    if not given or given > _MOST_DIMENSIONS:
        raise TypeRefused(f"a vector has 1 to {_MOST_DIMENSIONS} dimensions, not {given}")
    return f"vector({given})"


def _alone(kind: str, _spec: TypeSpec, _server: Server) -> str:
    return kind


_Plain = Callable[[str, TypeSpec, Server], str]

_PLAIN: dict[str, _Plain] = {
    **dict.fromkeys(number_types.INTEGERS, number_types.integer),
    "boolean": _boolean,
    "serial": _bigint_of_serial,
    "decimal": lambda _, spec, server: number_types.decimal(spec, server),
    "float": number_types.floating,
    "double": number_types.floating,
    "bit": lambda _, spec, server: number_types.bit(spec, server),
    "year": lambda _, spec, server: number_types.year(spec, server),
    **dict.fromkeys(("time", "datetime", "timestamp"), _moment),
    "geometrycollection": _geometry_collection,
    "vector": _vector,
    **dict.fromkeys(("date", "inet4", "inet6", "uuid"), _alone),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon"), _alone),
    **dict.fromkeys(("multipoint", "multilinestring", "multipolygon"), _alone),
}
"""Formats of the types without a character set."""
