"""The value that existing rows have in a column that ALTER TABLE adds.

It is JSON: ``{"value": …}``, encoded as in a row record, or ``{"unknown": …}`` with the part of the column's
definition on which the value depends.

Invariant: a value is given only if MySQL stores exactly this value in every row. The only functions that are
evaluated are those of the statement's own time, and those of an empty JSON document. A text that no rule
covers, or a time in a zone whose offset is not known, raises NotConstant; nothing is approximated.
"""

from __future__ import annotations

import json
import math
import re
import struct
from base64 import b64encode
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from connectors.mysql.charsets import text_decoder, text_encoder
from connectors.mysql.ddl.column_types import labels_in
from connectors.mysql.ddl.definition import Column, Execution, Server, Session
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement import Attributes
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.integers import INTEGERS
from connectors.mysql.types.strings import BLOBS, TEXTS
from connectors.mysql.types.temporal import datetime_text, fraction_text


class NotConstant(ValueError):
    """The value of a default is not known, or differs from row to row."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number, with its text as written."""

    value: Decimal
    text: str


@dataclass(frozen=True, slots=True)
class Bits:
    """A hexadecimal or bit literal: bytes where text is wanted, else a number."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the statement, or only its date or its time of day."""

    kind: str
    """``moment``, ``date`` or ``time``."""
    is_utc: bool = False
    digits: int = 0
    """The digits of its fraction."""


Literal = Text | Number | Bits | Now | None
"""None is NULL."""

_NOW = {
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"), Now("moment")),
    **dict.fromkeys(("CURRENT_DATE", "CURDATE"), Now("date")),
    **dict.fromkeys(("CURRENT_TIME", "CURTIME"), Now("time")),
    "UTC_TIMESTAMP": Now("moment", is_utc=True),
    "UTC_DATE": Now("date", is_utc=True),
    "UTC_TIME": Now("time", is_utc=True),
}
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP"})
_EMPTY_JSON = {"JSON_OBJECT": "{}", "JSON_ARRAY": "[]"}
_SERVER = Server(version=(99, 0, 0))


def literal_of(default: str) -> Literal:
    """The value of a default as ``Attributes.default`` holds it; raise NotConstant."""
    try:
        reader = Reader(lexed(default, _SERVER, Session()), _SERVER, Session())
        found = _value(reader)
    except (GrammarFault, ArithmeticError) as fault:
        raise NotConstant(default) from fault
    if not reader.at_end():
        raise NotConstant(default)
    return found


def _value(reader: Reader) -> Literal:
    if reader.take("("):
        found = _value(reader)
        reader.need(")")
        return found
    sign = ""
    while (word := reader.take_one(frozenset("+-"))) is not None:
        sign = word if sign in ("", "+") else ("+" if word == "-" else "-")
    key, text = reader.key, reader.texts[reader.at]
    if key == lexer.NUMBER:
        reader.at += 1
        negative = "-" if sign == "-" else ""
        return Number(Decimal(negative + text), negative + text)
    if sign:
        raise NotConstant(text)
    return _unsigned(reader, key, text)


def _unsigned(reader: Reader, key: str, text: str) -> Literal:
    if key in (lexer.STRING, lexer.NATIONAL):
        return Text(reader.string())
    if key in (lexer.HEX, lexer.BITS):
        reader.at += 1
        return Bits(_bits_of(key, text))
    if key in ("TRUE", "FALSE"):
        reader.at += 1
        shown = "1" if key == "TRUE" else "0"
        return Number(Decimal(shown), shown)
    if reader.take("NULL"):
        return None
    following = reader.keys[reader.at + 1]
    if key in _TEMPORAL and following in (lexer.STRING,):
        reader.at += 1
        return Text(reader.string())
    if key.startswith("_") and following in (lexer.STRING, lexer.HEX, lexer.BITS):
        return _introduced(reader)
    return _called(reader, key)


def _introduced(reader: Reader) -> Literal:
    """A literal after the name of its character set, which changes how bytes beyond ASCII are read."""
    reader.at += 1
    found = _unsigned(reader, reader.key, reader.texts[reader.at])
    is_plain = found.value.isascii() if isinstance(found, Text | Bits) else False
    if not is_plain:
        raise NotConstant("a literal with an introducer")
    return found


def _called(reader: Reader, key: str) -> Literal:
    """A function of the statement's time, or an empty JSON document."""
    now = _NOW.get(key)
    if now is None and key not in _EMPTY_JSON:
        raise NotConstant(key)
    reader.at += 1
    has_parentheses = reader.take("(")
    if has_parentheses:
        if now is not None and reader.key == lexer.NUMBER:
            now = replace(now, digits=reader.integer())
        reader.need(")")
    if now is not None:
        return now
    if not has_parentheses:
        raise NotConstant(key)
    return Text(_EMPTY_JSON[key])


