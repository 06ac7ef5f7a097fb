"""Integers, years and bits.

Invariant: a number on the wire is exactly the number in the table, and bits keep leading zeros.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import read_bytes
from connectors.mysql.charsets import Charsets
from connectors.mysql.server_version import Server, since
from connectors.mysql.types.decimals import avro_decimal, connect_decimal, written
from connectors.mysql.types.registry import (
    BinlogType,
    Comparable,
    Convert,
    Field,
    FieldType,
    Form,
    Kind,
    Layout,
    Listed,
    MappedColumn,
    Modes,
    Reader,
    SqlType,
    ValueOf,
    fixed,
    number_literal,
    only_number,
    plain,
    register,
    signs,
    unchanged,
)
from connectors.mysql.types.type_spec import Refused, TypeSpec

_T = FieldType


def published_integer(_column: MappedColumn, value: Any) -> str:
    """A number of a record as a literal."""
    return str(int(value))


def _integer(code: FieldType, width: int, formats: str) -> BinlogType:
    """One of TINYINT to BIGINT; ``formats`` are its struct formats, signed and unsigned."""

    def reader(column: MappedColumn, _charsets: Charsets) -> Reader:
        if column.unsigned is None:
            raise UnsupportedEvent(
                f"the binlog does not state whether column {column.name!r} is unsigned",
                remedy="Upgrade the server, or leave the table out with a filter.",
            )
        signed = not column.unsigned

        def read(data: bytes, at: int) -> tuple[int, int]:
            raw, end = read_bytes(data, at, width)
            return int.from_bytes(raw, "little", signed=signed), end

        return read

    def field(column: MappedColumn, _charsets: Charsets) -> Field:
        format_ = formats[1 if column.unsigned else 0]
        return Field(value="$a", little=(format_,), is_integer=True)

    def text(column: MappedColumn) -> Convert:
        signed = not column.unsigned
        return lambda raw: b"%d" % int.from_bytes(raw, "little", signed=signed)

    return BinlogType(
        code=code,
        reader=reader,
        field=_int24_field if code == _T.INT24 else field,
        extent=fixed(width),
        listed=Listed.NUMBERS,
        text=plain(_NAMES[code]),
        packet_size=4 if code == _T.INT24 else width,
        packet_field=field if code == _T.INT24 else None,
        packet_text=text,
        packet_image=_int24_image if code == _T.INT24 else unchanged,
        literal=number_literal,
        published_literal=published_integer,
    )


INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
"""The integer types, each with its size in bits."""
_NAMES = dict(zip((_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG), INTEGERS, strict=True))


def _int24_field(column: MappedColumn, _charsets: Charsets) -> Field:
    high = "B" if column.unsigned else "b"
    return Field(value="($b << 16 | $a)", little=("H", high), is_integer=True)


def _int24_image(column: MappedColumn) -> Convert:
    """The three bytes of a row image, from the four bytes of a packet."""
    signed = not column.unsigned

    def image(raw: bytes) -> bytes:
        return int.from_bytes(raw, "little", signed=signed).to_bytes(3, "little", signed=signed)

    return image


def _year(_column: MappedColumn, _charsets: Charsets) -> Reader:
    """One byte, years since 1900; 0 is the year 0."""

    def read(data: bytes, at: int) -> tuple[int, int]:
        return (1900 + data[at] if data[at] else 0), at + 1

    return read


def _year_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("B",), bound=[0, *range(1901, 2156)])


_YEARS = {year: year for year in (0, *range(1901, 2156))}
_YEAR_BYTES = {year.to_bytes(2, "little"): bytes([year and year - 1900]) for year in _YEARS}
"""The byte in a row image by the two bytes in a packet."""


def _year_packet(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("H",), bound=_YEARS)


def _year_text(_column: MappedColumn) -> Convert:
    return lambda raw: b"%04d" % int.from_bytes(raw, "little")


def _year_image(_column: MappedColumn) -> Convert:
    return _YEAR_BYTES.__getitem__


def _bit_size(metadata: int) -> tuple[int, int]:
    return (metadata >> 8) + (1 if metadata & 0xFF else 0), 0


def _bit(column: MappedColumn, _charsets: Charsets) -> Reader:
    """Base64 of its bytes, most significant first."""
    size, _ = _bit_size(column.metadata)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        return base64.b64encode(raw).decode(), end

    return read


def _bits(metadata: int) -> int:
    return (metadata >> 8) * 8 + (metadata & 0xFF)


_MOST_BITS = 64


def _is_possible_bit(metadata: int) -> bool:
    return 0 < _bits(metadata) <= _MOST_BITS and metadata & 0xFF < 8


def _bit_text(column: MappedColumn, _charsets: Charsets) -> str:
    return f"bit({_bits(column.metadata)})"


def _bit_image(column: MappedColumn) -> Convert:
    size, _ = _bit_size(column.metadata)

    def image(raw: bytes) -> bytes:
        if len(raw) != size:
            raise ValueError(f"{len(raw)} bytes, {size} expected")
        return raw

    return image


def _bit_literal(raw: bytes) -> str:
    # Plus 0, a hexadecimal literal is a number, and is compared as a number.
    return f"(X'{raw.hex()}' + 0)"


def _published_bit(_column: MappedColumn, value: Any) -> str:
    return _bit_literal(base64.b64decode(value, validate=True))


# --- statements ---------------------------------------------------------------------------------------------
# A width that the server's version no longer prints is omitted; a width that it would refuse is refused.


_WIDTHS = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
}  # fmt: skip
"""Default display widths: signed, unsigned."""
_MOST_WIDTH = 255


def printed_integer(name: str, spec: TypeSpec, server: Server) -> str:
    """``int(11)``, or ``int`` if the version has no display widths."""
    given = only_number(spec)
    if given > _MOST_WIDTH:
        raise Refused(f"a display width of {given} is more than {_MOST_WIDTH}")
    unsigned = spec.unsigned or spec.zerofill
    width = given or _WIDTHS[name][unsigned]
    boolean = name == "tinyint" and width == 1 and not unsigned
    if _has_no_widths(server) and not boolean and not spec.zerofill:
        return name + signs(spec)
    return f"{name}({width}){signs(spec)}"


def _printed_bit(spec: TypeSpec, server: Server) -> str:
    """The type as printed, such as ``bit(1)``."""
    size = only_number(spec)
    if spec.arguments and not size and since(server, mysql=(5, 7, 0), mariadb=None):
        raise Refused("bit(0) is no type")
    if size > _MOST_BITS:
        raise Refused(f"bit({size}) has more than {_MOST_BITS} bits")
    return f"bit({size or 1})"


def _printed_year(spec: TypeSpec, server: Server) -> str:
    """``year(4)``, or ``year`` if the version has no display widths; ``year(2)`` was formerly another type."""
    width = only_number(spec) if spec.arguments else 4
    if width != 4 and since(server, mysql=(5, 7, 5), mariadb=None):
        raise Refused(f"year({width}) is no type")
    if width == 2 and not since(server, mysql=(5, 6, 6), mariadb=None):
        return "year(2)"
    return "year" if _has_no_widths(server) else "year(4)"


def _has_no_widths(server: Server) -> bool:
    """Whether a server prints integers and years without display widths."""
    return since(server, mysql=(8, 0, 19), mariadb=None)


# --- records in other formats -----------------------------------------------------------------------------


def _text(_kind: Kind) -> ValueOf:
    return str


def _number(_kind: Kind) -> ValueOf:
    return int


def _connect(signed: str, unsigned: str) -> Callable[[Kind, bool, Modes], Form]:
    return lambda kind, _nullable, _modes: Form({"type": unsigned if kind.is_unsigned else signed})


def _named(
    code: FieldType,
    connect: Callable[[Kind, bool, Modes], Form],
    *,
    synonyms: tuple[str, ...],
    jdbc: int,
    jdbc_of_large: int,
    connect_modes: Callable[[Kind, Modes], tuple[str, ...]] = lambda _kind, _modes: (),
    avro: Callable[[Kind], Any] = lambda _: "int",
    avro_value: Callable[[Kind], ValueOf | None] = lambda _: None,
) -> SqlType:
    return SqlType(
        name=_NAMES[code],
        synonyms=synonyms,
        printed=lambda spec, server: printed_integer(_NAMES[code], spec, server),
        layout=lambda _kind, _mariadb: (code, 0),
        form="number",
        comparable=Comparable.EXACT,
        avro=avro,
        avro_value=avro_value,
        connect=connect,
        connect_modes=connect_modes,
        jdbc=jdbc,
        jdbc_of_large=(2 ** (INTEGERS[_NAMES[code]] - 1), jdbc_of_large),
        canal_text=_text,
        canal_value=_number,
    )


def _avro_of_int(kind: Kind) -> str:
    return "long" if kind.is_unsigned else "int"


def _avro_of_bigint(kind: Kind) -> Any:
    return avro_decimal(_DIGITS_OF_BIGINT, 0) if kind.is_unsigned else "long"


_DIGITS_OF_BIGINT = 20


def _connect_bigint(kind: Kind, _nullable: bool, modes: Modes) -> Form:
    if not kind.is_unsigned:
        return Form({"type": "int64"})
    if modes.bigint_unsigned == "precise":
        return connect_decimal(_DIGITS_OF_BIGINT, 0, modes)
    return Form({"type": "int64"}, _as_long)


def _connect_modes_of_bigint(kind: Kind, modes: Modes) -> tuple[str, ...]:
    if not kind.is_unsigned:
        return ()
    is_decimal = modes.bigint_unsigned == "precise"
    return ("bigint_unsigned", "decimal_format") if is_decimal else ("bigint_unsigned",)


def _as_long(value: int) -> int:
    """A number as Java's ``long`` with the same bits, as in Debezium's records."""
    return value - 2**64 if value >= 2**63 else value


def _connect_year(_kind: Kind, _nullable: bool, _modes: Modes) -> Form:
    schema = {"type": "int32", "name": "io.debezium.time.Year", "version": 1}
    # Debezium reads the year 0000 as 1900.
    return Form(schema, lambda value: value or 1900)


def _year_of_canal(value: Any) -> str:
    return f"{value:04}"


def _connect_bit(kind: Kind, _nullable: bool, _modes: Modes) -> Form:
    length = kind.size or 1
    if length == 1:
        return Form({"type": "boolean"}, lambda value: base64.b64decode(value) != b"\0")
    parameters = {"length": str(length)}
    schema = {
        "type": "bytes", "name": "io.debezium.data.Bits", "version": 1, "parameters": parameters,
    }  # fmt: skip
    return Form(schema, lambda value: base64.b64encode(base64.b64decode(value)[::-1]).decode())


def _bit_number(value: Any) -> int:
    return int.from_bytes(base64.b64decode(value), "big")


def _bit_of_canal(value: Any) -> str:
    return str(_bit_number(value))


def _bit_of_text(text: str) -> str:
    number = int(text)
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big")).decode()


def _bit_of_maxwell(value: Any) -> str:
    return _bit_of_text(written(value))


def _layout_of_year(kind: Kind, _mariadb: bool) -> Layout | None:
    return (_T.YEAR, 0) if kind.size in (0, 4) else None


def _layout_of_bit(kind: Kind, _mariadb: bool) -> Layout:
    return _T.BIT, kind.size // 8 << 8 | kind.size % 8


register(
    _integer(_T.TINY, 1, "bB"),
    _integer(_T.SHORT, 2, "hH"),
    _integer(_T.INT24, 3, "iI"),
    _integer(_T.LONG, 4, "iI"),
    _integer(_T.LONGLONG, 8, "qQ"),
    BinlogType(
        code=_T.YEAR,
        reader=_year,
        field=_year_field,
        extent=fixed(1),
        listed=Listed.NUMBERS,
        text=plain("year"),
        packet_size=2,
        packet_field=_year_packet,
        packet_text=_year_text,
        packet_image=_year_image,
        literal=number_literal,
        published_literal=published_integer,
    ),
    BinlogType(
        code=_T.BIT,
        reader=_bit,
        extent=_bit_size,
        metadata_size=2,
        is_possible=_is_possible_bit,
        text=_bit_text,
        packet_image=_bit_image,
        literal=_bit_literal,
        published_literal=_published_bit,
    ),
    named=(
        _named(
            _T.TINY,
            _connect("int16", "int16"),
            synonyms=("int1",),
            jdbc=-6,
            jdbc_of_large=5,
        ),
        _named(
            _T.SHORT,
            _connect("int16", "int32"),
            synonyms=("int2",),
            jdbc=5,
            jdbc_of_large=4,
        ),
        _named(
            _T.INT24,
            _connect("int32", "int32"),
            synonyms=("int3", "middleint"),
            jdbc=4,
            jdbc_of_large=4,
        ),
        _named(
            _T.LONG,
            _connect("int32", "int64"),
            synonyms=("integer", "int4"),
            jdbc=4,
            jdbc_of_large=-5,
            avro=_avro_of_int,
        ),
        _named(
            _T.LONGLONG,
            _connect_bigint,
            connect_modes=_connect_modes_of_bigint,
            synonyms=("int8",),
            jdbc=-5,
            jdbc_of_large=3,
            avro=_avro_of_bigint,
            avro_value=lambda kind: Decimal if kind.is_unsigned else None,
        ),
        SqlType(
            name="year",
            synonyms=("sql_tsi_year",),
            printed=_printed_year,
            layout=_layout_of_year,
            form="number",
            comparable=Comparable.EXACT,
            avro=lambda _: "int",
            connect=_connect_year,
            jdbc=12,
            canal_text=lambda _: _year_of_canal,
            canal_value=_number,
        ),
        SqlType(
            name="bit",
            printed=_printed_bit,
            layout=_layout_of_bit,
            avro=lambda _: "bytes",
            avro_value=lambda _: base64.b64decode,
            connect=_connect_bit,
            jdbc=-7,
            canal_text=lambda _: _bit_of_canal,
            canal_value=lambda _: _bit_of_text,
            maxwell=lambda _: _bit_number,
            maxwell_value=lambda _: _bit_of_maxwell,
        ),
    ),
)
