"""Text and bytes, as a server prints their types: CHAR to LONGTEXT, BINARY to LONGBLOB, ENUM and SET.

Invariant: a text type whose character set is ``binary`` is a byte type; lengths are in characters,
limits in bytes.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.charset.charsets import BINARY
from connectors.mysql.ddl import collations
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.ddl.types.enum_labels import exactly, labelled
from connectors.mysql.server_version import since
from connectors.mysql.types.strings import TEXTS
from connectors.mysql.types.type_spec import ResolvedType, TypeRefused, TypeSpec

OF_TEXT = {
    "char": "binary", "varchar": "varbinary",
    "tinytext": "tinyblob", "text": "blob", "mediumtext": "mediumblob", "longtext": "longblob",
}  # fmt: skip
"""Each text type with its equivalent for bytes."""

OF_BYTES = {of_bytes: of_text for of_text, of_bytes in OF_TEXT.items()}

_MOST_CHARACTERS, _LONGEST_LENGTH = 255, 0xFFFFFFFF
_STRICT = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"}
_ATTRIBUTES = {"unicode": "ucs2", "byte": BINARY}
_COMPRESSED = " /*M!100301 COMPRESSED*/"


def text_type(
    name: str, spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """Return a type of text or bytes; ``name`` is in ``OF_TEXT`` or ``OF_BYTES``."""
    if name in OF_BYTES:
        own = _of_bytes(spec, inherited, server, session)
        name = OF_BYTES[name]
    else:
        own = of_column(spec, inherited, server=server, session=session)
    name = sized(name, spec.arguments, own.charset, server=server, session=session)
    if spec.compressed:
        name += _COMPRESSED
    return as_kept(name, own)


def label_type(
    name: str, spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """An ENUM or a SET."""
    own = of_column(spec, inherited, server=server, session=session)
    printed = labelled(name, spec.labels, own.charset, server=server, strict=is_strict(session))
    return replace(as_kept(printed, own), exact=exactly(name, spec.labels, own.charset))


def as_kept(column_type: str, own: Database) -> ResolvedType:
    """Return a text type with its character set; with ``binary``, the byte type, without a character set."""
    if own.charset != BINARY:
        return ResolvedType(type=column_type, charset=own.charset, collation=own.collation)
    word = column_type.partition("(")[0].partition(" ")[0]
    return ResolvedType(type=OF_TEXT.get(word, word) + column_type[len(word) :])


def of_column(spec: TypeSpec, inherited: Database, *, server: Server, session: Session) -> Database:
    """The character set and collation of a column of text; raise CharsetRefused."""
    named = None
    if spec.charset is not None:
        word = _ATTRIBUTES.get(spec.charset, spec.charset)
        named = collations.charset_named(word, server=server)
    found = inherited
    if spec.collation is not None:
        found = collations.collated(
            named, spec.collation, inherited, server=server, session=session
        )
    elif named is not None:
        first = collations.default_collation(named, server=server, session=session)
        found = Database(charset=named, collation=first)
    return _binary(spec, found, server) if spec.binary else found


def _binary(spec: TypeSpec, found: Database, server: Server) -> Database:
    """The result of the attribute BINARY; raise CharsetRefused if it conflicts with COLLATE.

    In MySQL, BINARY takes precedence over COLLATE, unless the column has a character set of its own: then
    COLLATE takes precedence, before 8.0 only if ASCII or UNICODE gave that character set. MariaDB refuses
    BINARY together with COLLATE unless they agree. Source: sql/sql_yacc.yy, opt_charset_with_opt_binary.
    """
    if server.mariadb and spec.collation is not None:
        if not found.collation.endswith("_bin"):
            raise collations.CharsetRefused(f"BINARY and COLLATE {spec.collation} are in conflict")
        return found
    has_both = spec.charset is not None and spec.collation is not None
    if has_both and (spec.by_word or since(server, mysql=(8, 0, 0), mariadb=None)):
        return found
    return collations.binary_collation(found.charset, server=server)


def _of_bytes(spec: TypeSpec, inherited: Database, server: Server, session: Session) -> Database:
    collation = spec.collation
    if collation is None or collation.lower() == BINARY:
        return Database(charset=BINARY, collation=BINARY)
    # In MariaDB, a byte type with a collation becomes text.
    named = None if server.mariadb else BINARY
    return collations.collated(named, collation, inherited, server=server, session=session)


def sized(
    name: str, arguments: tuple[int, ...], charset: str, *, server: Server, session: Session
) -> str:
    """Return a text type with its length in characters; a length that is too long may change the type."""
    if len(arguments) > 1 or (arguments and name not in ("char", "varchar", "text")):
        raise TypeRefused(f"{name} takes no such length")
    if arguments and arguments[0] > _LONGEST_LENGTH:
        raise TypeRefused(f"a length of {arguments[0]} is more than {_LONGEST_LENGTH}")
    if name == "char":
        return _char(arguments[0] if arguments else 1)
    if name == "varchar":
        return _varchar(arguments, charset, server=server, session=session)
    if not arguments or (not arguments[0] and not since(server, mysql=(8, 0, 0), mariadb=None)):
        return name
    return holding(arguments[0] * collations.longest(charset))


def _char(length: int) -> str:
    if length > _MOST_CHARACTERS:
        raise TypeRefused(f"char({length}) is longer than {_MOST_CHARACTERS} characters")
    return f"char({length})"


def _varchar(arguments: tuple[int, ...], charset: str, *, server: Server, session: Session) -> str:
    if not arguments:
        raise TypeRefused("varchar takes a length")
    # MariaDB subtracts other bytes that the row needs.
    most, size = 65532 if server.mariadb else 65535, arguments[0] * collations.longest(charset)
    if size <= most:
        return f"varchar({arguments[0]})"
    if is_strict(session):
        raise TypeRefused(f"varchar({arguments[0]}) is longer than {most} bytes in {charset}")
    return holding(size)


def holding(size: int) -> str:
    """Return the smallest TEXT type that holds this number of bytes."""
    return next((name for name, most in TEXTS.items() if size <= most), "longtext")


def is_strict(session: Session) -> bool:
    """Return whether values that do not fit are refused rather than changed."""
    return not _STRICT.isdisjoint(session.sql_mode)
