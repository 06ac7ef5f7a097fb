"""Each type in each mode, against what a real Debezium 3.6.1 wrote of the same row."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import orjson
import pytest

from app.worker.pipeline.formats.connect import form_of
from connectors.mysql.types.registry import Modes, kind_of, sql_type
from wire.table_version import Column

_WKB_POINT = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
_WKB_LINE = "AQIAAAACAAAAAAAAAAAAAEAAAAAAAADwPwAAAAAAABBAAAAAAAAACEA="

SAME = (
    ("tinyint", -5, -5), ("tinyint unsigned", 200, 200), ("smallint unsigned", 65000, 65000),
    ("int unsigned", 4000000000, 4000000000), ("bigint", -9, -9), ("float", 0.1, 0.1), ("double", 1e22, 1e22),
    ("bit(1)", "AQ==", True), ("bit(1)", "AA==", False), ("bit(12)", "CgU=", "BQo="), ("char(5)", "ab", "ab"),
    ("varchar(20)", "zoë", "zoë"),
    ("enum('a','b')", "b", "b"), ("enum('a','b,c')", "b,c", "b\\,c"),
    ("set('x','y')", "x,y", "x,y"),
    ("year", 2026, 2026),
    ("year", 0, 1900), ("vector(2)", [1.0, 0.1], [1.0, 0.1]),
    ("json", '{"a": null, "b": [1, 2.5, "a, b\\"  "]}', '{"a":null,"b":[1,2.5,"a, b\\"  "]}'),
    ("point", {"srid": 0, "wkb": _WKB_POINT}, {"x": 1.0, "y": 2.0, "wkb": _WKB_POINT, "srid": None}),
    ("geometry", {"srid": 4326, "wkb": _WKB_LINE}, {"wkb": _WKB_LINE, "srid": 4326}),
    ("timestamp", "2026-11-21T10:15:00Z", "2026-11-21T10:15:00Z"),
    ("timestamp(2)", "2026-11-21T10:15:00.10Z", "2026-11-21T10:15:00.10Z"),
    ("timestamp(6)", "0000-00-00 00:00:00.000000", None),
)  # fmt: skip
"""Type, value of the envelope, and Debezium's in all modes."""
BY_MODE: dict[str, tuple[tuple[str, Any, Any], ...]] = {
    "": (
        ("decimal(10,2)", "14.00", "BXg="),
        ("decimal(10,2)", "-0.05", "+w=="),
        ("decimal(10,2)", "13.00", "BRQ="),
        ("decimal(30,0)", "-123456789012345678901234567890", "/nEW8Ak8jB8RscD1Lg=="),
        ("decimal(5,2)", "1.28", "AIA="),
        ("decimal(5,2)", "0.00", "AA=="), ("decimal(5,2)", "-1.28", "gA=="),
        ("bigint unsigned", 2**64 - 1, -1), ("bigint unsigned", 2**63 - 1, 2**63 - 1),
        ("varbinary(10)", "//4=", "//4="), ("date", "2026-11-21", 20778), ("date", "0000-00-00", None),
        ("date", "2026-02-31", None),
        ("date", "0050-01-01", 29220),
        ("datetime", "2026-11-21T10:15:00", 1795256100000),
        ("datetime(3)", "2026-11-21T10:15:00.120", 1795256100120),
        ("datetime(6)", "2026-11-21T10:15:00.123456", 1795256100123456),
        ("datetime", "2026-00-00 00:00:00", None),
        ("datetime(6)", "1969-12-31T23:59:59.500000", -500000), ("time", "-12:00:01", -43201000000),
        ("time(6)", "100:00:00.500000", 360000500000), ("time(1)", "-838:59:59.0", -3020399000000),
    ),
    "decimal=string bigint_unsigned=precise binary=hex time=connect": (
        ("decimal(10,2)", "14.00", "14.00"), ("bigint unsigned", 2**64 - 1, "AP//////////"),
        ("varbinary(10)", "AQA=", "0100"), ("date", "2026-11-21", 20778),
        ("datetime(6)", "2026-11-21T10:15:00.123456", 1795256100123),
        ("datetime(6)", "1969-12-31T23:59:59.500000", -500),
        ("time", "-12:00:01", None),
        ("time(6)", "100:00:00.500000", None),
        ("time(3)", "10:15:00.250", 36900250),
    ),
    "decimal=double binary=base64-url-safe time=isostring": (
        ("decimal(10,2)", "14.00", 14.0),
        ("decimal(30,0)", "-123456789012345678901234567890", -1.2345678901234568e29),
        ("blob", "//4=", "__4="),
        ("date", "2026-11-21", "2026-11-21Z"),
        ("datetime", "2026-11-21T10:15:00", "2026-11-21T10:15:00Z"),
        ("datetime(3)", "2026-11-21T10:15:00.120", "2026-11-21T10:15:00.12Z"),
        ("datetime(6)", "1969-12-31T23:59:59.500000", "1969-12-31T23:59:59.5Z"), ("time", "-12:00:01", None),
    ),
    "decimal_format=numeric time=nanoseconds bigint_unsigned=precise": (
        ("decimal(10,2)", "14.00", orjson.Fragment("14.00")),
        ("bigint unsigned", 2**64 - 1, orjson.Fragment("18446744073709551615")),
        ("datetime(6)", "1000-01-01T00:00:00.000001", None),
        ("datetime", "2026-11-21T10:15:00", 1795256100000000000), ("time", "-12:00:01", -43201000000000),
        ("datetime(6)", "2026-11-21T10:15:00.123456", 1795256100123456000), ("date", "2026-11-21", 20778),
    ),
    "time=microseconds": (("datetime", "2026-11-21T10:15:00", 1795256100000000), ("time", "00:00:01", 1000000)),
    "adjust_years=no": (("date", "0050-01-01", -701265),),
}  # fmt: skip
NOT_NULL = {
    "": (("date", 0), ("datetime(6)", 0), ("timestamp", "1970-01-01T00:00:00Z")),
    "time=isostring": (("date", "1970-01-01Z"), ("datetime", "1970-01-01T00:00:00Z")),
}
"""What a zero date is where the column has no NULL."""


