"""The registry of column types: one record for each type of the binlog, and one for each name in SQL.

Each family's file ends with a call of ``register``. The generators of decoders, the table map, the SELECT of
existing rows and the comparison of definitions read the records.

Invariant: all functions of a record agree: an expression returns what the reader returns for the same bytes,
and a selected row gets the bytes that it has in the binlog. An expression is Python source that refers to
unpacked values and to our own names; it never contains anything from a server. Nothing is substituted: bytes
that are not a value of the type raise an error.
Source: MySQL's sql/field.cc (the pack functions) and libs/mysql/binlog/event/rows_event.h.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import lru_cache
from textwrap import indent
from typing import Any

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import packed
from connectors.mysql.charsets import BINARY, Charsets, exact
from connectors.mysql.server_version import Server, Version
from connectors.mysql.types.type_spec import Refused, TypeSpec


class FieldType(IntEnum):
    """MySQL's column types as the binlog numbers them."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    """MariaDB's, like VARCHAR_COMPRESSED."""
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255
    # Not on the wire: TIMESTAMP, TIME and DATETIME as MariaDB writes them, with a fraction whose
    # number of digits may be unknown. MariaDB's current types are MySQL's.
    MARIADB_TIMESTAMP = 0x107
    MARIADB_TIME = 0x10B
    MARIADB_DATETIME = 0x10C


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """One column in the row images of a table."""

    type: int
    metadata: int
    """Two bytes at most, as the type defines them, low byte first."""
    nullable: bool
    name: str | None = None
    unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[bytes, ...] | None = None
    """The labels of an ENUM or SET, in the column's own character set."""
    geometry_type: int | None = None
    dimensions: int | None = None
    visible: bool | None = None


Reader = Callable[[bytes, int], tuple[Any, int]]
"""Takes a row image and an offset; returns the value there as on the wire, and the offset after it."""
Convert = Callable[[bytes], bytes]
"""Takes a value's bytes in a packet; returns other bytes for the value, such as those in a row image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column in generated code.

    A value of fixed size is read by ``little`` or ``big``; any other value has a ``length_size``. The
    expression ``value`` gives a str, int or float. In it ``$a``, ``$b`` and so on are what the formats read,
    or ``$a`` the bytes after the length; ``$raw`` is the bytes of a value of fixed size, ``$n`` is ``bound``.
    The bytes after a length are also ``d[s:p]``, and ``$size`` is their number.
    """

    value: str
    little: tuple[str, ...] = ()
    """Struct formats, little-endian."""
    big: tuple[str, ...] = ()
    """Struct formats, big-endian."""
    length_size: int = 0
    is_packed: bool = False
    """Whether the length is a length-encoded integer, of which ``length_size`` is the first byte."""
    bound: Any = None
    is_integer: bool = False
    rule: Callable[[Any], Any] | None = None
    """Applied to the expression's value; with None, the value is published unchanged."""

    @property
    def size(self) -> int:
        """Bytes of a value of fixed size."""
        return struct.calcsize("<" + "".join(self.little or self.big))


Make = Callable[[MappedColumn, Charsets], Field]


class Listed(Enum):
    """The list in a table map's optional metadata that has an entry for each column of a type."""

    NOWHERE = "none"
    NUMBERS = "signs"
    TEXTS = "collations"
    MARIADB_TEXTS = "collations, which MySQL omits"
    LABELS = "collations of labels, and labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogType:
    """A type of the binlog: its form in the table map, in rows, and in packets of selected rows."""

    code: int
    reader: Callable[[MappedColumn, Charsets], Reader]
    """The reader of a row image's value; raises UnsupportedEvent if the column cannot be read."""
    field: Make | None = None
    """The reader as an expression; with None, generated code calls the reader."""
    extent: Callable[[int], tuple[int, int]]
    """Takes a column's metadata; returns the bytes of the value and the bytes of its length, one of them 0."""
    metadata_size: int = 0
    """Bytes of a column's metadata."""
    is_possible: Callable[[int], bool] = lambda _: True
    """Whether a column can have this metadata."""
    listed: Listed = Listed.NOWHERE
    is_blob: bool = False
    """Whether images of ``binlog_row_image=NOBLOB`` may lack columns of this type."""
    text: Callable[[MappedColumn, Charsets], str]
    """The type as ``information_schema`` prints it, without ``unsigned``."""
    has_charset: bool = False
    """Whether columns of this type have a character set, which may be ``binary``."""
    packet_types: frozenset[int] = frozenset()
    """The types by which a result set may describe such a column; if empty, ``code`` alone."""
    packet_size: int = 0
    """The size of a value in a packet, in bytes; 0: a length-encoded integer precedes the value."""
    packet_field: Make | None = None
    """The expression for a value in a packet; with None, the same as in the binlog."""
    packet_text: Callable[[MappedColumn], Convert] = lambda _: bytes
    """A packet's value as text, as in the text protocol, but with all bits of the value."""
    packet_image: Callable[[MappedColumn], Convert] | None = None
    """A packet's value as in a row image; with None, such a column is not selected."""
    literal: Callable[[bytes], str] | None = None
    """Takes the text of a packet's value; returns an SQL expression with the same value.

    With None, the expression is a literal of bytes or text."""
    published_literal: Callable[[MappedColumn, Any], str] | None = None
    """Takes a value as published; returns an SQL expression with the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type as its text describes it, such as ``decimal(12,2) unsigned``."""

    base: str
    numbers: tuple[int, ...] = ()
    is_unsigned: bool = False
    labels: tuple[str, ...] = ()
    """The labels of an ENUM or SET."""

    @property
    def size(self) -> int:
        """The first number in parentheses; 0 if there is none."""
        return self.numbers[0] if self.numbers else 0


