"""Text of character sets that differ from Python's; tests against a server check every character."""

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.charsets import Charsets, text_decoder, text_encoder
from connectors.mysql.types.registry import FieldType, MappedColumn
from connectors.mysql.types.strings import decoder_of


def decoded(charset: str, raw: bytes) -> str:
    decode = text_decoder(charset)
    assert decode is not None
    return decode(raw)


def encoded(charset: str, text: str) -> bytes:
    encode = text_encoder(charset)
    assert encode is not None
    return encode(text)


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("swe7", b"{ngstr|m", "\u00e4ngstr\u00f6m"),
        ("geostd8", b"\xc0\xfd", "\u10d0\u2116"),
        ("sjis", b"\x95\x5c\x5c\x81\x5f~", "\u8868\\\\~"),
        ("ujis", b"\x8e\xb1\x8f\xb0\xa1\xf5\xa1\x8f\xfe\xfe", "\uff71\u4e02\ue000\ue757"),
        ("eucjpms", b"~\x8f\xa2\xb7\xa1\xc1\xad\xa1\x8f\xf4\xfe", "~\uff5e\uff5e\u2460\u9ed1"),
        # 0xA2CC, which is no character, is in the middle of two that are.
        ("big5", b"\xa4\xa2\xcc\x40", "\u4e10\u5768"),
    ],
)
def test_each_character_set_has_its_own_characters(charset: str, raw: bytes, text: str) -> None:
    assert decoded(charset, raw) == text


@pytest.mark.parametrize(
    ("charset", "raw"),
    [
        ("ascii", b"\x80"),
        ("cp1256", b"\x8a"),
        ("dec8", b"a\xff"),
        ("swe7", b"\x7f"),
        ("big5", b"\xa4\x40\xa2\xcc"),
        ("sjis", b"\x87\x40"),
        ("ujis", b"\xad\xa1"),
        ("eucjpms", b"\xa1"),
        ("eucjpms", b"\xa1\x8f\xa2\xb7\xa1"),
    ],
)
def test_bytes_without_a_character_are_refused(charset: str, raw: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decoded(charset, raw)


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("dec8", "\u00f0"),
        ("sjis", "\uff3c"),
        ("ujis", "\u2460"),
        ("eucjpms", "\u00a6"),
        ("armscii8", "\ufffe"),
    ],
)
def test_text_that_a_character_set_cannot_hold_has_no_bytes(charset: str, text: str) -> None:
    with pytest.raises(UnicodeError):
        encoded(charset, text)


def test_of_two_ways_to_write_a_character_one_is_taken_that_is_read_as_the_same() -> None:
    assert encoded("armscii8", "(") == b"("
    assert encoded("sjis", "\\") == b"\\"
    assert encoded("eucjpms", "\uff5e\uff0d") == b"\xa1\xc1\xa1\xdd"


@pytest.mark.parametrize("charset", ["binary", "utf7"])
def test_what_is_no_character_set_has_no_decoder(charset: str) -> None:
    assert text_decoder(charset) is None
    assert text_encoder(charset) is None


def test_a_column_of_an_unknown_character_set_is_refused_by_name() -> None:
    column = MappedColumn(type=FieldType.VARCHAR, metadata=9, nullable=True, name="c", collation=7)
    with pytest.raises(UnsupportedEvent, match="column 'c' has character set utf7") as caught:
        decoder_of(column, Charsets({7: "utf7"}, {"utf7": 4}))
    assert "filter" in str(caught.value)
