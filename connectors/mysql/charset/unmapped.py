"""Characters of a MySQL character set that Unicode lacks, and the replacements that a server's client gets.

A column accepts every byte sequence in the form of a character, whether or not a character is
assigned to it. For most sequences without a character MySQL returns ``?``, for a few U+FFFD.

Invariant: text that contains such a replacement is a ReplacedText, so that it is never mistaken for
the original. Bytes that do not have the form of a character are an error; no server stores them.
Source: MySQL's strings/ctype-*.cc; the tests compare every sequence with a server.
"""

from __future__ import annotations

import re

from connectors.mysql.charset.charsets import TextDecoder, text_decoder


class ReplacedText(str):
    """Text in which ``?`` or U+FFFD replaces a character that Unicode lacks."""

    __slots__ = ()


class Replaced(ValueError):
    """A value is a ReplacedText; raised where only exact text can be returned."""


def exact(value: object) -> object:
    """Return the value; raise Replaced if it is a ReplacedText."""
    if isinstance(value, ReplacedText):
        raise Replaced("some of its characters have no Unicode")
    return value


_KANJI = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
_EUC = rb"\x8e[\xa1-\xdf]|\x8f[\xa1-\xfe]{2}|[\xa1-\xfe]{2}"
_FORMS = {
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "cp932": _KANJI,
    "sjis": _KANJI,
    # The bytes 8E A0 are two characters to MySQL's converter.
    "eucjpms": _EUC + rb"|\x8e(?=\xa0)|(?<=\x8e)\xa0",
    "ujis": _EUC + rb"|\x8e(?=\xa0)|(?<=\x8e)\xa0",
    "euckr": rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]",
    "gb2312": rb"[\xa1-\xf7][\xa1-\xfe]",
    "gbk": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]",
    "gb18030": rb"[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39]",
    # In UCS-2 a surrogate is a character of its own, which is not text.
    "ucs2": rb"[\xd8-\xdf].",
}
"""Patterns for the byte form of a character, in sets with characters of several bytes."""
_SINGLE = {
    "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "dec8", "geostd8", "greek", "hebrew", "hp8", "swe7",
    "tis620",
}  # fmt: skip
"""Single-byte sets in which some bytes have no character."""
_BIG5_FFFD = {
    bytes.fromhex(pair) for pair in ("a15a", "a1c3", "a1c5", "a1fe", "a240", "a2cc", "a2ce")
}


def column_decoder(charset: str) -> TextDecoder | None:
    """Return the function from bytes of ``charset`` to the text that a client with utf8mb4 gets for them.

    Return None for ``binary`` and unknown character sets. The function returns a ReplacedText if a
    character has no Unicode equivalent, and raises UnicodeDecodeError for bytes that no column can hold.
    """
    decode = text_decoder(charset)
    if decode is None or not (charset in _FORMS or charset in _SINGLE):
        return decode
    return _replacing(charset, decode)


def _replacing(charset: str, decode: TextDecoder) -> TextDecoder:
    form = _FORMS.get(charset)
    other = rb".." if charset == "ucs2" else rb"."
    character = re.compile(other if form is None else rb"(" + form + rb")|" + other, re.DOTALL)

    def read(data: bytes) -> str:
        try:
            return decode(data)
        except UnicodeDecodeError:
            pass
        found, end = [], 0
        for match in character.finditer(data):
            end = match.end()
            try:
                found.append(decode(match[0]))
            except UnicodeDecodeError:
                if form is not None and match[1] is None:
                    raise
                found.append(_replacement(charset, match[0]))
        if end < len(data):
            raise UnicodeDecodeError(charset, data, end, len(data), "no whole character")
        return ReplacedText("".join(found))

    return read


def _replacement(charset: str, raw: bytes) -> str:
    if charset in ("tis620", "ucs2") or (charset == "big5" and raw in _BIG5_FFFD):
        return "\ufffd"
    return "?"