Layout = tuple[int, int]
"""Type and metadata, as in MappedColumn."""


ValueOf = Callable[[Any], Any]
"""Converts a value of the envelope to another format, or back; it is never called with NULL."""
Values = Callable[[Kind], ValueOf | None]
"""Returns the function for a column's values; None if the values stay as they are."""
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The forms of values that a Debezium connector is configured for; the defaults are Debezium's."""

    decimal: str = "precise"
    time: str = "adaptive_time_microseconds"
    bigint_unsigned: str = "long"
    binary: str = "bytes"
    decimal_format: str = "base64"
    """The format of the value converter; keys always have base64."""
    adjust_years: bool = True
    """Whether years of two digits are adjusted to 1970 through 2069."""


@dataclass(frozen=True, slots=True)
class Form:
    """A column in records of Kafka Connect: its schema, and the function for its values.

    Without a function, the values stay as they are.
    """

    schema: Schema
    value: ValueOf | None = None


def _as_they_are(_kind: Kind) -> ValueOf | None:
    return None


_OTHER_OF_JDBC = 1111


class Comparable(Enum):
    """Families of types, within which a filter compares values."""

    NOT = "not"
    EXACT = "exact numbers"
    DOUBLE = "floating-point numbers"
    TEXT = "texts"
    TIME = "dates and times"


