"""Conversion of bytes in a MySQL character set to text, exactly as the server interprets them.

Invariant: bytes become the characters that the server reads from them; bytes without a character at the
server are refused. No character set is decoded as a different one.
Source: MySQL manual, "Supported Character Sets and Collations"; the tests compare each codec with a
server.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from connectors.mysql.charset.codec_differences import (
    BIG5_NONE,
    EUCJPMS_TILDE,
    GB18030_2005,
    MULTI_BYTE,
    NONE,
    SINGLE_BYTE,
    MultiByte,
    SingleByte,
)

BINARY = "binary"

TextDecoder = Callable[[bytes], str]
TextEncoder = Callable[[str], bytes]

_CODECS = {
    "ascii": "ascii",
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8-r",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
    "hp8": "hp-roman8",
    "tis620": "tis-620",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "euckr": "cp949",  # MySQL's euckr includes the syllables of Microsoft's extension
    "cp932": "cp932",
}


def _table(charset: SingleByte) -> str:
    """The characters of all 256 bytes in order; NONE for a byte without a character."""
    table = [bytes([n]).decode(charset.codec, "ignore") or NONE for n in range(256)]
    for first, characters in charset.own.items():
        table[first : first + len(characters)] = characters
    for n in charset.none:
        table[n] = NONE
    return "".join(table)


_TABLES = {name: _table(charset) for name, charset in SINGLE_BYTE.items()}


def _handler(charset: MultiByte) -> Callable[[UnicodeError], tuple[str, int]]:
    """The codec's error handler: for bytes that the codec cannot decode, it returns characters of ``own``."""

    def read(error: UnicodeError) -> tuple[str, int]:
        if isinstance(error, UnicodeDecodeError):
            for size in (2, 3):
                end = error.start + size
                if char := charset.own.get(error.object[error.start : end]):
                    return char, end
        raise error

    return read


for _name, _charset in MULTI_BYTE.items():
    codecs.register_error(f"aqueduct.{_name}", _handler(_charset))


def _multi_byte(name: str, charset: MultiByte) -> TextDecoder:
    codec, errors = codecs.getdecoder(charset.codec), f"aqueduct.{name}"
    instead = list(charset.instead.items())

    def decode(data: bytes) -> str:
        text = codec(data, errors)[0]
        for theirs, ours in instead:
            text = text.replace(theirs, ours)
        return text

    return decode


def _big5() -> TextDecoder:
    decode = _multi_byte("big5", MULTI_BYTE["big5"])
    suspicious = re.compile(b"|".join(re.escape(pair) for pair in BIG5_NONE))
    character = re.compile(rb"[\0-\x80]|..", re.DOTALL)

    def checked(data: bytes) -> str:
        text = decode(data)
        # Such a pair may also be the end of one character and the beginning of the next.
        if suspicious.search(data):
            for found in character.finditer(data):
                if found[0] in BIG5_NONE:
                    raise UnicodeDecodeError("big5", data, *found.span(), "no such character")
        return text

    return checked


def _eucjpms() -> TextDecoder:
    decode = _multi_byte("eucjpms", MULTI_BYTE["eucjpms"])
    raw, char = EUCJPMS_TILDE

    def split(data: bytes) -> str:
        # 0x8F is never a second or third byte.
        return char.join(map(decode, data.split(raw))) if raw in data else decode(data)

    return split


def _gb18030(data: bytes) -> str:
    return data.decode("gb18030").translate(GB18030_2005)


def _ucs2(data: bytes) -> str:
    """Decode UCS-2; refuse a surrogate pair, which in UCS-2 is two characters, neither of them text."""
    text = data.decode("utf-16-be")
    if not text.isascii() and max(text) > "\uffff":
        raise UnicodeDecodeError("ucs2", data, 0, len(data), "a surrogate")
    return text


_SPECIAL: dict[str, TextDecoder] = {
    "big5": _big5(),
    "eucjpms": _eucjpms(),
    "gb18030": _gb18030,
    "ucs2": _ucs2,
}


def text_decoder(charset: str) -> TextDecoder | None:
    """Return the function from bytes of ``charset`` to text; None for ``binary`` and unknown character sets.

    The function raises UnicodeDecodeError for bytes without characters at the server.
    """
    if decode := _SPECIAL.get(charset):
        return decode
    if table := _TABLES.get(charset):
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    if several := MULTI_BYTE.get(charset):
        return _multi_byte(charset, several)
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    read = codecs.getdecoder(codec)
    return lambda data: read(data, "strict")[0]


def text_encoder(charset: str) -> TextEncoder | None:
    """Return the function from text to bytes of ``charset``; None if ``text_decoder`` returns None.

    The function raises UnicodeError if its bytes would not be decoded to the same text.
    """
    decode = text_decoder(charset)
    if decode is None:
        return None
    encode = _plain_encoder(charset)

    def checked(text: str) -> bytes:
        raw = encode(text)
        if decode(raw) != text:
            raise UnicodeError(f"{text!r} has no exact form in {charset}")
        return raw

    return checked


def _plain_encoder(charset: str) -> TextEncoder:
    if table := _TABLES.get(charset):
        # If two bytes have the same character, the first byte is used.
        numbers = {ord(table[n]): n for n in reversed(range(256)) if table[n] != NONE}
        return lambda text: codecs.charmap_encode(text, "strict", numbers)[0]
    if charset == "gb18030":
        back = {ord(char): chr(code) for code, char in GB18030_2005.items()}
        return lambda text: text.translate(back).encode("gb18030")
    if charset == "ucs2":
        return lambda text: text.encode("utf-16-be")
    if several := MULTI_BYTE.get(charset):
        return _multi_byte_encoder(several)
    codec = _CODECS[charset]
    return lambda text: text.encode(codec)


def _multi_byte_encoder(charset: MultiByte) -> TextEncoder:
    own = {char: raw for raw, char in charset.own.items()}
    theirs = {ours: theirs for theirs, ours in charset.instead.items() if not ours.isascii()}

    def encode(text: str) -> bytes:
        return b"".join(
            own.get(char) or theirs.get(char, char).encode(charset.codec) for char in text
        )

    return encode


class Charsets:
    """The character sets of one server, by collation number, as in the binlog."""

    def __init__(
        self,
        collations: dict[int, str],
        widths: dict[str, int],
        names: dict[int, str] | None = None,
    ) -> None:
        self._collations = collations
        self._widths = widths
        self._names = names or {}
        self._numbers = {name: number for number, name in self._names.items()}

    def name(self, collation: int) -> str:
        """The character set of a collation; raise KeyError if the server has no such collation."""
        return self._collations[collation]

    def width(self, charset: str) -> int:
        """The maximum size of a character in bytes."""
        return self._widths[charset]

    def collation(self, number: int) -> str | None:
        """The name of a collation; None if the server has no collation of this number."""
        return self._names.get(number)

    def number(self, collation: str) -> int | None:
        """The number of a collation, by its name in ``information_schema.columns``."""
        return self._numbers.get(collation)

    def any_number(self, charset: str) -> int | None:
        """The lowest number of a character set's collations; None if the server has no such set."""
        names = {"utf8": "utf8mb3", "utf8mb3": "utf8"}
        wanted = {charset, names.get(charset, charset)}
        return min((n for n, name in self._collations.items() if name in wanted), default=None)
