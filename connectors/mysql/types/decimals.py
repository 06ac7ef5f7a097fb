"""DECIMAL, as text with all digits of its scale.

Invariant: generated code reads non-negative numbers only. A negative number is stored with all bits inverted;
it is decoded from the inverted bits, with a minus sign. Source: MySQL's strings/decimal.cc, decimal2bin.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from string import Template, ascii_lowercase
from typing import Any

import orjson

from connectors.mysql.buffer import read_bytes
from connectors.mysql.charsets import Charsets
from connectors.mysql.server_version import Server, since
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
    Schema,
    SqlType,
    ValueOf,
    number_literal,
    register,
    signs,
)
from connectors.mysql.types.type_spec import Refused, TypeSpec

TWO = [f"{n:02d}" for n in range(100)]
THREE = [f"{n:03d}" for n in range(1000)]
"""Numbers with leading zeros: three digits at a time are formatted faster than six."""

_DIGITS_PER_WORD = 9
_BYTES_FOR = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group, by its number of decimal digits."""
_MOST_DIGITS = 65


def _precision_and_scale(metadata: int) -> tuple[int, int]:
    return metadata & 0xFF, metadata >> 8


def _is_possible(metadata: int) -> bool:
    precision, scale = _precision_and_scale(metadata)
    return 0 < precision <= _MOST_DIGITS and scale <= precision


def _extent(metadata: int) -> tuple[int, int]:
    groups, _ = decimal_groups(*_precision_and_scale(metadata))
    return sum(width for width, _ in groups), 0


def _reader(column: MappedColumn, _charsets: Charsets) -> Reader:
    groups, whole_groups = decimal_groups(*_precision_and_scale(column.metadata))
    size = sum(width for width, _ in groups)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        return decimal_text(raw, groups, whole_groups), end

    return read


def decimal_text(raw: bytes, groups: list[tuple[int, int]], whole_groups: int) -> str:
    """Return the text of a packed decimal; ``groups`` are pairs (bytes, digits).

    The first ``whole_groups`` of them are before the point. The sign is the first bit, inverted; a negative
    number has all its bits inverted.
    """
    negative = not raw[0] & 0x80
    first = raw[0] ^ 0x80
    data = bytes([first]) + raw[1:]
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    parts, at = [], 0
    for width, digits in groups:
        part = f"{int.from_bytes(data[at : at + width], 'big'):0{digits}d}"
        if len(part) > digits:
            raise ValueError(f"{part} are no {digits} digits of a DECIMAL")
        parts.append(part)
        at += width
    whole = "".join(parts[:whole_groups]).lstrip("0") or "0"
    fraction = "".join(parts[whole_groups:])
    text = f"{whole}.{fraction}" if fraction else whole
    return f"-{text}" if negative else text


def decimal_groups(precision: int, scale: int) -> tuple[list[tuple[int, int]], int]:
    """The groups of a DECIMAL(precision, scale), and the number of groups before the point."""
    lead, words = (precision - scale) % _DIGITS_PER_WORD, (precision - scale) // _DIGITS_PER_WORD
    fraction_words, tail = divmod(scale, _DIGITS_PER_WORD)
    whole = ([(_BYTES_FOR[lead], lead)] if lead else []) + [(4, _DIGITS_PER_WORD)] * words
    part = [(4, _DIGITS_PER_WORD)] * fraction_words + ([(_BYTES_FOR[tail], tail)] if tail else [])
    return whole + part, len(whole)


_FORMATS = {1: ("B",), 2: ("H",), 3: ("B", "H"), 4: ("I",)}
_BIAS = {"B": 1 << 7, "H": 1 << 15, "I": 1 << 31}
"""The first bit is set in non-negative numbers."""
_WORD = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DecimalCode:
    """The code that reads a DECIMAL(precision, scale)."""

    formats: tuple[str, ...]
    """Struct formats, big-endian, for ``$a``, ``$b``, …"""
    text: str
    """The f-string of a non-negative number."""
    bias: int
    """The smallest ``$a`` of a non-negative number."""


@cache
def decimal_code(precision: int, scale: int) -> DecimalCode:
    """The code for a precision and scale."""
    groups, whole = decimal_groups(precision, scale)
    formats: list[str] = []
    values = []
    for width, _ in groups:
        names = [f"${ascii_lowercase[len(formats) + n]}" for n in range(len(_FORMATS[width]))]
        formats += _FORMATS[width]
        values.append(names)
    bias = _BIAS[formats[0]]
    values[0][0] = f"({values[0][0]} - {bias})"
    numbers = [one[0] if len(one) == 1 else f"({one[0]} << 16 | {one[1]})" for one in values]
    number = numbers[0] if whole else "0"
    for one in numbers[1:whole]:
        number = f"({number} * {_WORD} + {one})"
    fractions = zip(numbers[whole:], groups[whole:], strict=True)
    digits = "".join(_digits(one, count) for one, (_, count) in fractions)
    return DecimalCode(tuple(formats), f"f'{{{number}}}" + (f".{digits}'" if digits else "'"), bias)