def _bits_of(kind: str, text: str) -> bytes:
    if kind == lexer.HEX:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATETIME = re.compile(
    r"\s*(\d{4})[-/.:](\d{1,2})[-/.:](\d{1,2})(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?)?\s*"
)
_COMPACT = re.compile(r"\s*(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(\.\d*)?)?\s*")
_TIME = re.compile(r"\s*(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?\s*")
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)")
_UTC_NAMES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})
_ZERO = "0000-00-00 00:00:00"

Parts = tuple[tuple[int, int, int], tuple[int, int, int], int]
"""Year, month and day; hour, minute and second; microseconds."""


def zone_of(execution: Execution, server: Server) -> tzinfo:
    """The session's time zone; raise NotConstant if its offset is not known."""
    name = execution.time_zone or ""
    if name.upper() == "SYSTEM":
        name = server.system_time_zone
        # A name that the system gives, such as CST, can mean several zones.
        if name not in _UTC_NAMES:
            raise NotConstant(f"time zone SYSTEM, which is {name or 'not known'}")
    if name in _UTC_NAMES:
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as fault:
        raise NotConstant(f"time zone {name or 'not known'}") from fault


def date_value(literal: Literal, execution: Execution, server: Server) -> str:
    """Return the value of a DATE; raise NotConstant."""
    (year, month, day), _, _ = _parts(literal, execution, server, 0)
    return f"{year:04d}-{month:02d}-{day:02d}"


def datetime_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a DATETIME with this number of fraction digits; raise NotConstant."""
    ymd, hms, micros = _parts(literal, execution, server, digits)
    return datetime_text(ymd, hms, fraction_text(micros, digits))


def timestamp_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a TIMESTAMP, in UTC; raise NotConstant."""
    if isinstance(literal, Now) and literal.kind == "moment" and not literal.is_utc:
        moment = _started(literal, execution, server, digits)
    else:
        ymd, hms, micros = _parts(literal, execution, server, digits)
        if (*ymd, *hms, micros) == (0,) * 7:
            return f"{_ZERO}{fraction_text(0, digits)}"
        local = datetime(*ymd, *hms, micros, tzinfo=zone_of(execution, server))
        if not 0 < (local - _EPOCH).total_seconds() < 2**31:
            raise NotConstant("a time out of range")
        moment = local.astimezone(UTC)
        if moment.astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None):
            raise NotConstant("a time that the time zone skips")
    day = (moment.year, moment.month, moment.day)
    fraction = fraction_text(moment.microsecond, digits)
    return datetime_text(day, (moment.hour, moment.minute, moment.second), fraction) + "Z"


def time_value(literal: Literal, digits: int, execution: Execution, server: Server) -> str:
    """Return the value of a TIME; raise NotConstant."""
    if isinstance(literal, Now):
        at = _local(literal, execution, server, digits)
        return f"{at:%H:%M:%S}{fraction_text(at.microsecond, digits)}"
    found = _TIME.fullmatch(literal.value) if isinstance(literal, Text) else None
    if found is None:
        raise NotConstant("a time in another form")
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
    micros = _micros(found[5], digits, server)
    seconds, micros = seconds + micros // 1_000_000, micros % 1_000_000
    hour, rest = divmod(seconds, 3600)
    if hour > 838 or int(found[3]) > 59 or int(found[4] or 0) > 59:
        raise NotConstant("a time out of range")
    sign = found[1] if seconds or micros else ""
    return f"{sign}{hour:02d}:{rest // 60:02d}:{rest % 60:02d}{fraction_text(micros, digits)}"


