"""A default in the type of its column, as a row record has it.

Invariant: the value is exactly what MySQL stores, or NotConstant is raised; a text that no rule covers is never
approximated.
"""

from __future__ import annotations

import json
import math
import re
import struct
from base64 import b64encode
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from connectors.mysql.charset.charsets import text_decoder, text_encoder
from connectors.mysql.ddl.definition import Column, Execution, Server
from connectors.mysql.ddl.initial_value import temporal
from connectors.mysql.ddl.initial_value.literal import Bits, Literal, NotConstant, Number, Text
from connectors.mysql.ddl.types.enum_labels import labels_in
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.integers import INTEGERS
from connectors.mysql.types.strings import BLOBS, TEXTS

_TYPE = re.compile(r"([a-z]+)(?:\(([\d,]*)\))?")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_TEXTS = frozenset({"char", "varchar", *TEXTS})
_BYTES = frozenset({"binary", "varbinary", *BLOBS})


def value_in(column: Column, literal: Literal, execution: Execution, server: Server) -> Any:
    """Return the value of a literal in the column's type; raise NotConstant."""
    if literal is None:
        return None
    base, numbers = _base(column.type)
    digits = numbers[0] if numbers else 0
    if base == "date":
        return temporal.date_value(literal, execution, server)
    if base == "datetime":
        return temporal.datetime_value(literal, digits, execution, server)
    if base == "timestamp":
        return temporal.timestamp_value(literal, digits, execution, server)
    if base == "time":
        return temporal.time_value(literal, digits, execution, server)
    if base in _TEXTS:
        return _text(column, literal, base, digits)
    if base in ("enum", "set"):
        return _labelled(column, literal, base)
    if base in _BYTES:
        return _bytes(literal, base, digits)
    if base == "json":
        return _json(literal)
    return _numeric(column, literal, base, numbers)


