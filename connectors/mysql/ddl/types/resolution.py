"""Resolution of a data type for a server: its text in ``information_schema``, its character set and collation.

Invariant: the text is the server's own, digit for digit, for its version and mode; a type that the
server would refuse is refused.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.charset.charsets import BINARY
from connectors.mysql.ddl import collations
from connectors.mysql.ddl.definition import Column, Database, Server, Session
from connectors.mysql.ddl.types.enum_labels import exactly, labelled, labels_in, read_again
from connectors.mysql.ddl.types.names import KINDS, NATIONAL, OF_ORACLE, ORACLE_ONLY
from connectors.mysql.ddl.types.text import (
    OF_TEXT,
    as_kept,
    holding,
    is_strict,
    label_type,
    sized,
    text_type,
)
from connectors.mysql.server_version import since
from connectors.mysql.types.integers import printed_integer
from connectors.mysql.types.registry import sql_type
from connectors.mysql.types.strings import TEXTS
from connectors.mysql.types.type_spec import ResolvedType, TypeRefused, TypeSpec

__all__ = ["NAMES", "ResolvedType", "TypeRefused", "TypeSpec", "converted", "resolved"]

NAMES = frozenset(KINDS)
"""Every name that a TypeSpec may have; names of several words must be tried before their prefixes."""


def resolved(
    spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """The type as a server stores it; ``inherited`` is the table's character set and collation.

    Raise TypeRefused, or CharsetRefused for an unknown character set or collation.
    """
    kind, spec = _kind(spec, server, session)
    if kind == "serial":
        unsigned = TypeSpec(name="bigint", unsigned=True)
        return ResolvedType(type=printed_integer("bigint", unsigned, server), serial=True)
    if kind == "boolean":
        one_digit = replace(spec, arguments=(1,))
        return ResolvedType(type=printed_integer("tinyint", one_digit, server))
    if (printed := sql_type(kind).printed) is not None:
        return ResolvedType(type=printed(spec, server))
    if kind == "json":
        return _json(spec, inherited, server, session)
    make = label_type if kind in ("enum", "set") else text_type
    return make(kind, spec, inherited, server=server, session=session)


def _kind(spec: TypeSpec, server: Server, session: Session) -> tuple[str, TypeSpec]:
    """The meaning of the type's name here, and the type with the character set that the name implies."""
    name, kind = spec.name, KINDS.get(spec.name)
    mysql, mariadb = sql_type(name).since
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
    """Whether a type has the meaning that it has in another database, such as Oracle."""
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
    return text_type("longtext", spec, own, server=server, session=session)


def converted(column: Column, to: Database, *, server: Server, session: Session) -> Column:
    """A column after the conversion of its table; raise TypeRefused if it does not fit.

    Invariant: a text column keeps its length in characters, and becomes a larger type if its bytes need
    a larger type; byte columns are unchanged.
    """
    if column.charset is None:
        return column
    name, exact = column.type.partition("(")[0], ""
    if name in ("enum", "set"):
        labels_before = labels_in(column.exact_type or column.type)
        labels = read_again(labels_before, column.charset, to.charset)
        strict = is_strict(session)
        if column.exact_type or "?" not in column.type:
            exact = exactly(name, labels, to.charset)
        new = labelled(name, labels, to.charset, server=server, strict=strict)
    else:
        # MariaDB prints COMPRESSED after the type.
        plain, _, note = column.type.partition(" ")
        new = _text(column, plain, to, server=server, session=session) + (
            f" {note}" if note else ""
        )
    kept = as_kept(new, to)
    return replace(
        column,
        type=kept.type,
        exact_type=exact,
        charset=kept.charset,
        collation=kept.collation,
    )


def _text(column: Column, plain: str, to: Database, *, server: Server, session: Session) -> str:
    name, _, length = plain.removesuffix(")").partition("(")
    if length:
        arguments = (int(length),)
        return sized(name, arguments, to.charset, server=server, session=session)
    if name == "longtext":
        return name
    if name not in OF_TEXT or column.charset is None:
        raise TypeRefused(f"{column.type} is no type of text")
    characters = TEXTS[name] // collations.longest(column.charset)
    return holding(characters * collations.longest(to.charset))