Since = tuple[Version | None, Version | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlType:
    """A type by its name in SQL, as a server prints it, with the form of its values in each record format.

    The defaults are for a type whose values are text.
    """

    name: str
    synonyms: tuple[str, ...] = ()
    """Its other names in statements."""
    since: Since = ((0, 0, 0), (0, 0, 0))
    """The first versions of MySQL and MariaDB with this type; None: no version has it."""
    printed: Callable[[TypeSpec, Server], str] | None = None
    """The type of a column that a statement defines, as a server prints it; raises Refused.

    None if the text depends on a character set, or on labels."""
    layout: Callable[[Kind, bool], Layout | None] = lambda _kind, _mariadb: None
    """A column's type and metadata in the binlog; the second argument is whether the server is MariaDB.

    Returns None if the server lacks the type, or if the form of its rows is not known."""
    counts_characters: bool = False
    """Whether the size is a number of characters in SQL, but the number of their bytes in the binlog."""
    form: str = ""
    """What its values are in a record: types of the same form are written alike. Empty: the type's own name."""
    comparable: Comparable = Comparable.NOT
    """How a filter compares its values."""
    avro: Callable[[Kind], Any] = lambda _: "string"
    """The type of an Avro schema."""
    avro_value: Values = _as_they_are
    """The values as fastavro expects them."""
    connect: Callable[[Kind, bool, Modes], Form] = lambda _kind, _nullable, _modes: Form(
        {"type": "string"}
    )
    """The form in a Debezium connector's records; the second argument is whether the column may be NULL."""
    connect_modes: Callable[[Kind, Modes], tuple[str, ...]] = lambda _kind, _modes: ()
    """The names of the modes that determine this form, given the others."""
    jdbc: int = _OTHER_OF_JDBC
    """The number of ``java.sql.Types``, as Canal chooses it."""
    jdbc_of_large: tuple[int, int] | None = None
    """The smallest unsigned value that no signed column can hold, and the number for values from it on."""
    canal_text: Values = _as_they_are
    """The values as Canal writes them, as text."""
    canal_value: Values = _as_they_are
    """The inverse of ``canal_text``."""
    maxwell: Values = _as_they_are
    """The values as Maxwell writes them."""
    maxwell_value: Values = _as_they_are
    """The inverse of ``maxwell``, for values as parsed; numbers are parsed to their own text."""


_CODES: dict[int, BinlogType] = {}
_NAMES: dict[str, SqlType] = {}
NAMES: dict[str, Any] = {"packed": packed, "from_bytes": int.from_bytes}
"""The names that expressions refer to."""


def register(
    *types: BinlogType, named: Iterable[SqlType] = (), names: Mapping[str, Any] | None = None
) -> None:
    """Add a family's types, and the names that its expressions refer to; raise ValueError for a known type."""
    named = tuple(named)
    taken = [one.name for one in named if one.name in _NAMES]
    taken += [str(one.code) for one in types if one.code in _CODES]
    if taken:
        raise ValueError(f"registered twice: {', '.join(taken)}")
    _CODES.update({one.code: one for one in types})
    _NAMES.update({one.name: one for one in named})
    NAMES.update(names or {})


def codes(*listed: Listed) -> frozenset[int]:
    """Return the types with an entry in these lists of the optional metadata."""
    return frozenset(one.code for one in _CODES.values() if one.listed in listed)


def binlog_type(code: int) -> BinlogType | None:
    """Return the record of a type; None for an unknown type."""
    return _CODES.get(code)


def sql_type(name: str) -> SqlType:
    """Return the record of a name; for an unknown name, that of a text type without a layout."""
    return _NAMES.get(name) or SqlType(name=name)


def sql_types() -> Iterable[SqlType]:
    """Return the records of all names."""
    return _NAMES.values()


_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?( unsigned)?", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def kind_of(column_type: str) -> Kind:
    """Return the kind of a type such as ``enum('a','b')``; raise ValueError for a text that is no type.

    The text has the form of the schemas topic (``docs/wire.md``): lower case, with labels in which only quotes
    are doubled.
    """
    match = _TYPE.fullmatch(column_type)
    if match is None:
        raise ValueError(f"{column_type!r} is not the type of a column")
    base, arguments, unsigned = match[1], match[2] or "", match[3]
    has_labels = base in ("enum", "set")
    return Kind(
        base=base,
        numbers=() if has_labels else tuple(map(int, re.findall(r"\d+", arguments))),
        is_unsigned=unsigned is not None,
        labels=tuple(one.replace("''", "'") for one in _LABEL.findall(arguments))
        if has_labels
        else (),
    )


def extent(column: MappedColumn) -> tuple[int, int]:
    """Return the bytes of a column's value and the bytes of its length; one of them is 0."""
    found = _CODES.get(column.type)
    if found is None:
        raise ValueError(f"a column has the unknown type {column.type}")
    return found.extent(column.metadata)


def reader_for(column: MappedColumn, charsets: Charsets) -> Reader:
    """Return the reader of a column's values; raise UnsupportedEvent for a type without a reader."""
    return _known(column).reader(column, charsets)


def _known(column: MappedColumn) -> BinlogType:
    found = _CODES.get(column.type)
    if found is None:
        raise UnsupportedEvent(
            f"column {column.name!r} has the type {column.type}, which cannot be read yet",
            remedy="Leave the table out with a filter, or change the column's type.",
        )
    return found


def column_type(column: MappedColumn, charsets: Charsets) -> str:
    """Return a type as ``information_schema`` prints it, such as ``decimal(12,2) unsigned``, from the binlog.

    Display widths and ZEROFILL are missing: they are not in the binlog, and do not change a value. Raise
    UnsupportedEvent for an unknown type.
    """
    text = _known(column).text(column, charsets)
    return f"{text} unsigned" if column.unsigned and column.type != FieldType.YEAR else text


def column_charset(column: MappedColumn, charsets: Charsets) -> str | None:
    """The character set of text; None for numbers, times and bytes."""
    found = _CODES.get(column.type)
    if found is None or not found.has_charset:
        return None
    charset = charset_of(column, charsets)
    return None if charset == BINARY and found.listed is not Listed.LABELS else charset


def charset_of(column: MappedColumn, charsets: Charsets) -> str:
    """The character set of a string column; raise UnsupportedEvent if it is unknown."""
    if column.collation is None:
        raise UnsupportedEvent(
            f"the binlog does not state the character set of column {column.name!r}",
            remedy="Run SET GLOBAL binlog_row_metadata = 'FULL' on the server, then restart.",
        )
    try:
        return charsets.name(column.collation)
    except KeyError:
        raise UnsupportedEvent(
            f"column {column.name!r} has collation {column.collation}, which the server does not list"
        ) from None


class Remembered(dict[Any, Any]):
    """Values by their bytes, computed on first use; cleared when there are too many."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: Any) -> Any:
        if len(self) > 10_000:
            self.clear()
        value = self[raw] = self._make(raw)
        return value


def field_of(
    column: MappedColumn, charsets: Charsets, rule: Callable[[Any], Any] | None = None
) -> Field:
    """The field of a column; raise UnsupportedEvent if its type or character set cannot be read."""
    return _ruled(_field(column, charsets), rule)


def packet_field(
    column: MappedColumn, charsets: Charsets, rule: Callable[[Any], Any] | None = None
) -> Field:
    """Return the field of a column in packets; raise UnsupportedEvent like ``field_of``."""
    made = _known(column)
    make = made.packet_field
    field = _field(column, charsets) if make is None else make(column, charsets)
    if not made.packet_size:
        field = replace(field, little=(), big=(), length_size=1, is_packed=True)
    return _ruled(field, rule)


def _ruled(field: Field, rule: Callable[[Any], Any] | None) -> Field:
    return field if rule is None else replace(field, rule=rule, is_integer=False)


def _field(column: MappedColumn, charsets: Charsets) -> Field:
    made = _known(column)
    reader = made.reader(column, charsets)
    if made.field is not None:
        return made.field(column, charsets)
    size, length_size = made.extent(column.metadata)

    def through_reader(raw: bytes) -> Any:
        prefix = len(raw).to_bytes(length_size, "little") if length_size else b""
        return exact(reader(prefix + raw, 0)[0])

    if length_size:
        return Field(value="$n($a)", length_size=length_size, bound=through_reader)
    if size <= _FEW_BYTES:
        return Field(value="$n[$a]", little=(f"{size}s",), bound=Remembered(through_reader))
    return Field(value="$n($a)", little=(f"{size}s",), bound=through_reader)


_FEW_BYTES = 3
"""Values of at most this many bytes are likely to recur."""


def fixed(size: int) -> Callable[[int], tuple[int, int]]:
    """The extent of values of one size."""
    return lambda _: (size, 0)


def by_metadata(metadata: int) -> tuple[int, int]:
    """The extent of values whose metadata is the size of their length."""
    return 0, metadata


def within(least: int, most: int) -> Callable[[int], bool]:
    """Return the condition that metadata, as a number, is in a range."""
    return lambda metadata: least <= metadata <= most


def plain(name: str) -> Callable[[MappedColumn, Charsets], str]:
    """The text of a type without numbers."""
    return lambda _column, _charsets: name


def unchanged(_column: MappedColumn) -> Convert:
    """The same bytes in a packet and in a row image."""
    return bytes


def sized(column: MappedColumn) -> Convert:
    """Return the function that puts a length before a packet's bytes, as in a row image.

    The function raises OverflowError for too many bytes.
    """
    _, length_size = extent(column)
    return lambda raw: len(raw).to_bytes(length_size, "little") + raw


_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
_TIME = re.compile(rb"[-0-9:. ]+")


def number_literal(text: bytes) -> str:
    """Return a number in SQL; raise ValueError for any other text."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("no number")
    return text.decode()


def time_literal(text: bytes) -> str:
    """Return a date or time in SQL; raise ValueError for any other text."""
    if _TIME.fullmatch(text) is None:
        raise ValueError("no date or time")
    return f"'{text.decode()}'"


def printed_as(name: str) -> Callable[[TypeSpec, Server], str]:
    """Return the function ``printed`` of a type that is printed by its name alone."""
    return lambda _spec, _server: name


def signs(spec: TypeSpec) -> str:
    """Return the end of a numeric type's text: `` unsigned``, `` unsigned zerofill`` or nothing."""
    if spec.zerofill:
        return " unsigned zerofill"
    return " unsigned" if spec.unsigned else ""


def only_number(spec: TypeSpec) -> int:
    """Return the only number of a type, or 0 if it has no number; raise Refused if it has several."""
    if len(spec.arguments) > 1:
        raise Refused(f"{spec.name} takes one number")
    return spec.arguments[0] if spec.arguments else 0


@lru_cache(maxsize=512)
def _factory(source: str, names: tuple[str, ...]) -> Callable[..., Any]:
    parameters = ", ".join(names)
    whole = f"def factory({parameters}):\n{indent(source, '    ')}\n    return made"
    namespace: dict[str, Any] = {}
    exec(compile(whole, "<generated>", "exec"), namespace)  # noqa: S102 - see function_of
    made: Callable[..., Any] = namespace["factory"]
    return made


def function_of(source: str, namespace: Mapping[str, Any]) -> Any:
    """The function ``made`` that the source defines, with the names of the namespace as variables.

    Invariant: source consists only of numbers and our own names, so that tables and documents of the same
    layout share its code; values from a server are in the namespace only. The names are variables of an
    enclosing function, not globals: the interpreter specializes shared code for one set of globals, and
    would specialize it again whenever rows of another table follow.
    """
    return _factory(source, tuple(namespace))(*namespace.values())
