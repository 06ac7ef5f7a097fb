"""Values of the envelope in the forms that a Debezium connector is configured for, with their schemas.

Source: Debezium 3.6, "Data types" of its connector for MySQL, ``MySqlValueConverters``, and records of a real
connector; ``JsonConverter`` of Kafka Connect for bytes and decimals.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import orjson

from app.settings.connect_form import Modes
from app.worker.pipeline.formats.column_kind import BYTES, GEOMETRIES, ColumnKind, kind_of
from wire.table_version import Column

ValueOf = Callable[[Any], Any]
Schema = dict[str, Any]

_LENGTHS = re.compile(r"\w+\((\d+)(?:,(\d+))?\)")
_MOMENT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?)?")
_OF_DAY = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ ]+')
_EPOCH = date(1970, 1, 1).toordinal()
_DAY, _SECOND = 86_400_000_000, 1_000_000
_MILLIS = 3
"""The most digits of a fraction that Debezium writes in milliseconds."""
_INTEGERS = {
    "tinyint": ("int16", "int16"), "smallint": ("int16", "int32"), "mediumint": ("int32", "int32"),
    "int": ("int32", "int64"), "bigint": ("int64", "int64"),
}  # fmt: skip
"""The type of a schema, signed and unsigned."""


@dataclass(frozen=True, slots=True)
class Form:
    """A column: its schema, and the function of its values; None: they stay as they are."""

    schema: Schema
    value: ValueOf | None = None


def form_of(column: Column, modes: Modes) -> Form:
    """Return the form of a column. NULL is given to no function."""
    kind = kind_of(column.type)
    found = _form(kind, column, modes)
    return Form({**found.schema, "optional": column.nullable}, found.value)


def _form(kind: ColumnKind, column: Column, modes: Modes) -> Form:
    base = kind.base
    if base == "bigint" and kind.is_unsigned:
        if modes.bigint_unsigned == "precise":
            return Form(_decimal_schema(20, 0), _unscaled(modes))
        return Form({"type": "int64"}, _as_long)
    if base in _INTEGERS:
        return Form({"type": _INTEGERS[base][kind.is_unsigned]})
    if base == "decimal":
        return _decimal(column.type, modes)
    if base in BYTES:
        return _binary(modes)
    if base in GEOMETRIES:
        return Form(_POINT_SCHEMA, _point) if base == "point" else Form(_GEOMETRY_SCHEMA, _geometry)
    if base == "bit":
        return _bit(_length(column.type) or 1)
    if base in ("date", "datetime", "timestamp", "time"):
        return _time(base, column, modes)
    if base in ("enum", "set"):
        name = "io.debezium.data.Enum" if base == "enum" else "io.debezium.data.EnumSet"
        labels = ",".join(map(_label, kind.labels))
        schema = {**_named("string", name), "parameters": {"allowed": labels}}
        return Form(schema, _label if any("," in one for one in kind.labels) else None)
    return _OF_BASE.get(base, Form({"type": "string"}))


def _label(value: str) -> str:
    """A label as Debezium has it, in which a comma follows a backslash; those of a SET have none."""
    return value.replace(",", "\\,")


def _named(kind: str, name: str) -> Schema:
    return {"type": kind, "name": name, "version": 1}


def _length(text: str) -> int:
    """The first number of a type in parentheses; 0 if there is none."""
    found = _LENGTHS.match(text)
    return int(found[1]) if found else 0


def _decimal_schema(precision: int, scale: int) -> Schema:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {**_named("bytes", "org.apache.kafka.connect.data.Decimal"), "parameters": parameters}


def _decimal(text: str, modes: Modes) -> Form:
    found = _LENGTHS.match(text)
    precision, scale = (int(found[1]), int(found[2] or 0)) if found else (10, 0)
    if modes.decimal == "string":
        return Form({"type": "string"})
    if modes.decimal == "double":
        return Form({"type": "double"}, float)
    return Form(_decimal_schema(precision, scale), _unscaled(modes))


def _unscaled(modes: Modes) -> ValueOf:
    """The number without its point, as Java's ``BigInteger.toByteArray`` writes it; or with all its digits."""
    if modes.decimal_format == "numeric":
        return lambda value: orjson.Fragment(str(value))

    def encoded(value: Any) -> str:
        number = int(str(value).replace(".", ""))
        bits = (number if number >= 0 else ~number).bit_length()
        return base64.b64encode(number.to_bytes(bits // 8 + 1, "big", signed=True)).decode()

    return encoded


def _as_long(value: int) -> int:
    """A number above the signed range as Java's ``long`` of the same bits, as Debezium has it."""
    return value - 2**64 if value >= 2**63 else value


def _binary(modes: Modes) -> Form:
    if modes.binary == "hex":
        return Form({"type": "string"}, lambda value: base64.b64decode(value).hex())
    if modes.binary == "base64-url-safe":
        return Form({"type": "string"}, lambda value: value.replace("+", "-").replace("/", "_"))
    return Form({"type": "string" if modes.binary == "base64" else "bytes"})


def _bit(length: int) -> Form:
    if length == 1:
        return Form({"type": "boolean"}, lambda value: base64.b64decode(value) != b"\0")
    schema = {**_named("bytes", "io.debezium.data.Bits"), "parameters": {"length": str(length)}}
    return Form(schema, lambda value: base64.b64encode(base64.b64decode(value)[::-1]).decode())


def _point(value: Any) -> Any:
    wkb = base64.b64decode(value["wkb"])
    x, y = struct.unpack_from("<dd" if wkb[0] else ">dd", wkb, 5)
    return {"x": x, "y": y, **_geometry(value)}


def _geometry(value: Any) -> Any:
    return {"wkb": value["wkb"], "srid": value["srid"] or None}


def _struct(name: str, doc: str, *fields: Schema) -> Schema:
    return {"type": "struct", "fields": list(fields), "name": name, "version": 1, "doc": doc}


def _field(name: str, kind: str, *, optional: bool) -> Schema:
    return {"type": kind, "optional": optional, "field": name}


_POINT_SCHEMA = _struct(
    "io.debezium.data.geometry.Point", "Geometry (POINT)",
    _field("x", "double", optional=False), _field("y", "double", optional=False),
    _field("wkb", "bytes", optional=True), _field("srid", "int32", optional=True),
)  # fmt: skip
_GEOMETRY_SCHEMA = _struct(
    "io.debezium.data.geometry.Geometry", "Geometry",
    _field("wkb", "bytes", optional=False), _field("srid", "int32", optional=True),
)  # fmt: skip


def _json(value: str) -> str:
    """A document without spaces between its parts."""
    return _SPACE.sub(lambda found: found[1] or "", value)


def _year(value: int) -> int:
    """Debezium's reader has 1900 for the year 0000."""
    return value or 1900


_OF_BASE = {
    "float": Form({"type": "float"}),
    "double": Form({"type": "double"}),
    "year": Form(_named("int32", "io.debezium.time.Year"), _year),
    "json": Form(_named("string", "io.debezium.data.Json"), _json),
    "vector": Form({
        "type": "array", "items": {"type": "float", "optional": False}, "name": "io.debezium.data.FloatVector",
        "version": 1,
    }),
}  # fmt: skip


def _time(base: str, column: Column, modes: Modes) -> Form:
    digits, mode = _length(column.type), modes.time
    if base == "timestamp":
        zero = None if column.nullable else "1970-01-01T00:00:00Z"
        return Form(
            _named("string", "io.debezium.time.ZonedTimestamp"),
            lambda value: zero if _micros(value, modes) is None else value,
        )
    if base == "time":
        return _TIMES_OF_DAY[mode]
    name, unit = _MOMENTS[base](mode, digits)
    if mode == "isostring":
        first = "1970-01-01Z" if base == "date" else "1970-01-01T00:00:00Z"
        missing = None if column.nullable else first
        return Form(
            _named("string", name),
            lambda value: missing if (at := _micros(value, modes)) is None else _iso(at, base),
        )
    absent = None if column.nullable else 0
    kind = "int32" if base == "date" else "int64"

    def written(value: str) -> int | None:
        at = _micros(value, modes)
        if at is None:
            return absent
        if unit:
            return at // unit
        nanoseconds = at * 1000
        return nanoseconds if -(2**63) <= nanoseconds < 2**63 else absent

    return Form(_named(kind, name), written)


def _date_form(mode: str, _digits: int) -> tuple[str, int]:
    if mode == "connect":
        return "org.apache.kafka.connect.data.Date", _DAY
    return f"io.debezium.time.{'IsoDate' if mode == 'isostring' else 'Date'}", _DAY


def _datetime_form(mode: str, digits: int) -> tuple[str, int]:
    """The schema's name, and the microseconds of its unit; 0: nanoseconds."""
    if mode == "connect":
        return "org.apache.kafka.connect.data.Timestamp", 1000
    if mode == "isostring":
        return "io.debezium.time.IsoTimestamp", 1
    if mode == "nanoseconds":
        return "io.debezium.time.NanoTimestamp", 0
    if mode == "microseconds" or digits > _MILLIS:
        return "io.debezium.time.MicroTimestamp", 1
    return "io.debezium.time.Timestamp", 1000


_MOMENTS: dict[str, Callable[[str, int], tuple[str, int]]] = {
    "date": _date_form,
    "datetime": _datetime_form,
}


def _micros(value: str, modes: Modes) -> int | None:
    """Microseconds from 1970 to a date with or without a time of day; None if there is no such day."""
    found = _MOMENT.fullmatch(value)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[at] or 0) for at in range(1, 7))
    if modes.adjusts_years and year < 100:
        year += 2000 if year < 70 else 1900
        if not (month and day):
            return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = (hour * 60 + minute) * 60 + second
    return days * _DAY + seconds * _SECOND + _fraction(found[7])


