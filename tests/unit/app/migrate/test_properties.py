from __future__ import annotations

import pytest

from app.migrate.properties import decoded, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a\t:\tb", {"a": "b"}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("  a=1\n\tb=2", {"a": "1", "b": "2"}),
        ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
        ("a=1,\\\n   2,\\\r\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        (r"a\ b\:c\=d=e", {"a b:c=d": "e"}),
        (r"a=.*\\..*", {"a": r".*\..*"}),
        (r"a=x\ty\z", {"a": "x\tyz"}),
        ("a=\\u4e2d\\u6587", {"a": "中文"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a=é".encode(), "a=é"),
        ("a=é".encode("latin-1"), "a=é"),
        ("\ufeffa=1".encode(), "a=1"),
    ],
)
def test_utf_8_is_recognized_and_all_else_is_latin_1(content: bytes, text: str) -> None:
    assert decoded(content) == text