def _digits(number: str, count: int) -> str:
    """Parts of an f-string: a number with leading zeros, three digits at a time."""
    pieces = []
    while count > 3:
        pieces.append((number, 3))
        number, count = f"{number} // 1000", count - 3
    pieces.append((number, count))
    texts = []
    for n, (one, size) in enumerate(reversed(pieces)):
        part = f"{one} % 1000" if n else one
        texts.append({1: f"{{{part}}}", 2: f"{{two[{part}]}}", 3: f"{{three[{part}]}}"}[size])
    return "".join(texts)


@cache
def decimal_json(precision: int, scale: int) -> Callable[[bytes], str]:
    """The function from the packed bytes of a DECIMAL(precision, scale), of either sign, to its text."""
    code = decimal_code(precision, scale)
    unpack = struct.Struct(">" + "".join(code.formats))
    size, full = unpack.size, (1 << (8 * unpack.size)) - 1

    def negative(raw: bytes) -> str:
        return "-" + made((int.from_bytes(raw, "big") ^ full).to_bytes(size, "big"))

    names = list(ascii_lowercase[: len(code.formats)])
    source = (
        "def decimal(raw):\n"
        "    if raw[0] < 128:\n"
        "        return negative(raw)\n"
        f"    {', '.join(names)}, = unpack(raw)\n"
        f"    return {named(code.text, names)}\n"
    )
    namespace: dict[str, Any] = {
        "negative": negative,
        "unpack": unpack.unpack,
        "two": TWO,
        "three": THREE,
    }
    exec(source, namespace)  # noqa: S102 - made of numbers alone
    made: Callable[[bytes], str] = namespace["decimal"]
    return made


def named(text: str, names: Sequence[str], **more: str) -> str:
    """An expression with names substituted for ``$a``, ``$b`` and so on."""
    return Template(text).substitute(dict(zip(ascii_lowercase, names, strict=False)), **more)


def _field(column: MappedColumn, _charsets: Charsets) -> Field:
    precision, scale = _precision_and_scale(column.metadata)
    code = decimal_code(precision, scale)
    return Field(
        value=f"{code.text} if $a >= {code.bias} else $n($raw)",
        big=code.formats,
        bound=decimal_json(precision, scale),
    )


def _packet_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    # A ZEROFILL column has zeros before its digits.
    return Field(value="$a.decode() if d[s] != 48 else $n($a)", bound=_without_zeros)


def _without_zeros(text: bytes) -> str:
    digits = text.decode().lstrip("0")
    return digits if digits[:1].isdigit() else f"0{digits}"


_POINT, _MINUS = b".-"


def decimal_bytes(precision: int, scale: int) -> Callable[[bytes], bytes]:
    """The function from the text of a DECIMAL(precision, scale), with all digits of its scale, to its bytes."""
    groups, whole_groups = decimal_groups(precision, scale)
    sizes = [size for size, _ in groups]
    size, part_bits = sum(sizes), 8 * sum(sizes[whole_groups:])
    limit, sign = 10 ** (precision - scale), 1 << (8 * size - 1)
    has_words = whole_groups > 1
    pack_part = _part(groups[whole_groups:])
    point = -scale - 1

    def encode(text: bytes) -> bytes:
        magnitude = 0
        if not scale:
            whole = int(text)
        elif text[point] == _POINT:
            # A DECIMAL without digits before the point is printed with a 0 there.
            whole, magnitude = int(text[:point]), pack_part(text[-scale:])
        else:
            raise ValueError(f"no DECIMAL({precision},{scale})")
        negative = text[0] == _MINUS
        if negative:
            whole = -whole
        if not 0 <= whole < limit:
            raise ValueError(f"no DECIMAL({precision},{scale})")
        magnitude |= (_in_words(whole) if has_words and whole >= _WORD else whole) << part_bits
        # The sign is inverted, and so are all bits of a negative number.
        return (sign - 1 - magnitude if negative else sign + magnitude).to_bytes(size, "big")

    return encode


def _in_words(number: int) -> int:
    """A number with 32 bits for each nine of its digits."""
    packed, shift = 0, 0
    while number:
        number, word = divmod(number, _WORD)
        packed |= word << shift
        shift += 32
    return packed


def _part(groups: list[tuple[int, int]]) -> Callable[[bytes], int]:
    """The function from the digits after the point to their packed form."""
    if len(groups) == 1:
        return int

    def pack(digits: bytes) -> int:
        packed, at = 0, 0
        for size, count in groups:
            packed = packed << (8 * size) | int(digits[at : at + count])
            at += count
        return packed

    return pack