def _fraction(digits: str | None) -> int:
    return int((digits or "").ljust(6, "0"))


def _iso(micros: int, base: str) -> str:
    """A moment as ISO 8601 in UTC; a fraction has no zeros at its end."""
    days, rest = divmod(micros, _DAY)
    day = date.fromordinal(days + _EPOCH).isoformat()
    return f"{day}Z" if base == "date" else f"{day}T{_clock(rest)}Z"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{hour:02}:{minute:02}:{second:02}{shown}"


def _time_of_day(value: str) -> int:
    """Microseconds of a TIME, which may be negative and have many days."""
    found = _OF_DAY.fullmatch(value)
    assert found is not None, "MySQL writes no other"
    hours, minutes, seconds = (int(found[at]) for at in range(2, 5))
    micros = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + _fraction(found[5])
    return -micros if found[1] else micros


def _within_a_day(written: Callable[[int], Any]) -> ValueOf:
    """The form of a TIME that is a time of day; null for all others, as in Debezium."""

    def value(text: str) -> Any:
        micros = _time_of_day(text)
        return written(micros) if 0 <= micros < _DAY else None

    return value


_MICRO_TIME = Form(_named("int64", "io.debezium.time.MicroTime"), _time_of_day)
_TIMES_OF_DAY = {
    "adaptive_time_microseconds": _MICRO_TIME,
    "microseconds": _MICRO_TIME,
    "nanoseconds": Form(
        _named("int64", "io.debezium.time.NanoTime"), lambda value: _time_of_day(value) * 1000
    ),
    "connect": Form(
        _named("int32", "org.apache.kafka.connect.data.Time"),
        _within_a_day(lambda micros: micros // 1000),
    ),
    "isostring": Form(
        _named("string", "io.debezium.time.IsoTime"),
        _within_a_day(lambda micros: f"{_clock(micros)}Z"),
    ),
}