def implicit(column: Column) -> Any:
    """Return the value that MySQL stores in a NOT NULL column without a default; raise NotConstant."""
    base, numbers = _base(column.type)
    digits = numbers[0] if numbers else 0
    fraction = f".{'0' * digits}" if digits else ""
    if base in INTEGERS or base in ("float", "double", "year"):
        return 0.0 if base in ("float", "double") else 0
    if base == "decimal":
        return _decimal(Decimal(0), numbers)
    if base in _TEXTS or base == "set":
        return ""
    if base == "enum":
        return _labels(column)[0]
    if base in _BYTES:
        return _b64(bytes(digits) if base == "binary" else b"")
    if base == "bit":
        return _b64(bytes((digits + 7) // 8))
    if base == "json":
        return "null"
    if base == "date":
        return "0000-00-00"
    if base in ("datetime", "timestamp"):
        return f"0000-00-00 00:00:00{fraction}"
    if base == "time":
        return f"00:00:00{fraction}"
    raise NotConstant(f"a {base} without a default")


def _base(kind: str) -> tuple[str, list[int]]:
    match = _TYPE.match(kind)
    if match is None:
        raise NotConstant(kind)
    return match[1], [int(one) for one in (match[2] or "").split(",") if one]


def _b64(value: bytes) -> str:
    return b64encode(value).decode()


# --- numbers ----------------------------------------------------------------------------------------


def _numeric(column: Column, literal: Literal, base: str, numbers: list[int]) -> Any:
    if base == "bit":
        return _bit(literal, numbers[0] if numbers else 1)
    value = _number(literal)
    if base in INTEGERS:
        return _integer(value, INTEGERS[base], unsigned="unsigned" in column.type)
    if base == "year":
        return _year(value, literal)
    if value < 0 and "unsigned" in column.type:
        raise NotConstant("a number out of range")
    if base == "decimal":
        return _decimal(value, numbers)
    if base in ("float", "double"):
        return _real(value, base, numbers)
    raise NotConstant(base)


def _number(literal: Literal) -> Decimal:
    if isinstance(literal, Number):
        found = literal.value
    elif isinstance(literal, Bits):
        found = Decimal(int.from_bytes(literal.value))
    elif isinstance(literal, Text) and _NUMBER.fullmatch(literal.value):
        found = Decimal(literal.value.strip())
    else:
        raise NotConstant("no number")
    if abs(found.adjusted()) > 400:
        raise NotConstant("a number out of range")
    return found


def _rounded(value: Decimal, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 1000
        return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _integer(value: Decimal, bits: int, *, unsigned: bool) -> int:
    found = int(_rounded(value, 0))
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= found <= high:
        raise NotConstant("a number out of range")
    return found


def _decimal(value: Decimal, numbers: list[int]) -> str:
    precision, scale = (*numbers, 10, 0)[:2] if len(numbers) != 1 else (numbers[0], 0)
    found = _rounded(value, scale)
    if found and found.adjusted() >= precision - scale:
        raise NotConstant("a number out of range")
    return f"{found if found else abs(found):f}"


def _real(value: Decimal, base: str, numbers: list[int]) -> float:
    """The value of a FLOAT or DOUBLE, rounded to its digits in binary as the server does it."""
    found = float(value)
    if len(numbers) == 2:
        whole, scale = math.floor(found), float(f"1e{numbers[1]}")
        found = whole + round((found - whole) * scale) / scale
        if abs(found) > float(f"1e{numbers[0] - numbers[1]}") - 1 / scale:
            raise NotConstant("a number out of range")
    if math.isinf(found) or (found == 0 and math.copysign(1, found) < 0):
        raise NotConstant("a number that servers store differently")
    try:
        return shortest_float32(struct.pack("<f", found)) if base == "float" else found
    except OverflowError as fault:
        raise NotConstant("a number out of range") from fault


def _year(value: Decimal, literal: Literal) -> int:
    found = int(_rounded(value, 0))
    is_text = isinstance(literal, Text) and literal.value != "0000"
    if found in range(1901, 2156) or (found == 0 and not is_text):
        return found
    if found in range(100):
        return found + (2000 if found < 70 else 1900)
    raise NotConstant("a year out of range")


def _bit(literal: Literal, size: int) -> str:
    if isinstance(literal, Text):
        value = int.from_bytes(_binary(literal))
    else:
        value = int(_rounded(_number(literal), 0))
    if not 0 <= value < 2**size:
        raise NotConstant("bits out of range")
    return _b64(value.to_bytes((size + 7) // 8))


# --- texts and bytes --------------------------------------------------------------------------------


_MOST_DIGITS = 65
"""The digits of the longest exact number; a longer one becomes another number."""


def _printed(literal: Number) -> str:
    """The text of a number in a column of text or bytes."""
    if "e" in literal.text.lower() or len(literal.value.as_tuple().digits) > _MOST_DIGITS:
        raise NotConstant("a number that the server prints in another form")
    return f"{literal.value or abs(literal.value):f}"


def _binary(literal: Literal) -> bytes:
    """The bytes of a literal; a text must be ASCII, whose bytes are the same for all connections."""
    if isinstance(literal, Bits):
        return literal.value
    if isinstance(literal, Number):
        return _printed(literal).encode("ascii")
    if not isinstance(literal, Text) or not literal.value.isascii():
        raise NotConstant("bytes that depend on a character set")
    return literal.value.encode("ascii")


def _bytes(literal: Literal, base: str, size: int) -> str:
    found = _binary(literal)
    if len(found) > (BLOBS.get(base) or size):
        raise NotConstant("more bytes than the column holds")
    return _b64(found.ljust(size if base == "binary" else 0, b"\0"))


def _text(column: Column, literal: Literal, base: str, size: int) -> str:
    charset = column.charset or "utf8mb4"
    if isinstance(literal, Text):
        found = literal.value
    elif isinstance(literal, Number):
        found = _printed(literal)
    elif isinstance(literal, Bits) and (decode := text_decoder(charset)) is not None:
        try:
            found = decode(literal.value)
        except ValueError as fault:
            raise NotConstant("bytes that are no text") from fault
    else:
        raise NotConstant("no text")
    encode = text_encoder(charset)
    found = found.rstrip(" ") if base == "char" else found
    try:
        if encode is None:
            raise NotConstant(charset)
        size_in_bytes = len(encode(found))
    except UnicodeError as fault:
        raise NotConstant(f"a text that {charset} lacks") from fault
    if (size_in_bytes > TEXTS[base]) if base in TEXTS else (len(found) > size):
        raise NotConstant("a longer text than the column holds")
    return found


def _labels(column: Column) -> list[str]:
    return labels_in(column.exact_type or column.type)


def _labelled(column: Column, literal: Literal, base: str) -> str:
    labels = _labels(column)
    if isinstance(literal, Text):
        wanted = [literal.value] if base == "enum" else literal.value.split(",")
        if base == "set" and literal.value == "":
            return ""
        fold = str if (column.collation or "").endswith(("_bin", "_cs")) else str.casefold
        folded = {fold(label.rstrip(" ")): label for label in labels}
        found = {folded.get(fold(one.rstrip(" "))) for one in wanted}
        if None in found or len(folded) < len(labels):
            raise NotConstant("a label that the type lacks")
        return ",".join(label for label in labels if label in found)
    number = int(_rounded(_number(literal), 0))
    if base == "enum":
        if not 1 <= number <= len(labels):
            raise NotConstant("no label has this number")
        return labels[number - 1]
    if not 0 <= number < 2 ** len(labels):
        raise NotConstant("no labels have these bits")
    return ",".join(label for at, label in enumerate(labels) if number >> at & 1)


# --- JSON -------------------------------------------------------------------------------------------


def _json(literal: Literal) -> str:
    if not isinstance(literal, Text):
        raise NotConstant("no document")
    try:
        document = json.loads(literal.value, parse_float=_refused, parse_constant=_refused)
        return _document(document)
    except (ValueError, RecursionError) as fault:
        raise NotConstant("a document in another form") from fault


def _refused(text: str) -> Any:
    raise ValueError(text)


def _document(value: Any) -> str:
    """A document as MySQL prints it, members by the length of their names, then by their bytes."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        return f"{{{', '.join(f'{_shown(name)}: {_document(value[name])}' for name in names)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_document, value))}]"
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        raise ValueError(value)
    return _shown(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