def _image(column: MappedColumn) -> Convert:
    return decimal_bytes(*_precision_and_scale(column.metadata))


def _text(column: MappedColumn, _charsets: Charsets) -> str:
    precision, scale = _precision_and_scale(column.metadata)
    return f"decimal({precision},{scale})"


_LITERAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _published_literal(_column: MappedColumn, value: Any) -> str:
    if _LITERAL.fullmatch(value) is None:
        raise ValueError("no DECIMAL")
    return str(value)


# --- statements ---------------------------------------------------------------------------------------------

_DIGITS, _MOST_SCALE, _MOST_SCALE_OF_MARIADB = 10, 30, 38


def _printed(spec: TypeSpec, server: Server) -> str:
    """``decimal(10,0)``."""
    precision, scale = _pair(spec)
    most = _MOST_SCALE_OF_MARIADB if since(server, mysql=None, mariadb=(10, 2, 1)) else _MOST_SCALE
    if (precision, scale) == (0, 0):
        precision = _DIGITS
    if precision > _MOST_DIGITS or scale > min(most, precision):
        raise Refused(f"decimal({precision},{scale}) has too many digits")
    return f"decimal({precision},{scale}){signs(spec)}"


def _pair(spec: TypeSpec) -> tuple[int, int]:
    if len(spec.arguments) > 2:
        raise Refused(f"{spec.name} takes two numbers")
    precision, scale = (*spec.arguments, 0, 0)[:2]
    return precision, scale


# --- records in other formats -----------------------------------------------------------------------------


def precision_and_scale(kind: Kind) -> tuple[int, int]:
    """Return the precision and scale of a DECIMAL in SQL; 10 and 0 are the defaults."""
    precision, scale = kind.numbers or (10, 0)
    return precision, scale


def avro_decimal(precision: int, scale: int) -> Schema:
    """The schema of a decimal in Avro."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _avro(kind: Kind) -> Schema:
    return avro_decimal(*precision_and_scale(kind))


def connect_decimal(precision: int, scale: int, modes: Modes) -> Form:
    """Return the form of a decimal in Kafka Connect."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    name = "org.apache.kafka.connect.data.Decimal"
    schema = {"type": "bytes", "name": name, "version": 1, "parameters": parameters}
    return Form(schema, _unscaled(modes))


def _connect(kind: Kind, _nullable: bool, modes: Modes) -> Form:
    if modes.decimal == "string":
        return Form({"type": "string"})
    if modes.decimal == "double":
        return Form({"type": "double"}, float)
    return connect_decimal(*precision_and_scale(kind), modes)


def _connect_modes(_kind: Kind, modes: Modes) -> tuple[str, ...]:
    return ("decimal", "decimal_format") if modes.decimal == "precise" else ("decimal",)


def _unscaled(modes: Modes) -> ValueOf:
    """Base64 of the number without its point, as by Java's ``BigInteger.toByteArray``; or the number itself."""
    if modes.decimal_format == "numeric":
        return lambda value: orjson.Fragment(str(value))

    def encoded(value: Any) -> str:
        number = int(str(value).replace(".", ""))
        bits = (number if number >= 0 else ~number).bit_length()
        return base64.b64encode(number.to_bytes(bits // 8 + 1, "big", signed=True)).decode()

    return encoded


def _maxwell(value: Any) -> Any:
    """A number with all of its digits."""
    return orjson.Fragment(value)


def written(value: Any) -> str:
    """Return a part of a record as JSON text."""
    return orjson.dumps(value).decode()


def _layout(kind: Kind, _mariadb: bool) -> Layout:
    precision, scale = (*kind.numbers, 0, 0)[:2]
    return FieldType.NEWDECIMAL, precision | scale << 8


register(
    BinlogType(
        code=FieldType.NEWDECIMAL,
        reader=_reader,
        field=_field,
        extent=_extent,
        metadata_size=2,
        is_possible=_is_possible,
        listed=Listed.NUMBERS,
        text=_text,
        packet_field=_packet_field,
        packet_image=_image,
        literal=number_literal,
        published_literal=_published_literal,
    ),
    named=(
        SqlType(
            name="decimal",
            synonyms=("dec", "numeric", "fixed"),
            printed=_printed,
            layout=_layout,
            comparable=Comparable.EXACT,
            avro=_avro,
            avro_value=lambda _: Decimal,
            connect=_connect,
            connect_modes=_connect_modes,
            jdbc=3,
            maxwell=lambda _: _maxwell,
            maxwell_value=lambda _: written,
        ),
    ),
    names={"two": TWO, "three": THREE},
)
