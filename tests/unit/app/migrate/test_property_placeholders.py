from __future__ import annotations

import pytest

from app.migrate.properties import lookup_in, resolved

PLACES = lookup_in({"a": "system"}, {"a": "environment", "b": "environment"}, {
    "b": "file", "c": "${a}/${d:e}", "own": "<${own}>", "blank": " ", "x": "y",
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${a}", "system"),
        ("${b}", "environment"),
        ("${c}", "system/e"),
        ("${blank:default}", "default"),
        ("${none}", "${none}"),
        ("${none:}", ""),
        ("${none:a:b}", "a:b"),
        ("${none:${a}}!", "system!"),
        ("${own}", "<${own}>"),
        ("${own:default}", "<${own}>"),
        ("${open", "${open"),
        ("1${x}2${x}3", "1y2y3"),
    ],
)
def test_a_placeholder_has_the_first_value_or_its_default(text: str, expected: str) -> None:
    assert resolved(text, PLACES) == expected