def modes(text: str) -> Modes:
    pairs: Any = dict(one.split("=") for one in text.split())
    if "adjust_years" in pairs:
        pairs["adjust_years"] = False
    return Modes(**pairs)


def written(kind: str, value: Any, text: str, *, nullable: bool = True) -> Any:
    column = Column(name="x", type=kind, nullable=nullable, charset=None)
    found = form_of(column, modes(text)).value
    return value if found is None else found(value)


@pytest.mark.parametrize("text", BY_MODE)
def test_each_value_is_that_of_the_connector(text: str) -> None:
    cases = (*SAME, *BY_MODE[text])
    found = [orjson.dumps(written(kind, value, text)) for kind, value, _ in cases]
    assert found == [orjson.dumps(expected) for *_, expected in cases]


@pytest.mark.parametrize("text", NOT_NULL)
def test_a_zero_date_of_a_column_without_null_is_the_first_day(text: str) -> None:
    for kind, expected in NOT_NULL[text]:
        assert written(kind, "0000-00-00 00:00:00", text, nullable=False) == expected
    if not text:
        assert written("date", "0000-00-00", "", nullable=False) == 0


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("decimal", "string"), ("decimal", "double"), ("decimal_format", "numeric"),
        ("bigint_unsigned", "precise"), ("binary", "base64"), ("binary", "hex"),
        ("binary", "base64-url-safe"), ("adjust_years", False),
        *(("time", one) for one in ("connect", "isostring", "microseconds", "nanoseconds")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", BY_MODE)
def test_a_type_names_each_mode_that_changes_its_form(text: str, mode: str, value: Any) -> None:
    before = modes(text)
    after = replace(before, **{mode: value})
    for kind, content, _ in (*SAME, *chain(*BY_MODE.values())):
        column = Column(name="x", type=kind, nullable=True, charset=None)
        forms = [form_of(column, one) for one in (before, after)]
        found = [
            (one.schema, orjson.dumps(content if one.value is None else one.value(content)))
            for one in forms
        ]
        named = kind_of(kind), sql_type(kind_of(kind).base)
        if found[0] != found[1]:
            assert any(mode in named[1].connect_modes(named[0], one) for one in (before, after))
