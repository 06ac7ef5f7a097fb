"""FLOAT and DOUBLE.

Invariant: a FLOAT becomes the shortest number that rounds to the same 32-bit float; NaN and infinities are
refused.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any

from connectors.mysql.buffer import read_bytes
from connectors.mysql.charsets import Charsets
from connectors.mysql.server_version import Server
from connectors.mysql.types.registry import (
    BinlogType,
    Comparable,
    Convert,
    Field,
    FieldType,
    Form,
    Listed,
    MappedColumn,
    Reader,
    Remembered,
    SqlType,
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
_FLOAT = struct.Struct("<f")


def shortest_float32(raw: bytes) -> float:
    """Return the 64-bit float with the fewest digits, at most nine, that rounds to these four bytes."""
    value: float = _FLOAT.unpack(raw)[0]
    if not isfinite(value):
        raise ValueError(f"a FLOAT that is {value}")
    # Below the normal range there are not even six digits of precision.
    for digits in (6, 7, 8) if abs(value) >= _FLOAT_MIN_NORMAL else range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short) < _FLOAT_OVERFLOW and _FLOAT.pack(short) == raw:
            return short
    return float(f"{value:.9g}")


_FLOAT_OVERFLOW = 2.0**128 - 2.0**103
"""From here on a number rounds to infinity; FLT_MAX itself is half a step below."""
_FLOAT_MIN_NORMAL = 2.0**-126


def _float(_column: MappedColumn, _charsets: Charsets) -> Reader:
    def read(data: bytes, at: int) -> tuple[float, int]:
        raw, end = read_bytes(data, at, 4)
        return shortest_float32(raw), end

    return read


def _float_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("4s",), bound=Remembered(shortest_float32))


_DOUBLE = struct.Struct("<d")


def _double(_column: MappedColumn, _charsets: Charsets) -> Reader:
    def read(data: bytes, at: int) -> tuple[float, int]:
        raw, end = read_bytes(data, at, 8)
        value: float = _DOUBLE.unpack(raw)[0]
        if not isfinite(value):
            raise ValueError(f"a DOUBLE that is {value}")
        return value, end

    return read


def _double_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    # Only NaN and infinities, subtracted from themselves, do not give 0.
    return Field(value="$a if $a - $a == 0 else $n($a)", little=("d",), bound=_refused)


def _refused(value: float) -> float:
    raise ValueError(f"a DOUBLE that is {value}")


def _float_text(_column: MappedColumn) -> Convert:
    return lambda raw: repr(_FLOAT.unpack(raw)[0]).encode()


def _double_text(_column: MappedColumn) -> Convert:
    return lambda raw: repr(_DOUBLE.unpack(raw)[0]).encode()


def _published_float(_column: MappedColumn, value: Any) -> str:
    # The server compares a FLOAT as the double with the same value.
    return _literal(_FLOAT.unpack(_FLOAT.pack(float(value)))[0])


def _published_double(_column: MappedColumn, value: Any) -> str:
    return _literal(float(value))


def _literal(value: float) -> str:
    text = repr(value)
    # Without an exponent it would be a DECIMAL.
    return text if "e" in text else f"{text}e0"


# --- statements ---------------------------------------------------------------------------------------------

_MOST_WIDTH, _MOST_SCALE = 255, 30
_MOST_FLOAT_BITS, _SINGLE_BITS = 53, 24


def _printed(name: str, spec: TypeSpec, server: Server) -> str:
    """``float`` or ``double``; ``float(7,4)`` keeps its digits, ``float(25)`` is a double."""
    if len(spec.arguments) == 2:
        return name + _digits(spec, server) + signs(spec)
    bits = only_number(spec)
    if spec.arguments and (name == "double" or bits > _MOST_FLOAT_BITS):
        raise Refused(f"{name}({bits}) is no type")
    return ("double" if bits > _SINGLE_BITS else name) + signs(spec)


def _digits(spec: TypeSpec, server: Server) -> str:
    digits, scale = spec.arguments
    if (digits, scale) == (0, 0) and server.mariadb:
        return ""
    if not 0 < digits <= _MOST_WIDTH or scale > min(_MOST_SCALE, digits):
        raise Refused(f"{spec.name}({digits},{scale}) has too many digits, or none")
    return f"({digits},{scale})"


# --- records in other formats -----------------------------------------------------------------------------

_FIRST_PLAIN, _LAST_PLAIN = -3, 6
"""The smallest and largest exponent of the numbers that are written without an exponent."""


def java_number(value: float, *, is_single: bool = False) -> str:
    """Return a finite number as Java writes it; with ``is_single``, a 32-bit float as its shortest decimal.

    Java writes the shortest decimal that is the same number, but with at least two digits; below 0.001 and from
    10,000,000 on, with an exponent. Source: ``Double.toString`` and ``Float.toString`` of Java 19 and later.
    """
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    number = Decimal(repr(value)).normalize()
    if len(number.as_tuple().digits) == 1:
        # Of all decimals of two digits, Java writes the nearest: 4.9E-324, not 5.0E-324.
        exact = struct.unpack("f", struct.pack("f", value))[0] if is_single else value
        number = Decimal(f"{exact:.1e}").normalize()
    exponent = number.adjusted()
    if _FIRST_PLAIN <= exponent <= _LAST_PLAIN:
        text = format(number, "f")
        return text if "." in text else f"{text}.0"
    first, *rest = map(str, number.as_tuple().digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{first}.{''.join(rest) or '0'}E{exponent}"


def _float_of_canal(value: Any) -> str:
    return java_number(float(value), is_single=True)


def _double_of_canal(value: Any) -> str:
    return java_number(float(value))


def _named(
    name: str,
    layout: tuple[FieldType, int],
    jdbc: int,
    canal: Callable[[Any], str],
    *,
    synonyms: tuple[str, ...],
) -> SqlType:
    return SqlType(
        name=name,
        synonyms=synonyms,
        printed=lambda spec, server: _printed(name, spec, server),
        layout=lambda _kind, _mariadb: layout,
        form="number",
        comparable=Comparable.DOUBLE,
        avro=lambda _: name,
        avro_value=lambda _: float,
        connect=lambda _kind, _nullable, _modes: Form({"type": name}),
        jdbc=jdbc,
        canal_text=lambda _: canal,
        canal_value=lambda _: float,
    )


register(
    BinlogType(
        code=_T.FLOAT,
        reader=_float,
        field=_float_field,
        extent=fixed(4),
        metadata_size=1,
        listed=Listed.NUMBERS,
        text=plain("float"),
        packet_size=4,
        packet_text=_float_text,
        packet_image=unchanged,
        literal=number_literal,
        published_literal=_published_float,
    ),
    BinlogType(
        code=_T.DOUBLE,
        reader=_double,
        field=_double_field,
        extent=fixed(8),
        metadata_size=1,
        listed=Listed.NUMBERS,
        text=plain("double"),
        packet_size=8,
        packet_text=_double_text,
        packet_image=unchanged,
        literal=number_literal,
        published_literal=_published_double,
    ),
    named=(
        _named("float", (_T.FLOAT, 4), 7, _float_of_canal, synonyms=("float4",)),
        _named(
            "double", (_T.DOUBLE, 8), 8, _double_of_canal, synonyms=("float8", "double precision")
        ),
    ),
)