def _started(now: Now, execution: Execution, server: Server, digits: int) -> datetime:
    """The statement's time, cut to the digits of the function as MySQL does."""
    if execution.started_us is None:
        raise NotConstant("the statement's time is not known")
    if now.kind != "date" and (now.digits > digits or (server.mariadb and now.digits < digits)):
        raise NotConstant("a fraction that depends on the server's version and the session's mode")
    unit = 10 ** (6 - now.digits)
    return _EPOCH + timedelta(microseconds=execution.started_us // unit * unit)


def _local(now: Now, execution: Execution, server: Server, digits: int) -> datetime:
    """The statement's time in the session's time zone or in UTC; midnight if it is only a date."""
    zone = UTC if now.is_utc else zone_of(execution, server)
    at = _started(now, execution, server, digits).astimezone(zone)
    return at.replace(hour=0, minute=0, second=0, microsecond=0) if now.kind == "date" else at


def _parts(literal: Literal, execution: Execution, server: Server, digits: int) -> Parts:
    if isinstance(literal, Now):
        if literal.kind == "time":
            raise NotConstant("a time of day whose date is the session's")
        return _split(_local(literal, execution, server, digits))
    text = literal.value if isinstance(literal, Text) else getattr(literal, "text", "")
    found = _DATETIME.fullmatch(text) or _COMPACT.fullmatch(text)
    if found is None:
        raise NotConstant("a date in another form")
    year, month, day, hour, minute, second = (int(one or 0) for one in found.groups()[:6])
    micros = _micros(found[7], digits, server)
    if not any((year, month, day, hour, minute, second, micros)):
        return (0, 0, 0), (0, 0, 0), 0
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        return _split(at + timedelta(microseconds=micros))
    except (ValueError, OverflowError) as fault:
        # The session's mode decides between this date, zero and an error.
        raise NotConstant(str(fault)) from fault


def _split(at: datetime) -> Parts:
    return (at.year, at.month, at.day), (at.hour, at.minute, at.second), at.microsecond


def _micros(fraction: str | None, digits: int, server: Server) -> int:
    """Microseconds, rounded to the digits; a million if that is a whole second."""
    if not fraction or fraction == ".":
        return 0
    if server.mariadb and fraction[digits + 1 :].strip("0"):
        raise NotConstant("a fraction that the session's mode rounds or cuts")
    unit = Decimal(1).scaleb(-digits)
    return int(Decimal("0" + fraction).quantize(unit, ROUND_HALF_UP) * 1_000_000)


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
        return date_value(literal, execution, server)
    if base == "datetime":
        return datetime_value(literal, digits, execution, server)
    if base == "timestamp":
        return timestamp_value(literal, digits, execution, server)
    if base == "time":
        return time_value(literal, digits, execution, server)
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


UNKNOWN = '{"unknown":""}'
"""A value that is not known, or must not be stored or published."""


def initial(column: Column, attributes: Attributes, execution: Execution, server: Server) -> str:
    """The JSON of a column that a statement adds."""
    if attributes.generated or attributes.auto_increment or attributes.row_period:
        return _unknown(column.definition)
    try:
        if attributes.default is not None:
            literal = literal_of(attributes.default)
            if literal is None and not column.nullable:
                raise NotConstant("NULL")
            return _known(value_in(column, literal, execution, server))
        return _known(None if column.nullable else implicit(column))
    except NotConstant:
        return _unknown(column.definition)


def initial_after(
    old: Column, new: Column, execution: Execution | None, server: Server, *, is_computed: bool
) -> str:
    """Return the JSON after ``old`` is redefined as ``new``, with the value as MySQL converts it.

    ``is_computed``: the server computes the new column's values, by an expression or with AUTO_INCREMENT.
    """
    found = json.loads(old.initial, parse_float=str) if old.initial else {"unknown": ""}
    if "unknown" in found:
        return old.initial
    if is_computed:
        return _unknown(new.definition)
    value = found["value"]
    is_same = (old.type, old.exact_type, old.charset) == (new.type, new.exact_type, new.charset)
    if is_same and (new.nullable or value is not None):
        return old.initial
    try:
        return _known(_converted(value, old, new, execution, server))
    except NotConstant:
        before = "NULL" if value is None else old.type
        return _unknown(f"converted from {before} to {new.type}")


def _converted(
    value: Any, old: Column, new: Column, execution: Execution | None, server: Server
) -> Any:
    if value is None and new.nullable:
        return None
    if value is None and not new.type.startswith(_FILLED_OTHERWISE):
        return implicit(new)
    if value is None or execution is None or not _is_converted_as_text(old, new):
        raise NotConstant("a conversion")
    text = str(value).replace("T", " ") if old.type.startswith("d") else str(value)
    # MariaDB reads a text's leading digits into an integer, and does not round.
    is_cut = server.mariadb and old.charset is not None and _INTEGER.match(new.type) is not None
    if is_cut and not text.strip().lstrip("+-").isdecimal():
        raise NotConstant("a conversion")
    return value_in(new, Text(text), execution, server)


_INTEGER = re.compile(rf"({'|'.join(INTEGERS)})\b")
_FILLED_OTHERWISE = ("bit", "date", "enum", "json", "time")
"""Types in which the value in place of NULL depends on the server, the session's mode or the time."""
_OPAQUE = ("bit", "binary", "varbinary", "timestamp", "year", "float", "double")


def _is_converted_as_text(old: Column, new: Column) -> bool:
    """Whether the text of a value on the wire is the text through which MySQL converts the value."""
    kinds = old.type, new.type
    if any(kind.startswith(_OPAQUE) or "blob" in kind for kind in kinds):
        return False
    # Between a label and anything but text, MySQL converts the label's number.
    has_label = any(kind.startswith(("enum", "set")) for kind in kinds)
    is_padded = "zerofill" in old.type and new.charset is not None
    return not is_padded and not (has_label and None in (old.charset, new.charset))


def hidden_initial(initial_json: str, attributes: Attributes | None) -> str:
    """Return the JSON for a store that must not have literals: only values that no literal gave are kept."""
    if not initial_json or "unknown" in json.loads(initial_json):
        return UNKNOWN if initial_json else ""
    is_implicit = attributes is not None and (attributes.default or "NULL").upper() == "NULL"
    return initial_json if is_implicit else UNKNOWN


def _known(value: Any) -> str:
    return orjson.dumps({"value": value}).decode()


def _unknown(definition: str) -> str:
    return orjson.dumps({"unknown": definition}).decode()
