"""Column types as servers resolve them: their text in ``information_schema``, character set and collation.

Invariant: the text is the server's own, digit for digit, for its version and mode; a type that the
server would refuse is refused. A name is known if a server of some version and mode accepts it. A text type
whose character set is ``binary`` is a byte type; lengths are in characters, limits in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from connectors.mysql.charsets import BINARY, text_decoder, text_encoder
from connectors.mysql.ddl import collations
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.server_version import since
from connectors.mysql.types.integers import printed_integer
from connectors.mysql.types.registry import sql_type, sql_types
from connectors.mysql.types.strings import TEXTS
from connectors.mysql.types.type_spec import Label, Refused, ResolvedType, TypeSpec

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


_MOST = {"enum": 65535, "set": 64}
_ESCAPES = str.maketrans({"'": "''", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r"})


def labelled(
    name: str, labels: Sequence[Label], charset: str, *, server: Server, strict: bool
) -> str:
    """Return the type as printed: ``enum('a','b')``; raise Refused for labels that a server refuses."""
    kept = [_kept(label, charset) for label in labels]
    if not 0 < len(kept) <= _MOST[name]:
        raise Refused(f"{name} takes 1 to {_MOST[name]} labels, not {len(kept)}")
    if name == "set" and any("," in label for label in kept):
        raise Refused("a label of a set holds a comma")
    if strict and len(set(kept)) < len(kept):
        raise Refused(f"two labels of the {name} are equal")
    if charset == BINARY:
        return f"{name}({','.join(_bytes(label, name, server) for label in kept)})"
    return f"{name}({','.join(map(_quoted, kept))})"


def exactly(name: str, labels: Sequence[Label], charset: str) -> str:
    """Return the type with its exact labels; empty if ``labelled`` prints no question mark."""
    if charset == BINARY:
        return ""
    kept = [_kept(label, charset) for label in labels]
    if not any("?" in label or max(label, default="") > "\uffff" for label in kept):
        return ""
    quoted = ",".join(f"'{label.translate(_ESCAPES)}'" for label in kept)
    return f"{name}({quoted})"


def _bytes(label: str, name: str, server: Server) -> str:
    """A label of bytes; from MySQL 8.0 on, bytes of an ENUM that are not text are hexadecimal digits.

    Raise Refused where a server would print only a part of such bytes.
    """
    if all(char <= "\uffff" and not "\udc80" <= char <= "\udcff" for char in label):
        return _quoted(label)
    if name == "enum" and since(server, mysql=(8, 0, 0), mariadb=None):
        return f"x'{label.encode(errors='surrogateescape').hex()}'"
    raise Refused(f"a label of the {name} is bytes that are no text")


def labels_in(column_type: str) -> list[str]:
    """The labels in the output of ``labelled``."""
    inside = column_type.partition("(")[2].rpartition(")")[0]
    found, at = [], 0
    while at < len(inside):
        label, at = _unquoted(inside, at + 1)
        found.append(label)
        at += 1  # the comma
    return found


def read_again(labels: Sequence[str], old: str, new: str) -> list[str]:
    """Return labels whose bytes a server reinterprets, without conversion, in another character set.

    ALTER TABLE … CONVERT TO does so. Raise Refused if the bytes are invalid in that character set.
    """
    encode = text_encoder(old) or _from_utf8
    decode = text_decoder(new) or bytes.decode
    try:
        return [decode(encode(label)) for label in labels]
    except UnicodeError:
        raise Refused(f"the labels have no meaning in {new}") from None


def _kept(label: Label, charset: str) -> str:
    if charset == BINARY:
        raw = label if isinstance(label, bytes) else label.encode()
        return raw.decode(errors="surrogateescape")
    if isinstance(label, bytes):
        text = _read(label, charset)
    else:
        text = "".join(char if _holds(charset, char) else "?" for char in label)
    return text.rstrip(" ")


def _read(label: bytes, charset: str) -> str:
    decode = text_decoder(charset)
    if decode is None:
        raise Refused(f"the characters of {charset} are not known")
    try:
        return decode(label)
    except UnicodeError:
        raise Refused(f"0x{label.hex()} is no text in {charset}") from None


def _holds(charset: str, char: str) -> bool:
    encode = text_encoder(charset)
    if encode is None:
        return True
    try:
        encode(char)
    except UnicodeError:
        return False
    return True


def _from_utf8(label: str) -> bytes:
    return label.encode()


def _quoted(label: str) -> str:
    printed = "".join(char if char <= "\uffff" else "?" for char in label)
    return f"'{printed.translate(_ESCAPES)}'"


_UNESCAPED = {"0": "\0", "n": "\n", "r": "\r"}


def _unquoted(text: str, at: int) -> tuple[str, int]:
    """A label, starting after its opening quote, and the offset after the closing one."""
    found: list[str] = []
    while True:
        char = text[at]
        if char == "'" and text[at : at + 2] != "''":
            return "".join(found), at + 1
        if char == "\\":
            found.append(_UNESCAPED.get(text[at + 1], text[at + 1]))
        else:
            found.append(char)
        at += 2 if char in "'\\" else 1


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
    """The character set and collation of a column of text; raise Refused."""
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
    """The result of the attribute BINARY; raise Refused if it conflicts with COLLATE.

    In MySQL, BINARY takes precedence over COLLATE, unless the column has a character set of its own: then
    COLLATE takes precedence, before 8.0 only if ASCII or UNICODE gave that character set. MariaDB refuses
    BINARY together with COLLATE unless they agree. Source: sql/sql_yacc.yy, opt_charset_with_opt_binary.
    """
    if server.mariadb and spec.collation is not None:
        if not found.collation.endswith("_bin"):
            raise Refused(f"BINARY and COLLATE {spec.collation} are in conflict")
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
        raise Refused(f"{name} takes no such length")
    if arguments and arguments[0] > _LONGEST_LENGTH:
        raise Refused(f"a length of {arguments[0]} is more than {_LONGEST_LENGTH}")
    if name == "char":
        return _char(arguments[0] if arguments else 1)
    if name == "varchar":
        return _varchar(arguments, charset, server=server, session=session)
    if not arguments or (not arguments[0] and not since(server, mysql=(8, 0, 0), mariadb=None)):
        return name
    return holding(arguments[0] * collations.longest(charset))


def _char(length: int) -> str:
    if length > _MOST_CHARACTERS:
        raise Refused(f"char({length}) is longer than {_MOST_CHARACTERS} characters")
    return f"char({length})"


def _varchar(arguments: tuple[int, ...], charset: str, *, server: Server, session: Session) -> str:
    if not arguments:
        raise Refused("varchar takes a length")
    # MariaDB subtracts other bytes that the row needs.
    most, size = 65532 if server.mariadb else 65535, arguments[0] * collations.longest(charset)
    if size <= most:
        return f"varchar({arguments[0]})"
    if is_strict(session):
        raise Refused(f"varchar({arguments[0]}) is longer than {most} bytes in {charset}")
    return holding(size)


def holding(size: int) -> str:
    """Return the smallest TEXT type that holds this number of bytes."""
    return next((name for name, most in TEXTS.items() if size <= most), "longtext")


def is_strict(session: Session) -> bool:
    """Return whether values that do not fit are refused rather than changed."""
    return not _STRICT.isdisjoint(session.sql_mode)


NAMES = frozenset(KINDS)
"""Every name that a TypeSpec may have; names of several words must be tried before their prefixes."""


def resolved(
    spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """The type as a server stores it; ``inherited`` is the table's character set and collation.

    Raise Refused, also for an unknown character set or collation.
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
        raise Refused(f"there is no type {name!r}")
    if name in NATIONAL:
        spec = replace(spec, charset="utf8mb3")
    oracle = _is_as(spec, "ORACLE", server, session)
    if name in ORACLE_ONLY and not oracle:
        raise Refused(f"type {name!r} exists only in the mode ORACLE")
    if oracle:
        kind = OF_ORACLE.get(name, kind)
    if kind == "timestamp" and _is_as(spec, "MAXDB", server, session):
        kind = "datetime"
    if kind == "number":
        kind = "decimal" if spec.arguments else "double"
    if kind == "real":
        kind = "double" if session.sql_mode.isdisjoint({"REAL_AS_FLOAT", "ANSI"}) else "float"
        if len(spec.arguments) == 1:
            raise Refused("real takes no such number")
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
            raise Refused("json has no collation")
        return ResolvedType(type="json")
    own = Database(charset="utf8mb4", collation="utf8mb4_bin")
    own = own if spec.collation is None else inherited
    return text_type("longtext", spec, own, server=server, session=session)
